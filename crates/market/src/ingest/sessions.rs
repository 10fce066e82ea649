//! Where a topic's session begins, and what a message says of the one before.

use tidewire_feed::wire::{self, LastValue, ReferenceKind};
use tidewire_lastvalue::{MarketValue, NewSession, PRICE_UNDEFINED, Reference, SlotWriter, Stamp};

use super::prices::leave_out_lowest;
use crate::market::Market;
use crate::topic::Topic;
use crate::venues::CONSOLIDATED;

/// Returns whether a record of a venue is of another session than the value before it. What the
/// venue says of its session may change the open, and takes no volume back.
pub(super) fn is_other_session(market: &Market, new: &MarketValue, number: u32) -> bool {
    let before = market.board.value(number).unwrap_or_default();
    let is_less = new.trading_day != before.trading_day || new.volume < before.volume;
    is_less && new.session_open != before.session_open
}

/// Returns whether a session start begins the day again that the value is in: its trades are not
/// all before the message, and come again.
pub(super) fn is_again(start: &wire::SessionStart, topic: &Topic, value: &MarketValue) -> bool {
    let is_same_day = start.trading_day != 0 && start.trading_day == value.trading_day;
    let last_ns = topic.last_trade_ns();
    is_same_day && last_ns.is_some_and(|last_ns| start.source_time_ns <= last_ns)
}

/// Takes out of a record what says nothing: a reference of a kind that this version does not know,
/// and prices that are none.
pub(super) fn leave_out_unknown(record: &mut LastValue) {
    leave_out_lowest(record);
    let Some(figures) = &mut record.figures else {
        return;
    };
    if !figures.reference_kind.is_known() {
        (figures.reference, figures.reference_kind) = (PRICE_UNDEFINED, ReferenceKind::NONE);
    }
}

/// Forgets the times of a topic's last trade and status where a record has others: it does not
/// give their times. It has this sequence.
pub(super) fn forget_times(topic: &Topic, market: &Market, record: &LastValue, sequence: u64) {
    let before = market.board.value(topic.number).unwrap_or_default();
    let is_nothing = record.last == PRICE_UNDEFINED && record.volume == 0;
    // Volumes of venues that leave are taken out of a sum.
    let goes_back = record.volume < before.volume && record.source != CONSOLIDATED;
    if is_nothing || goes_back {
        // A hub that has restarted begins with nothing, and a venue that it gives a topic with what
        // has come again by then. Its publishers may send all they have.
        topic.trades_may_repeat();
    }
    let trades = record
        .figures
        .map_or(before.trades, |figures| figures.trades);
    if (record.last, record.last_size, trades) != (before.last, before.last_size, before.trades) {
        topic.traded_at(0, sequence);
    }
    if record.state.0 != before.status.state {
        topic.status_at(0);
    }
    let until_ns = record.figures.map_or(0, |figures| figures.traded_until_ns);
    topic.traded_until(until_ns);
}

pub(super) fn session_state(topic: &Topic, value: &MarketValue) -> wire::SessionState {
    wire::SessionState {
        trading_day: value.trading_day,
        open: value.session_open,
        first_trade: value.first_trade,
        reference: value.reference.price,
        kind: ReferenceKind(value.reference.kind),
        traded_until_ns: topic.traded_until_ns(value),
    }
}

/// Stores a session's start, and the `open` that follows it.
pub(super) fn store_session(
    slot: &mut SlotWriter<'_>,
    start: &wire::SessionStart,
    open: Option<wire::SessionStart>,
    stamp: Stamp,
) {
    let is_open = start.kind == ReferenceKind::OPEN;
    let is_reference = !is_open && start.kind != ReferenceKind::NONE;
    let reference = match is_reference && start.reference != PRICE_UNDEFINED {
        true => Reference {
            price: start.reference,
            kind: start.kind.0,
        },
        false => Reference::NONE,
    };
    let open = match is_open {
        true => start.reference,
        false => open.map_or(PRICE_UNDEFINED, |open| open.reference),
    };
    if start.rolls != wire::SessionStart::KEEPS {
        let session = NewSession {
            open,
            reference,
            trading_day: start.trading_day,
        };
        slot.start_session(session, stamp);
    } else if is_open {
        slot.update_open(open, stamp);
    } else {
        slot.update_reference(reference, stamp);
    }
}
