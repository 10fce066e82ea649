//! Trading states: the exchange's hours, and halts, pauses and auctions of securities.

use super::Books;
use crate::message::{MessageError, sized};
use crate::{
    AuctionCollar, Head, IpoQuotation, OperationalHalt, ShortSaleRestriction, SystemEvent,
    TradingAction,
};
use tidewire_feed::client::Sink;
use tidewire_feed::wire::{Message, TradingState, TradingStatus};

/// The trading states of all securities.
///
/// A security that may trade is in the state of the exchange's hours. An interruption comes first:
/// a halt, a pause or an auction of the security, or an operational halt of the exchange. Of two,
/// the more restrictive one is shown.
#[derive(Debug, Default)]
pub(super) struct TradingStates {
    /// By locate code.
    securities: Vec<SecurityTrading>,
    /// The state of the hours; `None` before the first event of the day.
    hours: Option<TradingState>,
}

/// What is known of a security.
#[derive(Clone, Copy, Debug, Default)]
struct SecurityTrading {
    /// `None` if it may trade, or before the first message about it.
    interruption: Option<TradingState>,
    /// Reason of the last trading action; 0 if it gave none.
    reason: u32,
    /// The exchange itself has halted it.
    is_halted_here: bool,
    /// A message told that it may trade; without one, it does while the exchange's hours are
    /// known.
    may_trade: bool,
    is_short_sale_restricted: bool,
    published: TradingState,
}

impl TradingStates {
    pub(super) fn clear(&mut self) {
        self.securities.clear();
        self.hours = None;
    }

    fn security(&mut self, locate: u16) -> &mut SecurityTrading {
        let index = usize::from(locate);
        if self.securities.len() <= index {
            self.securities
                .resize(index + 1, SecurityTrading::default());
        }
        &mut self.securities[index]
    }

    /// Returns a security's state and the reason for it.
    fn state(&mut self, locate: u16) -> (TradingState, u32) {
        let hours = self.hours;
        let security = self.security(locate);
        match (security.interruption, security.is_halted_here, hours) {
            (Some(TradingState::HALTED), ..) => (TradingState::HALTED, security.reason),
            (_, true, _) => (TradingState::HALTED, 0),
            (Some(state), false, _) => (state, security.reason),
            (None, false, Some(hours)) => (hours, security.reason),
            (None, false, None) if security.may_trade => (TradingState::OPEN, security.reason),
            (None, false, None) => (TradingState::UNKNOWN, 0),
        }
    }
}

impl Books {
    /// Returns whether short sales of a security are restricted (Regulation SHO).
    pub fn is_short_sale_restricted(&self, locate: u16) -> bool {
        let security = self.trading.securities.get(usize::from(locate));
        security.is_some_and(|security| security.is_short_sale_restricted)
    }

    /// Applies a trading action: a halt, a pause, a quotation period or trading.
    pub(super) fn act<S: Sink>(
        &mut self,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        let action = TradingAction::from_bytes(sized(message)?);
        self.define_without_state(sequence, &action.head, action.stock, sink);
        let security = self.trading.security(action.head.locate);
        security.interruption = match action.state {
            b'H' => Some(TradingState::HALTED),
            b'P' => Some(TradingState::PAUSED),
            b'Q' => Some(TradingState::AUCTION),
            b'T' => None,
            _ => Some(TradingState::UNKNOWN),
        };
        security.may_trade = true;
        security.reason = match action.reason.bytes() {
            b"    " => 0,
            reason => u32::from_le_bytes(*reason),
        };
        self.publish_state(sequence, &action.head, sink);
        Ok(())
    }

    /// Applies a halt of one market, if it is this one.
    pub(super) fn halt<S: Sink>(
        &mut self,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        let halt = OperationalHalt::from_bytes(sized(message)?);
        // This book does not show the other markets.
        if halt.market == b'Q' {
            self.define_without_state(sequence, &halt.head, halt.stock, sink);
            let security = self.trading.security(halt.head.locate);
            security.is_halted_here = halt.action == b'H';
            security.may_trade = true;
            self.publish_state(sequence, &halt.head, sink);
        }
        Ok(())
    }

    /// Applies the collar of an auction after a pause: orders for the auction are entered.
    pub(super) fn collar<S: Sink>(
        &mut self,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        let collar = AuctionCollar::from_bytes(sized(message)?);
        self.define_without_state(sequence, &collar.head, collar.stock, sink);
        let security = self.trading.security(collar.head.locate);
        security.interruption = Some(TradingState::AUCTION);
        self.publish_state(sequence, &collar.head, sink);
        Ok(())
    }

    /// Applies the quotation time of a new listing, or its cancellation.
    pub(super) fn quotation<S: Sink>(
        &mut self,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        let quotation = IpoQuotation::from_bytes(sized(message)?);
        self.define_without_state(sequence, &quotation.head, quotation.stock, sink);
        let security = self.trading.security(quotation.head.locate);
        security.interruption = Some(match quotation.qualifier {
            b'A' => TradingState::PRE_OPEN,
            _ => TradingState::HALTED,
        });
        self.publish_state(sequence, &quotation.head, sink);
        Ok(())
    }

    /// Notes whether short sales are restricted. That is no trading state.
    pub(super) fn restrict<S: Sink>(
        &mut self,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        let restriction = ShortSaleRestriction::from_bytes(sized(message)?);
        self.define(sequence, &restriction.head, restriction.stock, sink);
        let security = self.trading.security(restriction.head.locate);
        security.is_short_sale_restricted = matches!(restriction.action, b'1' | b'2');
        Ok(())
    }

    /// Applies an event of the day, and publishes the state of all securities that it changes.
    pub(super) fn system_event<S: Sink>(
        &mut self,
        sequence: u64,
        message: &[u8],
        sink: &mut S,
    ) -> Result<(), MessageError> {
        let SystemEvent { head, event } = SystemEvent::from_bytes(sized(message)?);
        self.ended |= event == b'C';
        let hours = match event {
            b'O' | b'S' => TradingState::PRE_OPEN,
            b'Q' => TradingState::OPEN,
            b'M' | b'E' | b'C' => TradingState::CLOSED,
            _ => return Ok(()),
        };
        self.trading.hours = Some(hours);
        // The last locate code is a valid one.
        for index in 0..self.securities.locates() {
            let head = Head {
                locate: index as u16,
                ..head
            };
            let is_defined = self.securities.book(head.locate).is_some();
            if is_defined && self.trading.state(head.locate).0 != self.published_state(head.locate)
            {
                self.publish_state(sequence, &head, sink);
            }
        }
        Ok(())
    }

    /// Publishes the state of a security that has just been defined: that of the hours, if it is
    /// known.
    pub(super) fn publish_state_of_hours<S: Sink>(
        &mut self,
        sequence: u64,
        head: &Head,
        sink: &mut S,
    ) {
        if self.trading.state(head.locate).0 != self.published_state(head.locate) {
            self.publish_state(sequence, head, sink);
        }
    }

    fn published_state(&mut self, locate: u16) -> TradingState {
        self.trading.security(locate).published
    }

    fn publish_state<S: Sink>(&mut self, sequence: u64, head: &Head, sink: &mut S) {
        let (state, reason) = self.trading.state(head.locate);
        self.trading.security(head.locate).published = state;
        self.counters.statuses += 1;
        let status = TradingStatus {
            symbol: self.config.symbol_first + u32::from(head.locate),
            source: self.config.source,
            source_time_ns: self.unix_ns(head.time),
            state,
            reason,
        };
        sink.message(sequence, &Message::Status(status));
    }
}

#[cfg(test)]
mod tests;
