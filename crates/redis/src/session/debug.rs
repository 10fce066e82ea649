//! DEBUG: what tests of a Redis server ask of it.
//!
//! Much of it sets switches of Redis's own insides. Of those, a switch that only makes Redis test
//! itself replies OK and does nothing. A command that would crash the server is refused.

use std::time::Duration;

use tidewire_keyspace::debug_command;
use tidewire_resp::{Protocol, Writer};

use super::fixed;
use super::{Call, State};

use crate::parameters::ENABLE_DEBUG_COMMAND;

impl State {
    /// Whether DEBUG is allowed to this client.
    pub(super) fn may_debug(&self, call: &Call<'_>) -> bool {
        let parameters = &call.server.parameters;
        parameters.allows(ENABLE_DEBUG_COMMAND, self.client.is_local())
    }

    pub(super) fn debug(&mut self, call: &mut Call<'_>) {
        if !self.may_debug(call) {
            return self.refuse(call, fixed::DEBUG_NOT_ALLOWED);
        }
        let name = String::from_utf8_lossy(&call.arguments[1]).to_ascii_lowercase();
        if let Some(command) = debug_command(&name, call.arguments.len()) {
            return self.run_data(call, command);
        }
        match (name.as_str(), call.arguments.len()) {
            ("help", 2) => self.help(call, DEBUG_HELP),
            ("sleep", 3) => self.debug_sleep(call),
            ("set-active-expire", 3) => {
                let number = tidewire_resp::number::parse_integer(&call.arguments[2]);
                call.server
                    .keyspace
                    .set_active_expiry(number.unwrap_or(0) != 0);
                self.debug_done(call);
            }
            ("set-skip-checksum-validation", 3) => {
                let trusts = &call.arguments[2] != b"0";
                call.server.keyspace.set_payload_trust(trusts);
                self.debug_done(call);
            }
            ("set-disable-deny-scripts", 3) => {
                let allows_all = &call.arguments[2] == b"1";
                let switch = &call.server.scripting.allows_all;
                switch.store(allows_all, std::sync::atomic::Ordering::Relaxed);
                self.debug_done(call);
            }
            ("config-rewrite-force-all", 2) => self.config_rewrite(call, true),
            ("protocol", 3) => self.debug_protocol(call),
            ("error", 3) => {
                let text = String::from_utf8_lossy(&call.arguments[2]).into_owned();
                self.refuse(call, &text);
            }
            ("log", 3) => {
                let text = String::from_utf8_lossy(&call.arguments[2]);
                tracing::warn!("DEBUG LOG: {text}");
                self.debug_done(call);
            }
            ("reload", _) => self.debug_reload(call),
            ("quicklist-packed-threshold", 3) => self.debug_packed_threshold(call),
            ("stringmatch-len" | "stringmatch-test", _) => self.reply(call.context, |reply| {
                reply.simple("Apparently Redis did not crash: test passed");
            }),
            ("client-eviction", 2) => self.refuse(call, "ERR maxmemory-clients is disabled."),
            ("loadaof", 2) => self.debug_load_log(call),
            (name, count) if IGNORED.contains(&(name, count)) => self.debug_done(call),
            ("replybuffer", 4) => self.debug_reply_buffer(call),
            _ => self.refuse_debug(call),
        }
    }

    pub(super) fn debug_done(&self, call: &mut Call<'_>) {
        self.reply(call.context, |reply| reply.ok());
    }

    /// Sleeps with every lane, as Redis does with the whole server.
    fn debug_sleep(&self, call: &mut Call<'_>) {
        call.server.sleep_everywhere(sleep_of(&call.arguments[2]));
        self.debug_done(call);
    }

    /// List elements have one form at any length, so there is no threshold to set.
    fn debug_packed_threshold(&self, call: &mut Call<'_>) {
        let text = String::from_utf8_lossy(&call.arguments[2]);
        match crate::parameters::read_memory(&text) {
            Some(0..0xFFFF_FFFF) => self.debug_done(call),
            _ => self.refuse(call, PACKED_THRESHOLD),
        }
    }

    /// How long the most that a client's replies took is remembered.
    fn debug_reply_buffer(&self, call: &mut Call<'_>) {
        let value = &call.arguments[3];
        if call.arguments[2].eq_ignore_ascii_case(b"resizing") {
            // Replies have no buffer of a fixed size that could keep it.
            return self.debug_done(call);
        }
        let peak_ns = match tidewire_resp::number::parse_integer(value) {
            _ if !call.arguments[2].eq_ignore_ascii_case(b"peak-reset-time") => None,
            Some(ms @ 0..) => Some((ms as u64).saturating_mul(1_000_000)),
            _ if value.eq_ignore_ascii_case(b"never") => Some(u64::MAX),
            _ if value.eq_ignore_ascii_case(b"reset") => Some(crate::server::REPLY_PEAK_NS),
            _ => None,
        };
        let Some(peak_ns) = peak_ns else {
            return self.refuse_debug(call);
        };
        let own = &call.server.reply_peak_ns;
        own.store(peak_ns, std::sync::atomic::Ordering::Relaxed);
        self.debug_done(call);
    }

    fn debug_protocol(&self, call: &mut Call<'_>) {
        let kind = String::from_utf8_lossy(&call.arguments[2]).to_ascii_lowercase();
        if kind == "push" && self.protocol == Protocol::Resp2 {
            return self.refuse(call, "ERR RESP2 is not supported by this command");
        }
        let Some(write) = sample(&kind) else {
            return self.refuse(call, PROTOCOL_KINDS);
        };
        self.reply(call.context, write);
    }

    fn refuse_debug(&self, call: &mut Call<'_>) {
        let name = String::from_utf8_lossy(&call.arguments[1]).into_owned();
        let text = format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try DEBUG HELP.",
            name.chars().take(128).collect::<String>()
        );
        self.refuse(call, &text);
    }
}

/// A reply of the kind that DEBUG PROTOCOL names.
fn sample(kind: &str) -> Option<fn(&mut Writer<'_>)> {
    Some(match kind {
        "string" => |reply| reply.bulk(b"Hello World"),
        "integer" => |reply| reply.integer(12345),
        "double" => |reply| reply.double(SAMPLE_DOUBLE),
        "bignum" => |reply| reply.big_number(b"1234567999999999999999999999999999999"),
        "null" => |reply| reply.null(),
        "array" => |reply| {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        },
        "set" => |reply| {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        },
        "map" => |reply| {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        },
        "attrib" => |reply| {
            if reply.protocol() == Protocol::Resp3 {
                reply.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            reply.bulk(b"Some real reply following the attribute");
        },
        "push" => |reply| {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        },
        "verbatim" => |reply| reply.verbatim("txt", b"This is a verbatim\nstring"),
        "true" => |reply| reply.boolean(true),
        "false" => |reply| reply.boolean(false),
        _ => return None,
    })
}

/// Switches of Redis's insides that have no counterpart, with their number of arguments.
const IGNORED: &[(&str, usize)] = &[
    ("aof-flush-sleep", 3),
    ("change-repl-id", 2),
    ("dict-resizing", 3),
    ("leak", 3),
    ("pause-cron", 3),
];

/// What Redis replies, and is not more of pi than that.
#[allow(clippy::approx_constant, reason = "the digits are Redis's own")]
const SAMPLE_DOUBLE: f64 = 3.141;
/// How long DEBUG SLEEP sleeps: not at all for what is no time that has an end, as in Redis, whose
/// `nanosleep` refuses it.
fn sleep_of(text: &[u8]) -> Duration {
    let seconds = std::str::from_utf8(text).unwrap_or_default();
    let seconds: f64 = seconds.parse().unwrap_or(0.0);
    match (0.0..=SLEEP_SECONDS_SOUND).contains(&seconds) {
        true => Duration::from_secs_f64(seconds.min(SLEEP_SECONDS_MAX)),
        false => Duration::ZERO,
    }
}

/// The longest DEBUG SLEEP: an hour.
const SLEEP_SECONDS_MAX: f64 = 3600.0;
/// More are no number of microseconds that fits an integer.
const SLEEP_SECONDS_SOUND: f64 = 9.2e12;

const PACKED_THRESHOLD: &str =
    "ERR argument must be a memory value bigger than 1 and smaller than 4gb";
const PROTOCOL_KINDS: &str = "ERR Wrong protocol type name. Please use one of the following: \
                              string|integer|double|bignum|null|array|set|map|attrib|push|\
                              verbatim|true|false";

const DEBUG_HELP: &[&str] = &[
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANGE-REPL-ID",
    "    Nothing: there is no replication.",
    "DIGEST",
    "    Output a hex signature representing the current DB content.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Output a hex signature of the values of all the specified keys.",
    "ERROR <string>",
    "    Return a Redis protocol error with <string> as message.",
    "HTSTATS <dbid> [full]",
    "    Return hash table statistics of the specified Redis database.",
    "HTSTATS-KEY <key> [full]",
    "    Like HTSTATS but for the hash table stored at <key>'s value.",
    "LISTPACK <key>",
    "    Check that the value of <key> is one packed block.",
    "LOADAOF",
    "    Remove all keys and load the append-only file.",
    "LOG <message>",
    "    Write <message> to the server log.",
    "OBJECT <key>",
    "    Show low level info about <key> and associated value.",
    "PROTOCOL <type>",
    "    Reply with a test value of the specified type.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Nothing: elements have one form whatever their length.",
    "REPLYBUFFER PEAK-RESET-TIME <NEVER|RESET|<time>>",
    "    How long the most that a client's replies took is shown, in milliseconds.",
    "RELOAD [option ...]",
    "    Save the snapshot, remove all keys and load it. Valid options:",
    "    * MERGE: keys that are there already are replaced by those loaded.",
    "    * NOFLUSH: what is there stays.",
    "    * NOSAVE: what was saved before is loaded.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 disables expiring keys (and hash fields) in background.",
    "SLEEP <seconds>",
    "    Stop one event loop for <seconds>. Decimals allowed.",
    "STRINGMATCH-LEN",
    "    Nothing: patterns are tested when the server is built.",
    "HELP",
    "    Print this help.",
];
