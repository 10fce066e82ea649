//! Results of the platform: MxStatus, its categories, and quality.

use core::fmt;

/// The kind of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Unknown to the platform.
    Unknown,
    /// Success.
    Ok,
    /// Not decided yet.
    Pending,
    /// Done, with a remark in the detail.
    Warning,
    /// A component could not be reached.
    CommunicationError,
    /// The item does not exist or has another type.
    ConfigurationError,
    /// The object's state does not allow it now.
    OperationalError,
    /// This user is not allowed.
    SecurityError,
    /// A fault of the platform.
    SoftwareError,
    /// Another error.
    OtherError,
    /// A number missing from the platform's documentation.
    Unassigned(u8),
}

impl Category {
    /// All documented categories, worst last.
    pub const ALL: [Self; 10] = [
        Self::Unknown,
        Self::Ok,
        Self::Pending,
        Self::Warning,
        Self::CommunicationError,
        Self::ConfigurationError,
        Self::OperationalError,
        Self::SecurityError,
        Self::SoftwareError,
        Self::OtherError,
    ];

    /// Returns the category of four bits; 15 is −1, unknown.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0x0F {
            15 => Self::Unknown,
            0 => Self::Ok,
            1 => Self::Pending,
            2 => Self::Warning,
            3 => Self::CommunicationError,
            4 => Self::ConfigurationError,
            5 => Self::OperationalError,
            6 => Self::SecurityError,
            7 => Self::SoftwareError,
            8 => Self::OtherError,
            bits => Self::Unassigned(bits),
        }
    }

    /// Returns the category as four bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Unknown => 15,
            Self::Ok => 0,
            Self::Pending => 1,
            Self::Warning => 2,
            Self::CommunicationError => 3,
            Self::ConfigurationError => 4,
            Self::OperationalError => 5,
            Self::SecurityError => 6,
            Self::SoftwareError => 7,
            Self::OtherError => 8,
            Self::Unassigned(bits) => bits & 0x0F,
        }
    }

    /// Returns the name in MXAccess, such as `SecurityError`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Ok => "Ok",
            Self::Pending => "Pending",
            Self::Warning => "Warning",
            Self::CommunicationError => "CommunicationError",
            Self::ConfigurationError => "ConfigurationError",
            Self::OperationalError => "OperationalError",
            Self::SecurityError => "SecurityError",
            Self::SoftwareError => "SoftwareError",
            Self::OtherError => "OtherError",
            Self::Unassigned(_) => "Unassigned",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The component that detected a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Not reported.
    Unknown,
    /// The client's message exchange.
    RequestingLmx,
    /// The server's message exchange.
    RespondingLmx,
    /// The client's network service.
    RequestingNmx,
    /// The server's network service.
    RespondingNmx,
    /// The requesting object.
    RequestingAutomationObject,
    /// The responding object.
    RespondingAutomationObject,
    /// A number missing from the platform's documentation.
    Unassigned(u8),
}

impl Source {
    /// Returns the source of four bits; 15 is −1, unknown.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0x0F {
            15 => Self::Unknown,
            0 => Self::RequestingLmx,
            1 => Self::RespondingLmx,
            2 => Self::RequestingNmx,
            3 => Self::RespondingNmx,
            4 => Self::RequestingAutomationObject,
            5 => Self::RespondingAutomationObject,
            bits => Self::Unassigned(bits),
        }
    }

    /// Returns the source as four bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Unknown => 15,
            Self::RequestingLmx => 0,
            Self::RespondingLmx => 1,
            Self::RequestingNmx => 2,
            Self::RespondingNmx => 3,
            Self::RequestingAutomationObject => 4,
            Self::RespondingAutomationObject => 5,
            Self::Unassigned(bits) => bits & 0x0F,
        }
    }

    /// Returns the name in MXAccess, such as `RespondingNmx`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::RequestingLmx => "RequestingLmx",
            Self::RespondingLmx => "RespondingLmx",
            Self::RequestingNmx => "RequestingNmx",
            Self::RespondingNmx => "RespondingNmx",
            Self::RequestingAutomationObject => "RequestingAutomationObject",
            Self::RespondingAutomationObject => "RespondingAutomationObject",
            Self::Unassigned(_) => "Unassigned",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MxStatus {
    /// −1 (or any value except 0) is success, as in COM.
    pub success: i16,
    /// The kind of the result.
    pub category: Category,
    /// The component that detected it.
    pub detected_by: Source,
    /// The platform's own number, such as 1003.
    pub detail: i16,
}

impl MxStatus {
    /// Success, as the platform's objects report it.
    pub const OK: Self = Self {
        success: -1,
        category: Category::Ok,
        detected_by: Source::RespondingAutomationObject,
        detail: 0,
    };

    /// Creates a failure.
    pub const fn failure(category: Category, detected_by: Source, detail: i16) -> Self {
        Self {
            success: 0,
            category,
            detected_by,
            detail,
        }
    }

    /// Returns the meaning of a response code of the network service; `None` for an unknown code.
    pub const fn from_response_code(code: u8) -> Option<Self> {
        let (category, detected_by) = match code {
            1 | 2 | 0x1A => (Category::CommunicationError, Source::RequestingNmx),
            3 => (Category::ConfigurationError, Source::RequestingNmx),
            4 => (Category::ConfigurationError, Source::RespondingNmx),
            5 => (Category::CommunicationError, Source::RespondingNmx),
            _ => return None,
        };
        Some(Self::failure(category, detected_by, code as i16))
    }

    /// Packs the status into one word.
    pub const fn pack(self) -> PackedStatus {
        let success = (self.success != 0) as u32;
        PackedStatus(
            success << 31
                | (self.category.bits() as u32) << 24
                | (self.detected_by.bits() as u32) << 20
                | self.detail as u16 as u32,
        )
    }

    /// Returns `Ok` for success and warnings, and an error by category for all others.
    ///
    /// # Errors
    /// The error the platform reports.
    pub const fn outcome(self) -> Result<Accepted, StatusError> {
        let trouble = Trouble {
            detected_by: self.detected_by,
            detail: self.detail,
        };
        Err(match self.category {
            Category::Ok if self.success != 0 => return Ok(Accepted::Plainly),
            Category::Warning => return Ok(Accepted::WithWarning(self.detail)),
            Category::Pending => StatusError::Pending(trouble),
            Category::CommunicationError => StatusError::Communication(trouble),
            Category::ConfigurationError => StatusError::Configuration(trouble),
            Category::OperationalError => StatusError::Operational(trouble),
            Category::SecurityError => StatusError::Security(trouble),
            Category::SoftwareError => StatusError::Software(trouble),
            Category::OtherError => StatusError::Other(trouble),
            Category::Ok | Category::Unknown | Category::Unassigned(_) => {
                StatusError::Unknown(trouble)
            }
        })
    }
}

impl fmt::Display for MxStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let success = if self.success == 0 {
            "failed"
        } else {
            "success"
        };
        write!(
            f,
            "{success}, {} by {}, detail {}",
            self.category, self.detected_by, self.detail
        )
    }
}

/// An [`MxStatus`] as one word on the wire; bits without a meaning are kept.
///
/// ```text
///  31      30..28  27..24    23..20       19..16  15..0
///  │success│   –   │category│detected_by │   –   │detail│
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedStatus(pub u32);

impl PackedStatus {
    /// Unpacks the word.
    pub const fn unpack(self) -> MxStatus {
        MxStatus {
            success: if self.0 >> 31 == 1 { -1 } else { 0 },
            category: Category::from_bits((self.0 >> 24) as u8),
            detected_by: Source::from_bits((self.0 >> 20) as u8),
            detail: self.0 as i16,
        }
    }
}

/// The result of an accepted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Without a warning.
    Plainly,
    /// With a warning of this detail.
    WithWarning(i16),
}

/// Which component detected an error, and the platform's number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The component that detected the error.
    pub detected_by: Source,
    /// The platform's number.
    pub detail: i16,
}

/// An error of the platform, by category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusError {
    /// Unknown to the platform, or not understood.
    Unknown(Trouble),
    /// Not decided yet.
    Pending(Trouble),
    /// A component could not be reached.
    Communication(Trouble),
    /// The item does not exist or has another type.
    Configuration(Trouble),
    /// The object's state does not allow it now.
    Operational(Trouble),
    /// This user is not allowed.
    Security(Trouble),
    /// A fault of the platform.
    Software(Trouble),
    /// Another error.
    Other(Trouble),
}

impl StatusError {
    /// Returns which component detected the error, and the platform's number.
    pub const fn trouble(&self) -> Trouble {
        match *self {
            Self::Unknown(trouble)
            | Self::Pending(trouble)
            | Self::Communication(trouble)
            | Self::Configuration(trouble)
            | Self::Operational(trouble)
            | Self::Security(trouble)
            | Self::Software(trouble)
            | Self::Other(trouble) => trouble,
        }
    }

    /// Returns the category of the error.
    pub const fn category(&self) -> Category {
        match self {
            Self::Unknown(_) => Category::Unknown,
            Self::Pending(_) => Category::Pending,
            Self::Communication(_) => Category::CommunicationError,
            Self::Configuration(_) => Category::ConfigurationError,
            Self::Operational(_) => Category::OperationalError,
            Self::Security(_) => Category::SecurityError,
            Self::Software(_) => Category::SoftwareError,
            Self::Other(_) => Category::OtherError,
        }
    }
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble {
            detected_by,
            detail,
        } = self.trouble();
        write!(f, "{} by {detected_by}, detail {detail}", self.category())
    }
}

impl core::error::Error for StatusError {}

/// The platform's detail for reading a whole array that was not requested with `[]`.
pub const DETAIL_BULK_ARRAY: i16 = 1003;

/// The reliability of a value: the 16 bits of OPC, kept whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quality(pub u16);

impl Quality {
    /// The value is reliable.
    pub const GOOD: Self = Self(192);
    /// The value is estimated or late.
    pub const UNCERTAIN: Self = Self(64);
    /// The value is unusable.
    pub const BAD: Self = Self(0);

    /// Returns `good`, `uncertain` or `bad` from the two highest bits of the low byte. The fourth
    /// combination, unused by OPC, counts as bad.
    pub const fn text(self) -> &'static str {
        match self.0 & 0xC0 {
            0xC0 => "good",
            0x40 => "uncertain",
            _ => "bad",
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_packed_status_has_its_parts_where_the_facts_say() {
        let status = PackedStatus(0x8050_0000).unpack();
        assert_eq!(status, MxStatus::OK);
        assert_eq!(status.pack(), PackedStatus(0x8050_0000));
        let refused = MxStatus::failure(Category::SecurityError, Source::RespondingLmx, -3);
        assert_eq!(refused.pack(), PackedStatus(0x0610_FFFD));
        assert_eq!(refused.pack().unpack(), refused);
        for bits in 0..16 {
            assert_eq!(Category::from_bits(bits).bits(), bits);
            assert_eq!(Source::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn response_codes_say_who_failed() {
        let who = |code| {
            let status = MxStatus::from_response_code(code)?;
            Some((status.category, status.detected_by))
        };
        use {Category::*, Source::*};
        for code in [1, 2, 0x1A] {
            assert_eq!(who(code), Some((CommunicationError, RequestingNmx)));
        }
        assert_eq!(who(3), Some((ConfigurationError, RequestingNmx)));
        assert_eq!(who(4), Some((ConfigurationError, RespondingNmx)));
        assert_eq!(who(5), Some((CommunicationError, RespondingNmx)));
        assert_eq!(who(6), None);
    }

    #[test]
    fn every_category_but_ok_and_warning_is_an_error_that_names_it() {
        for category in Category::ALL {
            let success = -i16::from(category == Category::Ok);
            let status = MxStatus {
                success,
                ..MxStatus::failure(category, Source::RespondingNmx, 7)
            };
            match status.outcome() {
                Ok(Accepted::Plainly) => assert_eq!(category, Category::Ok),
                Ok(Accepted::WithWarning(7)) => assert_eq!(category, Category::Warning),
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with(category.name()), "{text}");
                    assert!(text.ends_with("by RespondingNmx, detail 7"), "{text}");
                }
            }
        }
        let contradiction = MxStatus::failure(Category::Ok, Source::Unknown, 0);
        assert!(
            contradiction.outcome().is_err(),
            "no success, and no trouble"
        );
    }

    #[test]
    fn qualities_are_named_by_their_two_high_bits() {
        let texts = [192, 216, 64, 0, 28, 128].map(|word| Quality(word).text());
        assert_eq!(texts, ["good", "good", "uncertain", "bad", "bad", "bad"]);
    }
}
