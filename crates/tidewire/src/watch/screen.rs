//! A look in the terminal, drawn twice a second.

use std::time::{Duration, Instant};

use crossterm::event;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row as TableRow, Sparkline, Table};

use super::Watch;
use super::model::State;
use super::sight::{Row, Sight};
use super::spread::Percentiles;
use super::terminal::Screen;
use super::view::{Column, View, Wish};
use crate::failure::Failure;
use crate::units::{grouped, latency, price};

/// Shows what is watched until `q` is pressed or a signal comes.
pub(super) fn show(watch: &Watch, mut view: View) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::running(format!("terminal: {error}"));
    let mut screen = Screen::take(&watch.stop)?;
    let mut sight = watch.look(REFRESH_INTERVAL);
    let mut next = Instant::now() + REFRESH_INTERVAL;
    while !watch.stop.is_asked() {
        if watch.link.has_failed() {
            return Err(Failure::running("the feed's reader has failed"));
        }
        let terminal = &mut screen.terminal;
        let drawn = terminal.draw(|frame| draw(frame, &sight, &mut view));
        drawn.map_err(failed)?;
        // Keys are answered at once, with what was seen last.
        while !watch.stop.is_asked() && Instant::now() < next {
            let left = next.saturating_duration_since(Instant::now());
            if !event::poll(left.min(SIGNAL_INTERVAL)).map_err(failed)? {
                continue;
            }
            match view.take(&event::read().map_err(failed)?) {
                Wish::None => break,
                Wish::Quit => return Ok(()),
                Wish::Reset => {
                    watch.link.model().reset();
                    next = Instant::now();
                }
            }
        }
        if Instant::now() >= next {
            sight = watch.look(REFRESH_INTERVAL);
            next = Instant::now() + REFRESH_INTERVAL;
        }
    }
    Ok(())
}

/// A look as plain text.
pub(super) fn as_text(sight: &Sight, rows: &[&Row]) -> String {
    let mut text = String::new();
    for line in [connection(sight), stream(sight), spread(sight), hub(sight)] {
        text.push_str(&line);
        text.push('\n');
    }
    for (column, width) in Column::ALL.iter().zip(WIDTHS) {
        text.push_str(&padded(*column, column.title(), width));
    }
    text.push('\n');
    for row in rows {
        for ((column, cell), width) in Column::ALL.iter().zip(cells(row)).zip(WIDTHS) {
            text.push_str(&padded(*column, &cell, width));
        }
        text.push('\n');
    }
    text
}

fn padded(column: Column, text: &str, width: u16) -> String {
    let width = usize::from(width);
    match column {
        Column::Symbol => format!("{text:<width$}"),
        _ => format!(" {text:>width$}"),
    }
}

fn draw(frame: &mut Frame<'_>, sight: &Sight, view: &mut View) {
    let area = frame.area();
    // A low screen keeps the table before all else.
    let panel = if area.height >= PANEL_FROM_ROWS { 5 } else { 0 };
    let [top, middle, lower, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(panel),
        Constraint::Length(2),
    ])
    .areas(area);
    let state = match sight.connection.state {
        State::Connected => Color::Green,
        State::Connecting | State::Ended => Color::Yellow,
        State::Lost => Color::Red,
    };
    let lines = vec![
        Line::from(vec![
            Span::styled("● ", Style::new().fg(state)),
            Span::raw(connection(sight)),
        ]),
        Line::raw(stream(sight)),
    ];
    frame.render_widget(Paragraph::new(lines), top);
    draw_table(frame, middle, sight, view);
    if panel > 0 {
        draw_latency(frame, lower, sight);
    }
    let keys = match view.is_typing {
        true => Line::raw(format!(
            "/{}_   Enter keeps the filter, Esc drops it",
            view.filter
        )),
        false => Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
    };
    frame.render_widget(Paragraph::new(vec![Line::raw(hub(sight)), keys]), bottom);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, sight: &Sight, view: &mut View) {
    let room = usize::from(area.height.saturating_sub(3));
    let rows = view.page(&sight.rows, room);
    let arrow = if view.ascending { '▲' } else { '▼' };
    let header = Column::ALL.iter().map(|&column| {
        let chosen = column == view.column;
        let title = match chosen {
            true => format!("{}{arrow}", column.title()),
            false => column.title().to_owned(),
        };
        aligned(column, title)
    });
    let first = view.first + usize::from(!rows.is_empty());
    let mut title = format!(
        " {first}–{} of {} ",
        view.first + rows.len(),
        grouped(view.passing() as u64)
    );
    if !view.filter.is_empty() {
        title = format!(" /{}:{title}", view.filter);
    }
    let table = Table::new(rows.into_iter().map(table_row), WIDTHS.map(Constraint::Max))
        .header(TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, sight: &Sight) {
    let block = Block::bordered().title(" latency: source time → received here ");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [left, right] =
        Layout::horizontal([Constraint::Length(62), Constraint::Min(0)]).areas(inside);
    let lines = vec![
        Line::raw(format!("now {}", percentiles(&sight.latest))),
        Line::raw(format!("all {}", percentiles(&sight.all))),
        Line::styled(clocks(sight), Style::new().add_modifier(Modifier::DIM)),
    ];
    frame.render_widget(Paragraph::new(lines), left);
    let room = usize::from(right.width);
    let from = sight.history.len().saturating_sub(room);
    let sparkline = Sparkline::default()
        .data(&sight.history[from..])
        .style(Style::new().fg(Color::Cyan));
    frame.render_widget(sparkline, right);
}

fn table_row(row: &Row) -> TableRow<'static> {
    let color = match row.change_ppm().unwrap_or(0) {
        1.. => Color::Green,
        0 => Color::Reset,
        _ => Color::Red,
    };
    let cells = Column::ALL.into_iter().zip(cells(row));
    TableRow::new(cells.map(|(column, text)| {
        let cell = aligned(column, text);
        match column {
            Column::Change => cell.style(Style::new().fg(color)),
            _ => cell,
        }
    }))
}

/// Names to the left, figures to the right.
fn aligned(column: Column, text: String) -> Cell<'static> {
    let line = Line::from(text);
    Cell::from(match column {
        Column::Symbol => line.left_aligned(),
        _ => line.right_aligned(),
    })
}

fn cells(row: &Row) -> [String; 8] {
    let value = &row.value;
    let change = row.change_ppm().map_or_else(
        || "-".to_owned(),
        |parts_per_million| format!("{:+.2}", parts_per_million as f64 / 10_000.0),
    );
    [
        row.symbol.clone(),
        price(value.bid),
        price(value.ask),
        price(value.last),
        grouped(value.volume),
        change,
        grouped(row.updates),
        grouped(row.rate as u64),
    ]
}

fn connection(sight: &Sight) -> String {
    let connection = &sight.connection;
    let state = connection.state.name();
    let mut text = format!("{state} {}", clock(sight.connected_for.as_secs()));
    if connection.state == State::Lost {
        text.push_str(&format!(" ({}), trying again", connection.reason));
    }
    text.push_str(&format!(
        " · {} · session {} · {} reconnects",
        sight.patterns, sight.session, connection.reconnects
    ));
    if let Ok((figures, _)) = &sight.hub {
        text.push_str(&format!(" · hub up {}", clock(figures.uptime_s)));
    }
    text
}

fn stream(sight: &Sight) -> String {
    let loss = &sight.loss;
    format!(
        "{}/s · {} messages · {} gaps, {} recovered, {} lost · {} conflated · {} duplicate",
        grouped(sight.rate as u64),
        grouped(sight.messages),
        grouped(loss.gaps),
        grouped(loss.recovered),
        grouped(loss.lost),
        grouped(loss.conflated),
        grouped(loss.duplicate),
    )
}

fn spread(sight: &Sight) -> String {
    format!("latency {} ({})", percentiles(&sight.all), clocks(sight))
}

fn percentiles(spread: &Percentiles) -> String {
    if spread.count == 0 {
        return "no messages".to_owned();
    }
    format!(
        "p50 {} p90 {} p99 {} p99.9 {}",
        latency(spread.p50_ns),
        latency(spread.p90_ns),
        latency(spread.p99_ns),
        latency(spread.p999_ns)
    )
}

/// How far the latencies can be believed.
fn clocks(sight: &Sight) -> String {
    if sight.ahead > 0 {
        let ahead = grouped(sight.ahead);
        return format!("{ahead} stamped after they came: the clocks differ");
    }
    if sight.old > 0 {
        return format!("{} older than 60 s left out", grouped(sight.old));
    }
    "by the source's clock and this one's".to_owned()
}

fn hub(sight: &Sight) -> String {
    let (figures, rate) = match &sight.hub {
        Ok(pair) => pair,
        Err(reason) => return format!("hub: its own figures are not there: {reason}"),
    };
    let [p50, p99, _] = figures.latency_ns.map(latency);
    format!(
        "hub {}/s · {} sources · {} Redis clients · {} lost · {} delivered, {} conflated, {} \
         dropped, {} cut off · p50 {p50} p99 {p99}",
        grouped(*rate as u64),
        figures.sources,
        grouped(figures.redis_clients),
        grouped(figures.lost),
        grouped(figures.delivered),
        grouped(figures.conflated),
        grouped(figures.dropped),
        grouped(figures.cut_off),
    )
}

fn clock(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("{}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
}

const KEYS: &str = "q quits · r begins the figures anew · / filters · ←→ sorts by · space turns the order \
     · ↑↓ PgUp PgDn";
const WIDTHS: [u16; 8] = [16, 12, 12, 12, 15, 9, 13, 9];
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// How soon a signal is noticed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// Rows of a screen that has room for the latency panel.
const PANEL_FROM_ROWS: u16 = 16;
