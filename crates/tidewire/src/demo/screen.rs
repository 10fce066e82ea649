//! The live table.

use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row as TableRow, Table};
use ratatui::{DefaultTerminal, Frame};

use crate::failure::Failure;
use crate::server::Server;
use crate::table::{COLUMNS, Row, View, Watcher};

/// Shows the table until it is `over`, or `q`, Escape or Ctrl-C is pressed.
pub(super) fn show(
    server: &Server,
    watcher: &mut Watcher,
    introduction: &[String],
    over: &impl Fn() -> bool,
) -> Result<(), Failure> {
    let mut terminal = ratatui::init();
    let shown = draw_until(&mut terminal, server, watcher, introduction, over);
    ratatui::restore();
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
        let view = watcher.look(&server.hub, ROWS);
        terminal
            .draw(|frame| draw(frame, &view, introduction))
            .map_err(failed)?;
        if event::poll(REFRESH_INTERVAL).map_err(failed)?
            && is_quit(&event::read().map_err(failed)?)
        {
            break;
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

fn draw(frame: &mut Frame<'_>, view: &View, introduction: &[String]) {
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(introduction.len() as u16),
        Constraint::Min(3),
        Constraint::Length(3),
    ])
    .areas(frame.area());
    let lines: Vec<Line<'_>> = introduction
        .iter()
        .map(|line| Line::raw(line.as_str()))
        .collect();
    frame.render_widget(Paragraph::new(Text::from(lines)), top);
    let header = COLUMNS
        .iter()
        .enumerate()
        .map(|(column, title)| aligned(column, (*title).into()));
    let table = Table::new(view.rows.iter().map(table_row), WIDTHS)
        .header(TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(Block::bordered().title(" md: busiest topics "));
    frame.render_widget(table, middle);
    let figures = vec![
        Line::raw(view.figures()),
        Line::raw(view.listeners()),
        Line::styled("q quits", Style::new().add_modifier(Modifier::DIM)),
    ];
    frame.render_widget(Paragraph::new(figures), bottom);
}

fn table_row(row: &Row) -> TableRow<'static> {
    let rises = row.value.change_ppm().unwrap_or(0);
    let color = match rises {
        1.. => Color::Green,
        0 => Color::Reset,
        _ => Color::Red,
    };
    let cells = row.cells().into_iter().enumerate().map(|(column, text)| {
        let cell = aligned(column, text);
        if column == CHANGE_COLUMN {
            cell.style(Style::new().fg(color))
        } else {
            cell
        }
    });
    TableRow::new(cells)
}

/// Names to the left, figures to the right.
fn aligned(column: usize, text: String) -> Cell<'static> {
    let line = Line::from(text);
    Cell::from(if column == 0 {
        line.left_aligned()
    } else {
        line.right_aligned()
    })
}

const ROWS: usize = 20;
const CHANGE_COLUMN: usize = 5;
const WIDTHS: [Constraint; 7] = [
    Constraint::Min(14),
    Constraint::Length(12),
    Constraint::Length(12),
    Constraint::Length(12),
    Constraint::Length(15),
    Constraint::Length(9),
    Constraint::Length(13),
];
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
