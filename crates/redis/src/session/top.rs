//! TIDEWIRE.TOP: the hottest keys and channels.

use tidewire_keyspace::Command;
use tidewire_lane::Context;
use tidewire_resp::Arguments;
use tidewire_resp::number::parse_integer;

use super::{Call, State};
use crate::hot::{HotKind, SAMPLED_EVERY};
use crate::server::Server;

impl State {
    /// Samples one command in 16 and notes its first key.
    #[inline]
    pub(super) fn sample_key(
        &mut self,
        server: &Server,
        context: &Context,
        database: usize,
        command: &'static Command,
        arguments: Arguments<'_>,
    ) {
        if self.is_sampled() {
            let (lane, now_ns) = (context.lane(), context.now_ns());
            note_key(server, lane, now_ns, database, command, arguments);
        }
    }

    /// Samples the channel of a message in the same way.
    pub(super) fn sample_channel(&mut self, call: &Call<'_>, name: &[u8]) {
        if self.is_sampled() {
            let (lane, now_ns) = (call.context.lane(), call.context.now_ns());
            call.server.hot.note(lane, HotKind::Channel, name, now_ns);
        }
    }

    #[inline]
    pub(super) fn is_sampled(&mut self) -> bool {
        self.sampled = self.sampled.wrapping_add(1);
        self.sampled.is_multiple_of(SAMPLED_EVERY)
    }

    pub(super) fn top(&self, call: &mut Call<'_>) {
        let (mut kinds, mut count) = ([true, true], 10);
        let mut words = call.arguments.tail(1).iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"KEYS" => kinds = [true, false],
                b"CHANNELS" => kinds = [false, true],
                b"COUNT" => match words.next().and_then(parse_integer) {
                    Some(wanted @ 1..=COUNT_MAX) => count = wanted as usize,
                    _ => return self.refuse(call, "ERR COUNT must be between 1 and 1000"),
                },
                b"RESET" if call.arguments.len() == 2 => {
                    call.server.hot.reset(call.context.now_ns());
                    return self.reply(call.context, |reply| reply.ok());
                }
                b"HELP" if call.arguments.len() == 2 => return self.help(call, HELP),
                _ => return self.refuse(call, "ERR syntax error"),
            }
        }
        let now_ns = call.context.now_ns();
        let found: Vec<_> = [false, true]
            .into_iter()
            .zip(kinds)
            .filter(|(_, is_wanted)| *is_wanted)
            .flat_map(|(channels, _)| call.server.hot.top(channels, count, now_ns))
            .collect();
        self.reply(call.context, |reply| {
            reply.array(found.len());
            for hot in &found {
                reply.map(5);
                reply.bulk(b"kind");
                let (kind, database) = match hot.kind {
                    HotKind::Key(database) => ("key", database as i64),
                    HotKind::Channel => ("channel", -1),
                };
                reply.bulk(kind.as_bytes());
                reply.bulk(b"name");
                reply.bulk(&hot.name);
                reply.bulk(b"db");
                reply.integer(database);
                reply.bulk(b"rate");
                reply.double(hot.rate.round());
                reply.bulk(b"error");
                reply.double(hot.error.round());
            }
        });
    }
}

#[inline(never)]
pub(super) fn note_key(
    server: &Server,
    lane: usize,
    now_ns: u64,
    database: usize,
    command: &'static Command,
    arguments: Arguments<'_>,
) {
    if let Some(at) = command.key_positions(arguments).next() {
        let kind = HotKind::Key(database);
        server.hot.note(lane, kind, &arguments[at], now_ns);
    }
}

const COUNT_MAX: i64 = 1_000;

const HELP: &[&str] = &[
    "TIDEWIRE.TOP [KEYS|CHANNELS] [COUNT <count>] | RESET. Subcommands are:",
    "[KEYS|CHANNELS] [COUNT <count>]",
    "    Return the names that are used most, with their uses a second in the last seconds and",
    "    by how much these may be too high. One command in 16 is looked at.",
    "RESET",
    "    Begin anew.",
    "HELP",
    "    Print this help.",
];
