//! Random histories of hubs in a row: at each step each bar of each hub, and of a replay of its
//! recording, either has exactly the trades of its name, or says that it may lack some.
//!
//! Trades have sizes of one bit each, so a volume tells which trades are in it.

use std::collections::HashMap;

use super::*;
use crate::venues::{CONSOLIDATED, CONSOLIDATED_NAME};
use hubs::{Hub, Seen, bar_of, replayed};

mod cases;
mod hubs;
mod once;
mod steps;

use steps::{Setting, Step, random_history};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const START: u64 = 1_700_002_800 * SECOND;
/// The day before the first one that begins.
const DAY: u32 = 20_231_114;
const SYMBOL: &str = "S";
/// A publisher's symbol with the name of a hub's sum.
const LIKE_SUM: &str = "S@consolidated";
const TRADES_MAX: u32 = 30;

/// A trade that was sent.
#[derive(Clone, Debug)]
struct Sent {
    symbol: &'static str,
    venue: String,
    /// The hub that it was sent to.
    head: usize,
    time_ns: u64,
    price: i64,
}

/// A publisher at a hub.
struct Sender {
    head: usize,
    /// The number and the name of each of its venues.
    venues: Vec<(u16, Option<&'static str>)>,
    ingest: Option<Ingest>,
    /// What it has sent in its session.
    log: Vec<Message>,
    /// Whether its hub was killed since.
    is_cut_off: bool,
    feed: String,
    symbol: &'static str,
}

impl Sender {
    fn venue(&self, place: usize) -> (u16, String) {
        let (number, name) = self.venues[place % self.venues.len()];
        let name = match (name, number) {
            (Some(name), _) => name.to_owned(),
            (None, 0) => self.feed.clone(),
            (None, number) => number.to_string(),
        };
        (number, name)
    }
}

/// The hubs, and all that has happened.
struct World {
    setting: Setting,
    hubs: Vec<Hub>,
    senders: Vec<Sender>,
    sent: Vec<Sent>,
    now_ns: u64,
    whole: u64,
    partial: u64,
    needless: u64,
    /// The newest trading day of each venue number that has had one.
    days: HashMap<u16, u32>,
    /// Whether the first follower has restarted.
    has_other_names: bool,
    /// Whether all hubs have read everything.
    is_settled: bool,
    /// Whether every publisher and hub has run from its start on.
    is_calm: bool,
    /// The hub at which each name of a venue was used first.
    used: Vec<(usize, &'static str)>,
}

impl World {
    fn new(setting: &Setting) -> Self {
        let heads = setting.heads;
        let side = heads - usize::from(setting.is_tree);
        let before = |place: usize| match place {
            place if place < heads => Vec::new(),
            place if place == heads => (0..side).collect(),
            place if place == heads + 1 => (side..heads).chain([place - 1]).collect(),
            place => vec![place - 1],
        };
        let hubs =
            (0..heads + setting.followers).map(|place| Hub::new(&before(place), setting.is_asked));
        let senders = setting.senders.iter().enumerate();
        let senders = senders.map(|(place, (head, venues))| Sender {
            head: *head,
            venues: venues.clone(),
            ingest: None,
            log: Vec::new(),
            is_cut_off: false,
            feed: format!("p{place}"),
            symbol: match setting.named_like_sum == Some(place) {
                true => LIKE_SUM,
                false => SYMBOL,
            },
        });
        Self {
            hubs: hubs.collect(),
            senders: senders.collect(),
            setting: setting.clone(),
            sent: Vec::new(),
            now_ns: START,
            whole: 0,
            partial: 0,
            needless: 0,
            days: HashMap::new(),
            has_other_names: false,
            is_settled: false,
            is_calm: true,
            used: setting
                .senders
                .iter()
                .flat_map(|(head, venues)| venues.iter().map(|(_, name)| (*head, *name)))
                .filter_map(|(head, name)| Some((head, name?)))
                .collect(),
        }
    }

    fn start(&mut self, place: usize) {
        let sender = &mut self.senders[place];
        let hub = &mut self.hubs[sender.head];
        if let Some(mut old) = sender.ingest.take() {
            hub.note(&old.lose(self.now_ns));
        }
        let number = hub.market.next_source_number() as u32;
        let ingest = Ingest::new(hub.market.clone(), number, &sender.feed);
        let mut ingest = ingest.of_publisher(sender.feed.clone());
        let mut batch = ingest.begin(self.now_ns);
        for (number, name) in &sender.venues {
            if let Some(name) = name {
                batch.venue(&venue(*number, name));
            }
        }
        if sender.symbol == LIKE_SUM && self.setting.is_player {
            batch.venue(&venue(CONSOLIDATED, CONSOLIDATED_NAME));
        }
        batch.definition(1, &definition(0, sender.symbol));
        hub.note(&batch.finish());
        sender.ingest = Some(ingest);
        sender.is_cut_off = false;
        sender.log.clear();
    }

    fn send(&mut self, place: usize, message: Message) {
        if self.senders[place].ingest.is_none() {
            self.start(place);
        }
        let sender = &mut self.senders[place];
        let Some(ingest) = &mut sender.ingest else {
            return;
        };
        let mut batch = ingest.begin(self.now_ns);
        batch.message(1, &message);
        self.hubs[sender.head].note(&batch.finish());
        sender.log.push(message);
    }

    fn trade(&mut self, place: usize, venue: usize) {
        let sender = &self.senders[place];
        if self.sent.len() as u32 >= TRADES_MAX || self.hubs[sender.head].is_stopped {
            return;
        }
        let number = self.sent.len() as i64;
        let (source, name) = sender.venue(venue);
        self.now_ns += SECOND / 8;
        let sent = Sent {
            symbol: sender.symbol,
            venue: name,
            head: sender.head,
            time_ns: self.now_ns,
            price: (100 + number * 7 % 11) * 1_000_000_000 + number * 1_000_000,
        };
        let trade = TradeMessage {
            source,
            source_time_ns: sent.time_ns,
            price: sent.price,
            size: 1 << number,
            ..TradeMessage::default()
        };
        self.sent.push(sent);
        self.send(place, Message::Trade(trade));
    }

    fn quote(&mut self, place: usize, venue: usize) {
        let sender = &self.senders[place];
        if self.hubs[sender.head].is_stopped {
            return;
        }
        let (source, _) = sender.venue(venue);
        self.now_ns += SECOND / 8;
        // The same for a second.
        let bid = 99_000_000_000 + (self.now_ns - START) as i64 / 1_000_000_000 * 1_000;
        let quote = QuoteMessage {
            source,
            source_time_ns: self.now_ns,
            bid,
            ask: bid + 50_000_000_000,
            bid_size: 1,
            ask_size: 1,
            ..QuoteMessage::default()
        };
        self.send(place, Message::Quote(quote));
    }

    fn begin_day(&mut self, place: usize, venue: usize) {
        let sender = &self.senders[place];
        if self.hubs[sender.head].is_stopped {
            return;
        }
        let (source, _) = sender.venue(venue);
        self.now_ns += SECOND / 8;
        let day = self.days.entry(source).or_insert(DAY);
        *day += 1;
        let start = SessionStart {
            source,
            source_time_ns: self.now_ns,
            trading_day: *day,
            rolls: SessionStart::BEGINS,
            reference: PRICE_UNDEFINED,
            kind: ReferenceKind::NONE,
            ..SessionStart::default()
        };
        self.send(place, Message::SessionStart(start));
    }

    /// Gives a venue number of a sender another name, in its running session or in the next one.
    fn rename(&mut self, place: usize, at: usize, name: &'static str) {
        let known = self.senders.iter().flat_map(|sender| &sender.venues);
        if known
            .into_iter()
            .any(|(_, known)| *known == Some(name) || known.is_none())
        {
            return;
        }
        let sender = &mut self.senders[place];
        // With a second venue it has a sum of its own under its name.
        if sender.symbol == LIKE_SUM {
            return;
        }
        // Two hubs with one venue: the second one's has another name at the hub behind them.
        if self
            .used
            .iter()
            .any(|(head, known)| *known == name && *head != sender.head)
        {
            return;
        }
        let at = at % sender.venues.len();
        if self.hubs[sender.head].is_stopped {
            return;
        }
        self.used.push((sender.head, name));
        sender.venues[at].1 = Some(name);
        let number = sender.venues[at].0;
        // What it has sent before had the other name.
        sender.log.clear();
        if let Some(ingest) = &mut sender.ingest {
            let mut batch = ingest.begin(self.now_ns);
            batch.venue(&venue(number, name));
            self.hubs[sender.head].note(&batch.finish());
        }
    }

    fn kill(&mut self, place: usize, loses: bool) {
        for sender in self
            .senders
            .iter_mut()
            .filter(|sender| sender.head == place)
        {
            sender.is_cut_off = sender.ingest.take().is_some();
        }
        self.hubs[place].restart();
        self.has_other_names |= place == self.setting.heads;
        for link in self.hubs.iter_mut().flat_map(|hub| &mut hub.links) {
            if link.before == place {
                link.end(loses);
            }
        }
    }

    /// Sends a sender's session again to a hub that has restarted.
    fn send_again(&mut self, place: usize) {
        let sender = &self.senders[place];
        if !sender.is_cut_off || self.hubs[sender.head].is_stopped {
            return;
        }
        let log = std::mem::take(&mut self.senders[place].log);
        self.start(place);
        for message in log {
            self.send(place, message);
        }
    }

    fn serve(&mut self) {
        for place in 0..self.hubs.len() {
            let (before, own) = self.hubs.split_at_mut(place);
            for link in &mut own[0].links {
                let before = &before[link.before];
                if !before.is_stopped {
                    link.serve(&before.market, self.now_ns);
                }
            }
        }
    }

    fn deliver(&mut self, only: Option<usize>, may_connect: bool) {
        loop {
            self.serve();
            let mut has_read = false;
            for (place, hub) in self.hubs.iter_mut().enumerate() {
                if !hub.is_stopped && only.is_none_or(|only| only == place) {
                    has_read |= hub.read(self.now_ns, may_connect);
                }
            }
            if !has_read {
                return;
            }
        }
    }

    fn step(&mut self, step: Step) {
        self.is_settled = step == Step::Settle;
        self.is_calm &= step.is_calm();
        match step {
            Step::Trade(place, venue) => self.trade(place, venue),
            Step::Quote(place, venue) => self.quote(place, venue),
            Step::Day(place, venue) => self.begin_day(place, venue),
            Step::Restart(place) if !self.hubs[self.senders[place].head].is_stopped => {
                self.start(place);
            }
            Step::Restart(_) => {}
            Step::Again(place) => self.send_again(place),
            Step::Leave(place) => {
                let sender = &mut self.senders[place];
                let hub = &mut self.hubs[sender.head];
                if let Some(mut ingest) = sender.ingest.take().filter(|_| !hub.is_stopped) {
                    hub.note(&ingest.lose(self.now_ns));
                }
            }
            Step::Rename(place, at, name) => self.rename(place, at, name),
            Step::Kill(place) => self.kill(place, false),
            Step::KillAndLose(place) => self.kill(place, true),
            Step::Stop(place) => self.hubs[place].is_stopped = true,
            Step::Continue(place) => self.hubs[place].is_stopped = false,
            Step::Deliver => self.deliver(None, true),
            Step::DeliverTo(place) => self.deliver(Some(place), true),
            Step::Minute => {
                // What has been sent arrives before the wall clock closes a bar.
                self.deliver(None, false);
                self.now_ns = (self.now_ns / MINUTE + 1) * MINUTE + SECOND / 2;
                let running = self.hubs.iter_mut().filter(|hub| !hub.is_stopped);
                running.for_each(|hub| hub.pass_time(self.now_ns));
            }
            Step::Ask(place, name) => {
                let market = &self.hubs[place].market;
                if let Some(topic) = market.board.find(name.as_bytes()) {
                    let bars = market.bars.bars_of(&topic, crate::bars::Interval::Minute);
                    if topic.symbol() != name.as_bytes() {
                        bars.state.lock().read_as_venue();
                    }
                }
            }
            Step::Settle => {
                self.hubs.iter_mut().for_each(|hub| hub.is_stopped = false);
                self.deliver(None, true);
            }
        }
        self.serve();
    }

    /// Returns the trades that a hub knows of, one bit each, and those that came one by one, in
    /// their order.
    fn known(&self, place: usize) -> (u64, Vec<u32>) {
        let journal = self.hubs[place].market.journal.lock();
        let (mut known, mut order) = (0, Vec::new());
        for sequence in 1..journal.next_sequence() {
            match journal.message(sequence) {
                Some(Message::Trade(trade)) => {
                    known |= u64::from(trade.size);
                    let bit = trade.size.trailing_zeros();
                    if !order.contains(&bit) {
                        order.push(bit);
                    }
                }
                Some(Message::LastValue(value)) => known |= value.volume,
                _ => {}
            }
        }
        (known, order)
    }

    /// Returns the trades of a name at a hub, one bit each; `None` if the name means nothing there.
    fn of_name(&self, place: usize, name: &str) -> Option<u64> {
        let of_symbol = |symbol: &str, is_of: &dyn Fn(&Sent) -> bool| {
            let all = self.sent.iter().enumerate();
            all.filter(|(_, sent)| sent.symbol == symbol && is_of(sent))
                .fold(0, |bits, (number, _)| bits | 1 << number)
        };
        let bits = |is_of: &dyn Fn(&Sent) -> bool| of_symbol(SYMBOL, is_of);
        let Some(venue) = name.strip_prefix("S@") else {
            return Some(bits(&|_| true));
        };
        let (heads, market) = (self.setting.heads, &self.hubs[place].market);
        if !venue.starts_with(CONSOLIDATED_NAME) {
            // A feed without names goes on with the venue of another one.
            if self
                .senders
                .iter()
                .any(|sender| sender.venues[0].1.is_none())
            {
                return None;
            }
            // Of two publishers of one venue that are there at once, one has another name.
            if self.setting.has_shared() {
                return None;
            }
            // After a restart a symbol of the hub that is followed may have the venue's name still.
            let venue = match self.setting.is_tree {
                true => venue.split('#').next().unwrap_or(venue),
                false => venue,
            };
            return Some(bits(&|sent| sent.venue == venue));
        }
        let topic = market.board.named(name);
        // It is left of a symbol, and the second name of the hub's value now.
        if self.setting.named_like_sum.is_some()
            && let Some(symbol) = market.board.named(SYMBOL)
            && let (Some(own), Some(topic)) = (symbol.namesake(), &topic)
            && Arc::ptr_eq(&own, topic)
        {
            return Some(bits(&|_| true));
        }
        if self.setting.named_like_sum.is_some()
            && let Some(topic) = &topic
            && !topic.is_consolidated_upstream()
        {
            let may_be_several = place > heads || self.setting.heads > 1;
            return (!may_be_several).then(|| of_symbol(LIKE_SUM, &|_| true));
        }
        if place < heads || topic.is_none() {
            return Some(bits(&|_| true));
        }
        if self.setting.is_tree && place > heads {
            return None;
        }
        let mut at = place;
        while at > heads && self.hubs[at - 1].market.board.named(name).is_some() {
            at -= 1;
        }
        let is_old = self.hubs[place]
            .market
            .board
            .named(name)
            .is_some_and(|topic| {
                let value = market.board.value(topic.number).unwrap_or_default();
                staleness(&value) != 0
            });
        // A hub that has restarted may give the name to another source.
        if at > heads || self.has_other_names && (is_old || !self.is_settled) {
            return None;
        }
        let source = self.hubs[heads].market.board.named(name)?.facts();
        let head = source.source_name.strip_prefix("hub")?.parse::<usize>();
        let head = head.ok()?;
        Some(bits(&|sent| sent.head == head))
    }

    fn check_bar(
        &mut self,
        (place, text): (usize, &str),
        name: &str,
        seen: &Seen,
        (known, order): &(u64, Vec<u32>),
    ) -> Option<String> {
        // The name was that of a sum when the bar closed, or is now.
        let may_be_either = self.setting.named_like_sum.is_some() && name.starts_with(LIKE_SUM);
        let is_closed = text.starts_with("closed");
        // In a replay it may be left of the symbol, and the second name of the hub's value.
        let is_second = self.setting.heads > 1 && text.starts_with("replay");
        if may_be_either && (is_closed || is_second) {
            return None;
        }
        let of_name = self.of_name(place, name)?;
        let heads = self.setting.heads;
        let known = match name.starts_with("S@consolidated") && place > heads {
            // Whose value it is, only the first follower knows.
            true if self.has_other_names && text.starts_with("closed") => return None,
            true => known & self.known(heads).0,
            false => *known,
        };
        let interval = seen.start_ns..seen.start_ns + MINUTE;
        let is_within = |number: u32| interval.contains(&self.sent[number as usize].time_ns);
        let all = (0..self.sent.len() as u32).filter(|&number| is_within(number));
        let within = all.fold(0_u64, |bits, number| bits | 1 << number);
        let expected = of_name & within;
        let has = seen.volume;
        let wrong = |what: String| Some(format!("{text} {place} {name}: {what}; {seen:?}"));
        if u64::from(has.count_ones()) != seen.trades {
            return wrong("a trade twice".to_owned());
        }
        if has & !expected != 0 {
            return wrong(format!(
                "foreign trades {:#b}, not of {expected:#b}",
                has & !expected
            ));
        }
        let missing = expected & known & !has;
        match seen.is_partial {
            true => {
                self.partial += 1;
                self.needless += u64::from(missing == 0);
            }
            false => self.whole += 1,
        }
        // A trading day that has begun says nothing of the trades of before, but that there were
        // some.
        let late = match self.days.is_empty() || seen.late == 0 {
            true => seen.late,
            false => u64::MAX,
        };
        if !seen.is_partial && u64::from(missing.count_ones()) > late {
            return wrong(format!("whole without {missing:#b}"));
        }
        let own: Vec<&Sent> = order
            .iter()
            .filter(|&&bit| has >> bit & 1 == 1)
            .map(|&bit| &self.sent[bit as usize])
            .collect();
        let prices = || own.iter().map(|sent| sent.price);
        if own.len() as u64 != seen.trades {
            return wrong("trades that never came".to_owned());
        }
        let (first, last) = (own.first()?.price, own.last()?.price);
        let right = [first, prices().max()?, prices().min()?, last];
        (right != seen.prices)
            .then(|| wrong(format!("prices, not {right:?}")))
            .flatten()
    }

    fn names(&self, market: &Market) -> Vec<String> {
        let topics = market.board.topics().into_iter();
        let mut names: Vec<String> = topics
            .map(|topic| String::from_utf8_lossy(topic.symbol()).into_owned())
            .collect();
        let mut venues: Vec<&str> = self.sent.iter().map(|sent| &*sent.venue).collect();
        venues.push(CONSOLIDATED_NAME);
        names.extend(venues.iter().map(|venue| format!("S@{venue}")));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns what is wrong with the bars now.
    fn check_bars(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for place in 0..self.hubs.len() {
            let known = self.known(place);
            let market = self.hubs[place].market.clone();
            for name in self.names(&market) {
                if let Some(seen) = self.hubs[place].bar(&name) {
                    wrong.extend(self.check_bar((place, "hub"), &name, &seen, &known));
                }
            }
            let closed = std::mem::take(&mut self.hubs[place].closed);
            for ((name, _), mut seen) in closed {
                // Trades that it lacks may have come since.
                let newest = self.hubs[place].bar(&name);
                seen.late = newest.map_or(seen.late, |newest| newest.late);
                wrong.extend(self.check_bar((place, "closed at hub"), &name, &seen, &known));
            }
        }
        wrong
    }

    /// Returns what is wrong with the bars of replays of the hubs' recordings.
    fn check_replays(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for place in 0..self.hubs.len() {
            let known = self.known(place);
            let again = replayed(&self.hubs[place], true);
            for name in self.names(&again) {
                if let Some(seen) = bar_of(&again, &name) {
                    wrong.extend(self.check_bar((place, "replay of hub"), &name, &seen, &known));
                }
            }
            wrong.extend(self.check_figures(place, &again, "replay of hub"));
            if self.is_calm {
                wrong.extend(self.check_replays_again(place));
            }
        }
        wrong
    }

    /// Compares the figures of a hub with those of one behind it, which has read everything.
    fn check_figures(&self, place: usize, behind: &Market, text: &str) -> Vec<String> {
        let market = &self.hubs[place].market;
        let mut wrong = Vec::new();
        for topic in market.board.topics() {
            let value = market.board.value(topic.number).unwrap();
            if value.updates == 0 || topic.is_repeating() || staleness(&value) != 0 {
                continue;
            }
            let name = String::from_utf8_lossy(topic.symbol());
            let of = |value: &MarketValue| (value.volume, value.trades, value.turnover, value.last);
            let other = behind.board.find(topic.symbol());
            let other = other.and_then(|topic| behind.board.value(topic.number));
            if other.as_ref().map(of) != Some(of(&value)) {
                let other = other.as_ref().map(of);
                let value = of(&value);
                wrong.push(format!(
                    "{text} {place} md {name}: {other:?}, not {value:?}"
                ));
            }
        }
        wrong
    }

    fn check_all(&mut self) -> Vec<String> {
        let mut wrong = self.check_bars();
        if self.is_calm {
            wrong.extend((0..self.hubs.len()).flat_map(|place| self.check_told(place)));
        }
        let heads = self.setting.heads;
        for place in 0..self.hubs.len() {
            wrong.extend(self.check_sums(place));
        }
        for place in heads..self.hubs.len() {
            let has_all = !self.setting.is_tree || place > heads + 1;
            if place > heads && has_all || heads == 1 {
                let behind = self.hubs[place].market.clone();
                wrong.extend(self.check_figures(place - 1, &behind, "behind hub"));
            }
        }
        wrong.extend(self.check_replays());
        wrong
    }
}

/// Plays a history. Returns what is wrong, and how many bars were whole, partial, and that without
/// need.
fn play(setting: &Setting, steps: &[Step]) -> (Vec<String>, [u64; 3]) {
    let mut world = World::new(setting);
    for (place, step) in steps.iter().enumerate() {
        world.step(*step);
        let mut wrong = world.check_bars();
        if *step == Step::Settle && wrong.is_empty() {
            wrong = world.check_all();
        }
        if !wrong.is_empty() {
            wrong.insert(0, format!("after step {place} {step:?}"));
            return (wrong, [world.whole, world.partial, world.needless]);
        }
    }
    (Vec::new(), [world.whole, world.partial, world.needless])
}

/// Leaves out the steps that a fault does not need.
fn shrink(setting: &Setting, steps: &[Step]) -> Vec<Step> {
    let mut steps = steps.to_vec();
    let mut length = steps.len() / 2;
    while length > 0 {
        let (mut from, mut has_changed) = (0, false);
        while from < steps.len() {
            let until = (from + length).min(steps.len());
            let less: Vec<Step> = [&steps[..from], &steps[until..]].concat();
            if play(setting, &less).0.is_empty() {
                from += length;
            } else {
                (steps, has_changed) = (less, true);
            }
        }
        if !has_changed || length > 1 {
            length /= 2;
        }
    }
    steps
}

fn number_of(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Plays `count` histories. A failure names the seed and the steps.
#[test]
fn bars_are_right_or_partial_in_random_histories_of_hubs() {
    let count = number_of("TIDEWIRE_HISTORIES", 1_000);
    let first = number_of("TIDEWIRE_HISTORIES_FROM", 0);
    let stop = number_of("TIDEWIRE_HISTORIES_FAULTS", 1);
    let (mut all, mut faults) = ([0; 3], 0);
    for seed in first..first + count {
        let (setting, steps) = random_history(seed);
        let (wrong, bars) = play(&setting, &steps);
        for (sum, own) in all.iter_mut().zip(bars) {
            *sum += own;
        }
        if wrong.is_empty() {
            continue;
        }
        let steps = shrink(&setting, &steps);
        let (wrong, _) = play(&setting, &steps);
        let wrong = wrong.join("\n  ");
        faults += 1;
        eprintln!("seed {seed}: {setting:?}\n  {steps:?}\n  {wrong}");
        if faults >= stop {
            break;
        }
    }
    eprintln!("whole, partial, without need: {all:?}; faults {faults}");
    assert_eq!(faults, 0);
}
