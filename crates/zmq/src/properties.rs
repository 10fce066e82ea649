//! What a received message tells beyond its bytes.

use std::ffi::{CStr, CString};

/// What a received message tells beyond its bytes: libzmq's `zmq_msg_gets`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Properties {
    pub(crate) list: PropertyList,
    /// The descriptor that the message came from.
    pub(crate) descriptor: Option<i32>,
    /// The group of a RADIO/DISH message.
    pub(crate) group: Option<CString>,
}

/// Names and values in one piece of memory: each peer has them, and they are seldom asked for.
///
/// Of two with one name the first counts: the address, then what ZAP says, then what the peer says
/// of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PropertyList {
    /// Of each property: the length of its name, the name, the value's length, the value, a zero.
    bytes: Vec<u8>,
}

impl PropertyList {
    /// Adds a property, unless its name has more than 255 bytes.
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        let (Ok(name_bytes), Ok(value_bytes)) =
            (u8::try_from(name.len()), u32::try_from(value.len()))
        else {
            return;
        };
        // Exactly: most lists have two or three properties, and stay as long as their peer.
        let needed = 1 + name.len() + size_of::<u32>() + value.len() + 1;
        self.bytes.reserve_exact(needed);
        self.bytes.push(name_bytes);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(&value_bytes.to_ne_bytes());
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
    }

    /// Adds all of another list.
    pub(crate) fn append(&mut self, other: &PropertyList) {
        self.bytes.reserve_exact(other.bytes.len());
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Adds what a peer says of itself, but what is known better, or only others may say.
    pub(crate) fn add_announced<'a>(
        &mut self,
        announced: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) {
        for (name, value) in announced {
            let is_same = |known: &str| known.eq_ignore_ascii_case(name);
            let is_taken = self.iter().any(|(known, _)| is_same(known));
            if !is_taken
                && !NOT_ANNOUNCED.into_iter().any(is_same)
                && let Ok(value) = std::str::from_utf8(value)
            {
                self.push(name, value);
            }
        }
    }

    /// Returns the value of a property.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// Returns the value with a closing zero. A zero within ends it.
    pub(crate) fn text(&self, name: &str) -> Option<&CStr> {
        let mut rest = self.bytes.as_slice();
        loop {
            let (known, value, next) = split(rest)?;
            if known == name.as_bytes() {
                return CStr::from_bytes_until_nul(
                    &rest[rest.len() - next.len() - value.len() - 1..],
                )
                .ok();
            }
            rest = next;
        }
    }

    /// Iterates over names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (name, value, next) = split(rest)?;
            rest = next;
            Some((
                std::str::from_utf8(name).ok()?,
                std::str::from_utf8(value).ok()?,
            ))
        })
    }
}

/// Splits a list into the name and the value of its first property, and the rest.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&name_bytes, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(name_bytes))?;
    let (&value_bytes, rest) = rest.split_first_chunk::<{ size_of::<u32>() }>()?;
    let (value, rest) = rest.split_at_checked(u32::from_ne_bytes(value_bytes) as usize)?;
    debug_assert_eq!(rest.first(), Some(&0), "a value ends with a zero");
    Some((name, value, rest.get(1..)?))
}

/// Properties that a peer cannot give itself.
const NOT_ANNOUNCED: [&str; 2] = ["User-Id", "Peer-Address"];

#[cfg(test)]
mod tests {
    use super::PropertyList;

    #[test]
    fn a_peer_does_not_say_who_it_is_where_others_know_it() {
        let mut list = PropertyList::default();
        list.push("Peer-Address", "10.0.0.1");
        let mut by_zap = PropertyList::default();
        by_zap.push("Identity", "by ZAP");
        list.append(&by_zap);
        let announced: [(&str, &[u8]); 5] = [
            ("User-Id", b"admin"),
            ("PEER-ADDRESS", b"6.6.6.6"),
            ("Identity", b"forged"),
            ("Socket-Type", b"DEALER"),
            ("Socket-Type", b"ROUTER"),
        ];
        list.add_announced(announced.into_iter());
        assert_eq!(
            list.iter().collect::<Vec<_>>(),
            [
                ("Peer-Address", "10.0.0.1"),
                ("Identity", "by ZAP"),
                ("Socket-Type", "DEALER")
            ]
        );
    }

    #[test]
    fn a_value_comes_back_as_a_whole_and_as_a_text_up_to_its_first_zero() {
        let mut list = PropertyList::default();
        let long = "x".repeat(70_000);
        let pairs = [
            ("", ""),
            ("X-empty", ""),
            ("X-zero", "a\0b"),
            ("X-long", &long),
        ];
        for (name, value) in pairs {
            list.push(name, value);
        }
        list.push(&"n".repeat(256), "left out");
        assert_eq!(list.iter().collect::<Vec<_>>(), pairs);
        for (name, value) in pairs {
            assert_eq!(list.value(name), Some(value));
            let text = value.split('\0').next().unwrap();
            assert_eq!(list.text(name).unwrap().to_str(), Ok(text));
        }
        assert_eq!(list.value("X-Zero"), None);
        assert_eq!(list.text("X-Zero"), None);
    }
}
