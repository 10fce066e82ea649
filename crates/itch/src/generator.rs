//! A seeded generator of valid ITCH days of any size, for benchmarks and tests.

mod side;

use std::collections::VecDeque;

use thiserror::Error;

use super::{
    AddAttributedOrder, AddOrder, AuctionCollar, BreakerLevels, BrokenTrade, CrossTrade, DayTime,
    Head, Imbalance, IpoQuotation, Letters, Message, OperationalHalt, OrderCancel, OrderDelete,
    OrderExecuted, OrderExecutedAtPrice, OrderReplace, ParticipantPosition, Price, RetailInterest,
    ShortSaleRestriction, StockDirectory, SystemEvent, Trade, TradingAction,
};
use side::{Resting, Side};

/// Settings of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorConfig {
    /// Total messages; at least [`GeneratorConfig::messages_min`].
    pub messages: u64,
    /// Number of securities, 1 to [`GeneratorConfig::SYMBOLS_MAX`].
    pub symbols: u16,
    /// Maximum resting orders per side of a security, 1 to [`GeneratorConfig::DEPTH_MAX`].
    pub depth: usize,
    /// Seed; the same seed gives the same day.
    pub seed: u64,
}

impl GeneratorConfig {
    /// Maximum securities: locate codes have 16 bits, and 0 means none.
    pub const SYMBOLS_MAX: u16 = u16::MAX;
    /// Maximum resting orders per side.
    pub const DEPTH_MAX: usize = 4_096;

    /// Returns the minimum messages of a day with this number of securities.
    pub fn messages_min(&self) -> u64 {
        // Directory, status, restriction and position at the beginning, two messages at each
        // auction, and the events of the day with those of single securities.
        u64::from(self.symbols) * 8 + EVENTS
    }
}

impl Default for GeneratorConfig {
    /// Returns a million messages of 100 securities.
    fn default() -> Self {
        Self {
            messages: 1_000_000,
            symbols: 100,
            depth: 64,
            seed: 1,
        }
    }
}

/// Why a day is impossible: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// Fewer messages than the fixed part of the day.
    #[error("a day of these securities has at least {0} messages")]
    TooFewMessages(u64),
    /// No security.
    #[error("the number of securities must be 1 to 65535")]
    BadSymbols,
    /// A depth of 0, or above [`GeneratorConfig::DEPTH_MAX`].
    #[error("the depth must be 1 to 4096")]
    BadDepth,
}

/// The messages of a day, in order.
///
/// The books never cross. Executions take the oldest order at the best price. Every executed,
/// cancelled, deleted or replaced order is in the book. All types occur except `W` and `O`, which
/// only occur on special days.
#[derive(Debug)]
pub struct Generator {
    config: GeneratorConfig,
    random: Random,
    securities: Vec<Security>,
    /// Indexes of securities, the busiest first: real locate codes are in the order of names.
    by_activity: Vec<u16>,
    /// Messages of a scripted event.
    script: VecDeque<Message>,
    phase: DayPhase,
    /// Order messages left in this phase.
    left: u64,
    total: u64,
    given: u64,
    time_ns: u64,
    next_reference: u64,
    next_match: u64,
    last_trade: u64,
}

#[derive(Debug)]
struct Security {
    stock: Letters<8>,
    locate: u16,
    /// The middle of the order prices, 1 unit = 1e-4.
    middle: u32,
    bids: Side,
    asks: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DayPhase {
    Opening,
    BeforeMarket,
    Market,
    AfterMarket,
    Ended,
}

impl Generator {
    /// Creates a day.
    ///
    /// # Errors
    /// [`GeneratorError`] for impossible settings.
    pub fn new(config: GeneratorConfig) -> Result<Self, GeneratorError> {
        if config.symbols == 0 {
            return Err(GeneratorError::BadSymbols);
        }
        if !(1..=GeneratorConfig::DEPTH_MAX).contains(&config.depth) {
            return Err(GeneratorError::BadDepth);
        }
        if config.messages < config.messages_min() {
            return Err(GeneratorError::TooFewMessages(config.messages_min()));
        }
        let mut random = Random::new(config.seed);
        let securities = (1..=config.symbols)
            .map(|locate| Security {
                stock: ticker(locate),
                locate,
                middle: (10 + random.below(490) as u32) * 10_000,
                bids: Side::bids(config.depth),
                asks: Side::asks(config.depth),
            })
            .collect();
        let mut by_activity: Vec<u16> = (0..config.symbols).collect();
        for last in (1..by_activity.len()).rev() {
            by_activity.swap(last, random.below(last as u64 + 1) as usize);
        }
        let mut generator = Self {
            config,
            random,
            securities,
            by_activity,
            script: VecDeque::new(),
            phase: DayPhase::Opening,
            left: 0,
            total: 0,
            given: 0,
            time_ns: hours_ns(3, 0),
            next_reference: 1,
            next_match: 1,
            last_trade: 0,
        };
        generator.open();
        Ok(generator)
    }

    /// Returns the symbol of a security by its locate code, from 1.
    pub fn stock(&self, locate: u16) -> Option<Letters<8>> {
        let index = usize::from(locate).checked_sub(1)?;
        self.securities.get(index).map(|security| security.stock)
    }

    fn head(&self, locate: u16) -> Head {
        Head {
            locate,
            tracking: 0,
            time: DayTime::new(self.time_ns),
        }
    }

    fn event(&mut self, event: u8) {
        let head = self.head(0);
        self.script
            .push_back(Message::SystemEvent(SystemEvent { head, event }));
    }

    /// Ends a phase and starts the next.
    fn next_phase(&mut self) {
        match self.phase {
            DayPhase::Opening => {
                self.phase = DayPhase::BeforeMarket;
                self.total = self.before_market();
            }
            DayPhase::BeforeMarket => {
                self.time_ns = hours_ns(9, 30);
                self.auction(b'O', b'Q');
                self.pause(0);
                self.list(self.securities.len() - 1);
                self.phase = DayPhase::Market;
                let all = self.config.messages - self.config.messages_min();
                self.total = all - self.before_market() - all / 20;
            }
            DayPhase::Market => {
                self.time_ns = hours_ns(16, 0);
                self.auction(b'C', b'M');
                self.phase = DayPhase::AfterMarket;
                self.total = (self.config.messages - self.config.messages_min()) / 20;
            }
            DayPhase::AfterMarket | DayPhase::Ended => {
                self.time_ns = hours_ns(20, 0);
                self.event(b'E');
                self.time_ns = hours_ns(20, 5);
                self.event(b'C');
                self.phase = DayPhase::Ended;
                self.total = 0;
            }
        }
        self.left = self.total;
    }

    /// Returns the number of order messages before the market opens: the standing orders, half
    /// of the possible depth, but 5 % to 25 % of all messages.
    fn before_market(&self) -> u64 {
        let all = self.config.messages - self.config.messages_min();
        let standing = u64::from(self.config.symbols) * self.config.depth as u64;
        standing.clamp(all / 20, all / 4)
    }

    /// Writes the beginning of the day: the securities and their trading state.
    fn open(&mut self) {
        self.event(b'O');
        self.time_ns += 1_000_000;
        let level = 384_000_000_000_u64;
        self.script.push_back(Message::BreakerLevels(BreakerLevels {
            head: self.head(0),
            level1: level / 100 * 93,
            level2: level / 100 * 87,
            level3: level / 100 * 80,
        }));
        for index in 0..self.securities.len() {
            self.time_ns += 1_000;
            let (stock, locate) = (self.securities[index].stock, self.securities[index].locate);
            let head = self.head(locate);
            self.script
                .push_back(Message::StockDirectory(StockDirectory {
                    head,
                    stock,
                    market_category: b'Q',
                    financial_status: b'N',
                    round_lot_size: 100,
                    round_lots_only: b'N',
                    issue_classification: b'C',
                    issue_sub_type: Letters::new("Z"),
                    authenticity: b'P',
                    short_sale_threshold: b'N',
                    ipo: b'N',
                    price_band_tier: b'1',
                    exchange_traded: b'N',
                    leverage: 0,
                    inverse: b'N',
                }));
            self.act(index, b'T', "");
            self.script
                .push_back(Message::ShortSaleRestriction(ShortSaleRestriction {
                    head,
                    stock,
                    action: b'0',
                }));
            self.script
                .push_back(Message::ParticipantPosition(ParticipantPosition {
                    head,
                    participant: Letters::new("MAKR"),
                    stock,
                    primary: b'Y',
                    mode: b'N',
                    state: b'A',
                }));
        }
        self.time_ns = hours_ns(4, 0);
        self.event(b'S');
    }

    /// Writes the messages of an auction of all securities, and its event.
    fn auction(&mut self, cross: u8, event: u8) {
        for index in 0..self.securities.len() {
            self.imbalance(index, cross);
        }
        self.event(event);
        for index in 0..self.securities.len() {
            self.cross(index, cross);
        }
    }

    fn imbalance(&mut self, index: usize, cross: u8) {
        let shares = 100 * (1 + self.random.below(100));
        let security = &self.securities[index];
        let price = Price(security.middle);
        self.script.push_back(Message::Imbalance(Imbalance {
            head: self.head(security.locate),
            paired: shares,
            imbalance: shares / 10,
            direction: b'B',
            stock: security.stock,
            far: price,
            near: price,
            reference_price: price,
            cross,
            variation: b'L',
        }));
    }

    fn cross(&mut self, index: usize, cross: u8) {
        let shares = 100 * self.random.below(1_000);
        let match_number = self.take_match();
        let security = &self.securities[index];
        self.script.push_back(Message::CrossTrade(CrossTrade {
            head: self.head(security.locate),
            shares,
            stock: security.stock,
            price: Price(security.middle),
            match_number,
            cross,
        }));
    }

    fn act(&mut self, index: usize, state: u8, reason: &str) {
        let security = &self.securities[index];
        self.script.push_back(Message::TradingAction(TradingAction {
            head: self.head(security.locate),
            stock: security.stock,
            state,
            reserved: b' ',
            reason: Letters::new(reason),
        }));
    }

    /// Writes a volatility pause with its auction, and a halt of another market.
    fn pause(&mut self, index: usize) {
        self.time_ns += 1_000_000;
        self.act(index, b'P', "LUDP");
        let security = &self.securities[index];
        let (head, stock, middle) = (self.head(security.locate), security.stock, security.middle);
        self.script.push_back(Message::AuctionCollar(AuctionCollar {
            head,
            stock,
            reference: Price(middle),
            upper: Price(middle / 20 * 21),
            lower: Price(middle / 20 * 19),
            extensions: 0,
        }));
        self.imbalance(index, b'H');
        self.cross(index, b'H');
        self.act(index, b'T', "");
        for action in [b'H', b'T'] {
            self.script
                .push_back(Message::OperationalHalt(OperationalHalt {
                    head,
                    stock,
                    market: b'B',
                    action,
                }));
        }
    }

    /// Writes a new listing.
    fn list(&mut self, index: usize) {
        self.act(index, b'H', "IPO1");
        let security = &self.securities[index];
        let (head, stock, middle) = (self.head(security.locate), security.stock, security.middle);
        self.script.push_back(Message::IpoQuotation(IpoQuotation {
            head,
            stock,
            release_time_s: 9 * 3_600 + 31 * 60,
            qualifier: b'A',
            price: Price(middle),
        }));
        self.act(index, b'Q', "IPOQ");
        self.cross(index, b'H');
        self.act(index, b'T', "IPOE");
    }

    fn take_match(&mut self) -> u64 {
        self.next_match += 1;
        self.next_match - 1
    }

    fn take_reference(&mut self) -> u64 {
        self.next_reference += 1;
        self.next_reference - 1
    }

    /// Returns a message about an order, at its time between the events of the day.
    fn order_message(&mut self) -> Message {
        let (from_ns, until_ns) = match self.phase {
            DayPhase::BeforeMarket => (hours_ns(4, 0), hours_ns(9, 30)),
            DayPhase::AfterMarket => (hours_ns(16, 1), hours_ns(20, 0)),
            _ => (hours_ns(9, 31), hours_ns(16, 0)),
        };
        let done = (self.total - self.left) as u128;
        let span_ns = u128::from(until_ns - from_ns);
        self.time_ns = from_ns + (span_ns * done / u128::from(self.total)) as u64;
        let is_before = self.phase == DayPhase::BeforeMarket;
        let index = match is_before {
            true => self.random.below(self.securities.len() as u64) as usize,
            false => usize::from(self.by_activity[self.random.skewed(self.securities.len())]),
        };
        let locate = self.securities[index].locate;
        let head = self.head(locate);
        let buys = self.random.next() & 1 == 0;
        let choice = self.random.below(10_000);
        let security = &self.securities[index];
        let side = if buys { &security.bids } else { &security.asks };
        // Per 10,000 messages, as Nasdaq counted them on 30 October 2019; see docs/itch.md.
        match choice {
            _ if side.is_empty() => self.add(index, head, buys, choice.is_multiple_of(29)),
            _ if is_before && !side.is_full() => self.add(index, head, buys, choice < 111),
            0..4_425 if !side.is_full() => self.add(index, head, buys, choice < 49),
            4_425..8_665 => self.delete(index, head, buys),
            8_665..9_543 => self.replace(index, head, buys),
            9_543..9_799 => self.execute(index, head, buys, choice < 9_551),
            9_799..9_922 => self.cancel(index, head, buys),
            9_922..9_975 => self.trade_hidden(index, head),
            9_975..9_985 => Message::RetailInterest(RetailInterest {
                head,
                stock: self.securities[index].stock,
                interest: b'A',
            }),
            9_985..9_990 if self.last_trade > 0 => Message::BrokenTrade(BrokenTrade {
                head,
                match_number: std::mem::take(&mut self.last_trade),
            }),
            _ => self.delete(index, head, buys),
        }
    }

    fn add(&mut self, index: usize, head: Head, buys: bool, attributed: bool) -> Message {
        let resting = self.place(index, buys);
        let security = &mut self.securities[index];
        security.side(buys).insert(resting);
        let (reference, shares) = (resting.reference, resting.shares);
        let (side, stock) = (if buys { b'B' } else { b'S' }, security.stock);
        let price = Price(resting.price);
        if attributed {
            let attribution = Letters::new("MAKR");
            return Message::AddAttributedOrder(AddAttributedOrder {
                head,
                reference,
                side,
                shares,
                stock,
                price,
                attribution,
            });
        }
        Message::AddOrder(AddOrder {
            head,
            reference,
            side,
            shares,
            stock,
            price,
        })
    }

    /// Places a new order that does not cross the other side.
    fn place(&mut self, index: usize, buys: bool) -> Resting {
        let reference = self.take_reference();
        let away = self.distance();
        let bits = self.random.next();
        let shares = match bits & 7 {
            0 => 1 + (bits >> 8) as u32 % 99,
            lots => 100 * lots as u32,
        };
        let security = &mut self.securities[index];
        let (own, other) = match buys {
            true => (security.bids.best(), security.asks.best()),
            false => (security.asks.best(), security.bids.best()),
        };
        // Half of the orders at the touch improve the price, if the spread has room for it.
        let better = CENT * u32::from(away == 0 && bits >> 48 & 1 == 0);
        let middle = security.middle;
        let price = if buys {
            let price = own.unwrap_or(middle - CENT) + better;
            let below = other.map_or(u32::MAX, |ask| ask - CENT);
            price.saturating_sub(away).max(CENT).min(below)
        } else {
            let price = own.unwrap_or(middle + CENT) - better;
            (price + away).max(other.map_or(CENT, |bid| bid + CENT))
        };
        if let Some(other) = other {
            security.middle = price.midpoint(other) / CENT * CENT;
        }
        Resting {
            reference,
            price,
            shares,
        }
    }

    /// Returns how far behind the best price of its side a new order is, 1 unit = 1e-4: `d`
    /// cents or more with probability `(1 + d)^-1.5` in the market's hours, `(1 + d / 3)^-0.6`
    /// before them, at most 2,000 cents.
    fn distance(&mut self) -> u32 {
        let share = self.random.share().max(1e-9);
        let cents = match self.phase {
            DayPhase::BeforeMarket => 3.0 * (share.powf(-1.0 / 0.6) - 1.0),
            _ => share.powf(-1.0 / 1.5) - 1.0,
        };
        CENT * cents.min(2_000.0) as u32
    }

    fn delete(&mut self, index: usize, head: Head, buys: bool) -> Message {
        let at = self.random.next();
        let gone = self.securities[index].side(buys).take(at);
        let reference = gone.reference;
        Message::OrderDelete(OrderDelete { head, reference })
    }

    fn replace(&mut self, index: usize, head: Head, buys: bool) -> Message {
        let at = self.random.next();
        let gone = self.securities[index].side(buys).take(at);
        let resting = self.place(index, buys);
        self.securities[index].side(buys).insert(resting);
        Message::OrderReplace(OrderReplace {
            head,
            original: gone.reference,
            reference: resting.reference,
            shares: resting.shares,
            price: Price(resting.price),
        })
    }

    fn execute(&mut self, index: usize, head: Head, buys: bool, other_price: bool) -> Message {
        let wanted = 100 * (1 + self.random.below(6) as u32);
        let match_number = self.take_match();
        let (reference, shares, price) = self.securities[index].side(buys).execute(wanted);
        if other_price {
            // One cent better for the owner of the resting order.
            let price = if buys { price - CENT } else { price + CENT };
            return Message::OrderExecutedAtPrice(OrderExecutedAtPrice {
                head,
                reference,
                shares,
                match_number,
                printable: b'Y',
                price: Price(price),
            });
        }
        Message::OrderExecuted(OrderExecuted {
            head,
            reference,
            shares,
            match_number,
        })
    }

    fn cancel(&mut self, index: usize, head: Head, buys: bool) -> Message {
        let at = self.random.next();
        match self.securities[index].side(buys).reduce(at) {
            Some((reference, shares)) => Message::OrderCancel(OrderCancel {
                head,
                reference,
                shares,
            }),
            // A single share cannot be reduced.
            None => self.delete(index, head, buys),
        }
    }

    fn trade_hidden(&mut self, index: usize, head: Head) -> Message {
        let match_number = self.take_match();
        self.last_trade = match_number;
        let shares = 100 * (1 + self.random.below(9) as u32);
        let security = &self.securities[index];
        let price = match (security.bids.best(), security.asks.best()) {
            (Some(bid), Some(ask)) => bid + (ask - bid) / 2,
            (Some(price), None) | (None, Some(price)) => price,
            (None, None) => security.middle,
        };
        Message::Trade(Trade {
            head,
            reference: 0,
            side: b'B',
            shares,
            stock: security.stock,
            price: Price(price),
            match_number,
        })
    }
}

impl Iterator for Generator {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.script.pop_front() {
                self.given += 1;
                return Some(message);
            }
            if self.left > 0 {
                let message = self.order_message();
                self.left -= 1;
                self.given += 1;
                return Some(message);
            }
            if self.phase == DayPhase::Ended {
                return None;
            }
            self.next_phase();
        }
    }
}

impl Security {
    fn side(&mut self, buys: bool) -> &mut Side {
        if buys { &mut self.bids } else { &mut self.asks }
    }
}

/// Returns four letters for each number: `AAAB` for 1.
fn ticker(locate: u16) -> Letters<8> {
    let mut letters = [b' '; 8];
    let mut rest = locate;
    for letter in letters[..4].iter_mut().rev() {
        *letter = b'A' + (rest % 26) as u8;
        rest /= 26;
    }
    Letters::from(letters)
}

const fn hours_ns(hour: u64, minute: u64) -> u64 {
    (hour * 60 + minute) * 60_000_000_000
}

/// A SplitMix64 generator.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[inline]
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns a number from 0 to below 1.
    #[inline]
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `limit`. Number `n` has a frequency in proportion to
    /// `1 / (n + ACTIVITY_OFFSET)`: few securities have most messages.
    #[inline]
    fn skewed(&mut self, limit: usize) -> usize {
        let span = 1.0 + limit as f64 / ACTIVITY_OFFSET;
        let number = ACTIVITY_OFFSET * (span.powf(self.share()) - 1.0);
        (number as usize).min(limit - 1)
    }
}

/// With 8,000 securities the busiest has 1.4 % of the messages, the first 100 have 36 %.
const ACTIVITY_OFFSET: f64 = 10.0;
/// 1 unit = 1e-4.
const CENT: u32 = 100;
/// Messages that do not depend on the number of securities: six events, the breaker's levels,
/// seven of a pause, five of a listing.
const EVENTS: u64 = 19;
