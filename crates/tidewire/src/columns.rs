//! Tables of numbers for terminals of any width. A number is shown in full, in a shorter form, or
//! not at all; it is never cut.

use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use crate::units::compact;

/// One cell: its text and its style.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) text: String,
    /// A count, which may be shortened to `768.8M`.
    pub(crate) count: Option<u64>,
    pub(crate) style: Style,
}

impl Figure {
    /// Returns a cell whose text is shown completely or not at all.
    pub(crate) fn text(text: String) -> Self {
        Self {
            text,
            count: None,
            style: Style::new(),
        }
    }

    /// Returns a cell with a count, with thousands separators if there is room.
    pub(crate) fn count(count: u64) -> Self {
        Self {
            count: Some(count),
            ..Self::text(crate::units::grouped(count))
        }
    }
}

/// The heading of a column.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    pub(crate) title: String,
    /// Minimum width, so that the width does not change with every figure.
    pub(crate) width_min: usize,
    /// Columns with a greater number are dropped first; 0 is never dropped.
    pub(crate) dropped: u8,
}

/// The columns that fit the room, each with its width and whether its counts are short.
#[derive(Debug, PartialEq, Eq)]
struct Fit {
    /// Column, width, and whether its counts are short.
    shown: Vec<(usize, usize, bool)>,
}

/// Lays out a table. The first column has names and is aligned left; the others have figures and
/// are aligned right.
pub(crate) fn table<'a>(area: Rect, headings: &[Heading], rows: Vec<Vec<Figure>>) -> Table<'a> {
    let room = usize::from(area.width).saturating_sub(BORDERS);
    let fit = Fit::of(headings, &rows, room);
    let header = fit.shown.iter().map(|&(column, width, _)| {
        let title = whole_words(&headings[column].title, width);
        aligned(column, title)
    });
    let header = Row::new(header).style(Style::new().add_modifier(Modifier::BOLD));
    let cells = |row: Vec<Figure>| {
        let cells: Vec<Cell<'_>> = fit
            .shown
            .iter()
            .map(|&(column, width, is_short)| {
                let text = row[column].shown(column, width, is_short);
                aligned(column, text).style(row[column].style)
            })
            .collect();
        Row::new(cells)
    };
    let widths: Vec<Constraint> = fit
        .shown
        .iter()
        .map(|&(_, width, _)| Constraint::Length(width as u16))
        .collect();
    Table::new(rows.into_iter().map(cells).collect::<Vec<_>>(), widths)
        .column_spacing(GAP as u16)
        .header(header)
}

impl Figure {
    fn shown(&self, column: usize, width: usize, is_short: bool) -> String {
        let text = match self.count {
            Some(count) if is_short => compact(count),
            _ => self.text.clone(),
        };
        match text.chars().count() <= width {
            true => text,
            // A name may be cut and end in dots; a cut number would be wrong.
            false if column == 0 => cut(&text, width),
            false => "#".repeat(width.min(1)),
        }
    }
}

impl Fit {
    fn of(headings: &[Heading], rows: &[Vec<Figure>], room: usize) -> Self {
        let width = |column: usize, is_short: bool| {
            let cells = rows.iter().map(|row| match row[column].count {
                Some(count) if is_short => compact(count).chars().count(),
                _ => row[column].text.chars().count(),
            });
            let heading = &headings[column];
            let title = heading.title.chars().count();
            let least = if is_short { 0 } else { heading.width_min };
            cells.max().unwrap_or(0).max(title).max(least)
        };
        let has_counts = |column: usize| rows.iter().any(|row| row[column].count.is_some());
        let mut shown: Vec<(usize, usize, bool)> = (0..headings.len())
            .map(|column| (column, width(column, false), false))
            .collect();
        let taken = |shown: &[(usize, usize, bool)]| {
            let widths: usize = shown.iter().map(|(_, width, _)| width).sum();
            widths + GAP * shown.len().saturating_sub(1)
        };
        // First shorten counts, then drop columns, and only then shorten the name.
        if taken(&shown) > room {
            for (column, wide, is_short) in &mut shown {
                if has_counts(*column) {
                    (*wide, *is_short) = (width(*column, true), true);
                }
            }
        }
        while taken(&shown) > room {
            let droppable = shown
                .iter()
                .filter(|(column, ..)| headings[*column].dropped > 0);
            let next = droppable.max_by_key(|(column, ..)| headings[*column].dropped);
            let Some(&(dropped, ..)) = next else { break };
            shown.retain(|(column, ..)| *column != dropped);
        }
        // A table that is narrower than its figures has fewer of them, so that none is cut.
        if taken(&shown) > room {
            for (column, wide, _) in shown.iter_mut().skip(1) {
                *wide = width(*column, true);
            }
        }
        let name = shown.first().map_or(0, |&(_, name, _)| name);
        while shown.len() > 1 && taken(&shown) - (name - name.min(NAME_WIDTH_MIN)) > room {
            shown.pop();
        }
        let excess = taken(&shown).saturating_sub(room);
        if let Some((_, name, _)) = shown.first_mut() {
            *name = name.saturating_sub(excess);
        }
        debug_assert!(taken(&shown) <= room, "the columns fit");
        let spare = room.saturating_sub(taken(&shown));
        spread(&mut shown, spare);
        Self { shown }
    }
}

/// Distributes spare width evenly over the columns.
fn spread(shown: &mut [(usize, usize, bool)], spare: usize) {
    if shown.is_empty() {
        return;
    }
    let (each, rest) = (spare / shown.len(), spare % shown.len());
    for (at, (_, width, _)) in shown.iter_mut().enumerate() {
        *width += each + usize::from(at < rest);
    }
}

/// Returns as many whole words of a text as fit. No number is cut.
pub(crate) fn whole_words(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let room: String = text.chars().take(width).collect();
    // A word that ends exactly at the limit is whole.
    let next = text.chars().nth(width);
    let end = match next {
        Some(' ') => room.len(),
        _ => room.rfind(' ').unwrap_or(0),
    };
    let kept = room[..end].trim_end_matches([' ', '·', ',', '(']);
    match kept.chars().count() + 2 <= width && !kept.is_empty() {
        true => format!("{kept} …"),
        false => kept.to_owned(),
    }
}

/// Returns as many parts of a text as fit, up to a `·` or a comma. No label is separated from its
/// number.
pub(crate) fn whole_parts(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let ends = text.match_indices([',', '·']).filter(|(at, mark)| {
        // The commas of 1,234 have no space after them.
        text[at + mark.len()..].starts_with(' ')
    });
    let mut kept = ends.map(|(at, _)| text[..at].trim_end());
    match kept.rfind(|kept| kept.chars().count() + 2 <= width) {
        Some(kept) => format!("{kept} …"),
        None => whole_words(text, width),
    }
}

/// Returns the beginning of a name, followed by dots.
fn cut(text: &str, width: usize) -> String {
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    match width {
        0 => String::new(),
        _ => format!("{kept}…"),
    }
}

fn aligned<'a>(column: usize, text: String) -> Cell<'a> {
    let line = Line::from(text);
    Cell::from(match column {
        0 => line.left_aligned(),
        _ => line.right_aligned(),
    })
}

const GAP: usize = 1;
/// Characters of a name that are kept while there are other columns.
const NAME_WIDTH_MIN: usize = 3;
/// Width of the table's frame.
const BORDERS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn headings() -> Vec<Heading> {
        let heading = |(title, dropped): (&str, u8)| Heading {
            title: title.to_owned(),
            width_min: 9,
            dropped,
        };
        [("symbol", 0), ("bid", 3), ("last", 0), ("volume", 1)]
            .map(heading)
            .into()
    }

    fn rows() -> Vec<Vec<Figure>> {
        let row = |name: &str, bid: &str, last: &str, volume: u64| {
            let [name, bid, last] = [name, bid, last].map(|text| Figure::text(text.to_owned()));
            vec![name, bid, last, Figure::count(volume)]
        };
        vec![
            row("RELIANCE", "2456.75", "2456.80", 768_812_400),
            row("A RATHER LONG NAME", "1234567890.1234", "3018.40", 7),
        ]
    }

    #[test]
    fn a_line_of_figures_ends_behind_a_label() {
        let text = "up 0:01 · 1,234 messages · 3 gaps, 2 recovered · 0 duplicate";
        assert_eq!(whole_parts(text, 60), text);
        assert_eq!(
            whole_parts(text, 59),
            "up 0:01 · 1,234 messages · 3 gaps, 2 recovered …"
        );
        assert_eq!(whole_parts(text, 40), "up 0:01 · 1,234 messages · 3 gaps …");
        assert_eq!(whole_parts(text, 34), "up 0:01 · 1,234 messages …");
        assert_eq!(whole_parts(text, 12), "up 0:01 …");
        assert_eq!(whole_parts(text, 8), "up 0:01");
    }

    #[test]
    fn what_is_narrow_gets_short_counts_then_fewer_columns_then_shorter_names() {
        let at = |room: usize| {
            let fit = Fit::of(&headings(), &rows(), room);
            let columns = fit.shown.iter();
            let columns = columns.map(|(column, _, short)| (*column, *short));
            columns.collect::<Vec<_>>()
        };
        let all = vec![(0, false), (1, false), (2, false), (3, false)];
        assert_eq!(at(60), all);
        assert_eq!(at(56), all, "18 + 15 + 9 + 11 and the gaps");
        assert_eq!(at(55), [(0, false), (1, false), (2, false), (3, true)]);
        assert_eq!(at(51)[3], (3, true));
        assert_eq!(
            at(50),
            [(0, false), (2, false), (3, true)],
            "the bid goes first"
        );
        assert_eq!(at(30), [(0, false), (2, false)]);
        let fit = Fit::of(&headings(), &rows(), 20);
        assert_eq!(
            fit.shown,
            [(0, 12, false), (2, 7, false)],
            "the name is shortened"
        );
    }

    /// Without this, the terminal's layout would cut columns that may not be dropped, and show
    /// 10.00 for 4810.00.
    #[test]
    fn no_figure_is_cut_in_a_table_that_is_too_narrow_for_its_columns() {
        let mut headings = headings();
        headings[3].dropped = 0;
        for room in 0..60 {
            let fit = Fit::of(&headings, &rows(), room);
            let width: usize = fit.shown.iter().map(|(_, width, _)| width + GAP).sum();
            assert!(width <= room + GAP, "{room}: {fit:?}");
            for row in rows() {
                for &(column, width, is_short) in &fit.shown[1..] {
                    let text = row[column].shown(column, width, is_short);
                    let compacted = row[column].count.map(compact);
                    let whole = text == row[column].text || Some(text.clone()) == compacted;
                    assert!(whole, "{room}: {text}");
                }
            }
        }
    }

    #[test]
    fn room_that_is_left_is_used() {
        for room in 56..250 {
            let fit = Fit::of(&headings(), &rows(), room);
            let width: usize = fit.shown.iter().map(|(_, width, _)| width + GAP).sum();
            assert_eq!(width - GAP, room);
        }
    }

    #[test]
    fn a_line_ends_behind_a_whole_word() {
        let text = "12,345/s · 768,812,400 messages · 3 lost";
        assert_eq!(whole_words(text, 40), text);
        assert_eq!(
            whole_words(text, 39),
            "12,345/s · 768,812,400 messages · 3 …"
        );
        assert_eq!(whole_words(text, 21), "12,345/s …", "no part of a number");
        assert_eq!(whole_words(text, 22), "12,345/s · 768,812,400");
        assert_eq!(whole_words(text, 5), "");
        assert_eq!(cut("RELIANCE", 4), "REL…");
    }
}
