//! `itch send`: sends a file as an exchange does.

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use tidewire_itch::Head;
use tidewire_itch::sequenced::{SessionName, Store};
use tidewire_lane::unix_ns;

use super::SendOptions;
use super::lines::Lines;
use super::reader::Reader;
use super::servers::Servers;
use crate::failure::Failure;
use crate::options::Speed;
use crate::stop::Stop;
use crate::units::grouped;

/// Sends until the file is finished and the linger time is over, or until told to stop.
pub(super) fn run(options: &SendOptions) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    if options.mold.is_none() && options.soup.is_none() {
        return Err(Failure::usage("no destination: give --mold or --soup"));
    }
    // Receivers take two runs with one name for one stream.
    let session = options.session.clone();
    let session = session.unwrap_or_else(|| (unix_ns() / 1_000_000_000).to_string());
    if session.is_empty() || session.len() > SessionName::LENGTH {
        return Err(Failure::usage("--session: must have 1 to 10 characters"));
    }
    let plan = options.fault.unwrap_or_default();
    let usage =
        |option: &'static str| move |text: String| Failure::usage(format!("{option}: {text}"));
    let mold = options.mold.as_ref();
    let lines = mold.map(|mold| Lines::open(mold, plan, options.seed));
    let soup = options.soup.as_ref();
    let servers = soup.map(|soup| Servers::open(soup, plan));
    let window = usize::try_from(options.window).unwrap_or(usize::MAX);
    let mut exchange = Exchange {
        store: Store::new(SessionName::new(&session), window),
        lines: lines.transpose().map_err(usage("--mold"))?,
        servers: servers.transpose().map_err(usage("--soup"))?,
        started: Instant::now(),
        first_message: None,
        feed: Feed::open(&options.file)?,
        next: None,
        sent: 0,
    };
    println!("sending {} as session {session}", options.file.display());
    exchange.run(options, &stop)?;
    exchange.report();
    Ok(())
}

struct Exchange {
    store: Store,
    lines: Option<Lines>,
    servers: Option<Servers>,
    started: Instant,
    /// When the first message was due, and its own timestamp.
    first_message: Option<(u64, u64)>,
    feed: Feed,
    /// Read, but not due yet.
    next: Option<Vec<u8>>,
    sent: u64,
}

impl Exchange {
    fn run(&mut self, options: &SendOptions, stop: &Stop) -> Result<(), Failure> {
        let mut done_at: Option<Instant> = None;
        let mut is_waiting = options.wait;
        while !stop.is_asked() {
            let now_ns = self.now_ns();
            let mut due_ns = u64::MAX;
            is_waiting &= !self.is_heard();
            if !is_waiting && done_at.is_none() {
                match self.take_due(options, now_ns)? {
                    Some(next_ns) => due_ns = next_ns,
                    None => self.store.end_session(),
                }
            }
            let mut more = false;
            if let Some(lines) = &mut self.lines {
                lines.turn(&self.store, now_ns);
                due_ns = due_ns.min(lines.deadline_ns());
            }
            if let Some(servers) = &mut self.servers {
                more = servers.turn(&self.store, now_ns);
                due_ns = due_ns.min(servers.deadline_ns());
            }
            if self.store.is_ended() && self.is_done() {
                let done = *done_at.get_or_insert_with(Instant::now);
                if options
                    .linger
                    .is_some_and(|linger| done.elapsed() >= linger)
                {
                    break;
                }
            }
            if !more {
                self.wait(due_ns.saturating_sub(now_ns));
            }
        }
        Ok(())
    }

    /// Returns whether there is a receiver: a connected client, or a peer that has sent a request.
    fn is_heard(&self) -> bool {
        self.servers
            .as_ref()
            .is_some_and(|servers| servers.len() > 0)
            || self
                .lines
                .as_ref()
                .is_some_and(|lines| lines.requests_seen > 0)
    }

    fn is_done(&self) -> bool {
        self.lines
            .as_ref()
            .is_none_or(|lines| lines.is_done(&self.store))
            && self
                .servers
                .as_ref()
                .is_none_or(|servers| servers.is_done(&self.store))
    }

    /// Appends the messages that are due. Returns when the next one is due, or `None` at the end.
    fn take_due(&mut self, options: &SendOptions, now_ns: u64) -> Result<Option<u64>, Failure> {
        for _ in 0..TURN_MESSAGES_MAX {
            let message = match self.next.take() {
                Some(message) => message,
                None => match self.feed.next()? {
                    Some(message) => message,
                    None => return Ok(None),
                },
            };
            let time_ns = Head::read(&message).map_or(0, |head| head.time.ns());
            let (start_ns, first_ns) = *self.first_message.get_or_insert((now_ns, time_ns));
            let after_ns = match options.speed {
                None => (u128::from(self.sent) * 1_000_000_000 / u128::from(options.rate)) as u64,
                Some(Speed::Max) => 0,
                Some(Speed::Times(times)) => {
                    (time_ns.saturating_sub(first_ns) as f64 / times) as u64
                }
            };
            let due_ns = start_ns.saturating_add(after_ns);
            if due_ns > now_ns {
                self.next = Some(message);
                // Messages that are closer together than packets can be are sent together.
                return Ok(Some(due_ns.max(now_ns + QUANTUM_NS)));
            }
            let appended = self.store.append(&message);
            appended.map_err(|error| Failure::running(error.to_string()))?;
            self.sent += 1;
        }
        Ok(Some(now_ns))
    }

    fn wait(&self, wait_ns: u64) {
        let mut descriptors = Vec::new();
        if let Some(socket) = self.lines.as_ref().and_then(Lines::request_socket) {
            descriptors.push(PollFd::new(socket, PollFlags::IN));
        }
        if let Some(servers) = &self.servers {
            servers.descriptors(&mut descriptors);
        }
        let wait = Duration::from_nanos(wait_ns).min(WAIT_MAX);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        };
        // A signal ends the wait early, which does no harm.
        let _ = poll(&mut descriptors, Some(&timeout));
    }

    fn report(&self) {
        println!("sent       {} messages", grouped(self.sent));
        if let Some(lines) = &self.lines {
            let lost: Vec<String> = lines.lost().into_iter().map(grouped).collect();
            println!(
                "packets    {} on each line; {} requests, {} answers",
                grouped(lines.packets),
                grouped(lines.requests_seen),
                grouped(lines.answers_sent)
            );
            println!(
                "faults     {} packets dropped by faults (each line, replies)",
                lost.join(", ")
            );
        }
        if let Some(servers) = &self.servers {
            println!("clients    {} connections", grouped(servers.connections));
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// The file's messages, read ahead by a thread.
struct Feed {
    messages: Receiver<Vec<Vec<u8>>>,
    batch: std::vec::IntoIter<Vec<u8>>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Feed {
    fn open(file: &Path) -> Result<Self, Failure> {
        let (sender, messages) = sync_channel(16);
        let path = file.to_owned();
        if file.as_os_str() != "-" {
            // Before anything is sent: an unreadable file is the likeliest mistake.
            Reader::open(file)?;
        }
        let thread = std::thread::spawn(move || {
            let mut reader = Reader::open(&path)?;
            let mut batch = Vec::with_capacity(BATCH_MESSAGES);
            let read = reader.read_all(|item| {
                batch.push(item.message.to_vec());
                if batch.len() < BATCH_MESSAGES {
                    return Ok(true);
                }
                Ok(sender.send(std::mem::take(&mut batch)).is_ok())
            });
            let _ = sender.send(batch);
            read
        });
        Ok(Self {
            messages,
            batch: Vec::new().into_iter(),
            thread: Some(thread),
        })
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(message) = self.batch.next() {
                return Ok(Some(message));
            }
            match self.messages.recv() {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(_) => {
                    let ended = self.thread.take().map(JoinHandle::join);
                    let failed = || Err(Failure::running("the reader failed"));
                    return match ended {
                        None => Ok(None),
                        Some(ended) => ended.unwrap_or_else(|_| failed()).map(|()| None),
                    };
                }
            }
        }
    }
}

/// Maximum number of messages taken before the sockets are polled.
const TURN_MESSAGES_MAX: usize = 2_048;
const BATCH_MESSAGES: usize = 4_096;
const QUANTUM_NS: u64 = 50_000;
/// Maximum delay until a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(50);
