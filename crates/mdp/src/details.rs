//! What is known of an instrument beside its book.

use tidewire_calendar::date_number;
use tidewire_feed::wire::{
    Definition, Figures, Name, ReferenceKind, TradingState, UNDEFINED_PRICE,
};

use crate::day::{Day, Event, SnapshotFigures, Status, Waiting};
use crate::definition::InstrumentDefinition;
use crate::figures::Scale;
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
    /// The last definition has deleted it.
    pub(crate) is_deleted: bool,
    /// Figures and settlements.
    pub(crate) day: Day,
    /// What has changed them since they are in doubt, for the next snapshot.
    waiting: Option<Box<Waiting>>,
    /// Price and date of the last definition's settlement.
    pub(crate) defined: Option<(Option<i64>, Option<u16>)>,
    /// Volume that the published trades add up to since the last published total.
    pub(crate) volume_shown: u64,
    /// Sequence of the packet that last changed a figure.
    pub(crate) figures_at: u64,
    /// Sequence of the packet as of which the session is known: its beginning, or a snapshot.
    pub(crate) session_at: u64,
    /// Time of the last change.
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
    /// Sequence of the packet with which the instrument appeared or, after a loss, may have.
    pub(crate) made_at: u64,
    /// The first packet of which a snapshot may lack the entries, for a reason of its own. That of
    /// the last loss is the channel's.
    pub(crate) snapshot_from: u64,
    /// Entries of before a channel reset may be lost: only a snapshot has the figures.
    pub(crate) needs_snapshot: bool,
    /// Sequence of the packet as of which the trading state is known, and number of its status.
    pub(crate) state_at: (u64, u64),
}

impl Details {
    /// Takes name, scale and sizes of a definition. Returns whether the scale has changed.
    pub(crate) fn define(&mut self, definition: &InstrumentDefinition) -> bool {
        self.symbol = Some(definition.symbol);
        self.currency = [0; 4];
        self.currency[..3].copy_from_slice(&definition.currency);
        self.tick = definition.tick;
        self.lot_size = definition.trade_volume_min;
        self.time_ns = self.time_ns.max(definition.time_ns);
        let scale = Scale::new(definition.display_factor);
        std::mem::replace(&mut self.scale, scale) != scale
    }

    /// Applies what changes the figures. While they are in doubt, it is kept for the snapshot.
    /// Returns whether a session begins with it.
    #[inline]
    pub(crate) fn apply(&mut self, sequence: u64, event: Event, is_doubtful: bool) -> bool {
        if is_doubtful {
            self.keep_event(sequence, event);
        }
        self.day.apply(&event)
    }

    #[cold]
    fn keep_event(&mut self, sequence: u64, event: Event) {
        let day = self.day;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::new(Waiting::new(day)));
        waiting.push(sequence, event);
    }

    /// Applies a status that may have come before other events. If they wait for a snapshot, its
    /// place is that of its packet.
    pub(crate) fn apply_at(&mut self, sequence: u64, status: Status, is_doubtful: bool) {
        if !is_doubtful {
            self.day.apply(&Event::Status(status));
            return;
        }
        self.keep_event(sequence, Event::Status(status));
        if let Some(waiting) = &self.waiting {
            self.day = waiting.day();
        }
    }

    /// Gives all figures so far a date that is older than the instrument.
    pub(crate) fn begin_with(&mut self, status: Status, is_doubtful: bool) {
        match is_doubtful {
            true => self.apply_at(self.made_at.saturating_sub(1), status, true),
            false => self.day.set_date(status.date, true),
        }
    }

    /// Returns whether the events of before and after this packet wait for a snapshot.
    pub(crate) fn has_waited_at(&self, sequence: u64) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| waiting.begins_at() <= sequence)
    }

    /// Begins the session of `date` somewhere between the figures of before the doubt.
    pub(crate) fn begin_in_between(&mut self, date: Option<u16>) {
        match &mut self.waiting {
            None => self.day.begin_in_between(date),
            Some(waiting) => {
                waiting.begin_in_between(date);
                self.day = waiting.day();
            }
        }
    }

    /// Returns whether a figure has come since they are in doubt.
    pub(crate) fn has_figures_waiting(&self) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| waiting.has_figures())
    }

    /// The figures are right without a snapshot.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting = None;
    }

    /// All entries so far have turned out to be known.
    pub(crate) fn prove(&mut self) {
        self.day.prove();
        if let Some(waiting) = &mut self.waiting {
            waiting.prove();
        }
    }

    /// Entries were lost for good: a settlement may be among them.
    pub(crate) fn forget_settlements(&mut self) {
        self.day.forget_settlements();
        if let Some(waiting) = &mut self.waiting {
            waiting.forget_settlements();
        }
    }

    /// Takes the figures of a snapshot as of the packet `as_of`, and applies again what has come
    /// behind it: see [`Waiting::restored`]. Returns false for a snapshot that is too old.
    pub(crate) fn restore(
        &mut self,
        snapshot: &SnapshotFigures,
        as_of: u64,
        known_from: u64,
        is_complete: bool,
    ) -> bool {
        let nothing = Waiting::new(self.day);
        let waiting = self.waiting.as_deref().unwrap_or(&nothing);
        let Some(day) = waiting.restored(snapshot, as_of, known_from, is_complete) else {
            return false;
        };
        self.day = day;
        self.waiting = None;
        self.session_at = self.session_at.max(as_of);
        true
    }

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

    /// Returns whether a snapshot goes on with the entries that wait. Those of before it are
    /// dropped, if it has all of them.
    pub(crate) fn queue_follows(&mut self, as_of: u64, rpt_seq: u32) -> bool {
        // After a reset that was lost, too, the numbers of the queue are of the sequence before it.
        if as_of >= self.queue_at {
            self.clear_queue();
        }
        self.queue.is_empty() || !is_after(self.queue_first, rpt_seq.wrapping_add(1))
    }

    /// The sequence of the packets begins again.
    pub(crate) fn forget_sequences(&mut self) {
        (self.made_at, self.session_at, self.figures_at) = (0, 0, 0);
        (self.snapshot_from, self.state_at.0) = (0, 0);
        if let Some(waiting) = &mut self.waiting {
            waiting.forget_sequences();
        }
    }

    /// Begins the life of another instrument under the same number, with the packet `sequence`.
    pub(crate) fn begin_again(&mut self, sequence: u64) {
        (self.day, self.waiting, self.defined) = (Day::default(), None, None);
        (self.trading_state, self.halt_reason) = (TradingState::UNKNOWN, 0);
        (self.is_deleted, self.state_at) = (false, (0, 0));
        (self.made_at, self.figures_at, self.session_at) = (sequence, 0, 0);
        self.volume_shown = 0;
    }

    /// Returns the session's figures. The exchange does not give turnover and number of trades:
    /// they are those of the received trades.
    pub(crate) fn figures(&self) -> Figures {
        let (scale, day) = (self.scale, &self.day);
        let (statistics, session) = (&day.statistics, &day.session);
        Figures {
            high: scale.nanos_of(session.high),
            low: scale.nanos_of(session.low),
            turnover: session.turnover_of(statistics.volume, scale),
            reference: scale.nanos_of(statistics.reference),
            trades: session.trades,
            condition: session.condition,
            reason: self.halt_reason,
            trading_day: day.trade_date.map_or(0, |days| date_number(days.into())),
            reference_kind: match statistics.reference {
                Some(_) => ReferenceKind::PREVIOUS_SETTLEMENT,
                None => ReferenceKind::NONE,
            },
            flags: 0,
            first_trade: UNDEFINED_PRICE,
            traded_until_ns: 0,
        }
    }

    /// Returns the definition as the native feed has it, if the name is known.
    pub(crate) fn definition(&self, symbol: u32, source: u16) -> Option<Definition> {
        Some(Definition {
            symbol,
            source,
            source_time_ns: self.time_ns,
            open: self.scale.nanos_of(self.day.statistics.open),
            price_tick: self.scale.nanos_of(self.tick),
            lot_size: self.lot_size,
            currency: self.currency,
            name: self.symbol?,
            repeats: false,
        })
    }
}

/// Returns whether a number of an instrument's own sequence comes after another.
pub(crate) fn is_after(left: u32, right: u32) -> bool {
    left.wrapping_sub(right).wrapping_sub(1) < u32::MAX / 2
}

/// Entries of an instrument that wait for a snapshot at most, 32 bytes each.
const QUEUE_MAX: usize = 1 << 16;
