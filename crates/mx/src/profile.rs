//! Every uncertain constant of the wire format, in one place, so that a capture can correct it.
//!
//! Each constant names its [`Evidence`]. To correct one, look at a capture with `tidewire decode
//! mx`, change the constant here, and mark it [`Evidence::Confirmed`]. The crate repeats its
//! value nowhere else. [`CONSTANTS`] has all constants as a table.

use core::fmt;

/// The evidence for a constant or a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// A captured message or a recomputed checksum shows it.
    Confirmed,
    /// The public notes of the `mxaccess` project state it; there is no capture.
    Stated,
    /// It follows by arithmetic from published sizes or captured bytes.
    Derived,
    /// Unknown: a guess that fits the known facts.
    Guessed,
    /// Tidewire's own, on its TCP transport; the platform has no such bytes.
    Own,
}

impl Evidence {
    /// Returns `confirmed` or `assumed`.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            _ => "assumed",
        }
    }

    /// Returns the evidence in one word.
    pub const fn basis(self) -> &'static str {
        match self {
            Self::Confirmed => "capture",
            Self::Stated => "stated",
            Self::Derived => "derived",
            Self::Guessed => "guess",
            Self::Own => "own",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confirmed => f.pad("confirmed"),
            Self::Stated => f.pad("assumed (stated)"),
            Self::Derived => f.pad("assumed (derived)"),
            Self::Guessed => f.pad("assumed (guess)"),
            Self::Own => f.pad("assumed (own)"),
        }
    }
}

/// A constant of the wire format, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The name in this module.
    pub name: &'static str,
    /// Its value; `false` is 0.
    pub value: i64,
    /// The evidence.
    pub evidence: Evidence,
    /// The meaning, and the reason to believe it.
    pub note: &'static str,
}

macro_rules! constants {
    ($($name:ident: $kind:ty = $value:expr, $evidence:ident, $note:literal;)*) => {
        $(
            #[doc = $note]
            pub const $name: $kind = $value;
        )*

        /// All constants of this module.
        pub const CONSTANTS: &[Constant] = &[
            $(Constant {
                name: stringify!($name),
                value: $name as i64,
                evidence: Evidence::$evidence,
                note: $note,
            },)*
        ];
    };
}

constants! {
    // Envelope.
    ENVELOPE_VERSION: u16 = 1, Guessed,
        "Version at 0 of the envelope; its width is derived, as inner_length stands at 2.";
    KIND_METADATA: i32 = 1, Guessed, "Message kind Metadata.";
    KIND_WRITE: i32 = 2, Guessed, "Message kind Write; UnAdvise travels under it too.";
    KIND_ITEM_CONTROL: i32 = 3, Guessed, "Message kind ItemControl.";
    ADDRESS_LOCAL_GALAXY: usize = 14, Guessed, "Offset of the sender's Galaxy, i32.";
    ADDRESS_LOCAL_PLATFORM: usize = 18, Guessed, "Offset of the sender's platform, i32.";
    ADDRESS_LOCAL_ENGINE: usize = 22, Guessed, "Offset of the sender's engine, i32.";
    ADDRESS_TARGET_GALAXY: usize = 26, Guessed, "Offset of the receiver's Galaxy, i32.";
    ADDRESS_TARGET_PLATFORM: usize = 30, Guessed, "Offset of the receiver's platform, i32.";
    ADDRESS_TARGET_ENGINE: usize = 34, Guessed, "Offset of the receiver's engine, i32.";
    ADDRESS_TOKEN: usize = 38, Guessed,
        "Offset of the u32 by which a completion names its write (the write's client token).";
    ADDRESS_TIMEOUT: usize = 42, Guessed, "Offset of the sender's patience in ms, u32.";

    // Item control.
    ITEM_CONTROL_VERSION: u16 = 1, Confirmed, "Version of item control; the captured Suspend has 1.";
    OPCODE_ADVISE: u8 = 0x1F, Stated, "Advise and AdviseSupervisory, 39 bytes.";
    OPCODE_UN_ADVISE: u8 = 0x21, Stated, "UnAdvise, 37 bytes.";
    OPCODE_SUSPEND: u8 = 0x2D, Confirmed, "Suspend, 41 bytes, captured.";
    OPCODE_ACTIVATE: u8 = 0x2E, Guessed, "Activate, believed to be laid out as Suspend.";
    ITEM_CONTROL_TAIL: u32 = 3, Confirmed, "Last four bytes of item control, as captured.";
    ADVISE_EXTRA: u16 = 0, Guessed, "The two bytes that Advise has before the handle: by a user.";
    ADVISE_EXTRA_SUPERVISORY: u16 = 1, Guessed, "The same in AdviseSupervisory.";

    // Write.
    OPCODE_WRITE: u8 = 0x37, Guessed, "Write, and Write2 with its time.";
    OPCODE_WRITE_SECURED: u8 = 0x38, Guessed,
        "WriteSecured and WriteSecured2: a write and two user ids (i32) behind its suffix.";
    WRITE_VERSION: u16 = 1, Guessed, "Version of a write.";
    WRITE_SUFFIX_MARKER: i16 = -1, Derived,
        "First two bytes of a write's 18-byte suffix: a Boolean is seen as its byte and FF FF 00.";
    WRITE_SUFFIX_TIME: usize = 2, Guessed,
        "Offset of the FILETIME in the suffix; 0 without one, which fits the 00 behind FF FF.";
    WRITE_SUFFIX_TOKEN: usize = 10, Guessed, "Offset of the client token in the suffix, u32.";
    WRITE_SUFFIX_INDEX: usize = 14, Guessed, "Offset of the write index in the suffix, u32.";

    // Values.
    WIRE_NO_VALUE: u8 = 0x00, Guessed, "Wire kind of a record without a value.";
    WIRE_BOOLEAN: u8 = 0x01, Guessed, "Wire kind, equal to mx_data_type.";
    WIRE_INT32: u8 = 0x02, Guessed, "Wire kind, equal to mx_data_type.";
    WIRE_FLOAT32: u8 = 0x03, Guessed, "Wire kind, equal to mx_data_type.";
    WIRE_FLOAT64: u8 = 0x04, Guessed, "Wire kind, equal to mx_data_type.";
    WIRE_STRING: u8 = 0x05, Guessed, "Wire kind, equal to mx_data_type.";
    WIRE_DATE_TIME: u8 = 0x06, Guessed, "Wire kind, equal to mx_data_type.";
    WIRE_ARRAY: u8 = 0x40, Guessed, "Bit of the wire kind of an array, beside that of its elements.";
    BOOLEAN_FALSE: u8 = 0x00, Guessed, "The byte of false.";
    BOOLEAN_TRUE: u8 = 0xFF, Guessed, "The byte of true; two of them in an array.";
    STRING_LENGTH_WIDTH: usize = 4, Guessed,
        "Bytes of each of a string's two lengths: outer = inner + 4, inner = bytes of text.";
    ARRAY_COUNT: usize = 4, Stated,
        "Offset of an array's u16 count; the u32 before it is taken for the bytes behind it.";
    ARRAY_WIDTH: usize = 6, Stated, "Offset of an array's u16 element width.";
    ARRAY_WIDTH_BOOLEAN: u16 = 2, Guessed, "Element width of a Boolean array.";
    ARRAY_WIDTH_STRING: u16 = 0, Guessed,
        "Element width of a string array: each element brings its own length (u32 bytes).";

    // Subscription.
    SUBSCRIPTION_VERSION: u16 = 1, Guessed, "Version of subscription messages.";
    OPCODE_SUBSCRIPTION_STATUS: u8 = 0x32, Stated, "SubscriptionStatus; records at 39.";
    OPCODE_DATA_UPDATE: u8 = 0x33, Stated, "DataUpdate; records at 23.";
    DATA_UPDATE_HAS_STATUS: bool = false, Guessed,
        "Whether a record of a DataUpdate begins with a status (i32).";

    // Registration.
    REGISTRATION_VERSION: u16 = 1, Guessed, "Version of reference registration.";
    OPCODE_REFERENCE_REQUEST: u8 = 0x10, Stated, "Registration of a reference (add item).";
    OPCODE_REFERENCE_RESULT: u8 = 0x11, Stated, "Its result.";
    OPCODE_CLIENT_REGISTER: u8 = 0xF0, Own, "Register; on the platform a call of the service.";
    OPCODE_CLIENT_REGISTERED: u8 = 0xF1, Own, "The answer to Register.";
    OPCODE_CLIENT_UNREGISTER: u8 = 0xF2, Own, "Unregister.";

    // Operation status.
    WRITE_COMPLETE_STATUS: u32 = 0x8050_0000, Confirmed,
        "A write that went well: `00 00 50 80` and completion 00, captured.";
    COMPLETION_OK: u8 = 0x00, Confirmed, "The completion byte behind it.";

    // The second data plane.
    ASB_INT32: u16 = 4, Confirmed, "Type of Int32 in an ASB variant, captured with payload 99.";
}

/// The suffix of a buffered reference's definition.
pub const BUFFER_PROPERTY: &str = ".property(buffer)";
/// Buffered intervals are rounded up to a multiple of this.
pub const BUFFER_INTERVAL_MS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_says_what_it_rests_on() {
        assert!(CONSTANTS.len() > 50);
        for constant in CONSTANTS {
            assert!(constant.note.len() > 10, "{}", constant.name);
        }
        let suspend = CONSTANTS
            .iter()
            .find(|c| c.name == "OPCODE_SUSPEND")
            .unwrap();
        assert_eq!(
            (suspend.value, suspend.evidence),
            (0x2D, Evidence::Confirmed)
        );
        assert_eq!(Evidence::Derived.mark(), "assumed");
    }
}
