//! SLOWLOG and LATENCY.

use tidewire_resp::number::parse_integer;

use super::{Call, State};
use crate::parameters::LATENCY_MONITOR_THRESHOLD;
use crate::slow_events::Series;
use crate::slowlog::{SlowCommand, Slowlog};
use tidewire_lane::unix_ns;

impl State {
    pub(super) fn slowlog_get(&self, call: &mut Call<'_>) {
        let count = match call.arguments.get(2).map(parse_integer) {
            None => 10,
            Some(Some(-1)) => usize::MAX,
            Some(Some(count @ 0..)) => count as usize,
            Some(_) => {
                return self.refuse(call, SMALL_COUNT);
            }
        };
        if call.arguments.len() > 3 {
            let text = "ERR unknown subcommand or wrong number of arguments for 'GET'. \
                        Try SLOWLOG HELP.";
            return self.refuse(call, text);
        }
        let entries = call.server.command_logs.slow.newest(count);
        self.reply_commands(call, &entries);
    }

    fn reply_commands(&self, call: &mut Call<'_>, entries: &[SlowCommand]) {
        self.reply(call.context, |reply| {
            reply.array(entries.len());
            for entry in entries {
                reply.array(6);
                reply.integer(entry.id as i64);
                reply.integer(entry.unix_s as i64);
                reply.integer(entry.measure as i64);
                reply.array(entry.arguments.len());
                entry.arguments.iter().for_each(|word| reply.bulk(word));
                reply.bulk(entry.address.as_bytes());
                reply.bulk(entry.name.as_bytes());
            }
        });
    }

    pub(super) fn slowlog_len(&self, call: &mut Call<'_>) {
        let length = call.server.command_logs.slow.len() as i64;
        self.reply(call.context, |reply| reply.integer(length));
    }

    pub(super) fn slowlog_reset(&self, call: &mut Call<'_>) {
        call.server.command_logs.slow.reset();
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn commandlog_get(&self, call: &mut Call<'_>) {
        let count = match parse_integer(&call.arguments[2]) {
            Some(-1) => usize::MAX,
            Some(count @ 0..) => count as usize,
            Some(_) => return self.refuse(call, SMALL_COUNT),
            None => return self.refuse(call, "ERR value is not an integer or out of range"),
        };
        match log_of(call, 3) {
            Some(log) => {
                let entries = log.newest(count);
                self.reply_commands(call, &entries);
            }
            None => self.refuse(call, UNKNOWN_LOG),
        }
    }

    pub(super) fn commandlog_len(&self, call: &mut Call<'_>) {
        match log_of(call, 2) {
            Some(log) => {
                let length = log.len() as i64;
                self.reply(call.context, |reply| reply.integer(length));
            }
            None => self.refuse(call, UNKNOWN_LOG),
        }
    }

    pub(super) fn commandlog_reset(&self, call: &mut Call<'_>) {
        match log_of(call, 2) {
            Some(log) => {
                log.reset();
                self.reply(call.context, |reply| reply.ok());
            }
            None => self.refuse(call, UNKNOWN_LOG),
        }
    }

    pub(super) fn latency_latest(&self, call: &mut Call<'_>) {
        let events = call.server.slow_events.all();
        self.reply(call.context, |reply| {
            reply.array(events.len());
            for (event, series) in &events {
                let (unix_s, ms) = series.samples.last().copied().unwrap_or_default();
                reply.array(4);
                reply.bulk(event.as_bytes());
                reply.integer(unix_s as i64);
                reply.integer(ms as i64);
                reply.integer(series.longest_ms as i64);
            }
        });
    }

    pub(super) fn latency_history(&self, call: &mut Call<'_>) {
        let found = call.server.slow_events.find(&call.arguments[2]);
        let samples = found.map_or(Vec::new(), |(_, series)| series.samples);
        self.reply(call.context, |reply| {
            reply.array(samples.len());
            for (unix_s, ms) in &samples {
                reply.array(2);
                reply.integer(*unix_s as i64);
                reply.integer(*ms as i64);
            }
        });
    }

    pub(super) fn latency_reset(&self, call: &mut Call<'_>) {
        let events: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let count = call.server.slow_events.reset(&events) as i64;
        self.reply(call.context, |reply| reply.integer(count));
    }

    pub(super) fn latency_graph(&self, call: &mut Call<'_>) {
        match call.server.slow_events.find(&call.arguments[2]) {
            Some((event, series)) => {
                let text = series.graph(event, unix_ns() / 1_000_000_000);
                self.text(call, &text);
            }
            None => {
                let event = String::from_utf8_lossy(&call.arguments[2]).into_owned();
                let text = format!("ERR No samples available for event '{event}'");
                self.refuse(call, &text);
            }
        }
    }

    pub(super) fn latency_doctor(&self, call: &mut Call<'_>) {
        let events = call.server.slow_events.all();
        let parameters = &call.server.parameters;
        let threshold_ms = parameters.read(LATENCY_MONITOR_THRESHOLD);
        let text = doctor(&events, threshold_ms, unix_ns() / 1_000_000_000);
        self.text(call, &text);
    }

    /// How long commands took, by name; a container's name stands for its subcommands.
    pub(super) fn latency_histogram(&self, call: &mut Call<'_>) {
        let names: Vec<String> = call
            .arguments
            .tail(2)
            .iter()
            .map(|name| String::from_utf8_lossy(name).to_ascii_lowercase())
            .collect();
        let is_wanted = |full_name: &str| {
            let container = full_name.split('|').next().unwrap_or_default();
            names.is_empty()
                || names
                    .iter()
                    .any(|name| name == full_name || name == container)
        };
        let counts: Vec<_> = call
            .server
            .statistics
            .commands()
            .into_iter()
            .filter(|(name, counts)| counts.calls > 0 && is_wanted(name))
            .collect();
        self.reply(call.context, |reply| {
            reply.map(counts.len());
            for (name, counts) in &counts {
                reply.bulk(name.as_bytes());
                reply.map(2);
                reply.bulk(b"calls");
                reply.integer(counts.calls as i64);
                reply.bulk(b"histogram_usec");
                let rows = counts.cumulated();
                reply.map(rows.len());
                for (limit_us, count) in rows {
                    reply.integer(limit_us as i64);
                    reply.integer(count as i64);
                }
            }
        });
    }
}

/// The log that an argument of COMMANDLOG names.
fn log_of<'h>(call: &Call<'h>, at: usize) -> Option<&'h Slowlog> {
    let logs = &call.server.command_logs;
    let is = |name: &str| call.arguments[at].eq_ignore_ascii_case(name.as_bytes());
    match () {
        () if is("slow") => Some(&logs.slow),
        () if is("large-request") => Some(&logs.large_requests),
        () if is("large-reply") => Some(&logs.large_replies),
        () => None,
    }
}

/// The report of LATENCY DOCTOR.
fn doctor(events: &[(&'static str, Series)], threshold_ms: u64, now_s: u64) -> String {
    if threshold_ms == 0 && events.is_empty() {
        return DISABLED.to_owned();
    }
    if events.is_empty() {
        return format!("No latency spike was observed above {threshold_ms} ms.\n");
    }
    let mut text = String::from("Latency spikes, by event:\n\n");
    for (number, (event, series)) in events.iter().enumerate() {
        text += &format!("{}. ", number + 1);
        series.report(event, now_s, &mut text);
    }
    text.push_str("\nWhat may help:\n\n");
    for (event, _) in events {
        text.push_str(match *event {
            "command" | "fast-command" => ADVICE_COMMAND,
            "expire-cycle" => ADVICE_EXPIRY,
            _ => continue,
        });
    }
    text
}

const DISABLED: &str = "Latency monitoring is disabled in this server. Set \
                        latency-monitor-threshold to a number of milliseconds to enable it: \
                        CONFIG SET latency-monitor-threshold <milliseconds>.\n";
const ADVICE_COMMAND: &str = "- Look at SLOWLOG GET for the commands that are slow, and at their complexity. Collections \
     of many elements are slow to read whole.\n";
const ADVICE_EXPIRY: &str =
    "- Large values that expire are freed at once: spread their deadlines, or make them smaller.\n";

pub(super) const LATENCY_HELP: &[&str] = &[
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the \
     specified command names.",
    "    If no commands are specified then all histograms are replied.",
    "HELP",
    "    Print this help.",
];

const SMALL_COUNT: &str = "ERR count should be greater than or equal to -1";
const UNKNOWN_LOG: &str =
    "ERR type should be one of the following: slow, large-request, large-reply";

pub(super) const COMMANDLOG_HELP: &[&str] = &[
    "COMMANDLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <count> <type>",
    "    Return top <count> entries of a log (-1 mean all): slow, large-request, large-reply.",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds or size in bytes, arguments array,",
    "    client IP and port, client name",
    "LEN <type>",
    "    Return the length of a log.",
    "RESET <type>",
    "    Reset a log.",
    "HELP",
    "    Print this help.",
];

pub(super) const SLOWLOG_HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    "HELP",
    "    Print this help.",
];
