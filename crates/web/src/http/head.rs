//! The head of a request or a response: a first line and headers, up to an empty line.

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";
/// Maximum length of a head in bytes; browsers also send cookies.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// Longest name of a method. The longest of IANA's registry has 17 letters.
const METHOD_BYTES_MAX: usize = 32;
/// The complete response to a request that cannot be parsed.
pub const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// The complete response to a request that is not allowed.
pub const FORBIDDEN: &[u8] =
    b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Appends input to a head, up to the head's end and to [`HEAD_BYTES_MAX`] at most. Returns how
/// many bytes of the input belong to the head.
pub fn gather_head(head: &mut Vec<u8>, input: &[u8]) -> usize {
    let known = head.len();
    let room = HEAD_BYTES_MAX.saturating_sub(known);
    head.extend_from_slice(&input[..input.len().min(room)]);
    let from = known.saturating_sub(END.len() - 1);
    let end = head[from..].windows(END.len()).position(|part| part == END);
    if let Some(end) = end {
        head.truncate(from + end + END.len());
    }
    debug_assert!(known <= head.len() && head.len() <= known.max(HEAD_BYTES_MAX));
    head.len() - known
}

/// Returns whether some octets may be the first ones of a request, so that what is not HTTP is
/// refused without waiting for the end of a line that may never come: a method of letters and the
/// like, up to 32 of them, and a space.
pub(super) fn may_begin(input: &[u8]) -> bool {
    let method = input.iter().take(METHOD_BYTES_MAX + 1);
    let mut other = method.skip_while(|byte| is_token(**byte));
    match other.next() {
        Some(byte) => matches!(byte, b' ' | b'\r' | b'\n'),
        None => input.len() <= METHOD_BYTES_MAX,
    }
}

/// Returns whether an octet may be in the name of a method or a header.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a head from [`gather_head`] is complete.
pub fn is_whole(head: &[u8]) -> bool {
    head.ends_with(END)
}

/// Splits a head into its first line and its headers; `None` if it is not UTF-8 or has no line end.
pub fn split_head(head: &[u8]) -> Option<(&str, Headers<'_>)> {
    let head = std::str::from_utf8(head).ok()?;
    let (first, headers) = head.split_once("\r\n")?;
    Some((first, Headers(headers)))
}

/// The headers of a head, as received.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'h>(&'h str);

impl<'h> Headers<'h> {
    /// Returns the values of all headers with this name, in order, without surrounding spaces.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'h str> {
        self.0
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    /// Returns the elements of a comma-separated list, which may span several headers.
    pub fn elements(&self, name: &str) -> impl Iterator<Item = &'h str> {
        let lists = self.values(name);
        lists.flat_map(|list| list.split(',').map(str::trim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_its_empty_line_wherever_it_is_cut() {
        let whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nbehind";
        let head_bytes = whole.len() - b"behind".len();
        for cut in 0..=whole.len() {
            let mut head = Vec::new();
            let mut taken = gather_head(&mut head, &whole[..cut]);
            if !is_whole(&head) {
                assert_eq!(taken, cut);
                taken += gather_head(&mut head, &whole[cut..]);
            }
            assert!(is_whole(&head), "{cut}");
            assert_eq!((taken, &head[..]), (head_bytes, &whole[..head_bytes]));
        }
    }

    #[test]
    fn a_head_without_an_end_stops_growing() {
        let mut head = Vec::new();
        assert_eq!(gather_head(&mut head, &[b'a'; 10_000]), HEAD_BYTES_MAX);
        assert_eq!(gather_head(&mut head, b"\r\n\r\n"), 0);
        assert!(!is_whole(&head));
    }

    #[test]
    fn lists_may_be_spread_over_headers() {
        let head = b"GET / HTTP/1.1\r\nA: 1, 2\r\nb: x\r\na:3\r\nno header\r\n\r\n";
        let (first, headers) = split_head(head).unwrap();
        assert_eq!(first, "GET / HTTP/1.1");
        assert!(headers.values("a").eq(["1, 2", "3"]));
        assert!(headers.elements("A").eq(["1", "2", "3"]));
        assert!(split_head(b"\xff\r\n\r\n").is_none());
    }
}
