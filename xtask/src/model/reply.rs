//! Replies as trees, with the bytes as received.

/// One reply in RESP2 or RESP3.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    /// A reply without parts, as its bytes: `+OK`, `:1`, `$1\r
    /// a`, `_` …
    Leaf(Vec<u8>),
    /// Arrays, sets, maps and pushes: the letter, and the parts in order.
    Parts(u8, Vec<Reply>),
}

impl Reply {
    /// Parses one reply at the beginning of `bytes`, and returns it with its length. `None` means
    /// that it is incomplete, and `Err` that it is not a reply.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, NotAReply> {
        read(bytes, 0)
    }

    /// Returns the text between the type's letter and the line end; of a bulk string, its body.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        let Self::Leaf(bytes) = self else {
            return None;
        };
        let body = match bytes.first() {
            Some(b'$') => bytes.splitn(2, |&byte| byte == b'\n').nth(1)?,
            _ => bytes.get(1..)?,
        };
        body.strip_suffix(b"\r\n")
    }

    /// Returns its first letter.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Leaf(bytes) => bytes.first().copied().unwrap_or(b'_'),
            Self::Parts(kind, _) => *kind,
        }
    }

    /// Returns the parts of an array, a set or a map.
    pub(crate) fn parts_mut(&mut self) -> Option<&mut Vec<Reply>> {
        match self {
            Self::Parts(_, parts) => Some(parts),
            Self::Leaf(_) => None,
        }
    }

    /// Returns whether this is an error.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Leaf(bytes) if bytes.first() == Some(&b'-'))
    }

    /// Returns a readable form, in which all other bytes are escaped.
    pub(crate) fn print(&self) -> String {
        match self {
            Self::Leaf(bytes) => bytes.trim_ascii_end().escape_ascii().to_string(),
            Self::Parts(kind, parts) => {
                let parts: Vec<String> = parts.iter().map(Self::print).collect();
                format!("{}[{}]", char::from(*kind), parts.join(", "))
            }
        }
    }
}

/// Error: the bytes are not RESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAReply;

fn read(bytes: &[u8], depth: usize) -> Result<Option<(Reply, usize)>, NotAReply> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let (kind, line) = (bytes[0], &bytes[1..end]);
    let end = end + 2;
    let leaf = |end: usize| Ok(Some((Reply::Leaf(bytes[..end].to_vec()), end)));
    let parts_each = match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => return leaf(end),
        b'$' | b'=' | b'!' => {
            let len = number(line)?;
            return match usize::try_from(len) {
                Err(_) => leaf(end),
                Ok(len) if bytes.len() < end + len + 2 => Ok(None),
                Ok(len) => leaf(end + len + 2),
            };
        }
        b'*' | b'~' | b'>' => 1,
        b'%' | b'|' => 2,
        _ => return Err(NotAReply),
    };
    let Ok(count) = usize::try_from(number(line)?) else {
        return leaf(end);
    };
    if depth > DEPTH_MAX {
        return Err(NotAReply);
    }
    let mut parts = Vec::new();
    let mut at = end;
    for _ in 0..count * parts_each {
        let Some((part, len)) = read(&bytes[at..], depth + 1)? else {
            return Ok(None);
        };
        parts.push(part);
        at += len;
    }
    Ok(Some((Reply::Parts(kind, parts), at)))
}

fn number(line: &[u8]) -> Result<i64, NotAReply> {
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(NotAReply)
}

/// Maximum nesting depth of a reply.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_or_not_at_all() {
        let bytes = b"%1\r\n$1\r\na\r\n*3\r\n:1\r\n$-1\r\n_\r\n+OK\r\n";
        let (reply, len) = Reply::read(bytes).unwrap().unwrap();
        assert_eq!(len, bytes.len() - 5);
        assert_eq!(reply.print(), "%[$1\\r\\na, *[:1, $-1, _]]");
        for cut in 0..len {
            assert_eq!(Reply::read(&bytes[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(Reply::read(b"?1\r\n"), Err(NotAReply));
        assert_eq!(Reply::read(b"*x\r\n"), Err(NotAReply));
    }

    #[test]
    fn the_text_of_a_leaf_is_what_people_read() {
        let text = |bytes: &[u8]| Reply::Leaf(bytes.to_vec()).text().map(<[u8]>::to_vec);
        assert_eq!(text(b"$3\r\na\nb\r\n").unwrap(), b"a\nb");
        assert_eq!(text(b":12\r\n").unwrap(), b"12");
    }
}
