//! The program's log: filter, format and destination.
//!
//! It is set up once. Its level can change (`CONFIG SET loglevel`) and its file can be reopened
//! (SIGHUP) while the program runs.

mod filter;
mod json;
mod pages;
mod sink;
mod syslog;

pub(crate) use filter::{level_for_redis, level_of_redis};
pub(crate) use pages::lines;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::ValueEnum;
use tracing::warn;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::failure::Failure;
use sink::{Outs, SINK};
pub(crate) use syslog::Syslog;

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The command line's options about logging.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogOptions {
    /// `--log`, if given.
    pub(crate) filter: Option<String>,
    pub(crate) format: LogFormat,
}

/// The configuration of the log.
#[derive(Debug)]
pub(crate) struct LogPlan {
    /// `--log`, if given.
    pub(crate) filter: Option<String>,
    /// The level of modules that `filter` does not name.
    pub(crate) level: &'static str,
    pub(crate) format: LogFormat,
    /// A file to log to in place of standard error.
    pub(crate) file: Option<PathBuf>,
    /// The system's log, in addition.
    pub(crate) syslog: Option<Syslog>,
}

impl LogPlan {
    /// Returns a plan that logs to standard error, at `level` and above unless the options differ.
    pub(crate) fn new(options: &LogOptions, level: &'static str) -> Self {
        Self {
            filter: options.filter.clone(),
            level,
            format: options.format,
            file: None,
            syslog: None,
        }
    }
}

/// Starts logging. Logs go to standard error unless the plan names a file, so that standard output
/// can be piped.
pub(crate) fn start(plan: LogPlan) -> Result<(), Failure> {
    let text = plan.filter.as_deref().unwrap_or_default();
    let directives = filter::checked(text, plan.level)
        .map_err(|error| Failure::usage(format!("{error} (--log, TIDEWIRE_LOG)")))?;
    let filter: Targets = directives.parse().map_err(|_| {
        Failure::usage(format!("invalid log filter '{text}' (--log, TIDEWIRE_LOG)"))
    })?;
    let is_file = plan.file.is_some();
    if let Some(path) = plan.file {
        SINK.open(path.clone()).map_err(|error| {
            Failure::usage(format!(
                "logfile '{}': cannot open: {error}",
                path.display()
            ))
        })?;
    }
    if let Some(syslog) = plan.syslog {
        SINK.tell_syslog(syslog);
    }
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(Outs);
    let lines: Box<dyn Layer<_> + Send + Sync> = match plan.format {
        LogFormat::Json => lines.with_ansi(false).event_format(json::Json).boxed(),
        LogFormat::Text => lines
            .with_ansi(!is_file && std::io::stderr().is_terminal())
            .boxed(),
    };
    let started = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .with(pages::layer())
        .try_init();
    started.map_err(|error| Failure::running(format!("cannot log: {error}")))?;
    let _ = FILTER.set(handle);
    Ok(())
}

/// Logs at `level` and above from now on; `level` is one of Redis's.
pub(crate) fn set_level(level: &str) {
    let Some(handle) = FILTER.get() else {
        return;
    };
    let level_from = level_of_redis(level).parse().unwrap_or(LevelFilter::INFO);
    let filter = Targets::new().with_default(level_from);
    if let Err(error) = handle.reload(filter) {
        warn!(level, %error, "cannot change the log level");
    }
}

/// Reopens the log file, as after a rotation. If that fails, logging continues in the old file.
pub(crate) fn reopen() {
    if let Err(error) = SINK.reopen() {
        warn!(%error, "cannot reopen the log file: logging continues in the old one");
    }
}

/// Returns whether the log goes to a file and not to standard error.
pub(crate) fn is_in_file() -> bool {
    SINK.is_file()
}

static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();
