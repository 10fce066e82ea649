//! Times of a source that cannot be: they move no clock.

use tidewire_feed::wire::Message;

/// Returns the last time of a source that can be, ns since the UNIX epoch: a day ahead of the hub's
/// clock, which may be wrong too. Before 2020 the hub's clock has not been set.
pub(super) fn possible_until_ns(now_ns: u64) -> u64 {
    match now_ns {
        ..CLOCK_SET_NS => i64::MAX as u64,
        now_ns => now_ns.saturating_add(AHEAD_MAX_NS),
    }
}

/// Returns a message without its time if that is after `until_ns`, and by how much; `None` if it
/// keeps its time. One that cannot be would close the bars of all symbols, and all later times
/// would be before it.
#[inline]
pub(super) fn without_impossible_time(message: &Message, until_ns: u64) -> Option<(Message, u64)> {
    let ahead_ns = time_ns(message)?.checked_sub(until_ns)?;
    (ahead_ns > 0).then(|| (without_time(message), ahead_ns))
}

/// Returns the time of a message at its source, ns since the UNIX epoch; `None` for a kind without
/// one.
#[inline]
pub(super) fn time_ns(message: &Message) -> Option<u64> {
    Some(match message {
        Message::Trade(trade) => trade.source_time_ns,
        Message::Quote(quote) => quote.source_time_ns,
        Message::Level(level) => level.source_time_ns,
        Message::Record(part) => part.source_time_ns,
        Message::Status(status) => status.source_time_ns,
        Message::LastValue(value) => value.source_time_ns,
        Message::SessionStart(start) => start.source_time_ns,
        Message::Certainty(certainty) => certainty.source_time_ns,
        Message::Definition(definition) => definition.source_time_ns,
        _ => return None,
    })
}

/// Returns until when the source's stream has come with a message, ns since the UNIX epoch; 0 if it
/// does not tell. A whole value does not: it may be one of a snapshot that the source has got, and
/// those of other symbols, with earlier trades, may follow. Nor does what is said of a value.
#[inline]
pub(super) fn clock_ns(message: &Message) -> u64 {
    match message {
        Message::LastValue(_) | Message::Certainty(_) => 0,
        message => time_ns(message).unwrap_or(0),
    }
}

#[cold]
fn without_time(message: &Message) -> Message {
    let mut message = *message;
    let time_ns = match &mut message {
        Message::Trade(trade) => &mut trade.source_time_ns,
        Message::Quote(quote) => &mut quote.source_time_ns,
        Message::Level(level) => &mut level.source_time_ns,
        Message::Record(part) => &mut part.source_time_ns,
        Message::Status(status) => &mut status.source_time_ns,
        Message::LastValue(value) => &mut value.source_time_ns,
        Message::SessionStart(start) => &mut start.source_time_ns,
        Message::Certainty(certainty) => &mut certainty.source_time_ns,
        Message::Definition(definition) => &mut definition.source_time_ns,
        _ => return message,
    };
    *time_ns = 0;
    message
}

const AHEAD_MAX_NS: u64 = 86_400_000_000_000;
/// 2020-01-01.
const CLOCK_SET_NS: u64 = 1_577_836_800_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::{
        Certainty, Definition, LastValue, Level, Name, Quote, RecordPart, SessionStart, Trade,
        TradingStatus,
    };

    #[test]
    fn a_time_that_cannot_be_is_not_known() {
        let now_ns = CLOCK_SET_NS + 5;
        let until_ns = possible_until_ns(now_ns);
        assert_eq!(until_ns, now_ns + AHEAD_MAX_NS);
        let all = |source_time_ns| {
            [
                Message::Trade(Trade {
                    source_time_ns,
                    ..Trade::default()
                }),
                Message::Quote(Quote {
                    source_time_ns,
                    ..Quote::default()
                }),
                Message::Level(Level {
                    source_time_ns,
                    ..Level::default()
                }),
                Message::Status(TradingStatus {
                    source_time_ns,
                    ..TradingStatus::default()
                }),
                Message::LastValue(LastValue {
                    source_time_ns,
                    ..LastValue::new(1)
                }),
                Message::SessionStart(SessionStart {
                    source_time_ns,
                    ..SessionStart::default()
                }),
                Message::Certainty(Certainty {
                    source_time_ns,
                    ..Certainty::default()
                }),
                Message::Definition(Definition {
                    source_time_ns,
                    ..Definition::new(1, Name::EMPTY)
                }),
                Message::Record(
                    RecordPart::split(1, 2, source_time_ns, &[0; 16])
                        .next()
                        .unwrap(),
                ),
            ]
        };
        for (message, nothing) in all(u64::MAX).into_iter().zip(all(0)) {
            let found = without_impossible_time(&message, until_ns);
            assert_eq!(found, Some((nothing, u64::MAX - until_ns)));
        }
        for message in all(until_ns).into_iter().chain(all(0)) {
            assert_eq!(without_impossible_time(&message, until_ns), None);
        }
    }

    #[test]
    fn a_clock_that_has_not_been_set_judges_no_source() {
        let until_ns = possible_until_ns(5);
        let trade = |source_time_ns| {
            Message::Trade(Trade {
                source_time_ns,
                ..Trade::default()
            })
        };
        let found = |time_ns| without_impossible_time(&trade(time_ns), until_ns);
        assert_eq!(found(CLOCK_SET_NS), None);
        assert!(found(u64::MAX).is_some() && found(1 << 63).is_some());
    }
}
