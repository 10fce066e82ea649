//! The end of a lane's turn: which replies wait for the quorum.

use std::sync::atomic::{Ordering, fence};

use tidewire_lane::{ConnectionId, Context, Gate, monotonic_ns};

use super::state::Mode;
use crate::server::Server;

/// What one lane remembers from its last turn.
#[derive(Debug, Default)]
pub(crate) struct LaneQuorum {
    was_primary: bool,
    spells: u64,
    cuts: u64,
}

impl LaneQuorum {
    /// Holds back the replies to the clients that sent something in this turn, `asked`, until
    /// everything that they may have seen is acknowledged. Returns whether too much waits to accept
    /// more.
    ///
    /// Replies of a turn in which the lease ended, by this machine's clock, are never sent. The
    /// clock is read here, behind all that the turn has read from the keys: before that moment no
    /// other hub can have acknowledged a write.
    pub(crate) fn settle(
        &mut self,
        server: &Server,
        context: &mut Context,
        lane: usize,
        asked: &[ConnectionId],
    ) -> bool {
        let quorum = &server.quorum;
        let spells = quorum.spells.load(Ordering::SeqCst);
        let is_primary = quorum.mode() == Mode::Primary;
        let may_have_served = is_primary || self.was_primary || spells != self.spells;
        (self.was_primary, self.spells) = (is_primary, spells);
        let serves = is_primary && monotonic_ns() < quorum.serves_until_ns.load(Ordering::SeqCst);
        if may_have_served && !serves {
            for &id in asked {
                context.hold_back(id, Gate::Quorum, u64::MAX);
            }
            // Replies that wait from turns before stay: the stream tells what becomes of them.
            context.cut_held(Gate::Quorum, u64::MAX, LEASE_LOST);
        }
        // Before the look at what is acknowledged: after a cut its numbers begin again.
        let cuts = quorum.cuts.load(Ordering::SeqCst);
        if std::mem::replace(&mut self.cuts, cuts) != cuts {
            context.cut_held(Gate::Quorum, 1, quorum.cut_text().as_bytes());
        }
        let durable = quorum.durable.load(Ordering::SeqCst);
        if context.is_holding() {
            context.let_leave(Gate::Quorum, durable);
        }
        let end = server.replication.log_end(server);
        let waits = serves && durable < end;
        if waits {
            for &id in asked {
                context.hold_back(id, Gate::Quorum, end);
            }
            quorum.tell(end);
        }
        if !waits && !context.is_holding() {
            return false;
        }
        quorum.holding.fetch_or(1 << lane, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // What is acknowledged from here on wakes the lane.
        let durable = quorum.durable.load(Ordering::SeqCst);
        context.let_leave(Gate::Quorum, durable);
        if quorum.cuts.load(Ordering::SeqCst) != cuts {
            server.mail.wake(lane);
        }
        waits && end.saturating_sub(durable) > UNACKNOWLEDGED_BYTES_MAX
    }
}

const LEASE_LOST: &[u8] = b"-CLUSTERDOWN this hub has lost its lease for the keys; the write may \
                            or may not take effect\r\n";
/// Bytes of the log that wait for the stream, above which clients that write are not read from.
const UNACKNOWLEDGED_BYTES_MAX: u64 = 32 << 20;
