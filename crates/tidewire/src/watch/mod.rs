//! `watch`: the latest values of any hub, in a terminal or as JSON.
//!
//! ```text
//!  native feed ─▶ link (thread) ─▶ model ─┐
//!  INFO, levels ▶ info (thread) ─▶ figures├─▶ sample ─▶ screen, or json
//!  keys        ─▶ view (sort, filter) ────┘
//! ```

mod cluster;
mod info;
mod json;
mod ladder;
mod link;
mod model;
mod sample;
mod screen;
mod spread;
mod terminal;
mod view;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::options::WatchOptions;
use crate::stop::Stop;
use crate::target::Target;
use crate::units::printable;
use info::InfoReader;
use link::Link;
use sample::Sample;
use view::{Column, TableView};

/// Watches a hub until told to stop, or prints once.
pub(crate) fn run(options: &WatchOptions) -> Result<(), Failure> {
    let patterns = patterns(&options.pattern)?;
    let view = TableView::new(options.sort, options.ascending);
    if !options.once && !options.json {
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "watch needs a terminal; without one, use --once or --json",
            ));
        }
        let watch = Watch::start(options, &patterns, Stop::default())?;
        return screen::show(&watch, view);
    }
    let stop = Stop::on_signals()?;
    let watch = Watch::start(options, &patterns, stop)?;
    watch.wait_until_complete(options.patience)?;
    loop {
        // Rates per second need a full period of messages.
        watch.wait(options.duration);
        // The last period ends with the signal to stop, and its rates cover what there was of it.
        let sample = watch.look(PERIOD_MIN);
        let rows = view.rows(&sample.rows, options.rows);
        let text = match options.json {
            true => json::document(&sample, &rows, options.once),
            false => screen::as_text(&sample, &rows),
        };
        let mut out = std::io::stdout().lock();
        // A reader that closes early, such as `head`, is not a failure.
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if options.once && sample.rows.is_empty() && !options.pattern.is_empty() {
            let (patterns, from) = (&watch.patterns, watch.link.target());
            return Err(Failure::running(format!(
                "no symbol at {from} matches '{patterns}'; watch --once without a pattern shows all"
            )));
        }
        if options.once || written.is_err() || watch.stop.is_asked() {
            return Ok(());
        }
    }
}

/// The threads that watch a hub.
struct Watch {
    link: Link,
    info: Arc<InfoReader>,
    patterns: String,
    stop: Stop,
}

impl Watch {
    fn start(options: &WatchOptions, patterns: &[String], stop: Stop) -> Result<Self, Failure> {
        let credentials = options.login.credentials()?;
        let target = Target::new(&options.from, &options.tls, credentials)?;
        Ok(Self {
            link: Link::start(&target, patterns, &stop)?,
            info: InfoReader::start(&options.info, credentials, &stop),
            patterns: patterns.join(" "),
            stop,
        })
    }

    /// Takes a sample of all figures; rates cover the time since the last sample.
    fn look(&self, interval: Duration) -> Sample {
        let mut model = self.link.model();
        Sample::take(&mut model, &self.info, &self.patterns, interval)
    }

    /// Waits for the hub's current values.
    fn wait_until_complete(&self, patience: Duration) -> Result<(), Failure> {
        let end = Instant::now() + patience;
        loop {
            let model = self.link.model();
            if model.is_complete {
                break;
            }
            let reason = printable(&model.connection.describe());
            drop(model);
            if self.stop.is_asked() || Instant::now() >= end {
                let from = self.link.target();
                let expected = from.expected();
                return Err(Failure::usage(format!(
                    "--from: no hub at {from}: {reason}; {expected}"
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.link.model().reset();
        Ok(())
    }

    fn wait(&self, duration: Duration) {
        let end = Instant::now() + duration;
        while !self.stop.is_asked() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// Returns the patterns without `md:`, the prefix under which Redis clients see a symbol.
fn patterns(given: &[String]) -> Result<Vec<String>, Failure> {
    let bare = given
        .iter()
        .map(|text| text.strip_prefix("md:").unwrap_or(text).to_owned());
    let mut patterns: Vec<String> = bare.filter(|text| !text.is_empty()).collect();
    if patterns.is_empty() {
        patterns.push("*".to_owned());
    }
    for pattern in &patterns {
        let text = tidewire_feed::wire::PatternText::new(pattern)
            .map_err(|error| Failure::usage(format!("pattern '{pattern}': {error}")))?;
        tidewire_feed::server::Pattern::new(text)
            .map_err(|error| Failure::usage(format!("pattern '{pattern}': {error}")))?;
    }
    Ok(patterns)
}

/// Shortest period over which a rate means anything.
const PERIOD_MIN: Duration = Duration::from_millis(100);

/// The columns by which the table can be sorted, as the command line names them.
pub(crate) type SortColumn = Column;
