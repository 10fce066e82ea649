//! `demo`: a hub and an exchange in one process, with a live table.

mod screen;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidewire_lane::{Endpoint, Listener};

use crate::config::Config;
use crate::failure::Failure;
use crate::feed_login::LoginOptions;
use crate::options::DemoOptions;
use crate::output;
use crate::replay;
use crate::server::{Addresses, Listeners, POLL_INTERVAL, Server};
use crate::simulate::{Simulation, exchange_hub};
use crate::stop::Stop;
use crate::table::{HubFigures, Watcher};
use crate::target::Target;
use crate::units::grouped;
use crate::web::WebPlace;

/// Runs the demo.
pub(crate) fn run(options: &DemoOptions) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let mut config = Config::new(&options.serve)?;
    let listeners = Listeners::bind_nearby(&config)?;
    let addresses = listeners.addresses();
    let wanted = [
        &config.resp,
        &config.zmq_pub,
        &config.zmq_pull,
        &config.zmq_router,
        &config.feed,
    ];
    let lines = introduction(&addresses, wanted, config.web.as_ref());
    let tui = !options.no_tui && std::io::stdout().is_terminal();
    let feed = Feed::prepare(options, &mut config, &addresses)?;
    let server = Server::start(&config, listeners)?;
    // Printed only now, when every error in the arguments has been reported.
    if !tui {
        lines.iter().for_each(|line| println!("{line}"));
    }
    let feed = feed.start(options, &server, &stop)?;
    let end = options.duration.map(|duration| Instant::now() + duration);
    let over = || {
        let is_time = end.is_some_and(|end| Instant::now() >= end);
        stop.is_asked() || feed.has_failed() || is_time || output::is_gone()
    };
    let mut watcher = Watcher::new();
    if tui {
        screen::show(&server, &mut watcher, &lines, &over)?;
    } else {
        show_lines(&server, &mut watcher, &over)?;
    }
    let (published, exchange) = feed.finish(&server)?;
    let view = watcher.look(&server.hub, 0);
    println!("{}", summary(&view, published));
    // The hub stops first; otherwise it would report the loss of the exchange.
    server.stop();
    if let Some(exchange) = exchange {
        exchange.stop();
    }
    Ok(())
}

/// The source of the messages.
enum Feed {
    /// The next sequence before it trades: a hub gets the definitions with a snapshot.
    Simulated(Simulation, u64),
    File(PathBuf),
    Played(Playback),
}

/// A file that a separate thread plays into the hub.
struct Playback {
    thread: JoinHandle<Result<String, Failure>>,
    stop: Stop,
    failed: Arc<AtomicBool>,
}

impl Feed {
    /// Prepares what must exist before the hub starts: the exchange that it reads.
    fn prepare(
        options: &DemoOptions,
        config: &mut Config,
        addresses: &Addresses,
    ) -> Result<Self, Failure> {
        if let Some(file) = &options.replay {
            replay::check(file)?;
            return Ok(Feed::File(file.clone()));
        }
        let endpoint = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
        let listener = Listener::bind(&endpoint, tidewire_hub::port::FEED)
            .map_err(|error| Failure::running(format!("{error} (hub at {})", addresses.feed)))?;
        let hub = exchange_hub(&options.market)?;
        let simulation = Simulation::start(&options.market, None, hub, listener, true)?;
        config.hub.market.sources.extend(simulation.source());
        simulation.wait_until_open()?;
        let opened = simulation.next_sequence();
        Ok(Feed::Simulated(simulation, opened))
    }

    /// Starts what must begin after the hub: trading, once the hub knows the symbols (so that the
    /// counts at both ends can be compared), or the replay of the file.
    fn start(self, options: &DemoOptions, server: &Server, stop: &Stop) -> Result<Self, Failure> {
        let file = match self {
            Feed::File(file) => file,
            Feed::Simulated(simulation, opened) => {
                while (server.hub.market.board.count() as usize) < simulation.symbols
                    && !stop.is_asked()
                {
                    server.check()?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                simulation.begin();
                return Ok(Feed::Simulated(simulation, opened));
            }
            played => return Ok(played),
        };
        let credentials = LoginOptions::default().credentials()?;
        let to = Target::plain(server.addresses.feed.clone(), credentials);
        let speed = options.speed;
        let stop = stop.child();
        let failed = Arc::new(AtomicBool::new(false));
        let (asked, fails) = (stop.clone(), failed.clone());
        let thread = std::thread::spawn(move || {
            let extras = replay::Extras::default();
            let played = replay::play(&file, &to, speed, false, extras, &asked);
            fails.store(played.is_err(), Ordering::Release);
            played
        });
        Ok(Feed::Played(Playback {
            thread,
            stop,
            failed,
        }))
    }

    /// Returns whether no more messages will come because of an error.
    fn has_failed(&self) -> bool {
        matches!(self, Feed::Played(player) if player.failed.load(Ordering::Acquire))
    }

    /// Ends the feed and waits until the hub has received everything. Returns the number of
    /// messages that a simulated exchange published, and the exchange; prints the report on a file.
    fn finish(self, server: &Server) -> Result<(Option<u64>, Option<Simulation>), Failure> {
        match self {
            Feed::Simulated(simulation, opened) => {
                simulation.finish();
                let published = simulation.next_sequence() - opened;
                let limit = Instant::now() + ARRIVAL_TIME_MAX;
                while server.applied() < published && Instant::now() < limit {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok((Some(published), Some(simulation)))
            }
            Feed::Played(Playback { thread, stop, .. }) => {
                stop.ask();
                let failed = |_| Failure::running("the replay failed");
                let result = thread.join().map_err(failed)?;
                print!("{}", result?);
                Ok((None, None))
            }
            Feed::File(_) => Ok((None, None)),
        }
    }
}

/// Returns the addresses, and the commands to type in another terminal.
fn introduction(
    addresses: &Addresses,
    wanted: [&Endpoint; 5],
    web: Option<&WebPlace>,
) -> Vec<String> {
    let stands = [
        &addresses.resp,
        &addresses.zmq_pub,
        &addresses.zmq_pull,
        &addresses.zmq_router,
        &addresses.feed,
    ];
    let names = [
        "Redis",
        "ZeroMQ publish",
        "ZeroMQ ingest",
        "ZeroMQ requests",
        "native feed",
    ];
    let mut lines = vec!["tidewire demo: a hub, and a simulated exchange that feeds it".to_owned()];
    if let Some(place) = &addresses.web {
        let wanted = web.map(|place| &place.endpoint);
        let moved = wanted.filter(|wanted| wanted != &place && !is_any_port(wanted));
        let moved = moved.map(|wanted| format!("   ({wanted} is taken)"));
        let moved = moved.unwrap_or_default();
        lines.push(format!("  open in a browser: http://{place}/{moved}"));
    }
    for ((name, stands), wanted) in names.iter().zip(stands).zip(wanted) {
        let moved = match stands == wanted || is_any_port(wanted) {
            true => String::new(),
            false => format!("   ({wanted} is taken)"),
        };
        lines.push(format!("  {name:<15} {stands}{moved}"));
    }
    let port = addresses.resp.tcp().map_or(6379, |address| address.port());
    lines.push("In another terminal:".to_owned());
    lines.push(format!("  redis-cli -p {port} HGETALL md:RELIANCE"));
    lines.push(format!("  redis-cli -p {port} SUBSCRIBE md:RELIANCE"));
    lines
}

/// Returns whether the system chooses the port.
fn is_any_port(endpoint: &Endpoint) -> bool {
    endpoint.tcp().is_some_and(|address| address.port() == 0)
}

fn show_lines(
    server: &Server,
    watcher: &mut Watcher,
    over: &impl Fn() -> bool,
) -> Result<(), Failure> {
    let mut next = Instant::now() + LINE_INTERVAL;
    while !over() {
        std::thread::sleep(POLL_INTERVAL);
        server.check()?;
        if Instant::now() >= next {
            next += LINE_INTERVAL;
            let view = watcher.look(&server.hub, 1);
            let busiest = view
                .rows
                .first()
                .map(|row| row.texts().join(" "))
                .unwrap_or_default();
            println!("{} · {busiest}", view.figures());
        }
    }
    Ok(())
}

fn summary(view: &HubFigures, published: Option<u64>) -> String {
    let [p50, p99, p999] = view.percentiles();
    let published = match published {
        Some(published) => {
            let applied = view.applied;
            let missing = published.saturating_sub(applied);
            let twice = applied.saturating_sub(published);
            format!(
                "published  {} messages by the exchange\napplied    {} by the hub: {} missing, {} \
                 twice\n",
                grouped(published),
                grouped(applied),
                grouped(missing),
                grouped(twice)
            )
        }
        None => format!("applied    {} messages by the hub\n", grouped(view.applied)),
    };
    format!(
        "{published}gaps       {} ({} messages lost)\nlatency    p50 {p50}, p99 {p99}, p99.9 {p999} \
         from source time to last value\ndelivered  {} messages to subscribers, {} conflated",
        grouped(view.gaps),
        grouped(view.lost),
        grouped(view.delivered),
        grouped(view.conflated)
    )
}

/// Maximum time that the last messages may take from the exchange to the hub.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(20);
const LINE_INTERVAL: Duration = Duration::from_secs(1);
