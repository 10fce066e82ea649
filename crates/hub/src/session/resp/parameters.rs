//! CONFIG.

use super::{Call, State};
use crate::hub::Mail;

/// The Redis release whose behaviour clients may expect.
pub(crate) const REDIS_VERSION: &str = "8.0.6";

impl State {
    pub(super) fn config_get(&self, call: &mut Call<'_>) {
        let patterns: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let found = call.hub.parameters.find(&patterns);
        self.reply(call.context, |reply| {
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(&name);
                reply.bulk(&value);
            }
        });
    }

    pub(super) fn config_set(&self, call: &mut Call<'_>) {
        let words: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let (pairs, []) = words.as_chunks::<2>() else {
            return self.refuse(call, "ERR syntax error");
        };
        let pairs: Vec<_> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
        let hub = call.hub;
        match hub
            .parameters
            .set(&hub.keyspace, &pairs, self.client.is_local())
        {
            Ok(()) => {
                // A lane that sleeps must learn that its clients are limited from now on.
                for lane in 0..hub.config.lanes {
                    hub.mailboxes()[lane].send(Mail::FeedAdvanced);
                }
                self.reply(call.context, |reply| reply.ok());
            }
            Err(text) => self.refuse(call, &text),
        }
    }

    pub(super) fn config_reset_stat(&self, call: &mut Call<'_>) {
        call.hub.reset_statistics();
        self.reply(call.context, |reply| reply.ok());
    }

    /// Settings are given when the server starts, and no file is written back.
    pub(super) fn config_rewrite(&self, call: &mut Call<'_>) {
        self.refuse(call, "ERR The server is running without a config file");
    }
}

pub(super) const CONFIG_HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
    "HELP",
    "    Print this help.",
];
