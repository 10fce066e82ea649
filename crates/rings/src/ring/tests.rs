use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn place(words: usize) -> Place {
    Place {
        control: 0,
        data: CONTROL_WORDS,
        words,
    }
}

fn ring(words: usize) -> (Writer, Reader, Arc<Memory>) {
    let memory = Arc::new(Memory::own(CONTROL_WORDS + words));
    let place = place(words);
    let writer = Writer::new(Arc::clone(&memory), place);
    (writer, Reader::new(Arc::clone(&memory), place), memory)
}

/// What is done to a ring.
#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Read(usize),
    Append(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..2_000_usize).prop_map(Step::Write),
        (0..2_000_usize).prop_map(Step::Read),
        (0..2_000_usize).prop_map(Step::Append),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn a_ring_is_a_queue_of_bytes(words in 1..9_u32, steps in steps()) {
        let (mut writer, mut reader, _) = ring(1 << words);
        let capacity = 8 << words;
        let mut expected = VecDeque::new();
        let mut next = 0_u8;
        for step in steps {
            match step {
                Step::Write(count) => {
                    let bytes: Vec<u8> = (0..count).map(|at| next.wrapping_add(at as u8)).collect();
                    let taken = writer.write(&bytes).unwrap();
                    writer.publish();
                    next = next.wrapping_add(taken as u8);
                    expected.extend(&bytes[..taken]);
                    let free = capacity - expected.len();
                    prop_assert!(taken == count || free < WORD_BYTES, "it takes what fits");
                }
                Step::Read(count) => {
                    let mut bytes = vec![0; count];
                    let read = reader.read(&mut bytes).unwrap();
                    let wanted: Vec<u8> = expected.drain(..count.min(expected.len())).collect();
                    prop_assert_eq!(&bytes[..read], &wanted);
                }
                Step::Append(count) => {
                    let mut bytes = Vec::with_capacity(count + 3);
                    bytes.extend_from_slice(b"abc");
                    let room = bytes.capacity() - 3;
                    let read = reader.append(&mut bytes).unwrap();
                    let wanted: Vec<u8> = expected.drain(..room.min(expected.len())).collect();
                    prop_assert_eq!(read, wanted.len());
                    prop_assert_eq!(&bytes[3..], &wanted);
                }
            }
            prop_assert_eq!(reader.has_bytes(), !expected.is_empty());
        }
    }
}

#[test]
fn a_full_ring_takes_nothing_and_an_empty_one_gives_nothing() {
    let (mut writer, mut reader, _) = ring(2);
    assert_eq!(writer.write(&[1; 20]), Ok(16));
    writer.publish();
    assert_eq!(writer.write(&[2; 20]), Ok(0));
    assert!(!writer.has_room());
    let mut bytes = [0; 20];
    assert_eq!(reader.read(&mut bytes[..3]), Ok(3));
    // The word that is read in part may not be written.
    assert_eq!(writer.write(&[2; 20]), Ok(0));
    assert_eq!(reader.read(&mut bytes[..5]), Ok(5));
    assert!(writer.has_room());
    assert_eq!(writer.write(&[2; 20]), Ok(8));
    assert_eq!(
        reader.read(&mut bytes),
        Ok(8),
        "what is not shown is not read"
    );
    assert_eq!(reader.read(&mut bytes), Ok(0));
}

#[test]
fn impossible_positions_break_the_ring_and_are_told_of() {
    for tail in [1 << 40, 17, u64::MAX, u64::MAX - 7] {
        let (_writer, mut reader, memory) = ring(2);
        memory.words()[TAIL].store(tail, Ordering::Relaxed);
        assert!(reader.has_bytes() && reader.goal().is_reached());
        assert_eq!(reader.read(&mut [0; 4]), Err(Broken), "{tail}");
        let mut bytes = Vec::with_capacity(4);
        assert_eq!(reader.append(&mut bytes), Err(Broken), "{tail}");
    }
    for head in [1 << 40, 17, u64::MAX, u64::MAX - 7] {
        let (mut writer, _reader, memory) = ring(2);
        assert_eq!(writer.write(&[1; 16]), Ok(16));
        writer.publish();
        memory.words()[HEAD].store(head, Ordering::Relaxed);
        assert!(writer.has_room() && writer.goal().is_reached());
        assert_eq!(writer.write(&[1; 16]), Err(Broken), "{head}");
    }
}

#[test]
fn a_peer_cannot_take_back_what_it_said() {
    let (mut writer, mut reader, memory) = ring(2);
    assert_eq!(writer.write(&[1; 12]), Ok(12));
    writer.publish();
    assert_eq!(reader.available(), Ok(12));
    memory.words()[TAIL].store(11, Ordering::Relaxed);
    assert_eq!(reader.available(), Err(Broken));
    memory.words()[TAIL].store(12, Ordering::Relaxed);
    assert_eq!(reader.read(&mut [0; 12]), Ok(12));
    assert_eq!(writer.write(&[1; 12]), Ok(12));
    memory.words()[HEAD].store(1, Ordering::Relaxed);
    assert_eq!(writer.write(&[1; 12]), Err(Broken));
}

#[test]
fn a_question_is_answered_once() {
    let (mut writer, mut reader, _) = ring(2);
    reader.ask();
    assert!(reader.is_asking());
    assert_eq!(writer.write(b"a"), Ok(1));
    assert!(writer.publish());
    assert!(!reader.is_asking() && !writer.publish());

    assert_eq!(writer.write(&[0; 15]), Ok(15));
    writer.publish();
    writer.ask();
    assert_eq!(reader.read(&mut [0; 7]), Ok(7));
    assert!(!reader.must_tell(), "less than half is free");
    assert_eq!(reader.read(&mut [0; 1]), Ok(1));
    assert!(reader.must_tell());
    assert!(!reader.must_tell() && !writer.is_asking());
}
