//! Redis commands of a page. They go through a connection of the same lane to a Redis session, so
//! that rights, gates, logs and waits are those of every Redis client.

use std::collections::VecDeque;

use tidewire_keyspace::{Flags, lookup};
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tidewire_resp::{Progress, ReplyKind, ReplyParser, decode, write_request};

use super::Around;
use super::reply::{write_answer, write_error};
use crate::port;
use tidewire_redis::{Identity, Relay};

/// The connection to a page's Redis session, and the commands that have no reply yet.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Both ends, ours first, once there are any.
    ends: Option<[ConnectionId; 2]>,
    waiting: Waiting,
    parser: ReplyParser,
    /// Whether replies wait until the page has read.
    is_held: bool,
}

/// Commands that have no reply yet, in order. The page's Redis session executes the next one when
/// the replies in front of it are with the page or small ([`Relay`]).
#[derive(Debug, Default)]
struct Waiting {
    /// The number of each request, and the bytes of its command.
    commands: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.commands.len() >= CALLS_MAX || self.bytes >= CALLS_BYTES_MAX
    }

    fn push(&mut self, number: u64, bytes: usize) {
        self.commands.push_back((number, bytes));
        self.bytes += bytes;
    }

    fn pop(&mut self) -> Option<u64> {
        let (number, bytes) = self.commands.pop_front()?;
        debug_assert!(bytes <= self.bytes, "each command that waits is counted");
        self.bytes -= bytes;
        Some(number)
    }
}

impl Calls {
    /// Returns whether the page has as many commands under way as it may.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Sends a command. An error is a code and a text.
    pub(super) fn send(
        &mut self,
        around: &mut Around<'_>,
        (owner, identity): (ConnectionId, &Identity),
        number: u64,
        command: &[Vec<u8>],
    ) -> Result<(), (&'static str, String)> {
        if let Some(text) = refusal(command) {
            return Err(("NOTHERE", text));
        }
        let [near, _] = match self.ends {
            Some(ends) => ends,
            None => self.open(around, owner, identity)?,
        };
        let Some(out) = around.context.out(near) else {
            return Err(("UNKNOWN", ENDED.to_owned()));
        };
        let before = out.buffer().len();
        write_request(out.buffer(), command);
        self.waiting.push(number, out.buffer().len() - before);
        Ok(())
    }

    fn open(
        &mut self,
        around: &mut Around<'_>,
        owner: ConnectionId,
        identity: &Identity,
    ) -> Result<[ConnectionId; 2], (&'static str, String)> {
        let Some(user) = identity.user() else {
            return Err(("NOAUTH", "Authentication required.".to_owned()));
        };
        let ports = [port::WEB_CALLS, tidewire_redis::RESP_PORT];
        let pair = around.context.pair(ports);
        let ends @ [near, far] =
            pair.map_err(|error| ("LIMIT", format!("no connection: {error}")))?;
        let local = around.context.local_address(owner);
        let local = local.map_or_else(String::new, |local| local.to_string());
        let places = (identity.address().to_owned(), local);
        let relay = Relay { near, peer: owner };
        around
            .lane
            .accept_for(around.context, (far, relay), places, user.clone());
        around.opened.push((near, owner));
        self.ends = Some(ends);
        Ok(ends)
    }

    /// Takes replies. `out` gets the answers. Returns the number of bytes used.
    pub(super) fn receive(
        &mut self,
        context: &mut Context,
        owner: ConnectionId,
        input: &[u8],
        out: &mut impl FnMut(&mut Context, &[u8]),
    ) -> usize {
        let consumed = self.take(context, owner, input, out);
        if consumed == input.len() {
            // Not a part of a reply is here: the page has all, or soon will have.
            self.go_on(context);
        }
        consumed
    }

    fn take(
        &mut self,
        context: &mut Context,
        owner: ConnectionId,
        input: &[u8],
        out: &mut impl FnMut(&mut Context, &[u8]),
    ) -> usize {
        let (mut consumed, mut json) = (0, Vec::new());
        while consumed < input.len() {
            let Some([near, _]) = self.ends else {
                return input.len();
            };
            if context.out_bytes(owner) > super::UNREAD_BYTES_MAX {
                self.is_held = true;
                context.hold(near);
                context.watch_drain(owner);
                break;
            }
            let rest = &input[consumed..];
            let value = match self.parser.skip(rest) {
                Ok(Progress::Complete { .. }) if self.parser.kind() == ReplyKind::Push => {
                    // The command was one that is not for pages, under another name.
                    self.end(context, ("NOTHERE", NOT_ONE_REPLY), out);
                    return input.len();
                }
                Ok(Progress::Complete { consumed: count }) => {
                    consumed += count;
                    decode(&rest[..count]).ok().flatten()
                }
                Ok(Progress::Incomplete { .. }) if rest.len() > REPLY_BYTES_MAX => {
                    self.end(context, ("LIMIT", TOO_LONG), out);
                    return input.len();
                }
                Ok(Progress::Incomplete { .. }) => break,
                Err(_) => None,
            };
            let Some((value, _)) = value else {
                self.end(context, ("UNKNOWN", ENDED), out);
                return input.len();
            };
            if let Some(number) = self.waiting.pop() {
                json.clear();
                write_answer(number, &value, &mut json);
                out(context, &json);
            }
        }
        consumed
    }

    /// Continues after the page has read.
    pub(super) fn drained(&mut self, context: &mut Context) {
        if std::mem::take(&mut self.is_held)
            && let Some([near, _]) = self.ends
        {
            context.release(near);
        }
        self.go_on(context);
    }

    /// Lets the page's Redis session look whether it may execute the next command.
    fn go_on(&self, context: &mut Context) {
        if let Some([_, far]) = self.ends {
            context.resume(far);
        }
    }

    /// Ends the connection: commands without a reply have an unknown end.
    pub(super) fn end(
        &mut self,
        context: &mut Context,
        (code, text): (&str, &str),
        out: &mut impl FnMut(&mut Context, &[u8]),
    ) {
        if let Some([near, _]) = self.ends.take() {
            context.close(near, CloseReason::Requested);
        }
        self.parser = ReplyParser::default();
        self.is_held = false;
        for (number, _) in std::mem::take(&mut self.waiting).commands {
            let mut json = Vec::new();
            write_error(number, code.as_bytes(), text.as_bytes(), &mut json);
            out(context, &json);
        }
    }

    /// The connection has ended from the other side.
    pub(super) fn ended(
        &mut self,
        context: &mut Context,
        near: ConnectionId,
        out: &mut impl FnMut(&mut Context, &[u8]),
    ) {
        if self.ends.is_some_and(|[own, _]| own == near) {
            self.ends = None;
            self.end(context, ("UNKNOWN", ENDED), out);
        }
    }
}

/// Returns why a command is not for pages: it has no reply of its own, several, or changes what
/// later requests mean.
fn refusal(command: &[Vec<u8>]) -> Option<String> {
    let name = command.first()?.to_ascii_lowercase();
    let is_word = |word: &str, at: usize| {
        let part = command.get(at);
        part.is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    let is_refused = match &name[..] {
        b"xread" | b"xreadgroup" => (1..command.len()).any(|at| is_word("block", at)),
        b"client" => ["reply", "tracking", "caching"]
            .iter()
            .any(|word| is_word(word, 1)),
        b"script" => is_word("debug", 1),
        name if NOT_FOR_PAGES.iter().any(|known| known.as_bytes() == name) => true,
        name => lookup(name).is_some_and(|command| command.has(Flags::BLOCKING)),
    };
    let name = String::from_utf8_lossy(&name).to_uppercase();
    is_refused.then(|| format!("{name} is not for web pages: use a Redis client"))
}

/// Commands that are refused beside those that block.
const NOT_FOR_PAGES: &[&str] = &[
    "asking",
    "auth",
    "discard",
    "exec",
    "hello",
    "monitor",
    "multi",
    "psubscribe",
    "psync",
    "punsubscribe",
    "quit",
    "readonly",
    "readwrite",
    "replconf",
    "reset",
    "select",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "sync",
    "unsubscribe",
    "unwatch",
    "wait",
    "waitaof",
    "watch",
];
/// Commands of one page without a reply, and their bytes, above which the page is not read.
const CALLS_MAX: usize = 64;
const CALLS_BYTES_MAX: usize = 256 << 10;
/// Longest reply, in bytes.
const REPLY_BYTES_MAX: usize = 16 << 20;
const ENDED: &str = "the connection for commands has ended; the command may have been executed";
const TOO_LONG: &str = "the reply is longer than 16 MiB: ask for less at a time";
const NOT_ONE_REPLY: &str = "a command without a reply of its own: use a Redis client";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_without_one_reply_are_not_for_pages() {
        for (command, is_refused) in [
            (&["get", "a"][..], false),
            (&["SUBSCRIBE", "a"], true),
            (&["MULTI"], true),
            (&["BLPOP", "a", "0"], true),
            (&["xread", "STREAMS", "a", "0"], false),
            (&["XREAD", "BLOCK", "0", "STREAMS", "a", "0"], true),
            (&["client", "list"], false),
            (&["CLIENT", "Reply", "off"], true),
            (&["unknown"], false),
        ] {
            let words: Vec<Vec<u8>> = command
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect();
            assert_eq!(refusal(&words).is_some(), is_refused, "{command:?}");
        }
    }
}
