//! Selection of the outboxes that a turn sends: every reply, and a part of the deliveries.
//!
//! A message to 100 subscribers needs 100 sends. A lane that made all of them at once would delay
//! the next publisher, and then send 100 more. So replies are sent first, and each turn sends
//! some of the outboxes that other connections filled (messages to subscribers, live values, the
//! feed). Messages published meanwhile join the waiting ones and share their send. An idle lane
//! continues at once, so nothing is delayed.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use crate::application::{Application, CloseReason};
use crate::connection::ConnectionId;
use crate::context::Context;
use crate::outbox::{Flush, FlushCount};
use crate::ring::BATCH_MAX;
use crate::sender::Way;
use crate::traffic::Traffic;

impl<A: Application> Traffic<'_, A> {
    /// Sends the replies of this turn and a part of the deliveries.
    pub(crate) fn flush(&mut self) {
        let mut leaving = std::mem::take(&mut self.context.dirty);
        self.take_deliveries(&mut leaving);
        if let Some(until) = self.context.holds_turn.take() {
            leaving
                .iter()
                .for_each(|&id| self.context.hold_back_with_turn(id, until));
        }
        self.send(leaving);
    }

    /// Sends all output.
    pub(crate) fn flush_all(&mut self) {
        let mut leaving = std::mem::take(&mut self.context.dirty);
        leaving.extend(self.context.deliveries.drain(..));
        self.context.deliveries_a_turn = 0;
        self.send(leaving);
    }

    /// Adds a share of the deliveries, or all of them if they are long: long deliveries gain
    /// little from a shared send, and would take memory.
    fn take_deliveries(&mut self, leaving: &mut Vec<ConnectionId>) {
        let waiting = self.context.deliveries.len();
        if waiting == 0 {
            return;
        }
        // Never less while any are left; otherwise the rest would take ever more turns.
        let share = self.context.deliveries_a_turn.max(DELIVERIES_A_TURN);
        let share = share.max(waiting.div_ceil(TURNS_A_ROUND));
        let long_bytes = DELIVERY_BYTES.min(DELIVERIES_BYTES / waiting);
        let mut taken = 0;
        while let Some(id) = self.context.deliveries.pop_front() {
            leaving.push(id);
            taken += 1;
            if taken >= share && self.context.out_bytes(id) < long_bytes {
                break;
            }
        }
        let is_over = self.context.deliveries.is_empty();
        self.context.deliveries_a_turn = if is_over { 0 } else { share };
    }

    fn send(&mut self, mut leaving: Vec<ConnectionId>) {
        let mut count = FlushCount::default();
        leaving.retain(|&id| self.is_sendable(id));
        let (way, started) = self.context.sender.choose(leaving.len());
        match way {
            Way::Calls => {
                for &id in &leaving {
                    self.send_one(id, &mut count);
                }
            }
            Way::Ring => {
                for batch in leaving.chunks(BATCH_MAX) {
                    self.send_batch(batch, &mut count);
                }
            }
        }
        if let Some(started) = started {
            let took = started.elapsed();
            self.context.sender.note(way, leaving.len(), took);
        }
        leaving.clear();
        if self.context.dirty.is_empty() {
            self.context.dirty = leaving;
        }
        let counters = &self.context.counters;
        counters.writes.fetch_add(count.writes, Ordering::Relaxed);
        counters
            .written_bytes
            .fetch_add(count.bytes, Ordering::Relaxed);
    }

    /// Removes a connection from the lists. Returns whether the kernel may accept output for it
    /// now.
    fn is_sendable(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.context.connection_mut(id) else {
            return false;
        };
        // It may be in both lists, but is sent once.
        let listed = connection.dirty || connection.queued;
        connection.dirty = false;
        connection.queued = false;
        if listed && connection.blocked {
            self.application.buffered(self.context, id);
            return false;
        }
        listed && connection.may_send()
    }

    fn send_one(&mut self, id: ConnectionId, count: &mut FlushCount) {
        let mut room = std::mem::take(&mut self.context.cipher_out);
        let connection = self.context.connection_mut(id);
        let flush = connection.map(|connection| connection.flush(&mut room, count));
        self.context.cipher_out = room;
        if let Some(flush) = flush {
            self.settle(id, flush);
        }
    }

    /// Sends a batch with one call. Outboxes with more than one piece are sent by calls of their
    /// own.
    fn send_batch(&mut self, batch: &[ConnectionId], count: &mut FlushCount) {
        let Context {
            sender,
            connections,
            cipher_out,
            ..
        } = &mut *self.context;
        let piece = |id: &ConnectionId| {
            let connection = connections[id.index()].connection.as_ref()?;
            // What TLS sends is not in the outbox.
            let piece = connection
                .secure
                .is_none()
                .then(|| connection.outbox.piece());
            Some((connection.socket.as_fd(), piece??))
        };
        let outcomes = sender.send(batch.iter().map(piece));
        // All results are noted before the application is notified of any: its reaction may
        // change other outboxes of the batch.
        let mut flushed = [Flush::Empty; BATCH_MAX];
        for (number, &id) in batch.iter().enumerate() {
            let Some(connection) = connections[id.index()].connection.as_mut() else {
                continue;
            };
            let sent = outcomes.get(number).copied().flatten();
            let noted = sent.and_then(|sent| connection.outbox.note_sent(sent, count));
            flushed[number] = noted.unwrap_or_else(|| connection.flush(cipher_out, count));
        }
        for (&id, flush) in batch.iter().zip(flushed) {
            self.settle(id, flush);
        }
    }

    /// Notes the result of sending a connection's outbox.
    fn settle(&mut self, id: ConnectionId, flush: Flush) {
        let Some(connection) = self.context.connection_mut(id) else {
            return;
        };
        connection.blocked = flush == Flush::Blocked;
        let drained = connection.wants_drained
            && connection.unsent_bytes() <= DRAINED_BYTES
            && !connection.outbox.is_holding();
        connection.wants_drained &= !drained;
        let tells = connection.blocked || connection.told_blocked;
        connection.told_blocked = connection.blocked;
        match flush {
            Flush::Empty => {
                let spare = connection.outbox.take_spare();
                self.context.recycle(spare);
            }
            Flush::Broken => self.context.close(id, CloseReason::Broken),
            Flush::Blocked | Flush::Held => {}
        }
        if drained {
            self.context.drained.push(id);
        }
        if tells {
            self.application.buffered(self.context, id);
        }
        self.context.update_watch(id);
    }
}

/// Minimum deliveries sent per turn.
const DELIVERIES_A_TURN: usize = 16;
/// Number of turns in which all deliveries waiting at the first of them are sent.
const TURNS_A_ROUND: usize = 8;
/// Bytes from which a delivery is long: it then waits for no more messages.
const DELIVERY_BYTES: usize = 4096;
/// Total bytes of waiting deliveries from which they all count as long.
const DELIVERIES_BYTES: usize = 4 << 20;
/// An outbox counts as drained at this length.
const DRAINED_BYTES: usize = 32 * 1024;
