//! How the platform says what became of something: MxStatus, its categories, quality.

use core::fmt;

/// Whose kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// The platform does not know.
    Unknown,
    /// No trouble.
    Ok,
    /// Not decided yet.
    Pending,
    /// Done, but look at the detail.
    Warning,
    /// Somebody could not be reached.
    CommunicationError,
    /// There is no such thing, or it is not of this type.
    ConfigurationError,
    /// Not now: the object's state forbids it.
    OperationalError,
    /// Not this user.
    SecurityError,
    /// A fault of the platform.
    SoftwareError,
    /// None of these.
    OtherError,
    /// A number that the platform's documentation does not have.
    Unassigned(u8),
}

impl Category {
    /// All that the platform has, worst last.
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

    /// From four bits; 15 is −1, unknown.
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

    /// As four bits.
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

    /// Its name in MXAccess, such as `SecurityError`.
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

/// Who noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The platform does not say.
    Unknown,
    /// The client's message exchange.
    RequestingLmx,
    /// The server's message exchange.
    RespondingLmx,
    /// The client's network service.
    RequestingNmx,
    /// The server's network service.
    RespondingNmx,
    /// The object that asked.
    RequestingAutomationObject,
    /// The object that was asked.
    RespondingAutomationObject,
    /// A number that the platform's documentation does not have.
    Unassigned(u8),
}

impl Source {
    /// From four bits; 15 is −1, unknown.
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

    /// As four bits.
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

    /// Its name in MXAccess, such as `RespondingNmx`.
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

/// What became of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MxStatus {
    /// −1 (or anything but 0) is success, as COM has it.
    pub success: i16,
    /// The kind of trouble.
    pub category: Category,
    /// Who noticed.
    pub detected_by: Source,
    /// The platform's own number, such as 1003.
    pub detail: i16,
}

impl MxStatus {
    /// Success, as the platform's objects say it.
    pub const OK: Self = Self {
        success: -1,
        category: Category::Ok,
        detected_by: Source::RespondingAutomationObject,
        detail: 0,
    };

    /// A failure.
    pub const fn failure(category: Category, detected_by: Source, detail: i16) -> Self {
        Self {
            success: 0,
            category,
            detected_by,
            detail,
        }
    }

    /// What a response code of the network service means; `None` for one that is not known.
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

    /// As one word.
    pub const fn pack(self) -> PackedStatus {
        let success = (self.success != 0) as u32;
        PackedStatus(
            success << 31
                | (self.category.bits() as u32) << 24
                | (self.detected_by.bits() as u32) << 20
                | self.detail as u16 as u32,
        )
    }

    /// Success and warnings are accepted; all else is an error, by category.
    ///
    /// # Errors
    /// What the platform says went wrong.
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

/// An [`MxStatus`] as one word of the wire; bits without a meaning are kept.
///
/// ```text
///  31      30..28  27..24    23..20       19..16  15..0
///  │success│   –   │category│detected_by │   –   │detail│
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedStatus(pub u32);

impl PackedStatus {
    /// Its parts.
    pub const fn unpack(self) -> MxStatus {
        MxStatus {
            success: if self.0 >> 31 == 1 { -1 } else { 0 },
            category: Category::from_bits((self.0 >> 24) as u8),
            detected_by: Source::from_bits((self.0 >> 20) as u8),
            detail: self.0 as i16,
        }
    }
}

/// How something was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Without a remark.
    Plainly,
    /// With a warning of this detail.
    WithWarning(i16),
}

/// Who noticed an error, and the platform's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Who noticed.
    pub detected_by: Source,
    /// The platform's number.
    pub detail: i16,
}

/// What the platform says went wrong, by category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusError {
    /// The platform does not know, or says nothing that makes sense.
    Unknown(Trouble),
    /// Not decided yet.
    Pending(Trouble),
    /// Somebody could not be reached.
    Communication(Trouble),
    /// There is no such thing, or it is not of this type.
    Configuration(Trouble),
    /// Not now: the object's state forbids it.
    Operational(Trouble),
    /// Not this user.
    Security(Trouble),
    /// A fault of the platform.
    Software(Trouble),
    /// None of these.
    Other(Trouble),
}

impl StatusError {
    /// Who noticed, and the platform's number.
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

    /// The category it stands for.
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

/// The platform's detail for the read of a whole array that was not asked for element by element.
pub const DETAIL_BULK_ARRAY: i16 = 1003;

/// How far a value can be trusted: the 16 bits of OPC, kept whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quality(pub u16);

impl Quality {
    /// It can be trusted.
    pub const GOOD: Self = Self(192);
    /// It is a guess, or late.
    pub const UNCERTAIN: Self = Self(64);
    /// It cannot be used.
    pub const BAD: Self = Self(0);

    /// `good`, `uncertain` or `bad`: the two highest bits of the low byte. The fourth value, which
    /// OPC does not use, is bad.
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
