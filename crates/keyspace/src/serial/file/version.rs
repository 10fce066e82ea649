//! Which version of the format a file has.

use std::fmt;

/// The version in which a file of keys is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileVersion {
    /// 11; or 12, if a hash has a field with a TTL, which no version before holds.
    #[default]
    Fitting,
    /// 10; or 12, if a hash has a field with a TTL.
    Fitting7,
    /// Redis 7.0 and all later versions read it, Valkey as well.
    Redis7,
    /// Redis 7.2 and all later versions read it, Valkey as well.
    Redis72,
    /// Redis 7.4 and all later versions read it.
    Redis74,
    /// Valkey 9 reads it.
    Valkey9,
}

/// A version that cannot hold what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{hashes} hashes have fields with a TTL, which RDB version {version} cannot hold: choose \
     12 for Redis 7.4 and later, or 80 for Valkey 9"
)]
pub struct CannotHold {
    /// The version.
    pub version: u32,
    /// How many hashes there are whose fields have a TTL.
    pub hashes: usize,
}

impl FileVersion {
    /// The version that a setting names: `auto`, or a number.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = ALL.iter();
        all.find_map(|&(name, version)| (name == text).then_some(version))
    }

    /// Returns the version for a file that must hold everything: this one, or, where it cannot hold
    /// what is there, the oldest that can.
    pub fn fitting(self) -> Self {
        match self {
            FileVersion::Redis7 => FileVersion::Fitting7,
            FileVersion::Redis72 => FileVersion::Fitting,
            _ => self,
        }
    }

    /// Returns the version for a file with this many hashes with TTLs of fields.
    pub(crate) fn settled(self, timed_hashes: usize) -> Result<Self, CannotHold> {
        let hashes = timed_hashes;
        match self {
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

    /// The file's first nine bytes.
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
            FileVersion::Fitting | FileVersion::Fitting7 | FileVersion::Redis74 => 12,
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

const ALL: [(&str, FileVersion); 5] = [
    ("auto", FileVersion::Fitting),
    ("10", FileVersion::Redis7),
    ("11", FileVersion::Redis72),
    ("12", FileVersion::Redis74),
    ("80", FileVersion::Valkey9),
];
