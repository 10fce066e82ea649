//! Log filters: `--log`, `TIDEWIRE_LOG`, and Redis's log levels.

/// Checks a filter: a level, or `MODULE=LEVEL`, separated by commas. `level` applies to modules
/// that the text does not name. Returns the complete filter.
///
/// # Errors
/// A word that is neither a level nor a module of this program. It would silence everything else.
pub(super) fn checked(text: &str, level: &str) -> Result<String, String> {
    let mut directives = Vec::new();
    let mut has_level = false;
    for part in text.split(',').map(str::trim) {
        match part.split_once('=') {
            None if part.is_empty() && text.trim().is_empty() => {}
            None if is_level(part) => has_level = true,
            None => {
                return Err(format!(
                    "unknown log level '{part}': expected {LEVELS_TEXT} or MODULE=LEVEL"
                ));
            }
            Some((module, level)) if !is_level(level) => {
                return Err(format!(
                    "'{module}={level}': unknown log level '{level}': expected {LEVELS_TEXT}"
                ));
            }
            Some((module, _)) if !is_module(module) => {
                return Err(format!(
                    "'{part}': unknown module '{module}': expected one such as tidewire_lane or \
                     tidewire_redis::replication"
                ));
            }
            Some(_) => {}
        }
        if !part.is_empty() {
            directives.push(part);
        }
    }
    if !has_level {
        directives.insert(0, level);
    }
    Ok(directives.join(","))
}

/// Returns the filter level for a value of the parameter `loglevel`.
pub(crate) fn level_of_redis(level: &str) -> &'static str {
    match level {
        "debug" | "verbose" => "debug",
        "notice" => "info",
        "nothing" => "off",
        _ => "warn",
    }
}

/// Returns the value of the parameter `loglevel` closest to a filter from [`checked`].
pub(crate) fn level_for_redis(filter: &str) -> &'static str {
    let mut parts = filter.split(',').map(str::trim);
    let level = parts.find(|part| is_level(part)).unwrap_or_default();
    match level.to_ascii_lowercase().as_str() {
        "debug" | "trace" => "debug",
        "info" | "" => "notice",
        "off" => "nothing",
        _ => "warning",
    }
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

fn is_module(path: &str) -> bool {
    let crate_name = path.split("::").next().unwrap_or_default();
    let is_path = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    MODULES.contains(&crate_name) && path.split("::").all(is_path)
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
const LEVELS_TEXT: &str = "off, error, warn, info, debug, trace";

/// Modules that log: the crates of this workspace, and scripts.
const MODULES: &[&str] = &[
    "script",
    "tidewire",
    "tidewire_fanout",
    "tidewire_hub",
    "tidewire_keyspace",
    "tidewire_lane",
    "tidewire_market",
    "tidewire_plant",
    "tidewire_redis",
    "tidewire_retry",
    "tidewire_script",
    "tidewire_zmq",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_refused_and_silences_nothing() {
        for text in [
            "wran",
            "info,wran",
            "tidewire_hbu=debug",
            "tidewire_hub=debgu",
            "a=b=c",
        ] {
            let error = checked(text, "warn").unwrap_err();
            assert!(
                error.contains("unknown log level") || error.contains("unknown module"),
                "{error}"
            );
        }
        for text in ["info,", ",", "tidewire_hub", "[span]=info", "=info"] {
            checked(text, "warn").unwrap_err();
        }
    }

    #[test]
    fn what_names_no_level_keeps_the_default_for_the_rest() {
        assert_eq!(checked("", "info").unwrap(), "info");
        assert_eq!(checked("Debug", "info").unwrap(), "Debug");
        assert_eq!(
            checked("tidewire_redis::replication=debug", "warn").unwrap(),
            "warn,tidewire_redis::replication=debug"
        );
        assert_eq!(
            checked("error,script=off", "info").unwrap(),
            "error,script=off"
        );
    }

    #[test]
    fn every_crate_that_logs_is_a_module_of_the_filter() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for folder in std::fs::read_dir(crates).unwrap().flatten() {
            let manifest = std::fs::read_to_string(folder.path().join("Cargo.toml"));
            let logs = manifest.is_ok_and(|text| text.contains("\ntracing.workspace"));
            let name = folder.file_name().to_string_lossy().replace('-', "_");
            // The simulator is not part of the program.
            let logs = logs && name != "simulator";
            let is_known = is_module(&name) || is_module(&format!("tidewire_{name}"));
            assert!(
                !logs || is_known,
                "{name} logs, and cannot be named in --log"
            );
        }
    }
}
