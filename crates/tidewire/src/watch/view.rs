//! Which rows are shown and in which order, and how keys change that.

use clap::ValueEnum;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::sample::{SymbolRow, defined};

/// The columns, in their order on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    /// Name.
    Symbol,
    /// Best bid.
    Bid,
    /// Best ask.
    Ask,
    /// Last price.
    Last,
    /// Volume of the session.
    Volume,
    /// Change since the reference, or the open.
    Change,
    /// Trading state, or why the value is not certain.
    State,
    /// Updates of the session.
    Updates,
    /// Updates per second.
    Rate,
    /// Venue of the last update.
    Venue,
}

impl Column {
    /// All columns.
    pub(super) const ALL: [Column; 10] = [
        Column::Symbol,
        Column::Bid,
        Column::Ask,
        Column::Last,
        Column::Volume,
        Column::Change,
        Column::State,
        Column::Updates,
        Column::Rate,
        Column::Venue,
    ];

    fn is_text(self) -> bool {
        matches!(self, Column::Symbol | Column::State | Column::Venue)
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Column::Symbol => "symbol",
            Column::Bid => "bid",
            Column::Ask => "ask",
            Column::Last => "last",
            Column::Volume => "volume",
            Column::Change => "change %",
            Column::State => "state",
            Column::Updates => "updates",
            Column::Rate => "/s",
            Column::Venue => "venue",
        }
    }
}

/// What a key asks for that the table itself cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing: redraw.
    None,
    /// Leave.
    Quit,
    /// Reset the figures.
    Reset,
}

/// Sort order, filter and position of the table.
#[derive(Clone, Debug)]
pub(super) struct TableView {
    pub(super) column: Column,
    pub(super) ascending: bool,
    /// Only symbols that contain this text are shown, in any case.
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    /// Whether the price levels of the first row are shown.
    pub(super) has_ladder: bool,
    /// The symbol of the first row, when it was last drawn.
    pub(super) top: Option<String>,
    /// The first row shown.
    pub(super) first: usize,
    /// Number of rows that passed the filter, and that fit the screen, when it was last drawn.
    passing: usize,
    page: usize,
}

impl TableView {
    pub(super) fn new(column: Column, ascending: bool) -> Self {
        Self {
            column,
            ascending: ascending || column.is_text(),
            filter: String::new(),
            is_typing: false,
            has_ladder: false,
            top: None,
            first: 0,
            passing: 0,
            page: 1,
        }
    }

    /// Returns the rows that pass the filter, in order, at most `most`.
    pub(super) fn rows<'a>(&self, rows: &'a [SymbolRow], most: usize) -> Vec<&'a SymbolRow> {
        let mut passing = self.sorted(rows);
        passing.truncate(most);
        passing
    }

    /// Returns the rows of a screen with room for `page`, and keeps the position in range.
    pub(super) fn page<'a>(&mut self, rows: &'a [SymbolRow], page: usize) -> Vec<&'a SymbolRow> {
        let passing = self.sorted(rows);
        (self.passing, self.page) = (passing.len(), page.max(1));
        self.first = self.first.min(self.first_max());
        let shown = passing.into_iter().skip(self.first).take(page);
        let shown: Vec<&SymbolRow> = shown.collect();
        self.top = shown.first().map(|row| row.symbol.clone());
        shown
    }

    /// Returns how many rows passed the filter when the screen was last drawn.
    pub(super) fn passing(&self) -> usize {
        self.passing
    }

    /// Handles an event of the terminal.
    pub(super) fn take(&mut self, event: &Event) -> Wish {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            _ => Wish::None,
        }
    }

    fn key(&mut self, key: &KeyEvent) -> Wish {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return Wish::Quit;
        }
        if self.is_typing {
            self.type_key(key.code);
            return Wish::None;
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Enter => self.has_ladder = !self.has_ladder,
            KeyCode::Esc if self.has_ladder => self.has_ladder = false,
            KeyCode::Esc if self.filter.is_empty() => return Wish::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('r') => return Wish::Reset,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.ascending = !self.ascending,
            KeyCode::Left => self.turn_to(-1),
            KeyCode::Right => self.turn_to(1),
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::Down => self.first = (self.first + 1).min(self.first_max()),
            KeyCode::PageUp => self.first = self.first.saturating_sub(self.page),
            KeyCode::PageDown => self.first = (self.first + self.page).min(self.first_max()),
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = self.first_max(),
            _ => {}
        }
        Wish::None
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.len() < FILTER_BYTES_MAX => {
                self.filter.push(letter);
            }
            _ => {}
        }
    }

    fn turn_to(&mut self, step: isize) {
        let place = Column::ALL.iter().position(|&one| one == self.column);
        let count = Column::ALL.len() as isize;
        let next = (place.unwrap_or(0) as isize + step).rem_euclid(count);
        self.column = Column::ALL[next as usize];
        // Names are sorted ascending, figures descending.
        self.ascending = self.column.is_text();
    }

    fn first_max(&self) -> usize {
        self.passing.saturating_sub(self.page)
    }

    fn sorted<'a>(&self, rows: &'a [SymbolRow]) -> Vec<&'a SymbolRow> {
        let wanted = self.filter.to_lowercase();
        let passes = |row: &&SymbolRow| row.symbol.to_lowercase().contains(&wanted);
        let mut passing: Vec<&SymbolRow> = match wanted.is_empty() {
            true => rows.iter().collect(),
            false => rows.iter().filter(passes).collect(),
        };
        passing.sort_by(|one, other| {
            let order = match self.column {
                Column::Symbol => one.symbol.cmp(&other.symbol),
                Column::Bid => defined(one.value.bid).cmp(&defined(other.value.bid)),
                Column::Ask => defined(one.value.ask).cmp(&defined(other.value.ask)),
                Column::Last => one.last().cmp(&other.last()),
                Column::Volume => one.value.volume.cmp(&other.value.volume),
                Column::State => one.state().cmp(other.state()),
                Column::Venue => one.venue.cmp(&other.venue),
                Column::Change => one.change_ppm().cmp(&other.change_ppm()),
                Column::Updates => one.updates.cmp(&other.updates),
                Column::Rate => one.rate.total_cmp(&other.rate),
            };
            let order = if self.ascending {
                order
            } else {
                order.reverse()
            };
            order.then_with(|| one.symbol.cmp(&other.symbol))
        });
        passing
    }
}

const FILTER_BYTES_MAX: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::LastValue;

    fn rows() -> Vec<SymbolRow> {
        let row = |(symbol, last, updates): (&str, i64, u64)| SymbolRow {
            symbol: symbol.to_owned(),
            value: LastValue {
                last,
                ..LastValue::new(0)
            },
            venue: std::sync::Arc::default(),
            updates,
            rate: 0.0,
        };
        [("B", 1, 5), ("a", 3, 5), ("C", 2, 9)].map(row).into()
    }

    fn press(view: &mut TableView, code: KeyCode) -> Wish {
        view.take(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn shown(view: &mut TableView, page: usize) -> String {
        let rows = rows();
        let shown = view.page(&rows, page);
        shown.iter().map(|row| row.symbol.as_str()).collect()
    }

    #[test]
    fn arrows_choose_the_column_and_space_turns_the_order() {
        let mut view = TableView::new(Column::Updates, false);
        assert_eq!(shown(&mut view, 9), "CBa", "equal ones by name");
        (0..4).for_each(|_| assert_eq!(press(&mut view, KeyCode::Left), Wish::None));
        assert_eq!(
            (view.column, shown(&mut view, 9).as_str()),
            (Column::Last, "aCB")
        );
        press(&mut view, KeyCode::Char(' '));
        assert_eq!(shown(&mut view, 9), "BCa");
        (0..3).for_each(|_| assert_eq!(press(&mut view, KeyCode::Left), Wish::None));
        assert_eq!(
            (view.column, shown(&mut view, 9).as_str()),
            (Column::Symbol, "BCa")
        );
        press(&mut view, KeyCode::Left);
        assert_eq!(view.column, Column::Venue, "round the corner");
    }

    #[test]
    fn while_a_filter_is_typed_letters_are_no_orders() {
        let mut view = TableView::new(Column::Symbol, true);
        press(&mut view, KeyCode::Char('/'));
        assert_eq!(press(&mut view, KeyCode::Char('q')), Wish::None);
        press(&mut view, KeyCode::Backspace);
        press(&mut view, KeyCode::Char('A'));
        assert_eq!(shown(&mut view, 9), "a");
        press(&mut view, KeyCode::Enter);
        assert_eq!(press(&mut view, KeyCode::Char('r')), Wish::Reset);
        press(&mut view, KeyCode::Esc);
        assert_eq!(shown(&mut view, 9), "BCa");
        assert_eq!(press(&mut view, KeyCode::Esc), Wish::Quit);
    }

    #[test]
    fn the_position_stays_within_what_there_is() {
        let mut view = TableView::new(Column::Symbol, true);
        assert_eq!(shown(&mut view, 2), "BC");
        (0..5).for_each(|_| assert_eq!(press(&mut view, KeyCode::Down), Wish::None));
        assert_eq!(shown(&mut view, 2), "Ca");
        assert_eq!(shown(&mut view, 9), "BCa", "a taller screen shows all");
        press(&mut view, KeyCode::End);
        press(&mut view, KeyCode::PageUp);
        assert_eq!(view.first, 0);
    }
}
