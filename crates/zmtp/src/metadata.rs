//! Metadata: a list of properties, each a length-prefixed name and value.

use crate::error::Error;

/// The properties that a peer announced, checked once and kept unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// A valid list, checked by `parse`.
    bytes: Vec<u8>,
}

impl Metadata {
    /// Parses a list of at most `properties_max` properties.
    ///
    /// # Errors
    /// The bytes are not such a list, have too many properties, or an illegal name.
    pub fn parse(bytes: &[u8], properties_max: usize) -> Result<Metadata, Error> {
        let mut rest = bytes;
        let mut count = 0;
        while !rest.is_empty() {
            let (name, _, tail) = split_property(rest).ok_or(Error::MalformedMetadata)?;
            if !is_legal_name(name) {
                return Err(Error::MalformedMetadata);
            }
            count += 1;
            if count > properties_max {
                return Err(Error::TooManyProperties {
                    limit: properties_max,
                });
            }
            rest = tail;
        }
        Ok(Metadata {
            bytes: bytes.to_vec(),
        })
    }

    /// Returns the value of a property; names are compared without case.
    pub fn property(&self, name: &str) -> Option<&[u8]> {
        let mut properties = self.properties();
        properties
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Iterates over the properties in order, as name and value.
    pub fn properties(&self) -> Properties<'_> {
        Properties { rest: &self.bytes }
    }
}

/// Iterator over [`Metadata`].
#[derive(Debug, Clone)]
pub struct Properties<'m> {
    rest: &'m [u8],
}

impl<'m> Iterator for Properties<'m> {
    type Item = (&'m str, &'m [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value, rest) = split_property(self.rest)?;
        self.rest = rest;
        // Legal names are ASCII.
        Some((std::str::from_utf8(name).ok()?, value))
    }
}

/// Appends a property, unless its name or value is too long for the wire.
pub(crate) fn encode_property(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    let Ok(name_length) = u8::try_from(name.len()) else {
        return;
    };
    let Ok(value_length) = i32::try_from(value.len()) else {
        return;
    };
    if !is_legal_name(name.as_bytes()) {
        return;
    }
    out.push(name_length);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&value_length.to_be_bytes());
    out.extend_from_slice(value);
}

/// Returns name, value and the rest of the list.
fn split_property(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&name_length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(name_length))?;
    let (value_length, rest) = rest.split_first_chunk::<4>()?;
    let value_length = usize::try_from(i32::from_be_bytes(*value_length)).ok()?;
    let (value, rest) = rest.split_at_checked(value_length)?;
    Some((name, value, rest))
}

/// Returns whether a name has 1 to 255 letters, digits and `-_.+`.
fn is_legal_name(name: &[u8]) -> bool {
    let legal = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_.+".contains(octet);
    !name.is_empty() && name.iter().all(legal)
}

#[cfg(test)]
mod tests {
    use super::{Metadata, encode_property};
    use crate::error::Error;

    #[test]
    fn properties_come_back_by_name_in_any_case() {
        let mut bytes = Vec::new();
        encode_property(&mut bytes, "Socket-Type", b"PUB");
        encode_property(&mut bytes, "X-Empty", b"");
        encode_property(&mut bytes, "not legal", b"left out");
        encode_property(&mut bytes, "", b"left out");
        let metadata = Metadata::parse(&bytes, 2).unwrap();
        assert_eq!(metadata.property("socket-TYPE"), Some(&b"PUB"[..]));
        assert_eq!(metadata.property("X-Empty"), Some(&b""[..]));
        assert_eq!(metadata.property("Identity"), None);
        assert_eq!(metadata.properties().count(), 2);
        let over = Metadata::parse(&bytes, 1).unwrap_err();
        assert_eq!(over, Error::TooManyProperties { limit: 1 });
    }

    #[test]
    fn every_cut_list_is_malformed_unless_cut_between_properties() {
        let mut bytes = Vec::new();
        encode_property(&mut bytes, "A", b"1");
        let first = bytes.len();
        encode_property(&mut bytes, "B", b"2");
        for cut in 1..bytes.len() {
            let parsed = Metadata::parse(&bytes[..cut], 8);
            assert_eq!(parsed.is_ok(), cut == first, "cut at {cut}");
        }
    }

    #[test]
    fn lengths_that_lie_are_malformed() {
        for bytes in [
            &b"\x00\x00\x00\x00\x00"[..],
            b"\x01A\xff\xff\xff\xff",
            b"\x01A\x7f\xff\xff\xff",
            b"\xffA\x00\x00\x00\x00",
            b"\x01 \x00\x00\x00\x00",
        ] {
            assert_eq!(Metadata::parse(bytes, 8), Err(Error::MalformedMetadata));
        }
    }
}
