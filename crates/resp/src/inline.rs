//! Inline requests: one line, split at blanks and unquoted as in Redis's `sdssplitargs`.

use memchr::memchr2;

use crate::arguments::Span;

/// Error: an open quote, or text directly after a closing quote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

/// Splits `line`, which has no line end. Without quotes, the spans refer to `line` and `unquoted`
/// stays empty. With quotes, they refer to `unquoted`, which then contains all arguments.
pub(crate) fn split(
    line: &[u8],
    spans: &mut Vec<Span>,
    unquoted: &mut Vec<u8>,
) -> Result<(), Unbalanced> {
    if memchr2(b'"', b'\'', line).is_some() {
        return split_quoted(line, spans, unquoted);
    }
    let mut position = 0;
    while let Some(start) = next_token(line, position) {
        let token = &line[start..];
        let length = token
            .iter()
            .position(|&byte| ends_token(byte))
            .unwrap_or(token.len());
        spans.push(Span { start, length });
        position = start + length;
    }
    Ok(())
}

fn split_quoted(
    line: &[u8],
    spans: &mut Vec<Span>,
    unquoted: &mut Vec<u8>,
) -> Result<(), Unbalanced> {
    let mut position = 0;
    while let Some(start) = next_token(line, position) {
        position = start;
        let token_start = unquoted.len();
        while let Some(&byte) = line.get(position) {
            position = match byte {
                _ if ends_token(byte) => break,
                b'"' => {
                    position = double_quoted(line, position + 1, unquoted)?;
                    close(line, position)?;
                    break;
                }
                b'\'' => {
                    position = single_quoted(line, position + 1, unquoted)?;
                    close(line, position)?;
                    break;
                }
                _ => {
                    unquoted.push(byte);
                    position + 1
                }
            };
        }
        spans.push(Span {
            start: token_start,
            length: unquoted.len() - token_start,
        });
    }
    Ok(())
}

/// Unescapes from after an opening `"`; returns the offset after the closing one.
fn double_quoted(line: &[u8], from: usize, out: &mut Vec<u8>) -> Result<usize, Unbalanced> {
    let mut position = from;
    loop {
        let (byte, taken) = match line[position..] {
            [b'"', ..] => return Ok(position + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hexadecimal(high) << 4 | hexadecimal(low), 4)
            }
            [b'\\', escaped, ..] => (unescaped(escaped), 2),
            [byte, ..] => (byte, 1),
            [] => return Err(Unbalanced),
        };
        out.push(byte);
        position += taken;
    }
}

/// Unescapes from after an opening `'`; returns the offset after the closing one.
fn single_quoted(line: &[u8], from: usize, out: &mut Vec<u8>) -> Result<usize, Unbalanced> {
    let mut position = from;
    loop {
        let (byte, taken) = match line[position..] {
            [b'\'', ..] => return Ok(position + 1),
            [b'\\', b'\'', ..] => (b'\'', 2),
            [byte, ..] => (byte, 1),
            [] => return Err(Unbalanced),
        };
        out.push(byte);
        position += taken;
    }
}

/// Checks that a blank or the line's end follows a closing quote.
fn close(line: &[u8], position: usize) -> Result<(), Unbalanced> {
    match line.get(position) {
        Some(&byte) if !is_blank(byte) => Err(Unbalanced),
        _ => Ok(()),
    }
}

fn next_token(line: &[u8], from: usize) -> Option<usize> {
    let skipped = line[from..].iter().position(|&byte| !is_blank(byte))?;
    Some(from + skipped)
}

/// Returns whether C's `isspace` accepts the byte: Redis skips these between tokens.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C)
}

/// Returns whether a byte ends a token. Narrower than [`is_blank`]: inside a token, Redis keeps
/// vertical tabs and form feeds.
fn ends_token(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hexadecimal(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
