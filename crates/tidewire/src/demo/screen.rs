//! The live table of `demo`.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Paragraph};
use ratatui::{DefaultTerminal, Frame};

use crate::columns::{self, Figure, Heading, whole_words};
use crate::failure::Failure;
use crate::keys::{self, Heard};
use crate::server::Server;
use crate::table::{CHANGE_COLUMN, COLUMNS, HubFigures, TopicRow, Watcher};

/// Shows the table until `over` returns true, or `q`, Escape or Ctrl-C is pressed.
pub(super) fn show(
    server: &Server,
    watcher: &mut Watcher,
    introduction: &[String],
    over: &impl Fn() -> bool,
) -> Result<(), Failure> {
    let mut terminal = ratatui::init();
    let shown = draw_until(&mut terminal, server, watcher, introduction, over);
    // A closed terminal needs no restoring.
    let _ = ratatui::try_restore();
    shown
}

fn draw_until(
    terminal: &mut DefaultTerminal,
    server: &Server,
    watcher: &mut Watcher,
    introduction: &[String],
    over: &impl Fn() -> bool,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::running(format!("terminal: {error}"));
    while !over() {
        server.check()?;
        let rows = terminal.size().map_or(0, |size| size.height);
        let view = watcher.look(&server.hub, usize::from(rows));
        terminal
            .draw(|frame| draw(frame, &view, introduction))
            .map_err(failed)?;
        match keys::hear(REFRESH_INTERVAL).map_err(failed)? {
            Heard::Nothing => {}
            Heard::Event(event) if !is_quit(&event) => {}
            Heard::Event(_) | Heard::Gone => break,
        }
    }
    Ok(())
}

fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || control_c;
    quit && key.kind == KeyEventKind::Press
}

fn draw(frame: &mut Frame<'_>, view: &HubFigures, introduction: &[String]) {
    let area = frame.area();
    // On a small screen the table has priority.
    let above = match area.height {
        ..INTRODUCTION_FROM_ROWS => 0,
        _ => introduction.len() as u16,
    };
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(above),
        Constraint::Min(4),
        Constraint::Length(3),
    ])
    .areas(area);
    let width = usize::from(area.width);
    let line = |text: &str| Line::raw(whole_words(text, width));
    let lines: Vec<Line<'_>> = introduction.iter().map(|text| line(text)).collect();
    frame.render_widget(Paragraph::new(Text::from(lines)), top);
    let headings = COLUMNS.map(|(title, width_min, dropped)| Heading {
        title: title.to_owned(),
        width_min,
        dropped,
    });
    let room = usize::from(middle.height).saturating_sub(3);
    let rows = view.rows.iter().take(room).map(figures).collect();
    let table = columns::table(middle, &headings, rows)
        .block(Block::bordered().title(" md: busiest topics "));
    frame.render_widget(table, middle);
    let figures = vec![
        line(&view.figures()),
        line(&view.listeners()),
        Line::styled("q quits", Style::new().add_modifier(Modifier::DIM)),
    ];
    frame.render_widget(Paragraph::new(figures), bottom);
}

fn figures(row: &TopicRow) -> Vec<Figure> {
    let mut figures = row.figures();
    figures[CHANGE_COLUMN].style = Style::new().fg(match row.value.change_ppm().unwrap_or(0) {
        1.. => Color::Green,
        0 => Color::Reset,
        _ => Color::Red,
    });
    figures.into()
}

/// Minimum number of rows for a screen that shows the introduction.
const INTRODUCTION_FROM_ROWS: u16 = 20;
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use tidewire_lastvalue::MarketValue;

    use super::*;
    use crate::units::{compact, grouped};

    fn view() -> HubFigures {
        let row = |(symbol, price, volume): (&str, i64, u64)| TopicRow {
            symbol: symbol.to_owned(),
            value: MarketValue {
                bid: price - 50_000_000,
                ask: price + 50_000_000,
                last: price,
                session_open: price + 7_000_000_000,
                volume,
                updates: volume / 100,
                ..MarketValue::default()
            },
        };
        let rows = [
            ("RELIANCE", 3_018_400_000_000, 768_812_400),
            ("BRK.A", 612_345_678_900_000, 1_234_567_890_123),
            ("A", 1_000_000_000, 7),
        ];
        HubFigures {
            rows: (0..30).map(|at| row(rows[at % 3])).collect(),
            topics: 100,
            rate: 1_234_567,
            applied: 98_765_432_109,
            lost: 0,
            gaps: 0,
            latency: Some([850, 12_345, 212_000_000]),
            clients: 3,
            delivered: 7_862_400,
            conflated: 12,
            uptime: Duration::from_secs(3_600),
        }
    }

    /// Returns the words of a screen of this size.
    fn words(view: &HubFigures, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| draw(frame, view, &["a hub".to_owned()]))
            .unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content.chunks(usize::from(width));
        let text: Vec<String> = lines
            .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>())
            .collect();
        let words = text.iter().flat_map(|line| line.split([' ', '│']));
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn a_volume_of_768_million_is_whole_or_short_at_every_width() {
        let view = view();
        for width in 40..=200 {
            let mut known: Vec<String> = Vec::new();
            for row in &view.rows {
                known.extend(row.texts());
                let counts = [row.value.volume, row.value.updates];
                known.extend(counts.map(compact));
            }
            let lines = format!("{} {}", view.figures(), view.listeners());
            known.extend(
                lines
                    .split(' ')
                    .map(|word| word.trim_end_matches(',').to_owned()),
            );
            for word in words(&view, width, 40) {
                let word = word.trim_end_matches(',').to_owned();
                let is_number = word.starts_with(|first: char| "+-0123456789".contains(first));
                assert!(
                    !is_number || known.contains(&word),
                    "'{word}' at {width} columns"
                );
            }
        }
    }

    #[test]
    fn a_tall_terminal_uses_all_of_its_rows() {
        let view = view();
        let shown = |height| {
            let words = words(&view, 120, height);
            let names = words
                .iter()
                .filter(|word| view.rows[..3].iter().any(|row| row.symbol == **word));
            names.count()
        };
        assert_eq!(shown(24), 24 - 1 - 3 - 3);
        assert_eq!(shown(36), 36 - 1 - 3 - 3);
        assert_eq!(grouped(768_812_400), "768,812,400");
    }

    #[test]
    fn a_wide_terminal_uses_its_width() {
        let mut terminal = Terminal::new(TestBackend::new(200, 30)).unwrap();
        terminal.draw(|frame| draw(frame, &view(), &[])).unwrap();
        let buffer = terminal.backend().buffer();
        let last = (0..30)
            .filter(|&row| buffer[(198, row)].symbol() != " ")
            .count();
        assert!(last > 20, "figures stand at the right edge: {last}");
    }
}
