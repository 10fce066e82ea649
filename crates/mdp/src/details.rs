//! What is known of an instrument beside its book.

use tidewire_calendar::date_number;
use tidewire_feed::wire::{
    Definition, Figures, Name, ReferenceKind, TradingState, UNDEFINED_PRICE,
};

use crate::figures::{Scale, Session, Statistics};
use crate::instrument::BookEntry;

/// What is used rarely.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) symbol: Option<Name>,
    pub(crate) group: [u8; 6],
    pub(crate) asset: [u8; 6],
    pub(crate) currency: [u8; 4],
    pub(crate) tick: Option<i64>,
    pub(crate) lot_size: u32,
    pub(crate) scale: Scale,
    pub(crate) trading_state: TradingState,
    pub(crate) halt_reason: u32,
    pub(crate) statistics: Statistics,
    pub(crate) session: Session,
    /// Trades since the packet `since_from`, the first after the last loss, while the instrument is
    /// in doubt: of the session of every later snapshot, whether it is another one or not.
    pub(crate) since: Session,
    pub(crate) since_from: u64,
    /// Trading day of the session, in days since 1970-01-01.
    pub(crate) trade_date: Option<u16>,
    /// Trading day before a later one that a status gave when figures of both were possible. The
    /// next snapshot begins the session.
    pub(crate) torn_date: Option<u16>,
    /// Volume that the published trades add up to since the last published total.
    pub(crate) volume_shown: u64,
    /// Sequences of the packets that last changed trade and volume, and the statistics.
    pub(crate) trades_at: u64,
    pub(crate) statistics_at: u64,
    /// Sequences of the packets in which the exchange last gave open, high and low; 0 for none.
    pub(crate) range_at: [u64; 3],
    /// The reference price of the last definition.
    pub(crate) defined_reference: Option<i64>,
    pub(crate) time_ns: u64,
    /// Entries that wait for a snapshot, in order of their own sequence without a hole.
    pub(crate) queue: Vec<BookEntry>,
    /// The first number of the queue, and the one after the last; equal if it is empty.
    pub(crate) queue_first: u32,
    pub(crate) queue_next: u32,
    /// Sequence of the packet of the queue's last entry.
    pub(crate) queue_at: u64,
    /// The snapshot loop that had it last.
    pub(crate) seen_in_loop: u64,
    /// Sequence of the packet with which the instrument appeared.
    pub(crate) made_at: u64,
    /// Sequence of the packet with which the session began. Figures of earlier snapshots are of the
    /// session before.
    pub(crate) session_from: u64,
    /// Number of the status of the channel that was the instrument's last.
    pub(crate) status_number: u64,
}

impl Details {
    pub(crate) fn clear_queue(&mut self) {
        self.queue.clear();
        self.queue_first = 0;
        self.queue_next = 0;
    }

    /// Keeps an entry of the packet `sequence` until a snapshot arrives.
    pub(crate) fn keep(&mut self, entry: &BookEntry, sequence: u64) {
        let is_empty = self.queue_first == self.queue_next;
        if is_empty || entry.rpt_seq != self.queue_next || self.queue.len() >= QUEUE_MAX {
            // Only a snapshot of after the hole helps. A lower number has a wrong one before it.
            self.queue.clear();
            self.queue_first = entry.rpt_seq;
        }
        self.queue_next = entry.rpt_seq.wrapping_add(1);
        self.queue_at = sequence;
        self.queue.push(*entry);
    }

    /// Begins a session: its figures are empty, and the last settlement is its reference.
    /// `sequence` is that of the packet with which it begins.
    pub(crate) fn begin_session(&mut self, sequence: u64) {
        let statistics = &mut self.statistics;
        statistics.reference = statistics.settlement.or(statistics.reference);
        (statistics.open, statistics.indicative_open) = (None, None);
        (statistics.high, statistics.low) = (None, None);
        statistics.volume = 0;
        // The last trade stays.
        self.session = Session {
            condition: self.session.condition,
            ..Session::default()
        };
        (self.session_from, self.torn_date) = (sequence, None);
        self.since = Session::default();
    }

    /// Returns the trades since the packet `known_from`.
    pub(crate) fn since(&mut self, known_from: u64) -> &mut Session {
        if std::mem::replace(&mut self.since_from, known_from) != known_from {
            self.since = Session::default();
        }
        &mut self.since
    }

    /// Returns the sequence of the packet that last changed a figure.
    pub(crate) fn figures_at(&self) -> u64 {
        self.trades_at.max(self.statistics_at)
    }

    /// The sequence of the packets begins again.
    pub(crate) fn forget_sequences(&mut self) {
        (self.made_at, self.session_from) = (0, 0);
        (self.trades_at, self.statistics_at) = (0, 0);
        self.range_at = [0; 3];
        self.since_from = 0;
    }

    /// Returns the session's figures. The exchange does not give turnover and number of trades:
    /// they are those of the received trades.
    pub(crate) fn figures(&self) -> Figures {
        let (scale, statistics, session) = (self.scale, &self.statistics, &self.session);
        Figures {
            high: scale.nanos_of(session.high),
            low: scale.nanos_of(session.low),
            turnover: session.turnover_of(statistics.volume, scale),
            reference: scale.nanos_of(statistics.reference),
            trades: session.trades,
            condition: session.condition,
            reason: self.halt_reason,
            trading_day: self.trade_date.map_or(0, |days| date_number(days.into())),
            reference_kind: match statistics.reference {
                Some(_) => ReferenceKind::PREVIOUS_SETTLEMENT,
                None => ReferenceKind::NONE,
            },
            flags: 0,
            first_trade: UNDEFINED_PRICE,
        }
    }

    /// Returns the definition as the native feed has it, if the name is known.
    pub(crate) fn definition(&self, symbol: u32, source: u16) -> Option<Definition> {
        Some(Definition {
            symbol,
            source,
            source_time_ns: self.time_ns,
            open: self.scale.nanos_of(self.statistics.open),
            price_tick: self.scale.nanos_of(self.tick),
            lot_size: self.lot_size,
            currency: self.currency,
            name: self.symbol?,
        })
    }
}

/// Entries of an instrument that wait for a snapshot at most, 32 bytes each.
const QUEUE_MAX: usize = 1 << 16;
