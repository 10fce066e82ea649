//! Elements of DER, as certificates and keys are made of.

/// Elements of DER, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// Takes the next element: its tag and its content.
    pub(crate) fn element(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let length = match first {
            0..=0x7f => usize::from(first),
            0x81..=0x83 => {
                let (octets, behind) = rest.split_at_checked(usize::from(first & 3))?;
                rest = behind;
                let octets = octets.iter();
                octets.fold(0, |length, &octet| length << 8 | usize::from(octet))
            }
            _ => return None,
        };
        let (content, behind) = rest.split_at_checked(length)?;
        debug_assert!(behind.len() < self.0.len(), "an element has two octets");
        self.0 = behind;
        Some((tag, content))
    }

    /// The same, or `Some(None)` at the end.
    pub(crate) fn next(&mut self) -> Option<Option<(u8, &'a [u8])>> {
        match self.0.is_empty() {
            true => Some(None),
            false => Some(Some(self.element()?)),
        }
    }

    /// Takes the next element, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.element()?;
        (found == tag).then_some(content)
    }

    /// Takes the next element if it has this tag.
    pub(crate) fn take_if(&mut self, tag: u8) -> Option<&'a [u8]> {
        (self.0.first() == Some(&tag)).then(|| self.expect(tag))?
    }
}

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BITS: u8 = 0x03;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
