//! Writes between hubs, in the file of `--cluster`.

use std::time::Duration;

use tidewire_market::{AuditMode, WriteConfig};

use super::File;
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
    let seconds = file.write_seconds.map(|seconds| {
        let seconds = seconds.clamp(1, WRITE_SECONDS_MAX);
        Duration::from_secs(seconds)
    });
    let days = |days: u64| Duration::from_secs(days.clamp(1, DAYS_MAX) * 86_400);
    let megabytes = |megabytes: u64| megabytes.clamp(1, MEGABYTES_MAX) << 20;
    Ok(WriteConfig {
        are_taken,
        timeout: seconds.unwrap_or(usual.timeout),
        audit,
        audit_age: file.audit_days.map_or(usual.audit_age, days),
        audit_bytes: file.audit_megabytes.map_or(usual.audit_bytes, megabytes),
    })
}

const WRITE_SECONDS_MAX: u64 = 3_600;
const DAYS_MAX: u64 = 36_500;
const MEGABYTES_MAX: u64 = 1 << 30;
