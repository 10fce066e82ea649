//! The day of an instrument: the figures of its session, and the settlement that the session is
//! compared with.

use crate::figures::{Session, Statistics};

/// Something that changes a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Trade {
        price: i64,
        size: u32,
        condition: u32,
    },
    /// The exchange has cancelled a trade.
    Cancel {
        price: i64,
        size: u32,
    },
    /// The exchange's volume of the session.
    Volume(u64),
    /// The exchange's open; `None` if it is deleted. The next ones are alike.
    Open(Option<i64>),
    IndicativeOpen(Option<i64>),
    High(Option<i64>),
    Low(Option<i64>),
    Settlement(Option<Settlement>),
    ClearedVolume(Option<u64>),
    OpenInterest(Option<u64>),
    /// Highest and lowest price of an order.
    Limits(Option<i64>, Option<i64>),
    Status(Status),
    /// The settlement of a definition, and whether another definition had another one.
    Definition(Settlement, bool),
}

impl Event {
    /// Returns whether it is an entry about the instrument, which an open session would count.
    fn is_figure(&self) -> bool {
        !matches!(self, Event::Status(_) | Event::Definition(..))
    }
}

/// What a status says of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// Trading day, in days since 1970-01-01.
    pub(crate) date: Option<u16>,
    /// Whether it is the event *reset statistics*.
    pub(crate) is_reset: bool,
    /// Whether all entries before it are known, and a settlement among them.
    pub(crate) is_complete: bool,
    /// Whether the first date is that of all before it, because nothing was lost.
    pub(crate) is_start: bool,
}

/// A settlement price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) price: i64,
    /// Its trading day, if that is given.
    pub(crate) date: Option<u16>,
}

/// The figures of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotFigures {
    pub(crate) trade_date: Option<u16>,
    pub(crate) last: Option<(i64, u32)>,
    pub(crate) volume: u64,
    pub(crate) open: Option<i64>,
    pub(crate) indicative_open: Option<i64>,
    pub(crate) high: Option<i64>,
    pub(crate) low: Option<i64>,
    pub(crate) settlement: Option<Settlement>,
    pub(crate) cleared_volume: Option<u64>,
    pub(crate) open_interest: Option<u64>,
    /// Highest and lowest price of an order; `None` if the snapshot says nothing of them.
    pub(crate) limits: Option<(Option<i64>, Option<i64>)>,
}

/// What is known of a session, and of the settlements around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Day {
    pub(crate) statistics: Statistics,
    pub(crate) session: Session,
    /// Trading day of the session, in days since 1970-01-01.
    pub(crate) trade_date: Option<u16>,
    /// Trading days of the reference and of the settlement, if they are known.
    reference_date: Option<u16>,
    settlement_date: Option<u16>,
    /// The last settlement before the session may be one that was lost. Then the reference is not
    /// taken from a definition that has been there before.
    is_reference_open: bool,
    /// A later settlement of the day before may have been lost.
    is_reference_presumed: bool,
    /// The reference is open for good: entries that turn out to be known do not close it.
    is_reference_lost: bool,
    /// The settlement is that of a snapshot without its date: of this session, or the one before.
    is_settlement_unclear: bool,
    /// A settlement of this session may be lost, and no snapshot has shown the last one since.
    is_settlement_open: bool,
}

impl Day {
    /// Applies an event. Returns whether a session begins with it.
    #[inline]
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        let (statistics, session) = (&mut self.statistics, &mut self.session);
        match *event {
            Event::Trade {
                price,
                size,
                condition,
            } => {
                statistics.last = Some((price, size));
                statistics.volume = statistics.volume.saturating_add(size.into());
                session.add(price, size);
                session.condition = condition;
            }
            Event::Cancel { price, size } => session.cancel(price, size),
            Event::Volume(volume) => statistics.volume = volume,
            Event::Open(price) => (statistics.open, session.open) = (price, price),
            Event::IndicativeOpen(price) => statistics.indicative_open = price,
            Event::High(price) => (statistics.high, session.high) = (price, price),
            Event::Low(price) => (statistics.low, session.low) = (price, price),
            Event::Settlement(settlement) => self.settle(settlement),
            Event::ClearedVolume(volume) => statistics.cleared_volume = volume,
            Event::OpenInterest(contracts) => statistics.open_interest = contracts,
            Event::Limits(high, low) => (statistics.high_limit, statistics.low_limit) = (high, low),
            Event::Status(status) => return self.take_status(status),
            Event::Definition(settlement, is_new) => self.define(settlement, is_new),
        }
        false
    }

    /// Returns whether no figure of the session is known.
    pub(crate) fn is_blank(&self) -> bool {
        let Session {
            open,
            high,
            low,
            trades,
            ..
        } = self.session;
        (open, high, low, trades) == (None, None, None, 0) && self.statistics.volume == 0
    }

    /// Returns whether the reference is the last settlement of this date.
    pub(crate) fn has_reference_of(&self, date: Option<u16>) -> bool {
        date.is_some() && date == self.reference_date && !self.is_reference_presumed
    }

    /// Returns whether a date is that of a later session than this one.
    pub(crate) fn is_before(&self, date: Option<u16>) -> bool {
        self.trade_date.is_some() && date > self.trade_date
    }

    fn take_status(&mut self, status: Status) -> bool {
        let begins = status.is_reset || self.is_before(status.date);
        if begins {
            self.begin(status.is_complete);
        }
        let is_first = self.trade_date.is_none() && status.date.is_some();
        if begins {
            self.trade_date = self.trade_date.max(status.date);
        } else {
            self.set_date(status.date, status.is_start);
        }
        if is_first && !status.is_start && !status.is_complete && !begins {
            // The session may have begun with what was lost, behind a settlement.
            self.is_reference_open |= !self.is_of_day_before(self.reference_date);
        }
        if std::mem::take(&mut self.is_reference_lost) {
            self.hide_open_reference();
        }
        begins
    }

    /// Begins a session: its figures are empty, and the last settlement is its reference. The last
    /// trade stays.
    fn begin(&mut self, is_complete: bool) {
        let statistics = &mut self.statistics;
        let is_unclear = std::mem::take(&mut self.is_settlement_unclear);
        let is_lost = std::mem::take(&mut self.is_settlement_open);
        let own_date = self.trade_date.filter(|_| !is_unclear);
        let settlement_date = self.settlement_date.take().or(own_date);
        match statistics.settlement.take() {
            Some(price) => {
                statistics.reference = Some(price);
                self.reference_date = settlement_date;
                self.is_reference_open = is_unclear && !is_complete;
                self.is_reference_presumed = !is_complete || is_lost;
            }
            None => {
                self.is_reference_open |= !is_complete || is_lost;
                self.is_reference_lost |= is_lost;
            }
        }
        (statistics.open, statistics.indicative_open) = (None, None);
        (statistics.high, statistics.low) = (None, None);
        statistics.volume = 0;
        self.session = Session {
            condition: self.session.condition,
            ..Session::default()
        };
    }

    /// Begins the session of `date` at an unknown time since a loss, behind which a settlement has
    /// come. `prior` is the one before that.
    fn begin_around(&mut self, date: Option<u16>, prior: Option<Settlement>, is_complete: bool) {
        let Some(own) = self.settlement() else {
            return self.begin(is_complete);
        };
        match own.date {
            Some(day) if Some(day) < date => self.begin(is_complete),
            Some(_) => {
                let is_before = |prior: &Settlement| prior.date.is_none() || prior.date < date;
                self.set_settlement(prior.filter(is_before));
                self.begin(is_complete);
                self.set_settlement(Some(own));
            }
            // It is of either session, and the last one of all.
            None => {
                self.begin(is_complete);
                self.set_reference(None);
                self.set_settlement(Some(own));
            }
        }
    }

    /// Begins the session of `date` somewhere between the figures so far.
    pub(crate) fn begin_in_between(&mut self, date: Option<u16>) {
        self.begin_around(date, None, false);
        self.set_date(date, true);
    }

    fn settlement(&self) -> Option<Settlement> {
        let price = self.statistics.settlement?;
        Some(Settlement {
            price,
            date: self.settlement_date,
        })
    }

    /// Sets the session's date, if it is later than the known one. With `is_start`, a first date is
    /// that of the settlement before it.
    pub(crate) fn set_date(&mut self, date: Option<u16>, is_start: bool) {
        let is_first = self.trade_date.is_none() && date.is_some();
        self.trade_date = self.trade_date.max(date);
        if is_first {
            self.date_settlements(is_start);
        }
    }

    /// Compares the settlements with the first known date of the session.
    fn date_settlements(&mut self, is_start: bool) {
        let Statistics {
            settlement,
            reference,
            ..
        } = self.statistics;
        let today = self.trade_date;
        let is_of_today = |date: Option<u16>| date.is_some() && date >= today;
        // What a definition gave before the date was known may be the settlement of the day itself.
        if reference.is_some() && is_of_today(self.reference_date) {
            let date = self.reference_date;
            self.set_reference(None);
            self.is_reference_open = false;
            if settlement.is_none() {
                (self.statistics.settlement, self.settlement_date) = (reference, date);
            }
        }
        let Some(price) = settlement.filter(|_| !is_of_today(self.settlement_date)) else {
            return;
        };
        if let Some(date) = self.settlement_date {
            let is_open = self.is_settlement_open;
            self.correct_reference(price, date);
            self.set_settlement(None);
            self.is_settlement_open = is_open;
        } else if !is_start {
            // It is of this day, or of the one before.
            self.set_reference(None);
        }
    }

    fn settle(&mut self, settlement: Option<Settlement>) {
        match settlement {
            Some(Settlement {
                price,
                date: Some(date),
            }) if self.trade_date.is_some_and(|today| date < today) => {
                self.correct_reference(price, date);
            }
            _ => self.set_settlement(settlement),
        }
    }

    fn set_settlement(&mut self, settlement: Option<Settlement>) {
        self.statistics.settlement = settlement.map(|settlement| settlement.price);
        self.settlement_date = settlement.and_then(|settlement| settlement.date);
        self.is_settlement_unclear = false;
        self.is_settlement_open = false;
    }

    /// Takes a settlement of a day before the session's, unless a later one is known. If that of
    /// the weekday before the session may be lost, only that one closes the reference.
    fn correct_reference(&mut self, price: i64, date: u16) {
        if self.reference_date.is_some_and(|known| known > date) {
            return;
        }
        let is_open = self.is_reference_open && !self.is_of_day_before(Some(date));
        if is_open && self.statistics.reference.is_none() {
            return;
        }
        let is_lost = self.is_reference_lost;
        self.set_reference(Some(Settlement {
            price,
            date: Some(date),
        }));
        (self.is_reference_open, self.is_reference_lost) = (is_open, is_open && is_lost);
    }

    /// Entries were lost, and a settlement may be among them: one of the session, or one of the
    /// weekday before it.
    fn lose_settlements(&mut self) {
        self.is_settlement_open = true;
        self.open_old_reference();
    }

    /// Opens the reference of a dated session, unless it is of the weekday before it.
    fn open_old_reference(&mut self) {
        let is_old = !self.is_of_day_before(self.reference_date);
        self.is_reference_open |= self.trade_date.is_some() && is_old;
        self.is_reference_presumed = true;
    }

    /// Entries were lost for good: no snapshot of before them will be used.
    pub(crate) fn forget_settlements(&mut self) {
        self.lose_settlements();
        self.is_reference_lost |= self.is_reference_open;
    }

    /// Empties a reference if the settlement of the weekday before the session may be another one.
    fn hide_open_reference(&mut self) {
        if self.is_reference_open && !self.is_of_day_before(self.reference_date) {
            self.set_reference(None);
        }
    }

    fn set_reference(&mut self, settlement: Option<Settlement>) {
        self.statistics.reference = settlement.map(|settlement| settlement.price);
        self.reference_date = settlement.and_then(|settlement| settlement.date);
        self.is_reference_open = settlement.is_none();
        (self.is_reference_presumed, self.is_reference_lost) = (false, false);
    }

    /// Returns whether a date is that of the trading day before the session's, as far as weekdays
    /// tell: a holiday may be between them.
    fn is_of_day_before(&self, date: Option<u16>) -> bool {
        let (Some(date), Some(today)) = (date, self.trade_date) else {
            return false;
        };
        // 1970-01-01 was a Thursday.
        let is_weekday = |day: u16| !matches!((u32::from(day) + 4) % 7, 0 | 6);
        date < today && today - date < 7 && !(date + 1..today).any(is_weekday)
    }

    /// Takes the settlement of a definition, which is the last one of all, unless the definition is
    /// repeated and older than what has come since.
    fn define(&mut self, settlement: Settlement, is_new: bool) {
        let is_known = self.statistics.reference.is_some();
        let is_before = match (settlement.date, self.trade_date) {
            (Some(date), Some(today)) => date < today,
            _ => !is_known,
        };
        match settlement.date {
            date if !is_known
                && self.is_reference_open
                && !is_new
                && !self.is_of_day_before(date) => {}
            // That of the day itself, which is known.
            None if self.statistics.settlement == Some(settlement.price)
                && !self.is_settlement_unclear => {}
            _ if is_before && !is_known => self.set_reference(Some(settlement)),
            // Another definition is the exchange's last word, unless its settlement is older.
            Some(date)
                if is_before && is_new && self.reference_date.is_none_or(|known| known <= date) =>
            {
                self.set_reference(Some(settlement));
            }
            _ if is_before || !is_new => {}
            // The settlement of the day itself.
            _ if self.statistics.settlement.is_none()
                && self.statistics.reference != Some(settlement.price) =>
            {
                self.set_settlement(Some(settlement));
            }
            _ => {}
        }
    }

    /// All entries so far have turned out to be known.
    pub(crate) fn prove(&mut self) {
        self.is_reference_open &= self.statistics.reference.is_none() || self.is_reference_lost;
        self.is_reference_presumed &= self.is_reference_lost;
    }

    /// Takes the figures of a snapshot, of which those of before an event that is lost are no part.
    /// `has_traded` says that a trade of before the snapshot came since the last loss.
    fn adopt(&mut self, snapshot: &SnapshotFigures, is_begin_known: bool, has_traded: bool) {
        debug_assert!(self.trade_date >= snapshot.trade_date, "the date is set");
        let (statistics, session) = (&mut self.statistics, &mut self.session);
        let is_other_trade = snapshot.last.is_some() && snapshot.last != statistics.last;
        // A snapshot without a trade says nothing of one that came since the loss.
        let is_known = snapshot.last.is_none() && has_traded;
        if is_other_trade || snapshot.volume > statistics.volume && !is_known {
            // A trade was lost. A snapshot does not give its side.
            (statistics.last, session.condition) = (snapshot.last, 0);
        }
        statistics.volume = snapshot.volume;
        statistics.indicative_open = snapshot.indicative_open;
        (statistics.open, session.open) = (snapshot.open, snapshot.open);
        (statistics.high, session.high) = (snapshot.high, snapshot.high);
        (statistics.low, session.low) = (snapshot.low, snapshot.low);
        statistics.cleared_volume = snapshot.cleared_volume.or(statistics.cleared_volume);
        statistics.open_interest = snapshot.open_interest.or(statistics.open_interest);
        if let Some(limits) = snapshot.limits {
            (statistics.high_limit, statistics.low_limit) = limits;
        }
        session.forget_trades_beyond(snapshot.volume);
        match snapshot.settlement {
            Some(settlement) => self.adopt_settlement(settlement, is_begin_known),
            // It does not say that nothing was settled.
            None => self.hide_open_reference(),
        }
    }

    /// Returns whether a snapshot of the same date shows that the statistics were reset since: it
    /// has less volume, or another range, than trades of its session can have left.
    fn is_other_session(&self, snapshot: &SnapshotFigures) -> bool {
        let session = &self.session;
        let is_other_open = snapshot.open.is_some() && snapshot.open != session.open;
        let is_lower = snapshot.high.is_some() && snapshot.high < session.high;
        let is_higher = snapshot
            .low
            .is_some_and(|low| session.low.is_some_and(|own| own < low));
        snapshot.volume < session.volume || is_other_open || is_lower || is_higher
    }

    /// Takes the last settlement of all, which a snapshot gives: that of the session's day, or of
    /// the one before. `is_begin_known` says that nothing was lost since the session began.
    fn adopt_settlement(&mut self, settlement: Settlement, is_begin_known: bool) {
        let price = Some(settlement.price);
        let Statistics {
            settlement: own,
            reference,
            ..
        } = self.statistics;
        let is_before = match (settlement.date, self.trade_date) {
            (Some(date), Some(today)) => Some(date < today),
            _ => None,
        };
        // None came in this session: it is of the one before.
        let is_last = own.is_none() && (price == reference || is_begin_known);
        let is_doubtful = self.is_reference_open || self.is_reference_presumed;
        if is_before == Some(true) || is_before.is_none() && is_last && is_doubtful {
            // The known one keeps its date.
            let date = match price == reference {
                true => settlement.date.or(self.reference_date),
                false => settlement.date,
            };
            self.set_reference(Some(Settlement { date, ..settlement }));
            return self.set_settlement(None);
        }
        self.hide_open_reference();
        // Without a date it says nothing if it is the known one.
        let is_known = is_before.is_none() && price == own.or(reference);
        if !is_known {
            self.set_settlement(Some(settlement));
            self.is_settlement_unclear = settlement.date.is_none();
        }
        self.is_settlement_open = false;
    }
}

/// A day in which the beginning of a session may have been lost.
struct Belief {
    day: Day,
    /// The settlement before the first one of the session that has come since the loss.
    prior: Option<Option<Settlement>>,
    /// The last settlement of the session may be one that was lost.
    is_settlement_lost: bool,
}

impl Belief {
    fn new(day: Day) -> Self {
        Self {
            day,
            prior: None,
            is_settlement_lost: false,
        }
    }

    /// Entries were lost.
    fn lose(&mut self) {
        self.is_settlement_lost = true;
        self.day.open_old_reference();
    }

    /// Applies an event. Returns whether a session begins with it, or has begun before.
    fn apply(&mut self, event: &Event) -> bool {
        match *event {
            Event::Settlement(_) => {
                self.prior.get_or_insert(self.day.settlement());
                self.is_settlement_lost = false;
            }
            Event::Status(status) if !status.is_reset && self.day.is_before(status.date) => {
                self.day = self.begun(status.date, status.is_complete);
                (self.prior, self.is_settlement_lost) = (None, false);
                return true;
            }
            Event::Status(status) if status.is_reset => self.prior = None,
            _ => {}
        }
        let begins = self.day.apply(event);
        self.is_settlement_lost &= !begins;
        begins
    }

    /// Returns the day of a session that has begun since the loss.
    fn begun(&self, date: Option<u16>, is_complete: bool) -> Day {
        let mut day = self.day;
        let is_of_it = day.settlement_date.is_some() && day.settlement_date >= date;
        match self.prior {
            Some(prior) => day.begin_around(date, prior, is_complete),
            None if is_of_it => day.begin_around(date, None, is_complete),
            None => day.begin(is_complete),
        }
        day.set_date(date, true);
        day
    }
}

/// What has changed a day while it was in doubt. A snapshot replaces the day as it was then, and
/// what came behind the snapshot is applied again.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The day before the first event.
    before: Day,
    /// The events, with the sequences of their packets.
    events: Vec<(u64, Event)>,
    /// Events up to this sequence are in `before`: a snapshot of before it is too old.
    from: u64,
    has_figures: bool,
}

impl Waiting {
    pub(crate) fn new(before: Day) -> Self {
        Self {
            before,
            events: Vec::new(),
            from: 0,
            has_figures: false,
        }
    }

    /// Returns the sequence of the first event.
    pub(crate) fn begins_at(&self) -> u64 {
        self.events
            .first()
            .map_or(u64::MAX, |&(sequence, _)| sequence)
    }

    /// Begins the session of `date` somewhere between the figures of before the doubt.
    pub(crate) fn begin_in_between(&mut self, date: Option<u16>) {
        self.before.begin_in_between(date);
    }

    /// Returns whether a figure has come since the doubt began.
    pub(crate) fn has_figures(&self) -> bool {
        self.has_figures
    }

    /// Keeps an event.
    pub(crate) fn push(&mut self, sequence: u64, event: Event) {
        self.has_figures |= event.is_figure();
        if self.events.len() >= EVENTS_MAX {
            for (sequence, event) in self.events.drain(..EVENTS_MAX / 2) {
                self.before.apply(&event);
                self.from = sequence;
            }
        }
        // A status that an instrument gets with its definition is earlier than what has come since.
        let place = self.events.partition_point(|&(known, _)| known <= sequence);
        self.events.insert(place, (sequence, event));
    }

    /// The packets are counted from the beginning again: every later snapshot is of after the
    /// events so far.
    pub(crate) fn forget_sequences(&mut self) {
        self.before = self.day();
        self.events.clear();
        self.from = 0;
    }

    /// Entries were lost for good: see [`Day::forget_settlements`].
    pub(crate) fn forget_settlements(&mut self) {
        self.before.forget_settlements();
    }

    /// Returns the day with all events.
    pub(crate) fn day(&self) -> Day {
        let mut day = self.before;
        for (_, event) in &self.events {
            day.apply(event);
        }
        day
    }

    /// All entries so far have turned out to be known.
    pub(crate) fn prove(&mut self) {
        self.before.prove();
        for (_, event) in &mut self.events {
            if let Event::Status(status) = event {
                status.is_complete = true;
            }
        }
    }

    /// Returns the day of a snapshot as of the packet `as_of`, with what came behind it; `None` if
    /// the snapshot is too old. `known_from` is the first packet after the last loss; `is_complete`
    /// says that no entry was lost, but maybe the beginning of a session.
    pub(crate) fn restored(
        &self,
        snapshot: &SnapshotFigures,
        as_of: u64,
        known_from: u64,
        is_complete: bool,
    ) -> Option<Day> {
        if as_of < self.from || as_of.saturating_add(1) < known_from {
            return None;
        }
        let place = |end: u64| self.events.partition_point(|&(at, _)| at < end);
        let end = place(as_of + 1);
        let begin = place(known_from).min(end);
        let mut belief = Belief::new(self.before);
        let mut has_begun = false;
        for (_, event) in &self.events[..begin] {
            has_begun |= belief.apply(event);
        }
        if !is_complete {
            belief.lose();
        }
        // What it is if a session began in what was lost. What came since is of its session then.
        let mut other = belief.begun(snapshot.trade_date, is_complete);
        let is_start = belief.day.statistics.settlement.is_none();
        let mut is_begin_known = false;
        for (_, event) in &self.events[begin..end] {
            // A later date alone does not tell when it began.
            let is_reset = matches!(event, Event::Status(status) if status.is_reset);
            has_begun |= belief.apply(event);
            is_begin_known |= is_reset;
            other.apply(event);
        }
        let (mut day, mut is_settlement_lost) = (belief.day, belief.is_settlement_lost);
        if day.is_before(snapshot.trade_date) {
            (day, is_begin_known) = (other, false);
            is_settlement_lost = !is_complete && day.statistics.settlement.is_none();
        } else if !is_begin_known
            && (day.is_other_session(snapshot)
                || !has_begun && self.before.is_other_session(snapshot))
        {
            day.session.set_trades(&other.session);
            day.statistics.volume = other.statistics.volume;
        }
        let is_first = day.trade_date.is_none() && snapshot.trade_date.is_some();
        day.set_date(snapshot.trade_date, is_start);
        if is_first && !is_complete && day.reference_date.is_some() {
            day.is_reference_open |= !day.is_of_day_before(day.reference_date);
        }
        day.is_settlement_open |= is_settlement_lost;
        let is_trade = |(_, event): &(u64, Event)| matches!(event, Event::Trade { .. });
        let has_traded = self.events[begin..end].iter().any(is_trade);
        day.adopt(snapshot, is_begin_known, has_traded);
        for &(_, mut event) in &self.events[end..] {
            if let Event::Status(status) = &mut event {
                // Nothing was lost since the snapshot.
                status.is_complete |= day.trade_date.is_some();
            }
            day.apply(&event);
        }
        Some(day)
    }
}

/// Events of an instrument that wait for a snapshot at most, 48 bytes each.
const EVENTS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests;
