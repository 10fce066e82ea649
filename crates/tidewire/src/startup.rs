//! The block that a hub prints when it is ready, to the log and to the console.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use tidewire_redis::Loaded;
use tracing::{enabled, info};

use crate::config::Config;
use crate::log::{self, LogFormat};
use crate::server::Server;

/// A hub that is starting, until its keys are loaded.
#[derive(Debug)]
pub(crate) struct Startup {
    began: Instant,
    lanes: usize,
    is_pinned: bool,
    wants_io_uring: bool,
    format: LogFormat,
    /// The log already says that keys are being loaded.
    told_of_load: bool,
    is_over: bool,
}

impl Startup {
    pub(crate) fn begin(config: &Config, format: LogFormat, began: Instant) -> Self {
        Self {
            began,
            lanes: config.hub.redis.lanes,
            is_pinned: config.pin,
            wants_io_uring: config.hub.io_uring,
            format,
            told_of_load: false,
            is_over: false,
        }
    }

    /// Logs the start once all keys are loaded. Returns whether that happened in this call. The
    /// main loop calls it repeatedly.
    pub(crate) fn follow(&mut self, server: &Server, is_loading: bool) -> bool {
        if self.is_over {
            return false;
        }
        if is_loading {
            if !self.told_of_load && self.began.elapsed() > LONG_LOAD {
                self.told_of_load = true;
                info!("loading the keys; commands are refused with LOADING until that is done");
            }
            return false;
        }
        self.is_over = true;
        self.tell(server);
        true
    }

    fn tell(&self, server: &Server) {
        let features = self.features();
        let loaded = server.hub.server.loaded();
        let took = self.began.elapsed();
        let block = self.block(server, &features, &loaded, took);
        let is_logged = enabled!(tracing::Level::INFO);
        match self.format {
            LogFormat::Text => info!("{block}"),
            LogFormat::Json => {
                let places: Vec<String> = server
                    .places
                    .iter()
                    .map(|(name, place)| format!("{name} {place}"))
                    .collect();
                info!(
                    version = VERSION,
                    commit = COMMIT,
                    pid = std::process::id(),
                    listening = places.join(", "),
                    lanes = self.lanes,
                    features,
                    loaded = loaded_text(&loaded),
                    start_ms = took.as_millis() as u64,
                    "serving"
                );
            }
        }
        // The console always gets the block, unless a program reads its lines as JSON.
        if log::is_in_file() || !is_logged && self.format == LogFormat::Text {
            let _ = writeln!(std::io::stderr(), "{block}");
        }
    }

    fn block(&self, server: &Server, features: &str, loaded: &Loaded, took: Duration) -> String {
        let mut block = format!(
            "Tidewire {VERSION} (commit {COMMIT}) is serving, PID {}\n",
            std::process::id()
        );
        let longest = server.places.iter().map(|(name, _)| name.len()).max();
        let width = longest.unwrap_or_default().max(10);
        for (name, place) in &server.places {
            let _ = writeln!(block, "  {name:<width$} {place}");
        }
        let lanes = self.lanes;
        let pinned = if self.is_pinned { ", pinned" } else { "" };
        let _ = writeln!(block, "  lanes      {lanes}{pinned}");
        let _ = writeln!(block, "  kernel     {features}");
        let _ = writeln!(block, "  loaded     {}", loaded_text(loaded));
        let _ = write!(block, "  started    in {}", text_of(took));
        block
    }

    /// Returns which of the kernel features that the program uses are available.
    fn features(&self) -> String {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let release = release.trim();
        let ring = match self.wants_io_uring {
            false => "off",
            true if tidewire_lane::has_io_uring() => "yes",
            true => "no",
        };
        let exact = match tidewire_lane::waits_exactly() {
            true => "yes",
            false => "no",
        };
        format!("Linux {release}, io_uring {ring}, epoll_pwait2 {exact}")
    }
}

fn loaded_text(loaded: &Loaded) -> String {
    let Some(path) = &loaded.from else {
        return "nothing".to_owned();
    };
    format!(
        "{}, {} bytes, {} keys ({} more had expired), in {}",
        path.display(),
        loaded.bytes,
        loaded.keys,
        loaded.expired,
        text_of(loaded.took)
    )
}

fn text_of(time: Duration) -> String {
    match time.as_millis() {
        ms @ 0..10_000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1_000),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const COMMIT: &str = env!("TIDEWIRE_COMMIT");
/// A load that takes longer than this is logged while it runs.
const LONG_LOAD: Duration = Duration::from_secs(1);
