//! Messages of RADIO and DISH over UDP: one datagram each.

/// A message in a datagram: an octet with the length of the group, the group, the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'d> {
    /// The group, which may be empty.
    pub group: &'d [u8],
    /// The rest of the datagram.
    pub body: &'d [u8],
}

impl<'d> Datagram<'d> {
    /// The longest datagram that libzmq sends, and the part of a longer one that it receives.
    pub const BYTES_MAX: usize = 8192;

    /// Reads a datagram. `None`: it is empty, or ends within its group.
    pub fn parse(bytes: &'d [u8]) -> Option<Datagram<'d>> {
        let (&length, rest) = bytes.split_first()?;
        let (group, body) = rest.split_at_checked(usize::from(length))?;
        debug_assert_eq!(
            1 + group.len() + body.len(),
            bytes.len(),
            "nothing is left out"
        );
        Some(Datagram { group, body })
    }

    /// Returns the octet that goes before the group. `None`: the group is longer than 255 bytes,
    /// or the datagram would be longer than [`BYTES_MAX`](Self::BYTES_MAX).
    pub fn header(&self) -> Option<u8> {
        let length = u8::try_from(self.group.len()).ok()?;
        let room = Self::BYTES_MAX - 1 - self.group.len();
        (self.body.len() <= room).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::Datagram;

    #[test]
    fn a_datagram_is_a_length_a_group_and_a_body() {
        let parsed = Datagram::parse(b"\x02TVFriends").unwrap();
        assert_eq!((parsed.group, parsed.body), (&b"TV"[..], &b"Friends"[..]));
        assert_eq!(parsed.header(), Some(2));
        let empty = Datagram::parse(b"\0").unwrap();
        assert_eq!((empty.group, empty.body), (&b""[..], &b""[..]));
        let zero = Datagram::parse(b"\x03a\0bc").unwrap();
        assert_eq!((zero.group, zero.body), (&b"a\0b"[..], &b"c"[..]));
    }

    #[test]
    fn one_that_ends_within_its_group_is_none() {
        for bytes in [&b""[..], b"\x01", b"\x05TV", &[255; 255]] {
            assert_eq!(Datagram::parse(bytes), None, "{bytes:?}");
        }
        assert!(Datagram::parse(&[255; 256]).unwrap().body.is_empty());
    }

    #[test]
    fn what_is_too_long_has_no_header() {
        let bytes = [0; Datagram::BYTES_MAX];
        let header = |group: usize, body: usize| {
            let (group, body) = (&bytes[..group], &bytes[..body]);
            Datagram { group, body }.header()
        };
        assert_eq!(header(0, 8191), Some(0));
        assert_eq!(header(0, 8192), None);
        assert_eq!(header(255, 7936), Some(255));
        assert_eq!(header(255, 7937), None);
        assert_eq!(header(256, 0), None);
    }
}
