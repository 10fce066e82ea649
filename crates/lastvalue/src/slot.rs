//! The newest state of one symbol: a seqlock of three cache lines.

use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence, pause};
use crate::value::{
    MarketValue, PRICE_UNDEFINED, Quote, Reference, Stamp, Status, TopOfBook, Trade, Venues,
};
use crate::writer::{ClaimError, SlotWriter};

/// The newest state of one symbol: one writer, many readers, and the writer never waits for a
/// reader.
///
/// ```text
///        0         8        16        24         32        40          48           56
/// line 1 │ version │ bid    │ ask    │ bid_size  │ last    │ last_size │ source     │ sequence │
///        │         │        │        │ ask_size  │         │ flags     │ time       │          │
/// line 2 │ receive│ orders │ volume │ turnover │ trades  │ high      │ low        │ owner    │
///        │ time   │        │        │ low      │ condit. │           │            │          │
/// line 3 │ turn-  │ open   │ refer- │ status   │ venues  │ trading   │ first      │          │
///        │ over hi│        │ ence   │          │         │ day       │ trade      │          │
/// ```
///
/// A quote changes line 1 and two words of line 2, a trade lines 1 and 2. Line 3 changes at most
/// a few times in a session. A reader of the top of the book copies line 1 only.
///
/// The protocol is from H.-J. Boehm, *Can seqlocks get along with programming language memory
/// models?* (2012). The writer makes `version` odd, fences, stores, and makes it even with a
/// release store. The reader loads it with acquire, copies, fences, and loads it again.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct MarketSlot {
    /// Odd during an update; half of it is the number of updates.
    version: AtomicU64,
    bid: AtomicI64,
    ask: AtomicI64,
    /// Bid size in the low half, ask size in the high half.
    sizes: AtomicU64,
    last: AtomicI64,
    last_size: AtomicU32,
    flags: AtomicU32,
    source_time_ns: AtomicU64,
    sequence: AtomicU64,

    receive_time_ns: AtomicU64,
    /// Orders at the bid in the low half, at the ask in the high half.
    orders: AtomicU64,
    volume: AtomicU64,
    turnover_low: AtomicU64,
    trades: AtomicU32,
    /// Of the last trade.
    condition: AtomicU32,
    high: AtomicI64,
    low: AtomicI64,
    /// The owner, who may write; 0 for none. It is not part of the value and changes independently
    /// of `version`.
    owner: AtomicU64,

    turnover_high: AtomicI64,
    session_open: AtomicI64,
    reference: AtomicI64,
    /// State in bits 0 to 7, kind of the reference in bits 8 to 15, reason in the high half.
    status: AtomicU64,
    /// Venues of bid, ask and last trade, 16 bits each from the lowest.
    venues: AtomicU64,
    trading_day: AtomicU64,
    /// Price of the session's first trade.
    first_trade: AtomicI64,
}

impl MarketSlot {
    /// Returns the addresses of the lines that a quote and a trade change, to prefetch them.
    #[inline]
    pub fn hot_lines(&self) -> [*const Self; 2] {
        let first: *const Self = self;
        [first, first.wrapping_byte_add(64)]
    }

    /// Creates a slot that was never written and has no writer.
    pub fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            bid: AtomicI64::new(PRICE_UNDEFINED),
            ask: AtomicI64::new(PRICE_UNDEFINED),
            sizes: AtomicU64::new(0),
            last: AtomicI64::new(PRICE_UNDEFINED),
            last_size: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            source_time_ns: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            receive_time_ns: AtomicU64::new(0),
            orders: AtomicU64::new(0),
            volume: AtomicU64::new(0),
            turnover_low: AtomicU64::new(0),
            trades: AtomicU32::new(0),
            condition: AtomicU32::new(0),
            high: AtomicI64::new(PRICE_UNDEFINED),
            low: AtomicI64::new(PRICE_UNDEFINED),
            owner: AtomicU64::new(0),
            turnover_high: AtomicI64::new(0),
            session_open: AtomicI64::new(PRICE_UNDEFINED),
            reference: AtomicI64::new(PRICE_UNDEFINED),
            status: AtomicU64::new(0),
            venues: AtomicU64::new(Venues::NONE.word()),
            trading_day: AtomicU64::new(0),
            first_trade: AtomicI64::new(PRICE_UNDEFINED),
        }
    }

    /// Claims the slot for one writer until the returned value is dropped. `owner` names the source
    /// in the error of other claims.
    ///
    /// # Errors
    /// [`ClaimError::Owned`] while another writer holds the slot.
    pub fn claim(&self, owner: u32) -> Result<SlotWriter<'_>, ClaimError> {
        self.acquire(u64::from(owner) | OWNER_DIRECT)?;
        Ok(SlotWriter::releasing(self))
    }

    /// Returns a consistent copy of the whole slot. Retries during an update.
    #[inline]
    pub fn snapshot(&self) -> MarketValue {
        retry(|| self.try_snapshot())
    }

    /// Returns a consistent copy of the whole slot, or `None` if an update interfered.
    #[inline]
    pub fn try_snapshot(&self) -> Option<MarketValue> {
        let version = self.begin_read()?;
        let value = self.copy(version);
        self.unchanged_since(version).then_some(value)
    }

    #[inline]
    fn copy(&self, version: u64) -> MarketValue {
        let top = self.copy_top(version);
        let (bid_orders, ask_orders) = unpack(self.orders.load(Ordering::Relaxed));
        let status = self.status.load(Ordering::Relaxed);
        let venues = self.venues.load(Ordering::Relaxed);
        MarketValue {
            updates: top.updates,
            bid: top.bid,
            ask: top.ask,
            bid_size: top.bid_size,
            ask_size: top.ask_size,
            last: top.last,
            last_size: top.last_size,
            flags: top.flags,
            source_time_ns: top.source_time_ns,
            sequence: top.sequence,
            bid_orders,
            ask_orders,
            receive_time_ns: self.receive_time_ns.load(Ordering::Relaxed),
            volume: self.volume.load(Ordering::Relaxed),
            turnover: self.turnover(),
            trades: self.trades.load(Ordering::Relaxed),
            condition: self.condition.load(Ordering::Relaxed),
            session_open: self.session_open.load(Ordering::Relaxed),
            first_trade: self.first_trade.load(Ordering::Relaxed),
            high: self.high.load(Ordering::Relaxed),
            low: self.low.load(Ordering::Relaxed),
            reference: Reference {
                price: self.reference.load(Ordering::Relaxed),
                kind: (status >> 8) as u8,
            },
            status: Status {
                state: status as u8,
                reason: (status >> 32) as u32,
            },
            venues: Venues {
                bid: venues as u16,
                ask: (venues >> 16) as u16,
                last: (venues >> 32) as u16,
            },
            trading_day: self.trading_day.load(Ordering::Relaxed) as u32,
        }
    }

    /// Returns a consistent copy of the quote and the last trade: one cache line.
    #[inline]
    pub fn quote(&self) -> TopOfBook {
        retry(|| self.try_quote())
    }

    /// Returns a consistent copy of the quote and the last trade, or `None` if an update
    /// interfered.
    #[inline]
    pub fn try_quote(&self) -> Option<TopOfBook> {
        let version = self.begin_read()?;
        let top = self.copy_top(version);
        self.unchanged_since(version).then_some(top)
    }

    /// Returns the best bid, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    #[inline]
    pub fn bid(&self) -> i64 {
        self.bid.load(Ordering::Relaxed)
    }

    /// Returns the best offer, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    #[inline]
    pub fn ask(&self) -> i64 {
        self.ask.load(Ordering::Relaxed)
    }

    /// Returns the last trade's price, 1 unit = 1e-9, or [`PRICE_UNDEFINED`].
    #[inline]
    pub fn last(&self) -> i64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Returns the flags, as in [`MarketValue::flags`].
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Returns the sequence of the newest update.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Returns the number of completed updates: a cheap way to detect a change.
    #[inline]
    pub fn updates(&self) -> u64 {
        self.version.load(Ordering::Acquire) / 2
    }

    /// Returns the name under which the current writer claimed the slot; `None` without a writer.
    pub fn owner(&self) -> Option<u32> {
        owner_name(self.owner.load(Ordering::Relaxed))
    }

    #[inline]
    fn turnover(&self) -> i128 {
        let high = i128::from(self.turnover_high.load(Ordering::Relaxed));
        high << 64 | i128::from(self.turnover_low.load(Ordering::Relaxed))
    }

    /// Returns the version to read under, or `None` during an update.
    #[inline]
    fn begin_read(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// Returns whether everything copied since `version` was loaded is consistent. The fence orders
    /// the copies before the second load.
    #[inline]
    fn unchanged_since(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    #[inline]
    fn copy_top(&self, version: u64) -> TopOfBook {
        let (bid_size, ask_size) = unpack(self.sizes.load(Ordering::Relaxed));
        TopOfBook {
            updates: version / 2,
            bid: self.bid.load(Ordering::Relaxed),
            ask: self.ask.load(Ordering::Relaxed),
            bid_size,
            ask_size,
            last: self.last.load(Ordering::Relaxed),
            last_size: self.last_size.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            source_time_ns: self.source_time_ns.load(Ordering::Relaxed),
            sequence: self.sequence.load(Ordering::Relaxed),
        }
    }
}

/// Write operations. Only a [`SlotWriter`] calls these, and there is one at a time.
impl MarketSlot {
    /// Runs `stores` as one update: no reader accepts a part of it.
    #[inline]
    pub(crate) fn update(&self, stores: impl FnOnce(&Self)) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        stores(self);
        self.version.store(version + 2, Ordering::Release);
    }

    #[inline]
    pub(crate) fn store_quote(&self, quote: Quote) {
        self.store_top(quote);
        self.store_orders(quote);
    }

    /// Stores a quote's prices and sizes, which are in line 1.
    #[inline]
    pub(crate) fn store_top(&self, quote: Quote) {
        self.bid.store(quote.bid, Ordering::Relaxed);
        self.ask.store(quote.ask, Ordering::Relaxed);
        self.sizes
            .store(pack(quote.bid_size, quote.ask_size), Ordering::Relaxed);
    }

    /// Stores a quote's numbers of orders, which are in line 2.
    #[inline]
    pub(crate) fn store_orders(&self, quote: Quote) {
        self.orders
            .store(pack(quote.bid_orders, quote.ask_orders), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn store_trade(&self, trade: Trade) {
        if trade.price == PRICE_UNDEFINED {
            return;
        }
        self.add_trade(trade);
        self.last_size.store(trade.size, Ordering::Relaxed);
        self.last.store(trade.price, Ordering::Relaxed);
        let high = self.high.load(Ordering::Relaxed);
        if high == PRICE_UNDEFINED {
            self.store_first(trade.price);
        }
        if trade.price > high || high == PRICE_UNDEFINED {
            self.high.store(trade.price, Ordering::Relaxed);
        }
        // The undefined price is the largest number, so every trade is below it.
        if trade.price < self.low.load(Ordering::Relaxed) {
            self.low.store(trade.price, Ordering::Relaxed);
        }
    }

    /// Adds a trade to volume, turnover and number of trades.
    #[inline]
    fn add_trade(&self, trade: Trade) {
        let volume = self.volume.load(Ordering::Relaxed);
        self.volume.store(
            volume.wrapping_add(u64::from(trade.size)),
            Ordering::Relaxed,
        );
        let trades = self.trades.load(Ordering::Relaxed);
        self.trades.store(trades.wrapping_add(1), Ordering::Relaxed);
        self.condition.store(trade.condition, Ordering::Relaxed);
        // The sum is signed and of 128 bits; its high word seldom changes.
        let product = i128::from(trade.price) * i128::from(trade.size);
        let before = self.turnover_low.load(Ordering::Relaxed);
        let (low, carry) = before.overflowing_add(product as u64);
        self.turnover_low.store(low, Ordering::Relaxed);
        let added = (product >> 64) as i64 + i64::from(carry);
        if added != 0 {
            let high = self.turnover_high.load(Ordering::Relaxed);
            self.turnover_high
                .store(high.wrapping_add(added), Ordering::Relaxed);
        }
    }

    /// Stores the price of the session's first trade; as its open too, unless the source declared
    /// one.
    #[cold]
    fn store_first(&self, price: i64) {
        self.first_trade.store(price, Ordering::Relaxed);
        if self.session_open.load(Ordering::Relaxed) == PRICE_UNDEFINED {
            self.session_open.store(price, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn store_stamp(&self, stamp: Stamp) {
        self.source_time_ns
            .store(stamp.source_time_ns, Ordering::Relaxed);
        self.sequence.store(stamp.sequence, Ordering::Relaxed);
        self.receive_time_ns
            .store(stamp.receive_time_ns, Ordering::Relaxed);
    }

    pub(crate) fn store_status(&self, status: Status) {
        let kind = self.status.load(Ordering::Relaxed) & KIND_MASK;
        let word = u64::from(status.state) | u64::from(status.reason) << 32;
        self.status.store(word | kind, Ordering::Relaxed);
    }

    pub(crate) fn store_reference(&self, reference: Reference) {
        self.reference.store(reference.price, Ordering::Relaxed);
        let status = self.status.load(Ordering::Relaxed) & !KIND_MASK;
        self.status
            .store(status | u64::from(reference.kind) << 8, Ordering::Relaxed);
    }

    pub(crate) fn store_session_open(&self, price: i64) {
        self.session_open.store(price, Ordering::Relaxed);
    }

    pub(crate) fn store_venues(&self, venues: Venues) {
        self.venues.store(venues.word(), Ordering::Relaxed);
    }

    pub(crate) fn store_flags(&self, set: u32, clear: u32) {
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags & !clear | set, Ordering::Relaxed);
    }

    /// Stores the figures of a session: volume, turnover, trades, open, first trade, high, low and
    /// day.
    pub(crate) fn store_session(&self, value: &MarketValue) {
        self.volume.store(value.volume, Ordering::Relaxed);
        self.turnover_low
            .store(value.turnover as u64, Ordering::Relaxed);
        self.turnover_high
            .store((value.turnover >> 64) as i64, Ordering::Relaxed);
        self.trades.store(value.trades, Ordering::Relaxed);
        self.session_open
            .store(value.session_open, Ordering::Relaxed);
        self.first_trade.store(value.first_trade, Ordering::Relaxed);
        self.high.store(value.high, Ordering::Relaxed);
        self.low.store(value.low, Ordering::Relaxed);
        self.trading_day
            .store(value.trading_day.into(), Ordering::Relaxed);
    }

    /// Stores the last trade, which a session's start leaves as it is, and the flags.
    pub(crate) fn store_last(&self, value: &MarketValue) {
        self.last.store(value.last, Ordering::Relaxed);
        self.last_size.store(value.last_size, Ordering::Relaxed);
        self.condition.store(value.condition, Ordering::Relaxed);
        self.flags.store(value.flags, Ordering::Relaxed);
    }
}

/// Ownership.
impl MarketSlot {
    /// Claims the free slot for `owner` (not 0). The acquire makes the previous writer's last
    /// version visible, so that the count continues from it.
    pub(crate) fn acquire(&self, owner: u64) -> Result<(), ClaimError> {
        self.owner
            .compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed)
            .map(drop)
            .map_err(|holder| ClaimError::Owned {
                owner: holder as u32,
            })
    }

    /// Gives the slot to `owner`, also if another has it. The caller excludes updates meanwhile.
    pub(crate) fn take_over(&self, owner: u64) {
        self.owner.store(owner, Ordering::Release);
    }

    /// Returns the owner, or 0.
    pub(crate) fn owner_word(&self) -> u64 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Releases the slot if `owner` has it. Returns whether it had it.
    pub(crate) fn release(&self, owner: u64) -> bool {
        self.owner
            .compare_exchange(owner, 0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Releases a slot that was claimed directly. Only its owner calls this.
    pub(crate) fn release_claim(&self) {
        self.owner.store(0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_owned_by(&self, owner: u64) -> bool {
        self.owner.load(Ordering::Relaxed) == owner
    }
}

impl Default for MarketSlot {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut attempts = 0_u32;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        attempts = attempts.wrapping_add(1);
        pause(attempts);
    }
}

#[inline]
fn pack(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Returns the name in the low half of an owner word, or `None` if there is no owner.
fn owner_name(word: u64) -> Option<u32> {
    (word != 0).then_some(word as u32)
}

/// The bits of the status word that hold the kind of the reference.
const KIND_MASK: u64 = 0xff00;
/// High half of the owner word for a slot that was claimed directly. [`crate::Writer`]s have their
/// serial number there, which never has this value.
const OWNER_DIRECT: u64 = 1 << 63;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
