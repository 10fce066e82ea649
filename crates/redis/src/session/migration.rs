//! MIGRATE: the client waits while a thread moves its keys.

use std::time::Duration;

use tidewire_resp::number::parse_integer;

use super::blocking::{NOT_INTEGER, TimeoutReply};
use super::{Call, State};
use crate::replication::{Migration, parse_port};
use crate::waiting::Block;

impl State {
    pub(super) fn migrate(&mut self, call: &mut Call<'_>) {
        let migration = match self.read_migration(call) {
            Ok(migration) => migration,
            Err(text) => return self.refuse(call, text),
        };
        if !migration.finds_any(call.server) {
            return self.reply(call.context, |reply| reply.simple("NOKEY"));
        }
        let text = UNBLOCKED;
        let wait = self.begin_wait(call, Block::Time, None, TimeoutReply::Error(text));
        if migration.begin(call.server, wait).is_err() {
            let claimed = call
                .server
                .waiting
                .claim(self.client.id, &call.server.keyspace);
            if claimed.is_some() {
                call.waiting.remove(self.client.id);
                self.end_wait(call.context, |state, context| {
                    state.reply(context, |reply| {
                        reply.error("ERR there is no thread for it")
                    });
                });
            }
        }
    }

    fn read_migration(&self, call: &Call<'_>) -> Result<Migration, &'static str> {
        const SYNTAX: &str = "ERR syntax error";
        let arguments = call.arguments;
        let is = |at: usize, word: &str| arguments[at].eq_ignore_ascii_case(word.as_bytes());
        let mut migration = Migration {
            host: String::from_utf8_lossy(&arguments[1]).into_owned(),
            port: 0,
            database: self.database,
            to_database: 0,
            timeout: Duration::ZERO,
            copies: false,
            replaces: false,
            authentication: Vec::new(),
            keys: vec![arguments[3].to_vec()],
        };
        let mut at = 6;
        while at < arguments.len() {
            let words = match () {
                () if is(at, "AUTH") => 1,
                () if is(at, "AUTH2") => 2,
                () => 0,
            };
            if words > 0 {
                let given = (at + 1..=at + words).map(|at| arguments.get(at).map(<[u8]>::to_vec));
                migration.authentication = given.collect::<Option<_>>().ok_or(SYNTAX)?;
            } else if is(at, "COPY") {
                migration.copies = true;
            } else if is(at, "REPLACE") {
                migration.replaces = true;
            } else if is(at, "KEYS") {
                if !arguments[3].is_empty() {
                    return Err(BOTH);
                }
                migration.keys = arguments.tail(at + 1).iter().map(<[u8]>::to_vec).collect();
                break;
            } else {
                return Err(SYNTAX);
            }
            at += 1 + words;
        }
        let timeout_ms = parse_integer(&arguments[5]).ok_or(NOT_INTEGER)?;
        migration.to_database = parse_integer(&arguments[4]).ok_or(NOT_INTEGER)?;
        let timeout_ms = if timeout_ms <= 0 {
            TIMEOUT_MS
        } else {
            timeout_ms
        };
        migration.timeout = Duration::from_millis(timeout_ms.min(TIMEOUT_MS_MAX) as u64);
        migration.port = parse_port(&arguments[2]).ok_or(NO_PORT)?;
        match self.is_executing {
            true => Err(NOT_ALONE),
            false => Ok(migration),
        }
    }
}

const TIMEOUT_MS: i64 = 1_000;
/// A day: more is a mistake, and the clock cannot add it.
const TIMEOUT_MS_MAX: i64 = 86_400_000;
const BOTH: &str = "ERR When using MIGRATE KEYS option, the key argument must be set to the empty \
                    string";
const NO_PORT: &str = "IOERR error or timeout connecting to the client";
const NOT_ALONE: &str = "ERR MIGRATE waits for another server, so it cannot run inside a \
                         transaction or a script; call it alone";
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK; the keys are moved all the \
                         same";
