//! Hubs in a row, with the machines that the program has: each follows the feed of the one before
//! through a server's session, a wire and a client.

use std::collections::BTreeMap;

use tidewire_feed::client::{Client, ClientConfig, NullSink, Side};
use tidewire_feed::server::{Session, SessionConfig};

use super::*;
use crate::bars::{BarClock, Interval};
use crate::board::Board;
use crate::venues::CONSOLIDATED_NAME;

/// A bar as it was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) start_ns: u64,
    pub(super) prices: [i64; 4],
    pub(super) volume: u64,
    pub(super) trades: u64,
    pub(super) turnover: i128,
    pub(super) is_partial: bool,
    pub(super) is_final: bool,
    pub(super) late: u64,
}

/// A hub.
pub(super) struct Hub {
    pub(super) market: Arc<Market>,
    pub(super) is_stopped: bool,
    pub(super) links: Vec<Link>,
    clock: BarClock,
    is_asked: bool,
    /// The closed bars that were published, by name and start.
    pub(super) closed: BTreeMap<(String, u64), Seen>,
}

/// What a hub reads another one with.
pub(super) struct Link {
    pub(super) before: usize,
    client: Client,
    ingest: Ingest,
    session: Option<Session>,
    /// Bytes on their way to the client.
    wire: Vec<u8>,
    is_connected: bool,
    /// Whether the server is gone, behind what is on its way.
    is_over: bool,
}

/// Returns a hub's market data, with a client of all bars of a minute or without one.
pub(super) fn market(is_asked: bool) -> Arc<Market> {
    let market = Market::of_one_lane(MarketConfig {
        topics_max: 64,
        journal_messages: 1_024,
        ..MarketConfig::default()
    });
    if is_asked {
        market.bars.prepare(b"bar:1m:", false);
        market.post.subscriptions.add(0, Kind::Prefix, b"bar:1m:");
    }
    market
}

impl Hub {
    pub(super) fn new(before: &[usize], is_asked: bool) -> Self {
        let market = market(is_asked);
        let link = |&before: &usize| Link::new(&market, before);
        Self {
            links: before.iter().map(link).collect(),
            market,
            is_stopped: false,
            clock: BarClock::default(),
            is_asked,
            closed: BTreeMap::new(),
        }
    }

    /// Starts it again, without what it knew.
    pub(super) fn restart(&mut self) {
        let before: Vec<usize> = self.links.iter().map(|link| link.before).collect();
        *self = Self::new(&before, self.is_asked);
    }

    /// Applies messages of a source of its own.
    pub(super) fn note(&mut self, news: &(Publication, u64)) {
        note(&mut self.closed, news);
    }

    /// Closes the bars that are due by the wall clock.
    pub(super) fn pass_time(&mut self, now_ns: u64) {
        // The first turn after a time without one waits.
        for now_ns in [now_ns - SECOND / 3, now_ns] {
            let (news, _) = self.clock.turn(&self.market.bars, now_ns, now_ns);
            self.note(&news);
        }
    }

    /// Returns the newest bar under a name, if the hub makes it.
    pub(super) fn bar(&self, name: &str) -> Option<Seen> {
        bar_of(&self.market, name)
    }

    /// Connects to the hubs before it, and reads all that is on its way. Returns whether there was
    /// anything.
    pub(super) fn read(&mut self, now_ns: u64, may_connect: bool) -> bool {
        let mut has_read = false;
        for link in &mut self.links {
            let Some(news) = link.read(now_ns, may_connect) else {
                continue;
            };
            note(&mut self.closed, &news);
            has_read = true;
        }
        has_read
    }
}

/// Returns the newest bar of a minute under a name, if there is one.
pub(super) fn bar_of(market: &Market, name: &str) -> Option<Seen> {
    let topic = market.board.find(name.as_bytes())?;
    let bars = topic.derived.bars()?.get(Interval::Minute)?;
    let state = bars.state.lock();
    let mut shown = state.shown()?;
    if topic.symbol() != name.as_bytes() {
        shown = state.shown_as_venue(&shown)?;
    }
    let bar = shown.bar;
    Some(Seen {
        start_ns: bar.start_ns,
        prices: [bar.open, bar.high, bar.low, bar.close],
        volume: bar.volume,
        trades: bar.trades,
        turnover: bar.turnover,
        is_partial: shown.is_partial,
        is_final: shown.is_final,
        late: state.bars.late(),
    })
}

fn note(closed: &mut BTreeMap<(String, u64), Seen>, news: &(Publication, u64)) {
    for news in news.0.news().filter(|news| news.is_final) {
        let text = std::str::from_utf8(news.payload).unwrap();
        let field = |field: &str| {
            let (_, rest) = text.split_once(&format!("\"{field}\":")).unwrap();
            rest.split([',', '}']).next().unwrap()
        };
        let number = |name: &str| field(name).parse::<u64>().unwrap();
        let price = |name: &str| (field(name).parse::<f64>().unwrap() * 1e9).round() as i64;
        let name = std::str::from_utf8(news.name).unwrap();
        let name = name.strip_prefix("bar:1m:").unwrap();
        let seen = Seen {
            start_ns: number("start"),
            prices: ["open", "high", "low", "close"].map(price),
            volume: number("volume"),
            trades: number("trades"),
            turnover: 0,
            is_partial: number("partial") != 0,
            is_final: true,
            late: number("late"),
        };
        closed.insert((name.to_owned(), seen.start_ns), seen);
    }
}

impl Link {
    fn new(market: &Arc<Market>, before: usize) -> Self {
        let mut client = Client::new(ClientConfig::default());
        client.subscribe("*").unwrap();
        let number = market.next_source_number() as u32;
        Self {
            before,
            client,
            ingest: Ingest::new(market.clone(), number, &format!("hub{before}")),
            session: None,
            wire: Vec::new(),
            is_connected: false,
            is_over: false,
        }
    }

    /// Ends the server's side. What it has sent arrives, or is lost.
    pub(super) fn end(&mut self, loses: bool) {
        self.session = None;
        self.is_over = self.is_connected;
        if loses {
            self.wire.clear();
        }
    }

    /// Lets the server read what the client has sent, and send what is due.
    pub(super) fn serve(&mut self, before: &Market, now_ns: u64) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut input = Vec::new();
        self.client.drain_outgoing(Side::A, &mut input);
        let used = session.receive(&input, now_ns, &mut NullSink).unwrap();
        assert_eq!(used, input.len(), "whole packets");
        let journal = before.journal.lock();
        let (board, out): (&Board, _) = (&before.board, &mut self.wire);
        while session.produce(&journal, board, now_ns, out, 1 << 20) {}
    }

    /// Reads what has arrived; connects if there is no connection. Returns what it publishes.
    fn read(&mut self, now_ns: u64, may_connect: bool) -> Option<(Publication, u64)> {
        if !self.is_connected && !may_connect {
            return None;
        }
        if !self.is_connected {
            self.client.connected(Side::A, now_ns);
            self.session = Some(Session::new(SessionConfig::default(), now_ns));
            (self.is_connected, self.is_over) = (true, false);
            return Some((Publication::default(), 0));
        }
        if !self.wire.is_empty() {
            let input = std::mem::take(&mut self.wire);
            let mut batch = self.ingest.begin(now_ns);
            let used = self.client.receive(Side::A, &input, now_ns, &mut batch);
            assert_eq!(used, Ok(input.len()), "whole packets");
            return Some(batch.finish());
        }
        if self.is_over {
            self.client.disconnected(Side::A);
            (self.is_connected, self.is_over) = (false, false);
            return Some(self.ingest.lose(now_ns));
        }
        None
    }
}

/// Returns the market data of another hub, to which the recording of a hub has been sent.
pub(super) fn replayed(hub: &Hub, is_asked: bool) -> Arc<Market> {
    let again = market(is_asked);
    drop(replay_into(&again, hub, |_| {}));
    again
}

/// Sends the recording of a hub to another one, as a publisher. Calls `after` behind each of its
/// messages.
pub(super) fn replay_into(
    again: &Arc<Market>,
    hub: &Hub,
    mut after: impl FnMut(&Market),
) -> Ingest {
    let number = again.next_source_number() as u32;
    let ingest = Ingest::new(again.clone(), number, "replay");
    let mut ingest = ingest.of_publisher("replay".to_owned());
    let mut batch = ingest.begin(START);
    batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
    batch.finish();
    let journal = hub.market.journal.lock();
    for sequence in 1..journal.next_sequence() {
        let mut batch = ingest.begin(START);
        match journal.message(sequence).unwrap() {
            Message::Definition(definition) => batch.definition(sequence, &definition),
            Message::Venue(venue) => batch.venue(&venue),
            message => batch.message(sequence, &message),
        }
        batch.finish();
        after(again);
    }
    drop(journal);
    ingest
}
