//! The newest log lines, which web pages follow.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock};

use tidewire_hub::{LogLevel, LogLines};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, fmt};

use super::json::Json;

/// Returns the newest log lines of this program.
pub(crate) fn lines() -> Arc<LogLines> {
    LINES.clone()
}

/// Returns the layer that keeps each event as a line for pages.
pub(super) fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let layer = fmt::layer().with_writer(Keeper).with_ansi(false);
    layer.event_format(Json)
}

/// Creates the writer of an event, by its level.
#[derive(Clone, Copy, Debug)]
struct Keeper;

/// Keeps one event per call.
#[derive(Clone, Copy, Debug)]
struct Keep(LogLevel);

impl<'a> MakeWriter<'a> for Keeper {
    type Writer = Keep;

    fn make_writer(&'a self) -> Keep {
        Keep(LogLevel::Info)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Keep {
        Keep(match *metadata.level() {
            Level::ERROR => LogLevel::Error,
            Level::WARN => LogLevel::Warn,
            Level::INFO => LogLevel::Info,
            Level::DEBUG => LogLevel::Debug,
            Level::TRACE => LogLevel::Trace,
        })
    }
}

impl Write for Keep {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Ok(text) = std::str::from_utf8(line) {
            LINES.push(self.0, text);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static LINES: LazyLock<Arc<LogLines>> = LazyLock::new(Arc::default);
