//! `daemonize` and `pidfile`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tidewire_hub::HubConfig;
use tidewire_redis::ids::{DAEMONIZE, PIDFILE};
use tracing::warn;

use crate::failure::Failure;

/// `daemonize yes`: starts the program again in the background, as the leader of its own session.
/// Returns whether this process has nothing more to do.
///
/// A process with threads cannot be forked, so the program is started again with the same
/// arguments. A variable in its environment marks the background process. `check` runs first,
/// because an error of the background process would be seen by no one.
pub(crate) fn daemonize(
    config: &HubConfig,
    check: impl FnOnce() -> Result<(), Failure>,
) -> Result<bool, Failure> {
    if !config.redis.value(DAEMONIZE).eq_ignore_ascii_case("yes") {
        return Ok(false);
    }
    if std::env::var_os(MARK).is_some() {
        // `setsid` fails if this process already leads a group; then it needs no new session.
        let _ = rustix::process::setsid();
        return Ok(false);
    }
    check()?;
    let failed = |error| Failure::running(format!("daemonize: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    Ok(true)
}

/// A file with the process's PID, which is removed at the end.
#[derive(Debug)]
pub(crate) struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes the file that the parameter `pidfile` names. If that fails, the hub runs without one,
    /// as Redis does.
    pub(crate) fn write(config: &HubConfig) -> Self {
        let path = config.redis.value(PIDFILE);
        if path.is_empty() {
            return Self(None);
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Self(Some(path)),
            Err(error) => {
                warn!(pidfile = %path.display(), %error, "cannot write the pid file");
                Self(None)
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Environment variable that marks the background process.
pub(crate) const MARK: &str = "TIDEWIRE_IN_BACKGROUND";
