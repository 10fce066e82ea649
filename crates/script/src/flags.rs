//! Flags that a script declares in its first line.

/// The flags of a script; without a first line, it has only [`UNDECLARED`](Self::UNDECLARED).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// It does not write.
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// It may run when memory is full.
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(2);
    /// It may run on a replica that has lost its master.
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(4);
    /// It must not run in a cluster.
    pub const NO_CLUSTER: ScriptFlags = ScriptFlags(8);
    /// Its keys may belong to several slots.
    pub const ALLOW_CROSS_SLOT: ScriptFlags = ScriptFlags(16);
    /// It has no first line: its needs are determined while it runs.
    pub const UNDECLARED: ScriptFlags = ScriptFlags(32);

    /// Returns whether it has any of these flags.
    pub fn has(self, other: ScriptFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of both.
    #[must_use]
    pub fn with(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }

    /// Returns the flag with this name.
    pub fn named(name: &[u8]) -> Option<ScriptFlags> {
        let mut names = NAMES.iter();
        names
            .find(|(own, _)| own.as_bytes() == name)
            .map(|(_, flag)| *flag)
    }

    /// Returns the names of its flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        NAMES
            .iter()
            .filter(move |(_, flag)| self.has(*flag))
            .map(|(name, _)| *name)
    }

    /// Parses the first line of a script. Returns the flags and the start of the remaining code:
    /// the line's end, so that line numbers stay.
    pub fn of_script(body: &[u8]) -> Result<(ScriptFlags, usize), String> {
        if !body.starts_with(b"#!") {
            return Ok((ScriptFlags::UNDECLARED, 0));
        }
        let end = body.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or("ERR Invalid script shebang")?;
        let parts = split_words(&body[..end]).filter(|parts| !parts.is_empty());
        let parts = parts.ok_or("ERR Invalid engine in script shebang")?;
        if parts[0] != b"#!lua" {
            let engine = String::from_utf8_lossy(&parts[0]);
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        let mut flags = ScriptFlags::default();
        for part in &parts[1..] {
            let Some(list) = part.strip_prefix(b"flags=") else {
                let part = String::from_utf8_lossy(part);
                return Err(format!("ERR Unknown lua shebang option: {part}"));
            };
            if list.is_empty() {
                continue;
            }
            for name in list.split(|&byte| byte == b',') {
                let flag = ScriptFlags::named(name).ok_or_else(|| {
                    let name = String::from_utf8_lossy(name);
                    format!("ERR Unexpected flag in script shebang: {name}")
                })?;
                flags = flags.with(flag);
            }
        }
        Ok((flags, end))
    }
}

/// Splits words like a command line, with quotes; returns `None` if a quote stays open.
pub(crate) fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_blank(*byte));
        let Some(start) = start else {
            return Some(words);
        };
        let (word, length) = word_at(&rest[start..])?;
        words.push(word);
        rest = &rest[start + length..];
    }
}

/// Returns the word at the start of a text, and its length there.
fn word_at(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut word, mut at) = (Vec::new(), 0);
    let mut quote = None;
    while let Some(&byte) = text.get(at) {
        let next = text.get(at + 1).copied();
        match (quote, byte) {
            (None, byte) if is_blank(byte) || byte == 0 => break,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(b'"'), b'\\') if next == Some(b'x') && hex_at(text, at + 2).is_some() => {
                word.extend(hex_at(text, at + 2));
                at += 3;
            }
            (Some(b'"'), b'\\') if next.is_some() => {
                word.push(match next? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                at += 1;
            }
            (Some(b'\''), b'\\') if next == Some(b'\'') => {
                word.push(b'\'');
                at += 1;
            }
            (Some(open), byte) if open == byte => {
                // Only a blank may follow a closing quote.
                if next.is_some_and(|next| !is_blank(next)) {
                    return None;
                }
                return Some((word, at + 1));
            }
            (_, byte) => word.push(byte),
        }
        at += 1;
    }
    quote.is_none().then_some((word, at.max(1)))
}

fn hex_at(text: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    Some((digit(at)? << 4 | digit(at + 1)?) as u8)
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 11
}

/// In the order of FUNCTION LIST.
const NAMES: [(&str, ScriptFlags); 5] = [
    ("no-writes", ScriptFlags::NO_WRITES),
    ("allow-oom", ScriptFlags::ALLOW_OOM),
    ("allow-stale", ScriptFlags::ALLOW_STALE),
    ("no-cluster", ScriptFlags::NO_CLUSTER),
    ("allow-cross-slot-keys", ScriptFlags::ALLOW_CROSS_SLOT),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_declares_flags_and_still_counts_as_a_line() {
        let (flags, at) =
            ScriptFlags::of_script(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert!(flags.has(ScriptFlags::NO_WRITES) && flags.has(ScriptFlags::ALLOW_OOM));
        assert!(!flags.has(ScriptFlags::UNDECLARED));
        assert_eq!(at, 31);
        assert_eq!(
            ScriptFlags::of_script(b"return 1"),
            Ok((ScriptFlags::UNDECLARED, 0))
        );
        let refusals: [(&[u8], &str); 5] = [
            (b"#!lua", "ERR Invalid script shebang"),
            (b"#!lua \"\nreturn", "ERR Invalid engine in script shebang"),
            (
                b"#!not-lua\n",
                "ERR Unexpected engine in script shebang: #!not-lua",
            ),
            (
                b"#!lua badger=data\n",
                "ERR Unknown lua shebang option: badger=data",
            ),
            (
                b"#!lua flags=bad\n",
                "ERR Unexpected flag in script shebang: bad",
            ),
        ];
        for (body, text) in refusals {
            assert_eq!(ScriptFlags::of_script(body), Err(text.to_string()));
        }
    }

    #[test]
    fn words_may_be_quoted() {
        let words = split_words(b" a 'b c' \"d\\x41\\n\" ").unwrap();
        assert_eq!(words, [&b"a"[..], b"b c", b"dA\n"]);
        assert_eq!(split_words(b"a 'b"), None);
        assert_eq!(split_words(b"'a'b"), None);
    }
}
