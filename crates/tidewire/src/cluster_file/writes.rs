//! Writes between hubs, in the file of `--cluster`.

use std::time::Duration;

use tidewire_market::{AuditMode, WriteConfig};

use super::{File, bytes_of, number_of};
use crate::config::FilePlace;
use crate::failure::Failure;

/// Reads how this hub writes to the topics of others, and they to its own.
pub(super) fn writes(file: &File, place: &FilePlace) -> Result<WriteConfig, Failure> {
    let usual = WriteConfig::default();
    let are_taken = match file.writes.as_deref() {
        None | Some("off") => false,
        Some("on") if file.share.is_empty() => {
            let text = format!("{}: it needs share", place.of("writes"));
            return Err(Failure::usage(text));
        }
        Some("on") => true,
        Some(other) => {
            let text = format!(
                "{} = '{other}': \"on\" or \"off\" is expected",
                place.of("writes")
            );
            return Err(Failure::usage(text));
        }
    };
    let audit = match file.audit.as_deref() {
        None | Some("on") => AuditMode::On,
        Some("required") => AuditMode::Required,
        Some("off") => AuditMode::Off,
        Some(other) => {
            let text = format!(
                "{} = '{other}': \"on\", \"off\" or \"required\" is expected",
                place.of("audit")
            );
            return Err(Failure::usage(text));
        }
    };
    let timeout = match file.write_seconds {
        Some(seconds) => {
            let seconds = number_of(seconds, WRITE_SECONDS_MAX, ("write-seconds", place))?;
            Duration::from_secs(seconds)
        }
        None => usual.timeout,
    };
    let audit_age = match file.audit_days {
        Some(days) => {
            let days = number_of(days, DAYS_MAX, ("audit-days", place))?;
            Duration::from_secs(days * 86_400)
        }
        None => usual.audit_age,
    };
    let audit_bytes = match file.audit_megabytes {
        Some(megabytes) => bytes_of(megabytes, "audit-megabytes", place)?,
        None => usual.audit_bytes,
    };
    Ok(WriteConfig {
        are_taken,
        timeout,
        audit,
        audit_age,
        audit_bytes,
    })
}

const WRITE_SECONDS_MAX: u64 = 3_600;
const DAYS_MAX: u64 = 36_500;
