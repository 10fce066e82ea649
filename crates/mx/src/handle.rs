//! Reference handles: the location of an attribute in the Galaxy.

use crate::cursor::{Input, Output};
use crate::encode::Encode;
use crate::error::{DecodeError, EncodeError};
use crate::signature::name_signature;

/// The numbers of a handle, from the Galaxy's configuration. The signatures are computed from the
/// names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandleIds {
    /// The Galaxy.
    pub galaxy_id: u8,
    /// The platform (a computer) in it.
    pub platform_id: u16,
    /// The engine on the platform.
    pub engine_id: u16,
    /// The object in the engine.
    pub object_id: u16,
    /// The primitive in the object.
    pub primitive_id: i16,
    /// The attribute in the primitive.
    pub attribute_id: i16,
    /// The property of the attribute.
    pub property_id: i16,
    /// −1 for an array, 0 for a scalar.
    pub attribute_index: i16,
}

/// The part of a handle that messages carry: 14 bytes, from the object id on.
///
/// ```text
///  0         2                4            6            8
///  │object_id│object_signature│primitive_id│attribute_id│property_id│
///  10                  12
///  │attribute_signature│attribute_index│
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HandleProjection {
    /// The wire bytes: most projections are read once and written often.
    bytes: [u8; HandleProjection::LENGTH],
}

impl HandleProjection {
    /// Bytes of a projection.
    pub const LENGTH: usize = 14;

    /// Creates a projection from its wire bytes.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Self {
        Self { bytes: *bytes }
    }

    /// Returns the wire bytes.
    #[inline]
    pub const fn to_bytes(&self) -> [u8; Self::LENGTH] {
        self.bytes
    }

    /// Returns the object id.
    pub const fn object_id(&self) -> u16 {
        self.word(0)
    }

    /// Returns the signature of the object's tag name.
    pub const fn object_signature(&self) -> u16 {
        self.word(OBJECT_SIGNATURE)
    }

    /// Returns the primitive id.
    pub const fn primitive_id(&self) -> i16 {
        self.word(4) as i16
    }

    /// Returns the attribute id.
    pub const fn attribute_id(&self) -> i16 {
        self.word(6) as i16
    }

    /// Returns the property id.
    pub const fn property_id(&self) -> i16 {
        self.word(8) as i16
    }

    /// Returns the signature of the attribute's name.
    pub const fn attribute_signature(&self) -> u16 {
        self.word(ATTRIBUTE_SIGNATURE)
    }

    /// Returns −1 for an array, 0 for a scalar.
    pub const fn attribute_index(&self) -> i16 {
        self.word(12) as i16
    }

    #[inline]
    const fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    #[inline]
    const fn with_word(mut self, at: usize, word: u16) -> Self {
        [self.bytes[at], self.bytes[at + 1]] = word.to_le_bytes();
        self
    }
}

const OBJECT_SIGNATURE: usize = 2;
const ATTRIBUTE_SIGNATURE: usize = 10;

/// A reference handle, 20 bytes. Its signatures are private, so they always match the names they
/// were computed from.
///
/// ```text
///  0         1        2           4         6
///  │galaxy_id│reserved│platform_id│engine_id│ projection, 14 bytes │
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReferenceHandle {
    galaxy_id: u8,
    reserved: u8,
    platform_id: u16,
    engine_id: u16,
    projection: HandleProjection,
}

impl ReferenceHandle {
    /// Bytes of a handle.
    pub const LENGTH: usize = 20;

    /// Creates the handle of the attribute `attribute_name` of the object `object_tag_name`.
    /// Names are compared without case.
    #[inline]
    pub fn from_names(ids: HandleIds, object_tag_name: &str, attribute_name: &str) -> Self {
        Self {
            galaxy_id: ids.galaxy_id,
            reserved: 0,
            platform_id: ids.platform_id,
            engine_id: ids.engine_id,
            projection: HandleProjection::default()
                .with_word(0, ids.object_id)
                .with_word(OBJECT_SIGNATURE, name_signature(object_tag_name))
                .with_word(4, ids.primitive_id as u16)
                .with_word(6, ids.attribute_id as u16)
                .with_word(8, ids.property_id as u16)
                .with_word(ATTRIBUTE_SIGNATURE, name_signature(attribute_name))
                .with_word(12, ids.attribute_index as u16),
        }
    }

    /// Returns the handle with another object name.
    #[must_use]
    pub fn with_object_tag_name(mut self, object_tag_name: &str) -> Self {
        let signature = name_signature(object_tag_name);
        self.projection = self.projection.with_word(OBJECT_SIGNATURE, signature);
        self
    }

    /// Returns the handle with another attribute name.
    #[must_use]
    pub fn with_attribute_name(mut self, attribute_name: &str) -> Self {
        let signature = name_signature(attribute_name);
        self.projection = self.projection.with_word(ATTRIBUTE_SIGNATURE, signature);
        self
    }

    /// Returns whether the signatures match these names.
    pub fn matches_names(&self, object_tag_name: &str, attribute_name: &str) -> bool {
        self.projection.object_signature() == name_signature(object_tag_name)
            && self.projection.attribute_signature() == name_signature(attribute_name)
    }

    /// Creates a handle from its wire bytes.
    #[inline]
    pub fn from_bytes(b: &[u8; Self::LENGTH]) -> Self {
        let [galaxy_id, reserved, p0, p1, e0, e1, projection @ ..] = b;
        Self {
            galaxy_id: *galaxy_id,
            reserved: *reserved,
            platform_id: u16::from_le_bytes([*p0, *p1]),
            engine_id: u16::from_le_bytes([*e0, *e1]),
            projection: HandleProjection::from_bytes(projection),
        }
    }

    /// Returns the wire bytes.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let [p0, p1] = self.platform_id.to_le_bytes();
        let [e0, e1] = self.engine_id.to_le_bytes();
        let mut bytes = [0; Self::LENGTH];
        bytes[..6].copy_from_slice(&[self.galaxy_id, self.reserved, p0, p1, e0, e1]);
        bytes[6..].copy_from_slice(&self.projection.to_bytes());
        bytes
    }

    /// Decodes a handle that fills `bytes`.
    ///
    /// # Errors
    /// The length is not 20 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(bytes);
        let handle = Self::from_bytes(input.chunk("reference handle")?);
        input.end("reference handle")?;
        Ok(handle)
    }

    /// Returns the part that messages carry.
    #[inline]
    pub const fn projection(&self) -> HandleProjection {
        self.projection
    }

    /// Returns the Galaxy id.
    pub const fn galaxy_id(&self) -> u8 {
        self.galaxy_id
    }

    /// Returns the platform id.
    pub const fn platform_id(&self) -> u16 {
        self.platform_id
    }

    /// Returns the engine id.
    pub const fn engine_id(&self) -> u16 {
        self.engine_id
    }
}

impl Encode for ReferenceHandle {
    #[inline]
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        Ok(Self::LENGTH)
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) {
        out.put(self.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_laid_out_as_the_facts_say() {
        let ids = HandleIds {
            galaxy_id: 1,
            platform_id: 0x0302,
            engine_id: 0x0504,
            object_id: 0x0706,
            primitive_id: 0x0B0A,
            attribute_id: 0x0D0C,
            property_id: 10,
            attribute_index: -1,
        };
        let handle = ReferenceHandle::from_names(ids, "TestMachine_001", "ScanState");
        let bytes = [
            1, 0, 2, 3, 4, 5, 6, 7, 0x08, 0xF4, 0x0A, 0x0B, 0x0C, 0x0D, 10, 0, 0x47, 0x92, 0xFF,
            0xFF,
        ];
        assert_eq!(handle.to_bytes(), bytes);
        assert_eq!(ReferenceHandle::decode(&bytes), Ok(handle));
        assert_eq!(handle.projection().to_bytes(), bytes[6..]);
    }

    #[test]
    fn another_name_changes_one_signature() {
        let handle = ReferenceHandle::from_names(HandleIds::default(), "TestInt", "TestBool");
        let other = handle.with_object_tag_name("TestString");
        assert_eq!(other.projection().object_signature(), 0x941A);
        assert_eq!(other.projection().attribute_signature(), 0x7DFA);
        assert!(
            other
                .with_attribute_name("x")
                .matches_names("TESTSTRING", "X")
        );
        assert!(!other.matches_names("TestInt", "TestBool"));
    }

    #[test]
    fn a_reserved_byte_survives() {
        let mut bytes = [7; 20];
        bytes[1] = 0xEE;
        assert_eq!(ReferenceHandle::decode(&bytes).unwrap().to_bytes(), bytes);
        assert!(ReferenceHandle::decode(&bytes[..19]).is_err());
    }
}
