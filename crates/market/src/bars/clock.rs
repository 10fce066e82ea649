//! Closes bars by the wall clock, where the source is live and says nothing more.

use std::sync::atomic::Ordering;

use tidewire_fanout::{Dispatch, Publication};

use super::{BarTopic, Bars, CLOCK_LANE, publish};

/// The clock of bars. The first lane drives it.
#[derive(Debug, Default)]
pub struct BarClock {
    /// The next bars to look at: interval and position.
    place: (usize, usize),
    due_ns: u64,
    /// When the last turn was, monotonic ns; 0 before the first.
    turned_ns: u64,
}

impl BarClock {
    /// The lane that drives the clock.
    pub const LANE: usize = CLOCK_LANE;

    /// Closes the bars that are due, some hundreds at a time. Returns the publication, and when
    /// the next turn is due, monotonic ns; `None` while there are no bars.
    pub fn turn(&mut self, bars: &Bars, now_ns: u64, unix_ns: u64) -> (Dispatch, Option<u64>) {
        let mut dispatch = (Publication::default(), 0);
        if bars.is_empty() {
            self.turned_ns = 0;
            return (dispatch, None);
        }
        let before_ns = std::mem::replace(&mut self.turned_ns, now_ns);
        if before_ns != 0 && now_ns.saturating_sub(before_ns) > STOPPED_NS {
            // The hub was stopped. What has arrived meanwhile is read first, also the end of a
            // connection.
            self.due_ns = self.due_ns.max(now_ns + AFTER_STOP_NS);
        }
        if now_ns < self.due_ns {
            return (dispatch, Some(self.due_ns));
        }
        let mut left = TURN_BARS_MAX;
        while left > 0 && self.place.0 < bars.existing.len() {
            let topics = bars.existing[self.place.0].read();
            let rest = topics.iter().skip(self.place.1);
            let mut count = 0;
            for topic in rest {
                let cost = match close(bars, topic, unix_ns, &mut dispatch) {
                    true => CLOSED_COST,
                    false => 1,
                };
                (left, count) = (left.saturating_sub(cost), count + 1);
                if left == 0 {
                    break;
                }
            }
            self.place.1 += count;
            if self.place.1 >= topics.len() {
                self.place = (self.place.0 + 1, 0);
            }
        }
        // A round that is not finished goes on soon.
        let is_finished = self.place.0 >= bars.existing.len();
        let pause_ns = if is_finished { ROUND_NS } else { PAUSE_NS };
        if is_finished {
            self.place = (0, 0);
        }
        self.due_ns = now_ns + pause_ns;
        (dispatch, Some(self.due_ns))
    }
}

/// Closes the topic's bar, if it is due. Returns whether it was.
fn close(bars: &Bars, topic: &BarTopic, unix_ns: u64, dispatch: &mut Dispatch) -> bool {
    let mut state = topic.state.lock();
    if !state.close_by_clock(unix_ns, bars.heard_ns.load(Ordering::Acquire)) {
        return false;
    }
    if bars.awaits_hub(topic.number()) {
        state.may_lack_trades();
    }
    let version = state.change();
    if let Some(shown) = state.shown() {
        if bars.has_venues(topic.number()) {
            state.note_closed(&shown, u32::MAX, unix_ns);
        }
        publish(&bars.board, topic, (&state, &shown), version, dispatch);
    }
    true
}

/// Interval of the looks at all bars.
const ROUND_NS: u64 = 100_000_000;
/// Time without a turn after which the hub was stopped: turns come each [`ROUND_NS`].
const STOPPED_NS: u64 = 500_000_000;
/// How long bars stay open after that.
const AFTER_STOP_NS: u64 = 250_000_000;
/// Pause within a round.
const PAUSE_NS: u64 = 1_000_000;
/// Maximum bars of a turn, so that the lane's clients do not wait: about a millisecond.
const TURN_BARS_MAX: usize = 4_096;
/// How many of them a bar costs that is closed and published.
const CLOSED_COST: usize = 8;
