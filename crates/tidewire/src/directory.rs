//! Checks at the start that the data directory is writable.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tidewire_hub::HubConfig;
use tidewire_redis::ids::{APPENDDIRNAME, APPENDONLY, DIR, SAVE};
use tracing::warn;

use crate::failure::Failure;

/// Returns an error if the files that the parameters ask for cannot be created in `dir`. If nothing
/// is to be saved, nothing is checked.
pub(crate) fn check(config: &HubConfig) -> Result<(), Failure> {
    let redis = &config.redis;
    let saves = !redis.value(SAVE).is_empty();
    let logs = redis.value(APPENDONLY).eq_ignore_ascii_case("yes");
    if !saves && !logs {
        return Ok(());
    }
    let directory = PathBuf::from(redis.given(DIR).unwrap_or("."));
    probe(&directory)?;
    let log = directory.join(redis.value(APPENDDIRNAME));
    match logs && log.is_dir() {
        true => probe(&log),
        false => Ok(()),
    }
}

/// Creates a file in the directory and removes it.
fn probe(directory: &Path) -> Result<(), Failure> {
    let path = directory.join(format!("temp-probe-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&path);
    match made {
        Ok(_) => {
            let _ = fs::remove_file(&path);
            Ok(())
        }
        // Space may become free later, and existing data can be read until then.
        Err(error) if is_full(&error) => {
            warn!(directory = %directory.display(), %error, "disk full: data cannot be saved");
            Ok(())
        }
        Err(error) => Err(Failure::usage(format!(
            "dir '{}': cannot create files: {error}; make it writable, choose another --dir, \
             or turn saving off (--set save= --set appendonly=no)",
            directory.display()
        ))),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> HubConfig {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        HubConfig {
            redis: tidewire_redis::RedisConfig {
                parameters: pairs.iter().map(own).collect(),
                ..Default::default()
            },
            ..HubConfig::default()
        }
    }

    #[test]
    fn a_directory_in_which_nothing_can_be_made_is_refused_where_something_is_saved() {
        // No user, not even root, can create files in /proc.
        for saving in [("save", "60 1"), ("appendonly", "yes")] {
            let failure = check(&config(&[("dir", "/proc"), saving])).unwrap_err();
            assert!(
                format!("{failure:?}").contains("dir '/proc'"),
                "{failure:?}"
            );
        }
        check(&config(&[("dir", "/proc")])).unwrap();
        check(&config(&[("dir", "/proc"), ("save", "60 1"), ("save", "")])).unwrap();
        let folder = std::env::temp_dir();
        check(&config(&[
            ("dir", folder.to_str().unwrap()),
            ("save", "60 1"),
        ]))
        .unwrap();
    }
}
