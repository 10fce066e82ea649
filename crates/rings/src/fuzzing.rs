//! Entries for fuzzers, which the tests over the corpus also call. None may panic.

use std::sync::Arc;

use crate::channel::Sizes;
use crate::memory::Memory;
use crate::ring::{Broken, Place, Reader, Writer};
use crate::sync::Ordering;

/// Lets a reader and a writer work on memory that a peer changes: each instruction is an octet, and
/// what it needs follows it.
pub fn fuzz_ring(data: &[u8]) {
    let place = Place {
        control: 0,
        data: crate::ring::CONTROL_WORDS,
        words: 8,
    };
    let memory = Arc::new(Memory::own(place.data + place.words));
    let mut reader = Reader::new(Arc::clone(&memory), place);
    let mut writer = Writer::new(Arc::clone(&memory), place);
    let mut left = data;
    while let Some((&instruction, rest)) = left.split_first() {
        left = rest;
        let result = match instruction % 8 {
            0 | 1 => {
                let (number, rest) = number(left);
                left = rest;
                let index = usize::from(instruction / 8) % memory.words().len();
                let is_relative = instruction % 8 == 0;
                let known = memory.words()[index].load(Ordering::Relaxed);
                let value = if is_relative {
                    known.wrapping_add(number)
                } else {
                    number
                };
                memory.words()[index].store(value, Ordering::Relaxed);
                Ok(0)
            }
            2 => reader.read(&mut vec![0; usize::from(instruction / 2)]),
            3 => {
                let mut bytes = Vec::with_capacity(usize::from(instruction / 2));
                let room = bytes.capacity();
                let count = reader.append(&mut bytes);
                assert_eq!(bytes.capacity(), room, "it does not grow");
                assert!(count.is_err() || count == Ok(bytes.len()));
                count
            }
            4 => writer.write(&vec![instruction; usize::from(instruction / 2)]),
            5 => {
                writer.publish();
                writer.ask();
                Ok(usize::from(writer.has_room()))
            }
            6 => {
                reader.ask();
                Ok(usize::from(reader.must_tell() && reader.has_bytes()))
            }
            _ => Ok(usize::from(
                reader.goal().is_reached() && writer.goal().is_reached(),
            )),
        };
        match result {
            Ok(count) => assert!(count as u64 <= place.bytes(), "no more than the ring holds"),
            // The connection would be closed.
            Err(Broken) => return,
        }
    }
}

/// An offer as a peer may send it.
pub fn fuzz_ring_offer(data: &[u8]) {
    let Some(sizes) = crate::offer::sizes(data) else {
        return;
    };
    let [from, to] = Sizes::places(sizes);
    let end = (to.data + to.words) * crate::memory::WORD_BYTES;
    assert!(from.data + from.words == to.data && end == sizes.memory_bytes());
}

/// A number of up to 8 octets: 1, with the highest bit set 8.
fn number(data: &[u8]) -> (u64, &[u8]) {
    match data.split_first() {
        Some((&first, rest)) if first & 0x80 == 0 => (u64::from(first), rest),
        _ => {
            let (octets, rest) = data.split_at(data.len().min(8));
            let mut number = [0; 8];
            number[..octets.len()].copy_from_slice(octets);
            (u64::from_be_bytes(number), rest)
        }
    }
}
