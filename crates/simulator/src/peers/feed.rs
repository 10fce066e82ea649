//! A publisher of the native feed, and a subscriber to the hub's own.

use std::collections::BTreeMap;

use tidewire_feed::client::{
    Client, ClientConfig, Publisher, PublisherConfig, PublisherError, PublisherState, Side, Sink,
};
use tidewire_feed::journal::Journal;
use tidewire_feed::wire::{Definition, LastValue, Message, Name, Quote};
use tidewire_hub::port;

use crate::link::Link;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};
use crate::random::Random;

/// A publisher whose bids only grow.
pub(crate) struct FeedPublisher {
    number: usize,
    link: Option<Link>,
    publisher: Publisher,
    bids: [i64; SYMBOLS],
    source_time_ns: u64,
}

impl FeedPublisher {
    pub(crate) fn new(number: usize, random: &mut Random) -> Self {
        let session = random.between(1, u64::from(u32::MAX)) as u32;
        let mut publisher = Publisher::new(
            PublisherConfig::default(),
            Journal::new(session, JOURNAL_MESSAGES),
        );
        for symbol in 0..SYMBOLS {
            let name = Name::new(&symbol_name(number, symbol)).expect("a short name");
            let definition = Definition::new(symbol as u32, name);
            publisher.append(&Message::Definition(definition));
        }
        Self {
            number,
            link: None,
            publisher,
            bids: [0; SYMBOLS],
            source_time_ns: 1,
        }
    }

    fn quote(&mut self, around: &mut Around<'_>) {
        let symbol = around.random.place(SYMBOLS);
        let bid = self.bids[symbol] + around.random.between(1, 1_000) as i64 * PRICE_UNIT;
        self.bids[symbol] = bid;
        self.source_time_ns += 1;
        self.publisher.append(&Message::Quote(Quote {
            symbol: symbol as u32,
            source: 1,
            source_time_ns: self.source_time_ns,
            bid,
            ask: bid + PRICE_UNIT,
            bid_size: 1,
            ask_size: 2,
            bid_orders: 0,
            ask_orders: 0,
        }));
        let name = symbol_name(self.number, symbol);
        around.ledger.bids.insert(name, bid);
    }

    fn exchange(&mut self, around: &mut Around<'_>) -> Verdict {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        self.publisher
            .produce(around.now_ns, &mut link.outgoing, 4_096);
        let is_open = link.step(around);
        let used = self.publisher.receive(&link.incoming, around.now_ns);
        let is_busy = match used {
            Ok(used) => {
                link.incoming.drain(..used);
                false
            }
            // The hub has not noticed the end of the last connection yet.
            Err(PublisherError::SessionInUse) => true,
            Err(error) => return Err(error.to_string()),
        };
        if is_busy || !is_open || self.publisher.is_silent(around.now_ns) {
            self.publisher.disconnected();
            self.link = None;
        }
        Ok(())
    }
}

impl PeerOfHub for FeedPublisher {
    fn name(&self) -> String {
        format!("publisher {}", self.number)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        if self.link.is_none() {
            self.link = Some(Link::open(around, port::FEED));
            self.publisher.connected(around.now_ns);
        }
        self.exchange(around)?;
        if !around.is_quiet {
            let is_streaming = self.publisher.state() == PublisherState::Streaming;
            if is_streaming && self.publisher.room() > 8 && around.random.chance(400) {
                self.quote(around);
            }
            if around.random.chance(2) {
                self.publisher.disconnected();
                self.link = None;
            }
        }
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.publisher.disconnected();
        self.link = None;
    }

    fn is_settled(&self) -> bool {
        let is_streaming = self.publisher.state() == PublisherState::Streaming;
        is_streaming
            && self
                .link
                .as_ref()
                .is_some_and(|link| link.outgoing.is_empty())
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        match self.publisher.overrun() {
            0 => Ok(()),
            lost => Err(format!("{lost} messages fell out of the journal unsent")),
        }
    }
}

/// A subscriber to all of the hub's own feed.
pub(crate) struct FeedSubscriber {
    number: usize,
    link: Option<Link>,
    client: Client,
    values: Values,
}

/// What the stream says.
#[derive(Debug, Default)]
struct Values {
    names: BTreeMap<u32, String>,
    values: BTreeMap<u32, LastValue>,
    wrong: Option<String>,
}

impl FeedSubscriber {
    pub(crate) fn new(number: usize) -> Self {
        let mut client = Client::new(ClientConfig::default());
        client.subscribe("*").expect("a pattern");
        Self {
            number,
            link: None,
            client,
            values: Values::default(),
        }
    }

    fn disconnect(&mut self) {
        self.client.disconnected(Side::A);
        self.link = None;
    }

    fn bids(&self) -> BTreeMap<String, i64> {
        let named = self.values.names.iter().filter_map(|(symbol, name)| {
            let value = self.values.values.get(symbol)?;
            Some((name.clone(), value.bid))
        });
        named.collect()
    }
}

impl PeerOfHub for FeedSubscriber {
    fn name(&self) -> String {
        format!("feed subscriber {}", self.number)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        let now_ns = around.now_ns;
        if self.link.is_none() {
            self.link = Some(Link::open(around, port::FEED));
            self.client.connected(Side::A, now_ns);
        }
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        self.client.handle_timeout(now_ns, &mut self.values);
        self.client.drain_outgoing(Side::A, &mut link.outgoing);
        let is_open = link.step(around);
        let input = &link.incoming;
        let used = self
            .client
            .receive(Side::A, input, now_ns, &mut self.values);
        let used = used.map_err(|error| error.to_string())?;
        link.incoming.drain(..used);
        let leaves = !around.is_quiet && around.random.chance(2);
        if !is_open || leaves || self.client.is_silent(Side::A, now_ns) {
            self.disconnect();
        }
        self.values.wrong.take().map_or(Ok(()), Err)
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.disconnect();
    }

    fn is_settled(&self) -> bool {
        self.link.is_some() && self.client.is_complete()
    }

    fn check(&mut self, around: &mut Around<'_>) -> Verdict {
        let bids = self.bids();
        for (name, bid) in &around.ledger.bids {
            if bids.get(name) != Some(bid) {
                let heard = bids.get(name);
                return Err(format!(
                    "the bid of {name} is {bid}, and was last heard as {heard:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Values {
    fn change(&mut self, symbol: u32, change: impl FnOnce(&mut LastValue) -> bool) {
        let value = self.values.entry(symbol).or_insert(LastValue::new(symbol));
        let before = value.bid;
        change(value);
        if value.bid < before && before != LastValue::new(symbol).bid {
            let text = format!(
                "the bid of symbol {symbol} goes back from {before} to {}",
                value.bid
            );
            self.wrong = Some(text);
        }
    }
}

impl Sink for Values {
    fn message(&mut self, sequence: u64, message: &Message) {
        if let Message::Quote(quote) = message {
            self.change(quote.symbol, |value| value.apply(sequence, message));
        }
    }

    fn definition(&mut self, _sequence: u64, definition: &Definition) {
        let name = definition.name.as_str().to_owned();
        let before = self.names.insert(definition.symbol, name.clone());
        if before.as_ref().is_some_and(|before| *before != name) {
            self.wrong = Some(format!("the symbol of {before:?} is now {name}'s"));
        }
    }

    fn snapshot_record(&mut self, _as_of: u64, record: &LastValue) {
        self.change(record.symbol, |value| value.merge(record));
    }

    fn session_changed(&mut self, _old: u32, _new: u32) {
        *self = Values::default();
    }
}

/// What a symbol is called, without its prefix.
fn symbol_name(publisher: usize, symbol: usize) -> String {
    format!("F{publisher}S{symbol}")
}

const SYMBOLS: usize = 4;
const JOURNAL_MESSAGES: usize = 1 << 12;
/// One, in units of 1e-9.
const PRICE_UNIT: i64 = 1_000_000_000;
