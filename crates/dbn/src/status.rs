//! The trading state that a status record says.

use tidewire_feed::wire::TradingState;

use crate::StatusRecord;

impl StatusRecord {
    /// Returns the trading state after the record; `None` if it does not change.
    ///
    /// The field `action` decides. Where it says that the instrument trades and `is_trading` says
    /// that it does not, orders alone are accepted (pre-open) if `is_quoting` does not say no, else
    /// it is halted. A new price indication of an instrument that trades opens it. An unknown
    /// action leaves the decision to both fields.
    pub fn trading_state(&self) -> Option<TradingState> {
        let state = match self.action {
            NONE | SHORT_SALE_RESTRICTION => return None,
            PRE_OPEN | QUOTING => TradingState::PRE_OPEN,
            // CME opens with it; elsewhere it is an auction's.
            NEW_PRICE_INDICATION if self.is_trading == b'Y' => TradingState::OPEN,
            PRE_CROSS | CROSS | ROTATION | NEW_PRICE_INDICATION => TradingState::AUCTION,
            TRADING | PRE_CLOSE => self.by_flags().unwrap_or(TradingState::OPEN),
            HALT | SUSPEND => TradingState::HALTED,
            PAUSE => TradingState::PAUSED,
            CLOSE | POST_CLOSE | NOT_AVAILABLE => TradingState::CLOSED,
            _ => return self.by_flags(),
        };
        Some(state)
    }

    /// Returns what the flags alone say; `None` if they say nothing.
    fn by_flags(&self) -> Option<TradingState> {
        match (self.is_trading, self.is_quoting) {
            (b'Y', _) => Some(TradingState::OPEN),
            (b'N', b'N') => Some(TradingState::HALTED),
            (b'N', _) => Some(TradingState::PRE_OPEN),
            _ => None,
        }
    }
}

// Databento's numbers of actions (`StatusAction`).
const NONE: u16 = 0;
const PRE_OPEN: u16 = 1;
const PRE_CROSS: u16 = 2;
const QUOTING: u16 = 3;
const CROSS: u16 = 4;
const ROTATION: u16 = 5;
const NEW_PRICE_INDICATION: u16 = 6;
const TRADING: u16 = 7;
const HALT: u16 = 8;
const PAUSE: u16 = 9;
const SUSPEND: u16 = 10;
const PRE_CLOSE: u16 = 11;
const CLOSE: u16 = 12;
const POST_CLOSE: u16 = 13;
const SHORT_SALE_RESTRICTION: u16 = 14;
const NOT_AVAILABLE: u16 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn state(action: u16, is_trading: u8, is_quoting: u8) -> Option<TradingState> {
        StatusRecord {
            action,
            is_trading,
            is_quoting,
            ..Default::default()
        }
        .trading_state()
    }

    #[test]
    fn every_action_of_databento_has_a_state() {
        use dbn::enums::StatusAction;
        let expected = |action: StatusAction| match action {
            StatusAction::None | StatusAction::SsrChange => None,
            StatusAction::PreOpen | StatusAction::Quoting => Some(TradingState::PRE_OPEN),
            StatusAction::PreCross
            | StatusAction::Cross
            | StatusAction::Rotation
            | StatusAction::NewPriceIndication => Some(TradingState::AUCTION),
            StatusAction::Trading | StatusAction::PreClose => Some(TradingState::OPEN),
            StatusAction::Halt | StatusAction::Suspend => Some(TradingState::HALTED),
            StatusAction::Pause => Some(TradingState::PAUSED),
            StatusAction::Close
            | StatusAction::PostClose
            | StatusAction::NotAvailableForTrading => Some(TradingState::CLOSED),
            other => panic!("{other:?} is new"),
        };
        let mut count = 0;
        for action in (0..1_000).filter_map(|number| StatusAction::try_from(number).ok()) {
            assert_eq!(
                state(action as u16, b'~', b'~'),
                expected(action),
                "{action:?}"
            );
            count += 1;
        }
        assert_eq!(count, 16);
    }

    #[test]
    fn an_instrument_that_does_not_trade_is_not_open() {
        assert_eq!(state(TRADING, b'Y', b'Y'), Some(TradingState::OPEN));
        assert_eq!(state(TRADING, b'N', b'Y'), Some(TradingState::PRE_OPEN));
        assert_eq!(state(TRADING, b'N', b'N'), Some(TradingState::HALTED));
        assert_eq!(state(HALT, b'Y', b'Y'), Some(TradingState::HALTED));
        let indication = |is_trading| state(NEW_PRICE_INDICATION, is_trading, b'Y');
        assert_eq!(indication(b'Y'), Some(TradingState::OPEN));
        assert_eq!(indication(b'N'), Some(TradingState::AUCTION));
    }

    #[test]
    fn an_unknown_action_leaves_it_to_the_flags() {
        assert_eq!(state(99, b'Y', b'Y'), Some(TradingState::OPEN));
        assert_eq!(state(99, b'N', b'N'), Some(TradingState::HALTED));
        assert_eq!(state(99, b'~', b'Y'), None);
    }
}
