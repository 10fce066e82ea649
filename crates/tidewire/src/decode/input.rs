//! Input of `decode`: hexadecimal text, a hex dump, or a file of bytes.

use std::io::Read;
use std::path::Path;

use tidewire_mx::envelope::Envelope;
use tidewire_mx::transport::next_message;

use crate::failure::Failure;

/// Reads messages from the file that is named, from standard input (`-`), or from the words
/// themselves as hexadecimal digits.
pub(super) fn read(words: &[String]) -> Result<Vec<Vec<u8>>, Failure> {
    let bytes = match words {
        [] => {
            return Err(Failure::usage(
                "no input: give hexadecimal digits, a file, or -",
            ));
        }
        [dash] if dash == "-" => from(&mut std::io::stdin().lock(), "standard input")?,
        [path] if Path::new(path).is_dir() => {
            return Err(Failure::usage(format!(
                "{path} is a directory; give a file"
            )));
        }
        // A pipe is read as a file is.
        [path] if Path::new(path).exists() => {
            let failed = |error| Failure::usage(format!("cannot read {path}: {error}"));
            from(&mut std::fs::File::open(path).map_err(failed)?, path)?
        }
        words => {
            let text = words.join(" ");
            return match digits(&text) {
                Some(bytes) if !bytes.is_empty() => Ok(vec![bytes]),
                _ => Err(Failure::usage(format!(
                    "'{text}' is neither a file nor hexadecimal digits"
                ))),
            };
        }
    };
    if is_pcap(&bytes) {
        return Err(Failure::usage(
            "this is a pcap file: export the payloads first (in Wireshark: Follow, TCP Stream, \
             Show as Raw, Save as)",
        ));
    }
    let text = std::str::from_utf8(&bytes).ok();
    let messages = text.and_then(from_text).unwrap_or_else(|| split(&bytes));
    if messages.is_empty() {
        return Err(Failure::usage("no message in the input"));
    }
    Ok(messages)
}

/// Returns the bytes as hexadecimal digits, two per byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}

fn from(source: &mut dyn Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let count = source
        .take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    if count as u64 > INPUT_BYTES_MAX {
        return Err(Failure::usage(format!("{name} is longer than 256 MiB")));
    }
    Ok(bytes)
}

/// Parses hexadecimal digits. A blank line, or an offset of 0, begins a new message; `#` begins a
/// comment. Lines may be those of a dump: an offset first, and the text of the bytes last.
fn from_text(text: &str) -> Option<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    let mut message = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (offset, line) = without_offset(line);
        if (line.is_empty() || offset == Some(0)) && !message.is_empty() {
            messages.push(std::mem::take(&mut message));
        }
        // In a dump, two spaces separate the digits from the text of the bytes.
        let line = match offset {
            Some(_) => line.split("  ").next().unwrap_or_default(),
            None => line,
        };
        message.extend(digits(line)?);
    }
    if !message.is_empty() {
        messages.push(message);
    }
    Some(messages)
}

/// Splits a dump's offset (`0010:`, or `0010` and two spaces) from the rest of the line.
fn without_offset(line: &str) -> (Option<u64>, &str) {
    let end = line.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(0);
    let (offset, rest) = line.split_at(end);
    let is_offset = end >= 4 && (rest.starts_with(':') || rest.starts_with("  "));
    match u64::from_str_radix(offset, 16) {
        Ok(number) if is_offset => (Some(number), rest.trim_start_matches(':').trim_start()),
        _ => (None, line),
    }
}

fn digits(text: &str) -> Option<Vec<u8>> {
    let mut digits = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',') {
        let word = word.strip_prefix("0x").unwrap_or(word);
        for digit in word.chars() {
            digits.push(digit.to_digit(16)? as u8);
        }
    }
    let pairs = digits.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Splits bytes of a stream: messages after their lengths, or consecutive envelopes, or one
/// message.
fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let prefixed = chain(bytes, |rest| {
        let (_, length) = next_message(rest).ok()??;
        Some(length)
    });
    let plain = || {
        chain(bytes, |rest| {
            let header = rest.first_chunk::<{ Envelope::LENGTH }>()?;
            let body = Envelope::from_bytes(*header).inner_length();
            Some(Envelope::LENGTH + usize::try_from(body).ok()?)
        })
    };
    match prefixed.or_else(plain) {
        Some(messages) => messages,
        None if bytes.is_empty() => Vec::new(),
        None => vec![bytes.to_vec()],
    }
}

/// Returns all messages, if each has a length and the last one ends where the bytes end.
fn chain(bytes: &[u8], length: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<Vec<u8>>> {
    let mut messages = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (message, behind) = rest.split_at_checked(length(rest)?)?;
        messages.push(message.to_vec());
        rest = behind;
    }
    (!messages.is_empty()).then_some(messages)
}

fn is_pcap(bytes: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 5] = [
        [0xD4, 0xC3, 0xB2, 0xA1],
        [0xA1, 0xB2, 0xC3, 0xD4],
        [0x4D, 0x3C, 0xB2, 0xA1],
        [0xA1, 0xB2, 0x3C, 0x4D],
        [0x0A, 0x0D, 0x0D, 0x0A],
    ];
    bytes
        .first_chunk()
        .is_some_and(|first| MAGIC.contains(first))
}

const INPUT_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_text_is_read_in_its_usual_forms() {
        let expected = vec![vec![0x2D, 0x01, 0x00, 0xCD]];
        for text in [
            "2d0100cd",
            "2D 01 00 CD\n",
            "0x2d, 0x01,\n0x00, 0xcd # Suspend",
            "0000  2d 01 00 cd   -...\n",
            "00000000: 2d01 00cd                                -...",
            "0000  2d 01\n0002  00 cd  ab",
        ] {
            assert_eq!(from_text(text), Some(expected.clone()), "{text}");
        }
        let two = Some(vec![vec![1], vec![2, 3]]);
        assert_eq!(from_text("# first\n01\n\n\n02\n03\n"), two);
        assert_eq!(from_text("0000  01\n0000  02 03\n"), two);
        assert_eq!(from_text("01 2"), None);
        assert_eq!(from_text("hello"), None);
    }

    #[test]
    fn bytes_are_split_where_their_lengths_say() {
        let samples = tidewire_mx::fuzzing::sample_messages();
        let (first, second) = (&samples[0].1, &samples[1].1);
        let mut stream = Vec::new();
        for message in [first, second] {
            stream.extend_from_slice(&(message.len() as u32).to_le_bytes());
            stream.extend_from_slice(message);
        }
        let messages = split(&stream);
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0][4..], first[..]);
        assert_eq!(
            split(&[first.as_slice(), second].concat()),
            [first.clone(), second.clone()]
        );
        assert_eq!(split(&[1, 2, 3]), [vec![1, 2, 3]]);
        assert!(split(&[]).is_empty());
    }
}
