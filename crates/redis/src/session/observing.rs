//! Records of a command's execution: its duration, and MONITOR.

use std::time::Instant;

use std::sync::atomic::Ordering;

use tidewire_keyspace::{Command, Flags};
use tidewire_resp::Arguments;

use super::{Call, State};
use crate::attention::Obstacles;
use crate::monitor::Giver;
use crate::parameters::{
    COMMANDLOG_LARGE_REPLY_MAX_LEN, COMMANDLOG_LARGE_REQUEST_MAX_LEN, COMMANDLOG_REPLY_LARGER_THAN,
    COMMANDLOG_REQUEST_LARGER_THAN, LATENCY_MONITOR_THRESHOLD, LATENCY_TRACKING,
    SLOWLOG_LOG_SLOWER_THAN, SLOWLOG_MAX_LEN, is_secret,
};
use crate::server::Server;
use crate::slowlog::{Slowlog, trimmed};
use crate::statistics::Slot;

/// A command under way whose time is taken.
pub(crate) struct Stopwatch<'h> {
    slot: &'h Slot,
    started: Option<Instant>,
}

impl<'h> Stopwatch<'h> {
    /// Looks at the clock if the call is one of those that are timed.
    #[inline]
    pub(crate) fn start(server: &'h Server, lane: usize, command: &'static Command) -> Self {
        let slot = server.statistics.of(lane, command);
        let timed = slot.is_timed() || server.attention.has(Obstacles::EVERY_TIMED);
        Stopwatch {
            slot,
            started: timed.then(Instant::now),
        }
    }

    /// Whether the call's time is taken.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        self.started.is_some()
    }

    /// The call was refused by its own command.
    pub(super) fn failed(&self) {
        self.slot.failed();
    }

    /// Counts the call, and how long it took, if that was taken. A call that resets the counts is
    /// counted after them.
    #[inline]
    pub(crate) fn stop(&self, server: &Server) -> Option<u64> {
        self.slot.called();
        let ns = self.started?.elapsed().as_nanos() as u64;
        let tracks = server.parameters.read(LATENCY_TRACKING);
        self.slot.took(ns, tracks);
        Some(ns)
    }
}

impl State {
    /// Notes how long a command took.
    #[inline]
    pub(super) fn note_time(
        &self,
        server: &Server,
        command: &'static Command,
        arguments: Arguments<'_>,
        ns: u64,
    ) {
        if ns >= server.parameters.slow_from_ns.load(Ordering::Relaxed) {
            let name = || self.client.labels.lock().name.clone();
            note_slow(server, command, arguments, ns, &self.client.address, name);
        }
    }

    /// Notes a command with a large request or reply, for COMMANDLOG.
    #[cold]
    pub(super) fn note_size(
        &self,
        server: &Server,
        command: &'static Command,
        arguments: Arguments<'_>,
        reply_bytes: u64,
    ) {
        if command.has(Flags::SKIP_SLOWLOG) {
            return;
        }
        let (parameters, logs) = (&server.parameters, &server.command_logs);
        let sizes = [
            (
                request_bytes(arguments),
                parameters.read(COMMANDLOG_REQUEST_LARGER_THAN),
                parameters.read(COMMANDLOG_LARGE_REQUEST_MAX_LEN),
                &logs.large_requests,
            ),
            (
                reply_bytes,
                parameters.read(COMMANDLOG_REPLY_LARGER_THAN),
                parameters.read(COMMANDLOG_LARGE_REPLY_MAX_LEN),
                &logs.large_replies,
            ),
        ];
        for (bytes, larger_than, length_max, log) in sizes {
            if u64::try_from(larger_than).is_ok_and(|larger_than| bytes >= larger_than) {
                let name = self.client.labels.lock().name.clone();
                let client = (&self.client.address[..], name);
                keep_command(log, length_max, bytes, (command, arguments), client);
            }
        }
    }

    /// Shows an executed command to the clients that run MONITOR.
    #[inline]
    pub(super) fn show(&self, call: &Call<'_>, command: &'static Command) {
        self.show_if(call, command, false);
    }

    /// Shows a script's call before what it calls.
    pub(super) fn show_script(&self, call: &Call<'_>, command: &'static Command) {
        self.show_if(call, command, true);
    }

    #[inline]
    fn show_if(&self, call: &Call<'_>, command: &'static Command, is_script: bool) {
        let server = call.server;
        if server.attention.has(Obstacles::MONITORED) {
            let giver = Giver::Client(&self.client.address);
            show(
                server,
                giver,
                self.database,
                command,
                call.arguments,
                is_script,
            );
        }
    }
}

/// A command of a script has been executed.
#[inline]
pub(super) fn show_called(
    server: &Server,
    database: usize,
    command: &'static Command,
    arguments: Arguments<'_>,
) {
    if server.attention.has(Obstacles::MONITORED) {
        show(server, Giver::Script, database, command, arguments, false);
    }
}

/// Does the same as [`State::note_time`] for a command that a script calls.
pub(super) fn note_called(
    server: &Server,
    command: &'static Command,
    arguments: Arguments<'_>,
    ns: u64,
) {
    if ns >= server.parameters.slow_from_ns.load(Ordering::Relaxed) {
        note_slow(server, command, arguments, ns, "?:0", String::new);
    }
}

#[cold]
fn show(
    server: &Server,
    giver: Giver<'_>,
    database: usize,
    command: &'static Command,
    arguments: Arguments<'_>,
    is_script: bool,
) {
    if command.has(Flags::ADMIN) || command.has(Flags::SKIP_MONITOR) != is_script {
        return;
    }
    let hidden = hidden(command, arguments);
    server.show_command(giver, database, arguments, |at| hidden.contains(&at));
}

#[cold]
pub(crate) fn note_slow(
    server: &Server,
    command: &'static Command,
    arguments: Arguments<'_>,
    ns: u64,
    address: &str,
    name: impl FnOnce() -> String,
) {
    let parameters = &server.parameters;
    let (us, ms) = (ns / 1_000, ns / 1_000_000);
    let latency_ms = parameters.read(LATENCY_MONITOR_THRESHOLD);
    if latency_ms != 0 && ms >= latency_ms {
        let event = match command.has(Flags::FAST) {
            true => "fast-command",
            false => "command",
        };
        let unix_s = tidewire_lane::unix_ns() / 1_000_000_000;
        server.slow_events.note(event, unix_s, ms);
    }
    let slow_us = parameters.read(SLOWLOG_LOG_SLOWER_THAN);
    let is_slow = slow_us >= 0 && us >= slow_us as u64;
    if is_slow && !command.has(Flags::SKIP_SLOWLOG) {
        let log = &server.command_logs.slow;
        let length_max = parameters.read(SLOWLOG_MAX_LEN);
        keep_command(log, length_max, us, (command, arguments), (address, name()));
    }
}

fn keep_command(
    log: &Slowlog,
    length_max: u64,
    measure: u64,
    (command, arguments): (&'static Command, Arguments<'_>),
    (address, name): (&str, String),
) {
    let hidden = hidden(command, arguments);
    let kept = trimmed(arguments, |at| hidden.contains(&at));
    let address = match address {
        "local" => "unix:",
        address => address,
    };
    log.push(length_max as usize, measure, kept, address.to_owned(), name);
}

/// Bytes of a request as RESP has it.
fn request_bytes(arguments: Arguments<'_>) -> u64 {
    let header = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 4;
    let words = arguments.iter();
    let bytes: usize = words.map(|word| header(word.len()) + word.len() + 2).sum();
    (header(arguments.len()) + bytes) as u64
}

/// Positions of passwords and the like.
fn hidden(command: &Command, arguments: Arguments<'_>) -> Vec<usize> {
    let count = arguments.len();
    match command.full_name {
        "auth" => (1..count).collect(),
        "hello" => {
            let is_auth = |at: &usize| arguments[*at].eq_ignore_ascii_case(b"AUTH");
            match (2..count).find(is_auth) {
                Some(at) => vec![at + 1, at + 2],
                None => Vec::new(),
            }
        }
        "migrate" => {
            let is_word = |at: usize, word: &[u8]| arguments[at].eq_ignore_ascii_case(word);
            let behind = |at: usize| match () {
                () if is_word(at, b"AUTH") => at + 1..at + 2,
                () if is_word(at, b"AUTH2") => at + 1..at + 3,
                () => at..at,
            };
            let behind = (6..count).flat_map(behind);
            behind.filter(|&at| at < count).collect()
        }
        "config|set" => (2..count)
            .step_by(2)
            .filter(|&at| is_secret(&arguments[at]))
            .map(|at| at + 1)
            .collect(),
        "acl|setuser" | "acl|getuser" | "acl|deluser" => (2..count).collect(),
        _ => Vec::new(),
    }
}
