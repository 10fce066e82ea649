//! Words of a line, some of them quoted.

/// Splits a line into words; `"a\x00b\n"` and `'it\'s'` are one word each. None if a quote is not
/// closed, or is followed by something other than a blank.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while let Some(&first) = rest.first() {
        let mut word = Vec::new();
        match first {
            b'"' => rest = read_double(&rest[1..], &mut word)?,
            b'\'' => rest = read_single(&rest[1..], &mut word)?,
            _ => {
                while let Some((&byte, behind)) = rest.split_first() {
                    match byte {
                        b' ' | b'\n' | b'\r' | b'\t' | 0 => break,
                        // A quote in the middle of a word belongs to it.
                        b'"' => rest = read_double(behind, &mut word)?,
                        b'\'' => rest = read_single(behind, &mut word)?,
                        _ => {
                            word.push(byte);
                            rest = behind;
                        }
                    }
                }
            }
        }
        words.push(word);
        rest = rest.trim_ascii_start();
        if let Some(behind) = rest.strip_prefix(&[0]) {
            rest = behind.trim_ascii_start();
        }
    }
    Some(words)
}

fn read_double<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'x', high, low, behind @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) << 4 | digit(*low));
                rest = behind;
            }
            [b'\\', letter, behind @ ..] => {
                word.push(match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = behind;
            }
            [b'"', behind @ ..] => return ends(behind).then_some(behind),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

fn read_single<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\\', b'\'', behind @ ..] => {
                word.push(b'\'');
                rest = behind;
            }
            [b'\'', behind @ ..] => return ends(behind).then_some(behind),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

fn ends(behind: &[u8]) -> bool {
    behind.first().is_none_or(u8::is_ascii_whitespace)
}

/// A word in quotes, so that [`split`] gives it back.
pub(crate) fn quoted(word: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for &byte in word {
        match byte {
            b'\\' | b'"' => text.extend([b'\\', byte]),
            b'\n' => text.extend(b"\\n"),
            b'\r' => text.extend(b"\\r"),
            b'\t' => text.extend(b"\\t"),
            7 => text.extend(b"\\a"),
            8 => text.extend(b"\\b"),
            b' '..=b'~' => text.push(byte),
            _ => text.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    text.push(b'"');
    debug_assert_eq!(
        split(&text).as_deref(),
        Some(&[word.to_vec()][..]),
        "a word in quotes is read as it is"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Option<Vec<String>> {
        let words = split(line.as_bytes())?.into_iter();
        Some(words.map(|word| String::from_utf8(word).unwrap()).collect())
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(texts("  a \t b\r\n").unwrap(), ["a", "b"]);
        assert_eq!(texts(r#"save "" 'it\'s'"#).unwrap(), ["save", "", "it's"]);
        assert_eq!(texts(r#""\x41\n\"" b"#).unwrap(), ["A\n\"", "b"]);
        for broken in ["\"a", "'a", "\"a\"b", "'a'b"] {
            assert_eq!(texts(broken), None, "{broken}");
        }
    }

    #[test]
    fn what_is_quoted_is_read_back() {
        let every: Vec<u8> = (0..=255).collect();
        assert_eq!(split(&quoted(&every)).unwrap(), [every]);
        assert_eq!(split(&quoted(b"")).unwrap(), [b""]);
    }
}
