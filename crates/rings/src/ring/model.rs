//! Every order in which a writer and a reader can meet: `cargo xtask test` runs it.

use loom::thread;

use super::*;

/// A ring of two words, and for each side whether it was woken: as the socket, which wakes, but
/// without any order that the kernel would make.
struct Side {
    woken: Arc<AtomicU64>,
}

impl Side {
    fn wake(&self) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }

    /// As a thread sleeps on the socket, and takes what woke it.
    fn sleep(&self) {
        while self.woken.swap(0, Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
    }
}

fn ring() -> (Writer, Reader, [Side; 4]) {
    let memory = Arc::new(Memory::own(CONTROL_WORDS + 2));
    let place = Place {
        control: 0,
        data: CONTROL_WORDS,
        words: 2,
    };
    let woken = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
    let side = |index: usize| Side {
        woken: Arc::clone(&woken[index]),
    };
    (
        Writer::new(Arc::clone(&memory), place),
        Reader::new(memory, place),
        [side(0), side(1), side(0), side(1)],
    )
}

/// The order of `Channel::arm`: ask, look once more, sleep.
fn wait_for_bytes(reader: &Reader, own: &Side) {
    reader.ask();
    match reader.has_bytes() {
        true => reader.take_back(),
        false => own.sleep(),
    }
}

fn wait_for_room(writer: &Writer, own: &Side) {
    writer.ask();
    match writer.has_room() {
        true => writer.take_back(),
        false => own.sleep(),
    }
}

fn write_all(writer: &mut Writer, mut bytes: &[u8], own: &Side, reader: &Side) {
    while !bytes.is_empty() {
        let count = writer.write(bytes).expect("it is not broken");
        if count > 0 && writer.publish() {
            reader.wake();
        }
        bytes = &bytes[count..];
        if !bytes.is_empty() {
            wait_for_room(writer, own);
        }
    }
}

fn read_all(reader: &mut Reader, count: usize, own: &Side, writer: &Side) -> Vec<u8> {
    let mut read = Vec::with_capacity(count);
    let room = read.capacity();
    assert_eq!(room, count);
    while read.len() < count {
        let found = reader.append(&mut read).expect("it is not broken");
        if found > 0 && reader.must_tell() {
            writer.wake();
        }
        if read.len() < count && found == 0 {
            wait_for_bytes(reader, own);
        }
    }
    read
}

fn model(work: impl Fn() + Sync + Send + 'static) {
    // Exploring every order takes too long for a test that always runs.
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(3);
    orders.max_branches = 20_000;
    orders.check(work);
}

/// The bytes come as they were written, also those of a word that is written in two parts, and a
/// reader that falls asleep is woken.
#[test]
fn a_reader_that_falls_asleep_is_woken_and_reads_what_was_written() {
    model(|| {
        let (mut writer, mut reader, [own, other, reader_side, writer_side]) = ring();
        let thread = thread::spawn(move || {
            write_all(&mut writer, &[1, 2, 3], &own, &other);
            write_all(&mut writer, &[4, 5, 6, 7, 8, 9], &own, &other);
        });
        let read = read_all(&mut reader, 9, &writer_side, &reader_side);
        assert_eq!(read, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        thread.join().unwrap();
    });
}

/// No word is written over before it is read, and a writer that falls asleep is woken.
#[test]
fn a_writer_that_waits_for_room_is_woken_and_writes_over_nothing() {
    model(|| {
        let (mut writer, mut reader, [own, other, reader_side, writer_side]) = ring();
        let bytes: Vec<u8> = (0..26).collect();
        let expected = bytes.clone();
        let thread = thread::spawn(move || write_all(&mut writer, &bytes, &own, &other));
        let read = read_all(&mut reader, 26, &writer_side, &reader_side);
        assert_eq!(read, expected);
        thread.join().unwrap();
    });
}
