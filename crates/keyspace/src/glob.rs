//! Redis's glob patterns, as in KEYS, SCAN and PSUBSCRIBE.

/// Returns whether `text` matches `pattern`: `?` matches one byte, `*` any number of bytes, `[a-c]`
/// and `[^a]` one byte of a set, and `\` makes the next byte literal.
///
/// ```
/// assert!(tidewire_keyspace::glob::matches(b"md:*", b"md:RELIANCE"));
/// ```
///
/// Behaves exactly like Redis's `stringmatchlen`, including unclosed sets, but in time proportional
/// to pattern × text at worst: only the last star ever needs to move. As in Redis, a match that
/// must pass more than a thousand stars fails.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where to resume if the part after the last star does not match: pattern, text.
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        if pattern.get(at) == Some(&b'*') {
            let others = pattern[at..].iter().take_while(|&&byte| byte == b'*');
            at += others.count();
            if at == pattern.len() {
                return true;
            }
            star = Some((at, read));
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            continue;
        }
        if read == text.len() {
            // A trailing star was consumed above; no other pattern matches an empty text.
            return at == pattern.len();
        }
        match step(&pattern[at..], text[read]) {
            Some(length) => {
                at += length;
                read += 1;
            }
            None => {
                let Some((after, from)) = star else {
                    return false;
                };
                star = Some((after, from + 1));
                (at, read) = (after, from + 1);
            }
        }
    }
}

/// Returns whether a pattern may match a text that is `prefix` and at least one byte more. A set
/// that no byte is in (`[]`) behind the prefix counts as one that matches.
///
/// ```
/// use tidewire_keyspace::glob::may_begin_with;
///
/// assert!(may_begin_with(b"m?:NSE.*", b"md:") && !may_begin_with(b"foo:*", b"md:"));
/// ```
pub fn may_begin_with(pattern: &[u8], prefix: &[u8]) -> bool {
    let mut at = 0;
    for &byte in prefix {
        if pattern.get(at) == Some(&b'*') {
            return true;
        }
        match step(&pattern[at..], byte) {
            Some(length) => at += length,
            None => return false,
        }
    }
    at < pattern.len()
}

/// Returns the length of the pattern's first element, if it matches the byte.
fn step(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => set(pattern, byte),
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [plain, ..] => (plain == byte).then_some(1),
    }
}

fn set(pattern: &[u8], byte: u8) -> Option<usize> {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    let length = loop {
        match pattern[at.min(pattern.len())..] {
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [b']', ..] => break at + 1,
            // Unclosed set: the pattern ends here.
            [] => break pattern.len(),
            [first, b'-', last, ..] => {
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= plain == byte;
                at += 1;
            }
        }
    };
    (found != negated).then_some(length)
}

const STARS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{matches, may_begin_with};

    #[test]
    fn patterns_match_as_in_redis() {
        let cases: &[(&str, &str, bool)] = &[
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("a**b", "axxb", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[a-b]llo", "hcllo", false),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hxllo", false),
            ("a\\", "a\\", true),
            ("[abc", "c", true),
            ("[abc", "d", false),
            ("[^", "a", true),
            ("[", "a", false),
            ("[]", "a", false),
            ("[\\]]", "]", true),
            ("[a-]", "-", false),
            ("[a-]", "]", true),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbxc", false),
            ("foo*bar*baz", "foobarbarbaz", true),
        ];
        for &(pattern, text, expected) in cases {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} on {text}"
            );
        }
    }

    #[test]
    fn a_pattern_for_other_prefixes_is_told() {
        for (pattern, may) in [
            ("*", true),
            ("md:*", true),
            ("md:A", true),
            ("m*A", true),
            ("md:?", true),
            ("m[a-d]:?", true),
            ("\\md:x", true),
            ("md:**", true),
            ("md:", false),
            ("md", false),
            ("", false),
            ("foo:*", false),
            ("m[^d]:*", false),
            ("?", false),
            ("MD:*", false),
            ("book:*", false),
        ] {
            assert_eq!(may_begin_with(pattern.as_bytes(), b"md:"), may, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_that_matches_may_begin_so(pattern in "[ab*?\\\\^\\[\\]-]{0,8}", text in "[ab]{2,6}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            if matches(pattern, text) {
                for end in 0..text.len() {
                    prop_assert!(may_begin_with(pattern, &text[..end]));
                }
            }
        }
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let text = [b"a".repeat(10_000), b"b".to_vec()].concat();
        assert!(matches(&b"a*".repeat(1_000), &text));
        assert!(!matches(
            &[b"*a".repeat(900), b"*c".to_vec()].concat(),
            &text
        ));
    }

    #[test]
    fn a_pattern_that_needs_more_than_a_thousand_stars_matches_nothing() {
        let text = b"a".repeat(2_000);
        assert!(matches(&b"*a".repeat(1_000), &text));
        assert!(!matches(&b"*a".repeat(1_001), &text));
    }
}
