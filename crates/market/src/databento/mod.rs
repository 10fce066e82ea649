//! A session of the Databento Live gateway: challenge, subscriptions, then records.
//!
//! `docs/databento.md` describes the source of each schema.

mod bars;
mod chains;
mod depth;
mod had;
mod intervals;
mod missed;
mod pages;
mod past;
mod selection;
mod stream;
mod untimed;

use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidewire_dbn::databento::{
    Authentication, Compressor, Names, Request, RequestError, Subscription, error_code, next_line,
    system_code,
};
use tidewire_feed::server::Readable;
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tracing::debug;

use crate::access::{FeedUser, Look};
use crate::market::Market;
use std::sync::atomic::{AtomicU64, Ordering};
use stream::Stream;
use tidewire_retry::note_failed_login;

/// Counters of the gateway since the start.
#[derive(Debug, Default)]
pub struct DatabentoCounters {
    /// Clients connected now.
    pub clients: AtomicU64,
    /// Records sent.
    pub records: AtomicU64,
    /// Messages skipped because clients were too slow.
    pub skipped: AtomicU64,
    /// Clients with a wrong key, or above the limit of clients.
    pub refused: AtomicU64,
    /// Parts of recordings sent in replays.
    pub parts: AtomicU64,
    /// Clients that have more to send than one turn of their lane allows.
    pub unfinished: AtomicU64,
}

/// One client.
#[derive(Debug)]
pub struct DatabentoSession {
    id: ConnectionId,
    address: String,
    phase: Phase,
    challenge: String,
    /// When a client that has not proved its key is disconnected, monotonic ns.
    patience_until_ns: u64,
    dataset: String,
    /// Idle time after which a heartbeat is sent.
    heartbeat_ns: u64,
    /// Time of the last output, monotonic ns.
    said_ns: u64,
    stream: Stream,
    /// Whether the last turn ended before everything was sent that could be.
    is_unfinished: bool,
    /// Whether the rest of the input waits for the next turn.
    is_held: bool,
    /// With `compression=zstd`, compresses all output after the start.
    packer: Option<Packer>,
    /// The user that clients with the key are, if they are one.
    user: Option<Box<dyn FeedUser>>,
}

/// Records that are being compressed.
#[derive(Debug)]
struct Packer {
    compressor: Compressor,
    plain: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The challenge has not been answered yet.
    Challenged,
    /// Subscriptions are accepted; records have not started.
    Accepted,
    /// Records are being sent; subscriptions are still accepted.
    Started,
}

impl DatabentoSession {
    /// Greets a client, of which `user` tells what it may read. Returns `None` if the limit of
    /// clients is reached; the client has been notified.
    pub fn new(
        market: &Market,
        context: &mut Context,
        (id, address): (ConnectionId, String),
        user: Option<(Box<dyn FeedUser>, Readable)>,
    ) -> Option<Self> {
        let clients = market.databento.clients.fetch_add(1, Ordering::Relaxed) + 1;
        let mut random = [0; 16];
        // Without random numbers there is no challenge, and no client can log in.
        let is_open = getrandom::fill(&mut random).is_ok() && clients <= CLIENTS_MAX;
        if !is_open {
            market.databento.clients.fetch_sub(1, Ordering::Relaxed);
            market.databento.refused.fetch_add(1, Ordering::Relaxed);
            say(context, id, "success=0|error=too many clients\n");
            context.close_after_flush(id, CloseReason::Requested);
            return None;
        }
        let challenge = hexadecimal(&random);
        let version = env!("CARGO_PKG_VERSION");
        say(
            context,
            id,
            &format!("lsg_version=tidewire-{version}\ncram={challenge}\n"),
        );
        let (user, readable) = user.map_or((None, None), |(user, readable)| (Some(user), readable));
        let mut stream = Stream::default();
        stream.restrict(readable);
        Some(Self {
            id,
            address,
            user,
            phase: Phase::Challenged,
            challenge,
            patience_until_ns: context.now_ns() + PATIENCE_NS,
            dataset: String::new(),
            heartbeat_ns: HEARTBEAT_S * 1_000_000_000,
            said_ns: context.now_ns(),
            stream,
            is_unfinished: false,
            is_held: false,
            packer: None,
        })
    }

    /// Ends the connection if its user's rights have changed: it begins again with the new ones.
    pub fn users_changed(&mut self, context: &mut Context) {
        let look = self.user.as_mut().map_or(Look::Same, |user| user.look());
        if !matches!(look, Look::Same) {
            context.close(self.id, CloseReason::Requested);
        }
    }

    /// Handles the client's input. Returns the number of bytes used.
    pub fn received(&mut self, market: &Arc<Market>, context: &mut Context, input: &[u8]) -> usize {
        let (mut used, before) = (0, self.stream.symbols_named());
        loop {
            if self.stream.symbols_named() - before >= NAMES_A_TURN {
                context.hold(self.id);
                self.is_held = true;
                break;
            }
            let taken = match next_line(&input[used..]) {
                Ok(None) => break,
                Ok(Some(line)) => {
                    used += line.length;
                    debug_assert!(used <= input.len(), "a line is part of the input");
                    Request::parse(line.text).and_then(|request| match request {
                        Request::Authenticate(auth) => {
                            Ok(self.authenticate(market, context, &auth))
                        }
                        Request::Subscribe(wanted) => Ok(self.subscribe(market, &wanted)),
                        Request::Unsubscribe(ended) => Ok(self.unsubscribe(market, &ended)),
                        Request::Start => Ok(self.start(market, context)),
                        _ => Err(RequestError::Unknown),
                    })
                }
                Err(error) => {
                    used = input.len();
                    Err(error)
                }
            };
            let (goes_on, reason) = match taken {
                Ok(goes_on) => (goes_on, "Authentication failed.".to_owned()),
                Err(error) => (self.refuse(&error), error.to_string()),
            };
            if !goes_on {
                market.databento.refused.fetch_add(1, Ordering::Relaxed);
                self.say_end(context, &reason);
                context.close_after_flush(self.id, CloseReason::Requested);
                return input.len();
            }
        }
        self.produce_later(market);
        used
    }

    /// Lets the lane call [`DatabentoSession::produce`] in this turn, or in a later one if other
    /// clients are first.
    fn produce_later(&mut self, market: &Market) {
        self.set_unfinished(market, self.phase == Phase::Started || self.is_held);
    }

    /// Sends what is due, as far as the outbox has room and the lane has time. The rest is sent in
    /// the next turn.
    pub fn produce(&mut self, market: &Market, context: &mut Context) {
        let was_held = std::mem::take(&mut self.is_held);
        if was_held {
            context.release(self.id);
        }
        let more = self.phase == Phase::Started && self.produce_slices(market, context);
        let is_unfinished = more || was_held;
        self.set_unfinished(market, is_unfinished);
    }

    fn set_unfinished(&mut self, market: &Market, is_unfinished: bool) {
        if std::mem::replace(&mut self.is_unfinished, is_unfinished) != is_unfinished {
            let unfinished = &market.databento.unfinished;
            match is_unfinished {
                true => unfinished.fetch_add(1, Ordering::Relaxed),
                false => unfinished.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }

    /// Returns whether the client has more to send than its last turn allowed.
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    fn produce_slices(&mut self, market: &Market, context: &mut Context) -> bool {
        let (now_ns, unix_ns) = (context.now_ns(), context.unix_ns());
        for _ in 0..SLICES_A_TURN {
            if context.out_bytes(self.id) > market.post.config.conflate_bytes {
                self.stream.fall_behind();
                context.watch_drain(self.id);
                return false;
            }
            let produced = self.write(context, |stream, out| {
                let before = out.len();
                let more = stream.produce(market, unix_ns, out);
                (more, out.len() != before)
            });
            let Some((more, has_said)) = produced else {
                return false;
            };
            if has_said {
                self.said_ns = now_ns;
            }
            if !more {
                return false;
            }
        }
        true
    }

    /// Continues after the outbox has room again.
    pub fn drained(&mut self, market: &Market) {
        self.stream.catch_up(market);
        self.produce_later(market);
    }

    /// Sends heartbeats and intervals, and disconnects a client that does not prove its key in
    /// time.
    pub fn timeout(&mut self, market: &Market, context: &mut Context) {
        let now_ns = context.now_ns();
        if self.phase == Phase::Challenged && now_ns >= self.patience_until_ns {
            debug!("a Databento client does not answer the challenge");
            self.say_end(context, "the challenge was not answered in time");
            return context.close_after_flush(self.id, CloseReason::Requested);
        }
        if self.phase != Phase::Started {
            return;
        }
        self.produce_later(market);
        if now_ns >= self.said_ns + self.heartbeat_ns && context.out_bytes(self.id) == 0 {
            self.said_ns = now_ns;
            let unix_ns = context.unix_ns();
            self.write(context, |stream, out| {
                let mut writer = stream.writer(out, unix_ns);
                writer.system(unix_ns, system_code::HEARTBEAT, "Heartbeat");
            });
        }
    }

    /// Sends an error before the hub's end closes the connection, so that a client that reconnects
    /// after errors does.
    pub fn stopping(&mut self, context: &mut Context) {
        if self.phase != Phase::Started {
            return;
        }
        let unix_ns = context.unix_ns();
        self.write(context, |stream, out| {
            let mut writer = stream.writer(out, unix_ns);
            writer.error(unix_ns, error_code::INTERNAL_ERROR, "the hub is stopping");
        });
    }

    /// Lets `say` write to the client, through the compressor if it is on. Does nothing if the
    /// connection is ending.
    fn write<R>(
        &mut self,
        context: &mut Context,
        say: impl FnOnce(&mut Stream, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        let out = context.out(self.id)?;
        let Some(packer) = &mut self.packer else {
            return Some(say(&mut self.stream, out.buffer()));
        };
        debug_assert_ne!(
            self.phase,
            Phase::Challenged,
            "the handshake is never compressed"
        );
        packer.plain.clear();
        let result = say(&mut self.stream, &mut packer.plain);
        if !packer.plain.is_empty()
            && let Err(error) = packer.compressor.append(&packer.plain, out.buffer())
        {
            debug!(%error, "a Databento client's records cannot be compressed");
            context.close(self.id, CloseReason::Requested);
        }
        Some(result)
    }

    /// Handles the end of the connection.
    pub fn closed(self, market: &Market) {
        let before = market.databento.clients.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a client that ends was counted");
        if self.is_unfinished {
            let before = market.databento.unfinished.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "an unfinished client was counted");
        }
    }

    /// Returns whether the client may continue.
    fn authenticate(
        &mut self,
        market: &Market,
        context: &mut Context,
        authentication: &Authentication<'_>,
    ) -> bool {
        let key = market.config.databento_key.as_deref().unwrap_or_default();
        if self.phase != Phase::Challenged || !answers(&self.challenge, key, authentication) {
            note_failed_login("Databento", &self.address, b"");
            return false;
        }
        let packer = match authentication.compression {
            "none" => Ok(None),
            "zstd" => Compressor::new().map(Some).map_err(drop),
            _ => Err(()),
        };
        let (Ok(compressor), "dbn") = (packer, authentication.encoding) else {
            let text =
                "success=0|error=only encoding=dbn and compression=none or zstd are served\n";
            say(context, self.id, text);
            context.close_after_flush(self.id, CloseReason::Requested);
            return true;
        };
        self.packer = compressor.map(|compressor| Packer {
            compressor,
            plain: Vec::new(),
        });
        self.phase = Phase::Accepted;
        self.dataset = authentication.dataset.to_owned();
        let interval_s = authentication
            .heartbeat_interval_s
            .map_or(HEARTBEAT_S, u64::from);
        self.heartbeat_ns = interval_s * 1_000_000_000;
        debug_assert!(self.heartbeat_ns > 0, "a heartbeat has an interval");
        self.stream.set_up(authentication);
        let number = market.next_source_number();
        debug!(
            client = authentication.client,
            number, "a Databento session"
        );
        say(
            context,
            self.id,
            &format!("success=1|session_id={number}\n"),
        );
        true
    }

    fn subscribe(&mut self, market: &Market, wanted: &Subscription<'_>) -> bool {
        if self.phase == Phase::Challenged {
            return false;
        }
        let is_late = self.phase == Phase::Started && wanted.start_ns.is_some();
        let names = match Names::parse(wanted) {
            _ if is_late => Err("start must be requested before the session starts".to_owned()),
            Ok(names) => Ok(names),
            Err(error) => Err(error.to_string()),
        };
        match names {
            Ok(names) => self.stream.subscribe(market, wanted, names),
            Err(text) => {
                self.stream
                    .note_error(error_code::INVALID_SUBSCRIPTION, text);
            }
        }
        true
    }

    fn unsubscribe(&mut self, market: &Market, ended: &Subscription<'_>) -> bool {
        if self.phase == Phase::Challenged {
            return false;
        }
        match Names::parse(ended) {
            Ok(names) => self.stream.unsubscribe(market, ended, &names),
            Err(error) => {
                let code = error_code::INVALID_SUBSCRIPTION;
                self.stream.note_error(code, error.to_string());
            }
        }
        true
    }

    fn start(&mut self, market: &Arc<Market>, context: &mut Context) -> bool {
        match self.phase {
            Phase::Challenged => false,
            Phase::Started => true,
            Phase::Accepted => {
                self.phase = Phase::Started;
                let unix_ns = context.unix_ns();
                let dataset = std::mem::take(&mut self.dataset);
                self.write(context, |stream, out| {
                    let start_ns = stream.begin(market, unix_ns);
                    stream.writer(out, unix_ns).metadata(&dataset, start_ns);
                });
                true
            }
        }
    }

    /// Tells the client why the connection ends.
    fn say_end(&mut self, context: &mut Context, reason: &str) {
        if self.phase != Phase::Started {
            return say(context, self.id, &format!("success=0|error={reason}\n"));
        }
        let unix_ns = context.unix_ns();
        self.write(context, |stream, out| {
            let mut writer = stream.writer(out, unix_ns);
            writer.error(unix_ns, error_code::INVALID_SUBSCRIPTION, reason);
        });
    }

    /// Handles an invalid line: fatal before the key is proved, and an error record afterwards.
    fn refuse(&mut self, error: &RequestError) -> bool {
        debug!(%error, "invalid request of a Databento client");
        let is_fatal = matches!(error, RequestError::TooLong | RequestError::NotText);
        if self.phase == Phase::Challenged || is_fatal {
            return false;
        }
        let code = error_code::INVALID_SUBSCRIPTION;
        self.stream.note_error(code, error.to_string());
        true
    }
}

/// Returns whether the client knows the key.
fn answers(challenge: &str, key: &str, authentication: &Authentication<'_>) -> bool {
    let mut digest = Sha256::new();
    digest.update(challenge.as_bytes());
    digest.update(b"|");
    digest.update(key.as_bytes());
    let expected = hexadecimal(&digest.finalize());
    let (given, _) = authentication
        .response
        .split_once('-')
        .unwrap_or((authentication.response, ""));
    debug_assert_eq!(expected.len(), 64, "SHA-256 as hexadecimal digits");
    // Every byte is compared, so that the time does not reveal where they differ.
    let differences = given.bytes().zip(expected.bytes());
    let differ = differences.fold(0, |sum, (one, other)| sum | (one ^ other));
    !key.is_empty() && given.len() == expected.len() && differ == 0
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn say(context: &mut Context, id: ConnectionId, text: &str) {
    if let Some(out) = context.out(id) {
        out.buffer().extend_from_slice(text.as_bytes());
    }
}

/// Maximum slices of one client's records in a turn of its lane: each is 64 KiB, or 4,096 messages
/// of the journal, which take some hundred microseconds.
const SLICES_A_TURN: usize = 2;
/// Symbols in a client's lines after which it takes turns with other clients: each costs a few
/// microseconds.
const NAMES_A_TURN: u64 = 2_048;
/// Maximum number of connected clients.
const CLIENTS_MAX: u64 = 1_024;
/// Time limit for the answer to the challenge.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Databento's default.
const HEARTBEAT_S: u64 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_key_answers_the_challenge() {
        // The result of `databento.common.cram.get_challenge_response("abc", "db-key")`.
        let digest = hexadecimal(&Sha256::digest(b"abc|db-key"));
        let line = format!("auth={digest}-b-key|dataset=X");
        let Ok(Request::Authenticate(given)) = Request::parse(&line) else {
            panic!("no authentication");
        };
        assert!(answers("abc", "db-key", &given));
        assert!(!answers("abd", "db-key", &given) && !answers("abc", "db-kez", &given));
        assert!(!answers("abc", "", &given));
        let empty = Request::parse("auth=|dataset=X");
        let Ok(Request::Authenticate(empty)) = empty else {
            panic!("no authentication");
        };
        assert!(!answers("abc", "db-key", &empty));
    }
}
