//! LZF compression: literal runs, and references to the last 8 KiB.
//!
//! ```text
//!  000lllll                       l + 1 literal bytes follow
//!  lllooooo oooooooo              l + 2 bytes, as they stand o + 1 bytes before
//!  111ooooo llllllll oooooooo     l + 9 bytes, as they stand o + 1 bytes before
//! ```

/// Compresses bytes; returns `None` if the result would be longer than `most`.
pub(super) fn compress(input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(most);
    // The last position of three bytes with each hash, counted from 1.
    let mut seen = vec![0u32; input.len().next_power_of_two().clamp(64, SEEN_MAX)];
    let shift = 32 - seen.len().trailing_zeros();
    let (mut at, mut literal) = (0, 0);
    while at + REPEATED_MIN <= input.len() {
        let word = u32::from_le_bytes([input[at], input[at + 1], input[at + 2], 0]);
        let slot = (word.wrapping_mul(0x9E37_79B1) >> shift) as usize;
        let before = (seen[slot] as usize).checked_sub(1);
        seen[slot] = u32::try_from(at + 1).ok()?;
        let repeated = before.filter(|&from| {
            at - from <= OFFSET_MAX
                && input[from..from + REPEATED_MIN] == input[at..][..REPEATED_MIN]
        });
        let Some(from) = repeated else {
            at += 1;
            continue;
        };
        let longest = (input.len() - at).min(REPEATED_MAX);
        let length = (REPEATED_MIN..longest)
            .find(|&length| input[from + length] != input[at + length])
            .unwrap_or(longest);
        push_literals(&mut out, &input[literal..at]);
        push_repetition(&mut out, at - from, length);
        at += length;
        literal = at;
        if out.len() > most {
            return None;
        }
    }
    debug_assert!(literal <= input.len());
    push_literals(&mut out, &input[literal..]);
    (out.len() <= most).then_some(out)
}

/// Decompresses to exactly `length` bytes.
pub(super) fn decompress(input: &[u8], length: usize) -> Option<Vec<u8>> {
    // An input of this size cannot expand further.
    if length > input.len().saturating_mul(GROWTH_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    let mut input = input.iter();
    while let Some(&control) = input.next() {
        if control < 32 {
            let (literal, rest) = input
                .as_slice()
                .split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(literal);
            input = rest.iter();
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if count == 9 {
                count += usize::from(*input.next()?);
            }
            let offset = (usize::from(control & 31) << 8 | usize::from(*input.next()?)) + 1;
            let from = out.len().checked_sub(offset)?;
            repeat(&mut out, from, count);
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

/// Appends `count` bytes that begin at `from`; they may include the appended bytes.
fn repeat(out: &mut Vec<u8>, from: usize, mut count: usize) {
    debug_assert!(from < out.len(), "the repeated bytes exist");
    while count > 0 {
        let taken = count.min(out.len() - from);
        out.extend_from_within(from..from + taken);
        count -= taken;
    }
}

fn push_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn push_repetition(out: &mut Vec<u8>, offset: usize, length: usize) {
    debug_assert!((1..=OFFSET_MAX).contains(&offset));
    debug_assert!((REPEATED_MIN..=REPEATED_MAX).contains(&length));
    let offset = offset - 1;
    let high = (offset >> 8) as u8;
    match length - 2 {
        short @ 0..7 => out.push((short as u8) << 5 | high),
        long => out.extend_from_slice(&[7 << 5 | high, (long - 7) as u8]),
    }
    out.push(offset as u8);
}

const LITERALS_MAX: usize = 32;
const OFFSET_MAX: usize = 1 << 13;
const REPEATED_MIN: usize = 3;
const REPEATED_MAX: usize = 264;
/// Three bytes expand to at most 264.
const GROWTH_MAX: usize = REPEATED_MAX / 3;
const SEEN_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_decompress_to_the_input() {
        let mut word = 1u64;
        let mut random = move || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word >> 33
        };
        for step in 0..400 {
            let letters = 1 + random() % 6;
            let length = (random() % [30, 300, 3000, 30_000][step % 4]) as usize;
            let input: Vec<u8> = (0..length)
                .map(|at| (random() % letters) as u8 + (at / 500) as u8)
                .collect();
            if let Some(packed) = compress(&input, input.len() + input.len() / 16 + 8) {
                assert!(decompress(&packed, input.len()).as_ref() == Some(&input));
                assert_eq!(decompress(&packed, input.len() + 1), None);
                assert_eq!(decompress(&packed, input.len().wrapping_sub(1)), None);
            }
        }
        let same = vec![b'x'; 100_000];
        let packed = compress(&same, same.len()).expect("it repeats");
        assert!(packed.len() < same.len() / 80);
        assert!(decompress(&packed, same.len()) == Some(same));
        assert_eq!(compress(b"nothing repeats", 11), None);
    }

    #[test]
    fn invalid_input_is_refused() {
        // One byte and a reference to it, of 3 bytes.
        let packed = [0, b'a', 1 << 5, 0];
        assert_eq!(decompress(&packed, 4), Some(b"aaaa".to_vec()));
        for cut in 0..packed.len() {
            assert_eq!(decompress(&packed[..cut], 4), None);
        }
        assert_eq!(decompress(&[1 << 5, 0], 3), None);
        assert_eq!(decompress(&packed, usize::MAX), None);
    }
}
