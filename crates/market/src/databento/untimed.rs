//! Values without a time: a topic begins with nothing before its first message, as after a restart
//! of the hub. They happen when the message behind them does.

use tidewire_feed::wire::Message;

use super::stream::{is_definition, time_ns};

/// Returns whether a message is a whole value without a time.
#[inline]
pub(super) fn is_untimed(message: &Message) -> bool {
    matches!(message, Message::LastValue(value) if value.source_time_ns == 0)
}

/// Gives a value without a time the one of its place in the stream.
#[inline]
pub(super) fn set_time(message: &mut Message, time_ns: u64) {
    if let Message::LastValue(value) = message
        && value.source_time_ns == 0
    {
        value.source_time_ns = time_ns;
    }
}

/// Returns the time of the first event in `behind`, ns since the UNIX epoch; `None` if none of the
/// next messages is one.
#[cold]
pub(super) fn time_behind(behind: impl Iterator<Item = Message>) -> Option<u64> {
    let mut behind = behind.take(BEHIND_MAX);
    behind.find_map(|message| event_ns(&message))
}

/// Returns the time of an event, ns since the UNIX epoch. Definitions and whole values may be older
/// than their place in the stream.
pub(super) fn event_ns(message: &Message) -> Option<u64> {
    let is_event = match message {
        Message::Quote(_) | Message::Trade(_) | Message::Status(_) | Message::Level(_) => true,
        Message::Record(part) => part.offset() == 0 && !is_definition(part),
        _ => false,
    };
    let time_ns = match message {
        Message::SessionStart(start) => start.source_time_ns,
        _ if is_event => time_ns(message),
        _ => 0,
    };
    (time_ns != 0).then_some(time_ns)
}

/// Maximum messages between a value without a time and the event that it precedes: the definition,
/// the record and the certainty of a topic or two.
pub(super) const BEHIND_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::{LastValue, Quote, SessionStart, Trade};

    #[test]
    fn a_value_without_a_time_happens_with_the_next_event() {
        let mut nothing = Message::LastValue(LastValue::new(1));
        let quote = |source_time_ns| {
            Message::Quote(Quote {
                source_time_ns,
                ..Quote::default()
            })
        };
        let older = Message::LastValue(LastValue {
            source_time_ns: 3,
            ..LastValue::new(2)
        });
        assert!(is_untimed(&nothing) && !is_untimed(&older) && !is_untimed(&quote(0)));
        let behind = [older, quote(0), quote(7), quote(8)];
        assert_eq!(time_behind(behind.into_iter()), Some(7));
        assert_eq!(
            time_behind(vec![quote(0); 64].into_iter().chain([quote(7)])),
            None
        );
        set_time(&mut nothing, 7);
        assert_eq!(time_ns(&nothing), 7);
        set_time(&mut nothing, 8);
        assert_eq!(time_ns(&nothing), 7);
        let start = SessionStart {
            source_time_ns: 4,
            ..SessionStart::default()
        };
        assert_eq!(event_ns(&Message::SessionStart(start)), Some(4));
        assert_eq!(event_ns(&Message::Trade(Trade::default())), None);
    }
}
