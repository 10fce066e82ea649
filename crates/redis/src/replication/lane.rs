//! The replicas of one lane: what they are sent, turn by turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context};
use tracing::{info, warn};

use super::file::FileMaker;
use super::log_of;
use super::replica::{Phase, Replica};
use crate::parameters::{ClientClass, REPL_TIMEOUT};
use crate::server::Server;
use tidewire_fanout::OverLimit;

/// The replicas whose connections a lane owns.
#[derive(Debug, Default)]
pub(crate) struct LaneReplicas {
    replicas: Vec<Served>,
}

#[derive(Debug)]
struct Served {
    connection: ConnectionId,
    replica: Arc<Replica>,
    has_begun: bool,
    over_limit: OverLimit,
    /// Bytes of its file that its connection was given, and that have left as far as was seen last.
    given: u64,
    left: i64,
    /// When more of them had left than before, ms since the UNIX epoch.
    moved_ms: i64,
    /// All of its file has left.
    has_file: bool,
}

impl LaneReplicas {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.replicas.is_empty()
    }

    pub(crate) fn add(
        &mut self,
        server: &Server,
        lane: usize,
        connection: ConnectionId,
        replica: Arc<Replica>,
        now_ms: i64,
    ) {
        server.replication.add(replica.clone(), now_ms);
        debug_assert!(
            self.position(connection).is_none(),
            "a connection is one replica's"
        );
        let has_file = replica.phase() == Phase::Online;
        let serving = &server.replication.lanes.serving;
        serving.fetch_or(1 << lane, Ordering::AcqRel);
        self.replicas.push(Served {
            connection,
            replica,
            has_begun: false,
            over_limit: OverLimit::default(),
            given: 0,
            left: 0,
            moved_ms: now_ms,
            has_file,
        });
        self.assert_invariants(server, lane);
    }

    /// A connection has ended; nothing if it was no replica's.
    pub(crate) fn remove(
        &mut self,
        server: &Server,
        lane: usize,
        connection: ConnectionId,
        now_ms: i64,
    ) {
        let Some(at) = self.position(connection) else {
            return;
        };
        let served = self.replicas.swap_remove(at);
        server.replication.remove(server, &served.replica, now_ms);
        info!(address = %served.replica.client.address, "a replica has left");
        if self.replicas.is_empty() {
            let serving = &server.replication.lanes.serving;
            serving.fetch_and(!(1 << lane), Ordering::AcqRel);
        }
        self.assert_invariants(server, lane);
    }

    /// Notes that the lane is awake and will read the stream: no thread needs to wake it.
    #[inline]
    pub(crate) fn note_awake(&self, server: &Server, lane: usize) {
        if !self.replicas.is_empty() {
            server.replication.lanes.told[lane].store(true, Ordering::Relaxed);
        }
    }

    /// Sends each replica its part of the file or of the stream.
    pub(crate) fn serve(&mut self, server: &Arc<Server>, context: &mut Context) {
        // Exchanged before the log is read: a thread that still finds the mark has appended before.
        server.replication.lanes.told[context.lane()].swap(false, Ordering::AcqRel);
        for served in &mut self.replicas {
            served.serve(server, context);
        }
    }

    /// A connection takes more.
    pub(crate) fn drained(
        &mut self,
        server: &Arc<Server>,
        context: &mut Context,
        connection: ConnectionId,
    ) {
        if let Some(at) = self.position(connection) {
            self.replicas[at].serve(server, context);
        }
    }

    /// Disconnects replicas that are too far behind, or silent for too long.
    pub(crate) fn sweep(&mut self, server: &Server, context: &mut Context) {
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        let limit = server.parameters.output_limit(ClientClass::Replica);
        let silent_ms_max = server.parameters.read(REPL_TIMEOUT) as i64 * 1_000;
        let end = log_of(server).end();
        for served in &mut self.replicas {
            let replica = &served.replica;
            let behind = match replica.needed_from() {
                Some(from) => end.saturating_sub(from) as usize,
                None => 0,
            };
            let out_bytes = context.out_bytes(served.connection);
            let behind = behind + out_bytes;
            let too_slow = served
                .over_limit
                .is_exceeded(limit, behind, context.now_ns());
            let is_silent = served.silent_ms(out_bytes as u64, now_ms) > silent_ms_max;
            if too_slow || is_silent {
                let replica = &served.replica;
                let address = &replica.client.address;
                warn!(%address, behind, too_slow, is_silent, "a replica is cut off");
                if too_slow {
                    server.post.counters.cut_off.fetch_add(1, Ordering::Relaxed);
                }
                context.close(served.connection, CloseReason::Requested);
            }
        }
    }

    fn assert_invariants(&self, server: &Server, lane: usize) {
        let serving = server.replication.lanes.serving.load(Ordering::Acquire);
        debug_assert_eq!(
            serving >> lane & 1 == 1,
            !self.replicas.is_empty(),
            "a lane is woken for the stream while it has replicas"
        );
    }

    fn position(&self, connection: ConnectionId) -> Option<usize> {
        let mut replicas = self.replicas.iter();
        replicas.position(|served| served.connection == connection)
    }
}

impl Served {
    fn serve(&mut self, server: &Arc<Server>, context: &mut Context) {
        self.send(server, context);
        let out_bytes = context.out_memory_bytes(self.connection);
        self.replica.set_out_bytes(out_bytes as u64);
    }

    /// For how long it has neither taken more of its file nor, once it is given all of that, been
    /// heard of.
    fn silent_ms(&mut self, out_bytes: u64, now_ms: i64) -> i64 {
        let phase = self.replica.phase();
        let is_given = matches!(phase, Phase::Loaded | Phase::Online);
        if !self.has_file {
            let left = self.given as i64 - out_bytes as i64;
            // While there is nothing to send, it is waited for here.
            if left != self.left || out_bytes == 0 {
                (self.left, self.moved_ms) = (left, now_ms);
            }
            let is_out = out_bytes <= STREAM_BYTES_MAX as u64;
            self.has_file = is_given && is_out && !self.replica.ends_then();
        }
        let silent_ms = now_ms.saturating_sub(self.moved_ms);
        match self.replica.acknowledges {
            true if is_given => silent_ms.min(self.replica.silent_ms(now_ms)),
            false if self.has_file => 0,
            _ => silent_ms,
        }
    }

    fn send(&mut self, server: &Arc<Server>, context: &mut Context) {
        if !self.has_begun {
            self.has_begun = true;
            if self.replica.phase() == Phase::Waiting {
                FileMaker::begin(server.clone(), self.replica.clone());
            }
        }
        loop {
            let out_bytes_max = match self.replica.phase() {
                Phase::Online => STREAM_BYTES_MAX,
                _ => FILE_BYTES_MAX,
            };
            if context.out_bytes(self.connection) > out_bytes_max {
                // `drained` goes on.
                return context.watch_drain(self.connection);
            }
            let goes_on = match self.replica.phase() {
                Phase::Waiting | Phase::Loading => self.send_file(context),
                Phase::Loaded => false,
                Phase::Online => self.send_stream(server, context),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Sends a part of the file; false if there is none for now.
    fn send_file(&mut self, context: &mut Context) -> bool {
        let (part, is_last) = self.replica.take_part();
        let is_sent = part.is_some();
        if let Some(part) = part
            && let Some(out) = context.out(self.connection)
        {
            out.buffer().extend_from_slice(&part);
            self.given += part.len() as u64;
        }
        if is_last {
            let now_ms = (context.unix_ns() / 1_000_000) as i64;
            self.replica.heard_of(now_ms);
            let wanted = &self.replica.wanted;
            self.replica
                .set_phase(match wanted.takes_mark || self.replica.ends_then() {
                    true => Phase::Loaded,
                    false => Phase::Online,
                });
            if self.replica.ends_then() {
                context.close_after_flush(self.connection, CloseReason::Requested);
            }
        }
        is_sent || is_last
    }

    /// Sends some of the stream; false if there is no more.
    fn send_stream(&self, server: &Server, context: &mut Context) -> bool {
        let (log, from) = (log_of(server), self.replica.sent());
        if from == log.end() {
            return false;
        }
        // Counted before it is taken: another lane may look at how much memory is held just then.
        let held_bytes = context.out_memory_bytes(self.connection);
        self.replica.set_out_bytes((held_bytes + ROOM_BYTES) as u64);
        let Some(out) = context.out(self.connection) else {
            return false;
        };
        let room = ROOM_BYTES.saturating_sub(out.buffer().len());
        out.buffer().reserve_exact(room);
        match log.read(from, READ_BYTES, out.buffer()) {
            Ok(to) => {
                debug_assert!(to >= from, "a replica gets no byte twice");
                self.replica.set_sent(to);
                to != from
            }
            Err(error) => {
                let address = &self.replica.client.address;
                warn!(%address, %error, "a replica is too slow for the stream");
                server.post.counters.cut_off.fetch_add(1, Ordering::Relaxed);
                context.close(self.connection, CloseReason::Requested);
                false
            }
        }
    }
}

/// Unsent bytes above which a replica gets no more. The rest waits in the log, or with the thread
/// that makes the file.
const STREAM_BYTES_MAX: usize = 16 << 10;
const FILE_BYTES_MAX: usize = 256 << 10;
/// Bytes copied out of the log under one lock.
const READ_BYTES: usize = 16 << 10;
/// Room for them behind what has not left, and what has left and was not moved away yet.
const ROOM_BYTES: usize = 48 << 10;
