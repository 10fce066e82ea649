//! CONFIG: the settings that clients and tools ask for.

use std::sync::atomic::Ordering;

use tidewire_keyspace::glob;

use super::{Call, State};
use crate::hub::Hub;

/// The Redis release whose behaviour clients may expect.
pub(crate) const REDIS_VERSION: &str = "8.0.0";

impl State {
    pub(super) fn config_get(&self, call: &mut Call<'_>) {
        let patterns: Vec<Vec<u8>> = call
            .arguments
            .tail(2)
            .iter()
            .map(<[u8]>::to_ascii_lowercase)
            .collect();
        let wanted = |name: &str| patterns.iter().any(|p| glob::matches(p, name.as_bytes()));
        let hub = call.hub;
        let found: Vec<_> = PARAMETERS.iter().filter(|(name, _)| wanted(name)).collect();
        self.reply(call.context, |reply| {
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name.as_bytes());
                reply.bulk(value.text(hub).as_bytes());
            }
        });
    }

    /// Nothing can be changed while running yet, but setting a parameter to the value that it has
    /// is what tools do to make sure of it.
    pub(super) fn config_set(&self, call: &mut Call<'_>) {
        let pairs = call.arguments.tail(2);
        if !pairs.len().is_multiple_of(2) {
            let text = "ERR wrong number of arguments for 'config|set' command";
            return self.refuse(call, text);
        }
        for index in (0..pairs.len()).step_by(2) {
            let name = String::from_utf8_lossy(&pairs[index]).to_lowercase();
            let Some((_, value)) = PARAMETERS.iter().find(|(known, _)| *known == name) else {
                let text =
                    format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
                return self.refuse(call, &text);
            };
            if value.text(call.hub).as_bytes() != &pairs[index + 1] {
                let text = format!(
                    "ERR CONFIG SET failed (possibly related to argument '{name}') - can't set \
                     immutable config"
                );
                return self.refuse(call, &text);
            }
        }
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn config_reset_stat(&self, call: &mut Call<'_>) {
        let hub = call.hub;
        hub.commands.store(0, Ordering::Relaxed);
        hub.command_errors.store(0, Ordering::Relaxed);
        hub.latency.reset();
        self.reply(call.context, |reply| reply.ok());
    }
}

/// Where a parameter's value comes from.
enum Value {
    Fixed(&'static str),
    Of(fn(&Hub) -> String),
}

impl Value {
    fn text(&self, hub: &Hub) -> String {
        match self {
            Value::Fixed(text) => (*text).to_owned(),
            Value::Of(value) => value(hub),
        }
    }
}

/// In the order of their names.
const PARAMETERS: &[(&str, Value)] = &[
    ("activedefrag", Value::Fixed("no")),
    ("appendfsync", Value::Fixed("everysec")),
    ("appendonly", Value::Fixed("no")),
    ("client-output-buffer-limit", Value::Of(output_limits)),
    (
        "databases",
        Value::Of(|_| tidewire_keyspace::DATABASES.to_string()),
    ),
    ("dir", Value::Of(working_directory)),
    ("hash-max-listpack-entries", Value::Fixed("512")),
    ("hash-max-listpack-value", Value::Fixed("64")),
    ("io-threads", Value::Of(|hub| hub.config.lanes.to_string())),
    ("live-prefixes", Value::Of(live_prefixes)),
    (
        "maxclients",
        Value::Of(|hub| hub.config.clients_max.to_string()),
    ),
    ("maxmemory", Value::Fixed("0")),
    ("maxmemory-policy", Value::Fixed("noeviction")),
    ("notify-keyspace-events", Value::Fixed("")),
    ("proto-max-bulk-len", Value::Fixed("536870912")),
    ("requirepass", Value::Fixed("")),
    ("save", Value::Fixed("")),
    ("tcp-backlog", Value::Fixed("511")),
    ("tcp-keepalive", Value::Fixed("300")),
    ("timeout", Value::Fixed("0")),
];

fn output_limits(hub: &Hub) -> String {
    let config = &hub.config;
    format!(
        "normal 0 0 0 slave 0 0 0 pubsub {} {} {}",
        config.pubsub_hard_bytes, config.pubsub_soft_bytes, config.pubsub_soft_seconds
    )
}

fn live_prefixes(hub: &Hub) -> String {
    let text = |prefix: &Vec<u8>| String::from_utf8_lossy(prefix).into_owned();
    hub.config
        .live_prefixes
        .iter()
        .map(text)
        .collect::<Vec<_>>()
        .join(" ")
}

fn working_directory(_: &Hub) -> String {
    std::env::current_dir()
        .map(|path| path.display().to_string())
        .unwrap_or_default()
}

pub(super) const CONFIG_HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern> [<pattern> ...]",
    "    Return parameters matching the glob-like <pattern>s and their values.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "SET <directive> <value>",
    "    Check that a parameter has a value; it can be changed only at the start.",
    "HELP",
    "    Print this help.",
];
