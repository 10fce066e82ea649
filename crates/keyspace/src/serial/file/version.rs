//! The RDB version of a file.

use std::fmt;

/// The RDB version that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileVersion {
    /// 11; or 12 if a hash has a field with a TTL, or 13 if a stream knows its producers, because
    /// older versions cannot store it.
    #[default]
    Fitting,
    /// 10; or 12 or 13 in the same cases.
    Fitting7,
    /// 12; or 13 if a stream knows its producers.
    Fitting74,
    /// Redis since 7.0 can read it, and Valkey.
    Redis7,
    /// Redis since 7.2 can read it, and Valkey.
    Redis72,
    /// Redis since 7.4 can read it.
    Redis74,
    /// Redis since 8.6 can read it.
    Redis86,
    /// Valkey 9 can read it.
    Valkey9,
}

/// A version that cannot store the current keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{hashes} hashes have fields with a TTL, which RDB version {version} cannot hold: choose \
     12 for Redis 7.4 and later, or 80 for Valkey 9"
)]
pub struct CannotHold {
    /// The version.
    pub version: u32,
    /// Number of hashes with fields with a TTL.
    pub hashes: usize,
}

impl FileVersion {
    /// Parses a setting: `auto`, or a number.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = ALL.iter();
        all.find_map(|&(name, version)| (name == text).then_some(version))
    }

    /// Returns the version for a file that must store everything: this one, or the oldest that can.
    pub fn fitting(self) -> Self {
        match self {
            FileVersion::Redis7 => FileVersion::Fitting7,
            FileVersion::Redis72 => FileVersion::Fitting,
            FileVersion::Redis74 => FileVersion::Fitting74,
            _ => self,
        }
    }

    /// Returns the version for a file with this number of hashes with TTLs of fields, and with
    /// streams that may know their producers.
    pub(crate) fn settled(
        self,
        timed_hashes: usize,
        has_producers: bool,
    ) -> Result<Self, CannotHold> {
        let hashes = timed_hashes;
        match self {
            FileVersion::Fitting | FileVersion::Fitting7 | FileVersion::Fitting74
                if has_producers =>
            {
                Ok(FileVersion::Redis86)
            }
            FileVersion::Fitting74 => Ok(FileVersion::Redis74),
            FileVersion::Fitting | FileVersion::Fitting7 if hashes > 0 => Ok(FileVersion::Redis74),
            FileVersion::Fitting => Ok(FileVersion::Redis72),
            FileVersion::Fitting7 => Ok(FileVersion::Redis7),
            FileVersion::Redis7 | FileVersion::Redis72 if hashes > 0 => {
                let version = self.number();
                Err(CannotHold { version, hashes })
            }
            _ => Ok(self),
        }
    }

    /// Returns the file's first nine bytes.
    pub(super) fn header(self) -> String {
        match self {
            FileVersion::Valkey9 => format!("VALKEY{:03}", self.number()),
            _ => format!("REDIS{:04}", self.number()),
        }
    }

    fn number(self) -> u32 {
        match self {
            FileVersion::Redis7 => 10,
            FileVersion::Redis72 => 11,
            FileVersion::Fitting
            | FileVersion::Fitting7
            | FileVersion::Fitting74
            | FileVersion::Redis74 => 12,
            FileVersion::Redis86 => 13,
            FileVersion::Valkey9 => 80,
        }
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = ALL.iter();
        let name = all.find_map(|&(name, version)| (version == *self).then_some(name));
        formatter.write_str(name.unwrap_or_default())
    }
}

const ALL: [(&str, FileVersion); 6] = [
    ("auto", FileVersion::Fitting),
    ("10", FileVersion::Redis7),
    ("11", FileVersion::Redis72),
    ("12", FileVersion::Redis74),
    ("13", FileVersion::Redis86),
    ("80", FileVersion::Valkey9),
];
