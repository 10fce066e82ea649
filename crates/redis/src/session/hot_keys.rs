//! HOTKEYS: the keys that take the most processor time and the most bytes.

use tidewire_keyspace::Command;
use tidewire_resp::number::parse_integer;
use tidewire_resp::{Arguments, Writer};

use super::{Call, State};
use crate::attention::Obstacles;
use crate::counters::cpu_seconds;
use crate::hot_keys::{Tracking, TrackingOptions};
use crate::server::Server;

impl State {
    pub(super) fn hot_keys_start(&self, call: &mut Call<'_>) {
        let (server, now_ms) = (call.server, call.now_ms());
        let is_active = server
            .hot_keys
            .look(now_ms)
            .is_some_and(|one| one.is_active);
        if is_active {
            return self.refuse(call, UNDER_WAY);
        }
        let options = match parse(call.arguments) {
            Ok(options) => options,
            Err(text) => return self.refuse(call, text),
        };
        let (attention, used_s) = (&server.attention, cpu_seconds());
        match server.hot_keys.start(attention, options, now_ms, used_s) {
            true => self.reply(call.context, |reply| reply.ok()),
            false => self.refuse(call, UNDER_WAY),
        }
    }

    pub(super) fn hot_keys_stop(&self, call: &mut Call<'_>) {
        let (server, now_ms) = (call.server, call.now_ms());
        let stopped = server.hot_keys.stop(&server.attention, now_ms);
        self.reply(call.context, |reply| match stopped {
            true => reply.ok(),
            false => reply.null(),
        });
    }

    pub(super) fn hot_keys_reset(&self, call: &mut Call<'_>) {
        match call.server.hot_keys.reset(call.now_ms()) {
            true => self.reply(call.context, |reply| reply.ok()),
            false => self.refuse(call, STOP_FIRST),
        }
    }

    pub(super) fn hot_keys_get(&self, call: &mut Call<'_>) {
        let now_ms = call.now_ms();
        let tracking = call.server.hot_keys.look(now_ms);
        self.reply(call.context, |reply| match &tracking {
            Some(tracking) => reply_tracking(reply, tracking, now_ms),
            None => reply.null(),
        });
    }

    /// Notes an executed command, while HOTKEYS tracks keys.
    #[inline]
    pub(super) fn note_hot(
        &self,
        server: &Server,
        command: &'static Command,
        arguments: Arguments<'_>,
        ns: u64,
        reply_bytes: usize,
    ) {
        let attention = &server.attention;
        if attention.has(Obstacles::HOT_KEYS) {
            let now_ms = (tidewire_lane::unix_ns() / 1_000_000) as i64;
            let hot_keys = &server.hot_keys;
            hot_keys.note(attention, command, arguments, ns, reply_bytes, now_ms);
        }
    }
}

fn parse(arguments: Arguments<'_>) -> Result<TrackingOptions, &'static str> {
    let word = |at: usize| arguments.get(at).unwrap_or_default();
    let is = |at: usize, name: &str| word(at).eq_ignore_ascii_case(name.as_bytes());
    let number = |at: usize, most: i64, error: &'static str| {
        let number = parse_integer(word(at)).filter(|number| (1..=most).contains(number));
        number.ok_or(error)
    };
    if arguments.len() < 4 || !is(2, "METRICS") {
        return Err("ERR METRICS parameter is required");
    }
    let metrics = number(3, 2, "ERR METRICS count must be > 0 and <= 2")? as usize;
    let mut options = TrackingOptions {
        by_time: false,
        by_bytes: false,
        count: 10,
        duration_ms: 0,
        sample: 1,
    };
    let end = arguments.len().min(4 + metrics);
    for at in 4..end {
        if is(at, "CPU") && std::mem::replace(&mut options.by_time, true) {
            return Err("ERR METRICS CPU defined more than once!");
        }
        if is(at, "NET") && std::mem::replace(&mut options.by_bytes, true) {
            return Err("ERR METRICS NET defined more than once!");
        }
    }
    if end < 4 + metrics {
        return Err("ERR METRICS count does not match number of metric types provided");
    }
    if !options.by_time && !options.by_bytes {
        return Err("ERR METRICS no valid metrics passed. Supported: CPU|NET");
    }
    let mut at = end;
    while at < arguments.len() {
        let has_value = at + 1 < arguments.len();
        if has_value && is(at, "COUNT") {
            let count = number(at + 1, 64, "ERR COUNT must be between 1 and 64")?;
            options.count = count as usize;
        } else if has_value && is(at, "DURATION") {
            let text = "ERR DURATION must be between 1 and 1000000";
            options.duration_ms = number(at + 1, 1_000_000, text)? * 1_000;
        } else if has_value && is(at, "SAMPLE") {
            let sample = number(at + 1, i32::MAX.into(), "ERR SAMPLE ratio must be positive")?;
            options.sample = sample as u64;
        } else if has_value && is(at, "SLOTS") {
            return Err("ERR SLOTS parameter cannot be used in non-cluster mode");
        } else {
            return Err("ERR syntax error");
        }
        at += 2;
    }
    Ok(options)
}

fn reply_tracking(reply: &mut Writer<'_>, tracking: &Tracking, now_ms: i64) {
    let options = &tracking.options;
    reply.array(1);
    reply.map(7 + 3 * usize::from(options.by_time) + 2 * usize::from(options.by_bytes));
    let mut pair = |name: &str, number: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    };
    pair("tracking-active", i64::from(tracking.is_active));
    pair("sample-ratio", options.sample as i64);
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(SLOT_MAX);
    let mut pair = |name: &str, number: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    };
    pair(
        "all-commands-all-slots-us",
        (tracking.time_ns / 1_000) as i64,
    );
    pair("net-bytes-all-commands-all-slots", tracking.bytes as i64);
    pair("collection-start-time-unix-ms", tracking.started_ms);
    pair("collection-duration-ms", tracking.ran_ms(now_ms));
    if options.by_time {
        let used = cpu_seconds();
        let used_ms = |at: usize| ((used[at] - tracking.processor_s[at]) * 1e3) as i64;
        pair("total-cpu-time-user-ms", used_ms(0));
        pair("total-cpu-time-sys-ms", used_ms(1));
    }
    if options.by_bytes {
        pair("total-net-bytes", tracking.traffic.total as i64);
    }
    if options.by_time {
        reply.bulk(b"by-cpu-time-us");
        reply_top(reply, &tracking.times.top(options.count, 1_000));
    }
    if options.by_bytes {
        reply.bulk(b"by-net-bytes");
        reply_top(reply, &tracking.traffic.top(options.count, 1));
    }
}

fn reply_top(reply: &mut Writer<'_>, top: &[(&[u8], u64)]) {
    reply.array(2 * top.len());
    for (key, sum) in top {
        reply.bulk(key);
        reply.integer(*sum as i64);
    }
}

/// There is no cluster mode: all slots are here.
const SLOT_MAX: i64 = 16_383;

const UNDER_WAY: &str = "ERR hotkey tracking session already in progress";
const STOP_FIRST: &str = "ERR hotkey tracking session in progress, stop tracking first";

pub(super) const HELP: &[&str] = &[
    "HOTKEYS <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "START <METRICS count [CPU] [NET]> [COUNT k] [DURATION duration] [SAMPLE ratio] \
     [SLOTS count slot...]",
    "    Track the keys that take the most of what METRICS names:",
    "    * CPU: processor time of their commands",
    "    * NET: bytes of their requests and replies",
    "    * COUNT k",
    "        Show so many keys, 1 to 64. Default: 10",
    "    * DURATION duration",
    "        Stop after so many seconds. Default: never",
    "    * SAMPLE ratio",
    "        Look at one command in so many. Default: 1",
    "    * SLOTS count slot...",
    "        Refused: there is no cluster mode.",
    "STOP",
    "    Stop tracking. GET still shows the result.",
    "GET",
    "    Show the result so far.",
    "RESET",
    "    Forget the result. Tracking must have been stopped.",
    "HELP",
    "    Print this help.",
];
