//! SUBSCRIBE and its relatives.

use std::sync::atomic::Ordering;

use super::{Call, State};
use crate::attention::Obstacles;
use tidewire_fanout::Kind;
use tidewire_fanout::Origin;

impl State {
    pub(super) fn subscribe(&mut self, call: &mut Call<'_>, kind: Kind) {
        let word = match kind {
            Kind::Shard => "ssubscribe",
            Kind::Channel => "subscribe",
            _ => "psubscribe",
        };
        if kind == Kind::Shard && self.is_executing {
            let text = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
            return self.refuse(call, text);
        }
        for name in call.arguments.tail(1).iter() {
            if call
                .fanout
                .subscribe(self.id, self.dialect(), kind, name)
                .is_err()
            {
                self.refuse(call, "ERR the server has its maximum of subscriptions");
                continue;
            }
            self.confirm(call, word, kind, Some(name));
        }
        self.count_subscriptions(call);
        if !self.is_executing {
            call.fanout.pump(call.context, self.id);
        }
    }

    pub(super) fn unsubscribe(&mut self, call: &mut Call<'_>, kind: Kind) {
        let word = match kind {
            Kind::Shard => "sunsubscribe",
            Kind::Channel => "unsubscribe",
            _ => "punsubscribe",
        };
        let named: Vec<Box<[u8]>> = match call.arguments.len() {
            1 => call.fanout.names(self.id, kind),
            _ => call.arguments.tail(1).iter().map(Box::from).collect(),
        };
        if named.is_empty() {
            self.confirm(call, word, kind, None);
        }
        for name in &named {
            call.fanout.unsubscribe(self.id, kind, name);
            self.confirm(call, word, kind, Some(name));
        }
        debug_assert!(
            call.arguments.len() > 1 || call.fanout.names(self.id, kind).is_empty(),
            "without a name every subscription of the kind ends"
        );
        self.count_subscriptions(call);
    }

    pub(super) fn publish(&mut self, call: &mut Call<'_>, origin: Origin) {
        // Messages that EXEC publishes to its own client follow its reply.
        let (name, payload) = (&call.arguments[1], &call.arguments[2]);
        // EXEC and scripts hold shards: they have asked before.
        if origin == Origin::Channel
            && !self.is_executing
            && let Some(text) = call.server.publish_refusal(name, None)
        {
            return self.refuse(call, text);
        }
        self.sample_channel(call, name);
        let lane = call.context.lane();
        let (own, receivers) =
            call.server
                .post
                .publish(lane, name, payload, origin, !self.is_executing);
        self.tell(call, true);
        self.reply(call.context, |reply| reply.integer(receivers as i64));
        if let Some(publication) = own {
            call.fanout.deliver(call.context, &publication);
        }
    }

    pub(super) fn pubsub_channels(&self, call: &mut Call<'_>, kind: Kind) {
        if call.arguments.len() > 3 {
            let part = String::from_utf8_lossy(&call.arguments[1]).into_owned();
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{part}'. Try PUBSUB HELP."
            );
            return self.refuse(call, &text);
        }
        let channels = call
            .server
            .post
            .subscriptions
            .channels(kind, call.arguments.get(2));
        self.reply(call.context, |reply| {
            reply.array(channels.len());
            channels.iter().for_each(|name| reply.bulk(name));
        });
    }

    pub(super) fn pubsub_num_pat(&self, call: &mut Call<'_>) {
        let count = call.server.post.subscriptions.pattern_count() as i64;
        self.reply(call.context, |reply| reply.integer(count));
    }

    pub(super) fn pubsub_num_sub(&self, call: &mut Call<'_>, kind: Kind) {
        let names = call.arguments.tail(2);
        let subscriptions = &call.server.post.subscriptions;
        self.reply(call.context, |reply| {
            // A flat array in RESP3 as well, as Redis has it.
            reply.array(2 * names.len());
            for name in names.iter() {
                reply.bulk(name);
                reply.integer(subscriptions.channel_subscribers(kind, name) as i64);
            }
        });
    }

    /// Copies the numbers that CLIENT LIST shows.
    pub(super) fn count_subscriptions(&mut self, call: &Call<'_>) {
        let [channels, patterns, shard_channels] = call.fanout.counts(self.id);
        self.client
            .shard_channels
            .store(shard_channels as u32, Ordering::Relaxed);
        self.client
            .channels
            .store(channels as u32, Ordering::Relaxed);
        self.client
            .patterns
            .store(patterns as u32, Ordering::Relaxed);
        let is_subscriber = self.client.is_subscriber();
        self.own.set(Obstacles::SUBSCRIBER, is_subscriber);
    }

    fn confirm(&self, call: &mut Call<'_>, word: &str, kind: Kind, name: Option<&[u8]>) {
        let [channels, patterns, shard_channels] = call.fanout.counts(self.id);
        let count = match kind {
            Kind::Shard => shard_channels as i64,
            _ => (channels + patterns) as i64,
        };
        self.send(call.context, |reply| {
            reply.push(3);
            reply.bulk(word.as_bytes());
            match name {
                Some(name) => reply.bulk(name),
                None => reply.null(),
            }
            reply.integer(count);
        });
    }
}

pub(super) const PUBSUB_HELP: &[&str] = &[
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Print this help.",
];
