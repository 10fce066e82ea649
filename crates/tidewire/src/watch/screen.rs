//! The terminal view, drawn twice a second.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline};

use super::Watch;
use super::cluster::Cluster;
use super::ladder::Ladder;
use super::model::ConnectionState;
use super::sample::{Sample, SymbolRow};
use super::spread::Percentiles;
use super::terminal::Screen;
use super::view::{Column, TableView, Wish};
use crate::columns::{self, Figure, Heading, whole_parts, whole_words};
use crate::failure::Failure;
use crate::keys::{self, Heard};
use crate::units::{counted, grouped, latency, price, printable};

/// Shows the table until `q` is pressed or a signal arrives.
pub(super) fn show(watch: &Watch, mut view: TableView) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::running(format!("terminal: {error}"));
    let mut screen = Screen::take(&watch.stop)?;
    let mut sample = watch.look(REFRESH_INTERVAL);
    let mut next = Instant::now() + REFRESH_INTERVAL;
    while !watch.stop.is_asked() {
        if watch.link.has_failed() {
            return Err(Failure::running("the reader of the feed failed"));
        }
        let terminal = &mut screen.terminal;
        let ladder = watch.info.ladder();
        let drawn = terminal.draw(|frame| draw(frame, &sample, ladder.as_ref(), &mut view));
        let top = view.top.as_deref().filter(|_| view.has_ladder);
        watch.info.want_ladder(top);
        if let Err(error) = drawn {
            let is_gone = matches!(keys::hear(Duration::ZERO), Ok(Heard::Gone) | Err(_));
            return if is_gone { Ok(()) } else { Err(failed(error)) };
        }
        // Keys are obeyed immediately, with the figures of the last sample.
        while !watch.stop.is_asked() && Instant::now() < next {
            let left = next.saturating_duration_since(Instant::now());
            let event = match keys::hear(left.min(SIGNAL_INTERVAL)).map_err(failed)? {
                Heard::Nothing => continue,
                Heard::Event(event) => event,
                Heard::Gone => return Ok(()),
            };
            match view.take(&event) {
                Wish::None => break,
                Wish::Quit => return Ok(()),
                Wish::Reset => {
                    watch.link.model().reset();
                    next = Instant::now();
                }
            }
        }
        if Instant::now() >= next {
            sample = watch.look(REFRESH_INTERVAL);
            next = Instant::now() + REFRESH_INTERVAL;
        }
    }
    Ok(())
}

/// Returns the figures as plain text.
pub(super) fn as_text(sample: &Sample, rows: &[&SymbolRow]) -> String {
    let mut text = String::new();
    for line in [
        connection(sample),
        stream(sample),
        spread(sample),
        hub(sample),
    ]
    .into_iter()
    .chain(cluster(sample))
    {
        text.push_str(&line);
        text.push('\n');
    }
    let cells: Vec<[String; COLUMNS]> = rows.iter().map(|row| texts(row)).collect();
    let width = |at: usize| {
        let texts = cells.iter().map(|cells| cells[at].chars().count());
        texts.max().unwrap_or(0).max(usize::from(WIDTHS[at]))
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    for (column, width) in Column::ALL.iter().zip(widths) {
        text.push_str(&padded(*column, column.title(), width));
    }
    text.push('\n');
    for cells in cells {
        for ((column, cell), width) in Column::ALL.iter().zip(cells).zip(widths) {
            text.push_str(&padded(*column, &cell, width));
        }
        text.push('\n');
    }
    text
}

fn padded(column: Column, text: &str, width: usize) -> String {
    match column {
        Column::Symbol => format!("{text:<width$}"),
        _ => format!(" {text:>width$}"),
    }
}

fn draw(frame: &mut Frame<'_>, sample: &Sample, ladder: Option<&Ladder>, view: &mut TableView) {
    let area = frame.area();
    // On a small screen the table has priority.
    let panel = if area.height >= PANEL_FROM_ROWS { 5 } else { 0 };
    let mut cluster = cluster(sample);
    cluster.truncate(usize::from(area.height / CLUSTER_PART));
    let [top, middle, lower, bottom] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(panel),
        Constraint::Length(2 + cluster.len() as u16),
    ])
    .areas(area);
    let width = usize::from(area.width);
    let state = match sample.connection.state {
        ConnectionState::Connected => Color::Green,
        ConnectionState::Connecting | ConnectionState::Ended => Color::Yellow,
        ConnectionState::Lost => Color::Red,
    };
    let lines = vec![
        Line::from(vec![
            Span::styled("● ", Style::new().fg(state)),
            Span::raw(whole_parts(&connection(sample), width.saturating_sub(2))),
        ]),
        Line::raw(whole_parts(&stream(sample), width)),
    ];
    frame.render_widget(Paragraph::new(lines), top);
    draw_middle(frame, middle, sample, ladder, view);
    if panel > 0 {
        draw_latency(frame, lower, sample);
    }
    let keys = match view.is_typing {
        true => Line::raw(format!(
            "/{}_   Enter keeps the filter, Esc drops it",
            view.filter
        )),
        false => Line::styled(
            whole_parts(KEYS, width),
            Style::new().add_modifier(Modifier::DIM),
        ),
    };
    let figures = [hub(sample)].into_iter().chain(cluster);
    let figures = figures.map(|text| Line::raw(whole_parts(&text, width)));
    let lines: Vec<Line<'_>> = figures.chain([keys]).collect();
    frame.render_widget(Paragraph::new(lines), bottom);
}

/// Draws the table, and beside it the price levels of its first row if they are wanted.
fn draw_middle(
    frame: &mut Frame<'_>,
    area: Rect,
    sample: &Sample,
    ladder: Option<&Ladder>,
    view: &mut TableView,
) {
    if !view.has_ladder {
        return draw_table(frame, area, sample, view);
    }
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(LADDER_WIDTH)]).areas(area);
    draw_table(frame, left, sample, view);
    let is_of_top = |ladder: &&Ladder| Some(&ladder.symbol) == view.top.as_ref();
    let waiting = Ladder::default();
    ladder
        .filter(is_of_top)
        .unwrap_or(&waiting)
        .draw(frame, right);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, sample: &Sample, view: &mut TableView) {
    let room = usize::from(area.height.saturating_sub(3));
    let rows = view.page(&sample.rows, room);
    let arrow = if view.ascending { '▲' } else { '▼' };
    let heading = |&column: &Column| {
        let chosen = column == view.column;
        let title = match chosen {
            true => format!("{}{arrow}", column.title()),
            false => column.title().to_owned(),
        };
        let (width_min, dropped) = room_of(column);
        Heading {
            title,
            width_min,
            // The sort column stays visible.
            dropped: if chosen { 0 } else { dropped },
        }
    };
    let headings: Vec<Heading> = Column::ALL.iter().map(heading).collect();
    let first = view.first + usize::from(!rows.is_empty());
    let mut title = format!(
        " {first}–{} of {} ",
        view.first + rows.len(),
        grouped(view.passing() as u64)
    );
    if !view.filter.is_empty() {
        title = format!(" /{}:{title}", view.filter);
    }
    let title = whole_words(&title, usize::from(area.width.saturating_sub(2)));
    let rows = rows.into_iter().map(figures).collect();
    let table = columns::table(area, &headings, rows).block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, sample: &Sample) {
    let block = Block::bordered().title(" latency: source time → received here ");
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let [left, right] =
        Layout::horizontal([Constraint::Length(62), Constraint::Min(0)]).areas(inside);
    let width = usize::from(left.width);
    let line = |text: &str| Line::raw(whole_words(text, width));
    let lines = vec![
        line(&format!("now {}", percentiles(&sample.latest))),
        line(&format!("all {}", percentiles(&sample.all))),
        line(&clocks(sample)).style(Style::new().add_modifier(Modifier::DIM)),
    ];
    frame.render_widget(Paragraph::new(lines), left);
    let room = usize::from(right.width);
    let from = sample.history.len().saturating_sub(room);
    let sparkline = Sparkline::default()
        .data(&sample.history[from..])
        .style(Style::new().fg(Color::Cyan));
    frame.render_widget(sparkline, right);
}

/// Returns a column's minimum width, and the order in which it is dropped if there is little room.
fn room_of(column: Column) -> (usize, u8) {
    match column {
        Column::Symbol => (12, 0),
        Column::Bid | Column::Ask => (11, 2),
        Column::Last => (11, 0),
        Column::Volume => (11, 3),
        Column::Change => (8, 1),
        Column::State => (8, 4),
        Column::Updates => (9, 6),
        Column::Rate => (7, 5),
        Column::Venue => (6, 7),
    }
}

fn figures(row: &SymbolRow) -> Vec<Figure> {
    let value = &row.value;
    let change = row.change_ppm().map_or_else(
        || "-".to_owned(),
        |parts_per_million| format!("{:+.2}", parts_per_million as f64 / 10_000.0),
    );
    let color = match row.change_ppm().unwrap_or(0) {
        1.. => Color::Green,
        0 => Color::Reset,
        _ => Color::Red,
    };
    let change = Figure {
        style: Style::new().fg(color),
        ..Figure::text(change)
    };
    let color = match row.state() {
        "open" | "unknown" => Color::Reset,
        _ => Color::Yellow,
    };
    let state = Figure {
        style: Style::new().fg(color),
        ..Figure::text(row.state().to_owned())
    };
    vec![
        Figure::text(printable(&row.symbol)),
        Figure::text(price(value.bid)),
        Figure::text(price(value.ask)),
        Figure::text(price(value.last)),
        Figure::count(value.volume),
        change,
        state,
        Figure::count(row.updates),
        Figure::count(row.rate as u64),
        Figure::text(printable(&row.venue)),
    ]
}

/// Returns the texts of a row, not shortened.
fn texts(row: &SymbolRow) -> [String; COLUMNS] {
    let mut figures = figures(row).into_iter();
    std::array::from_fn(|_| figures.next().map_or(String::new(), |figure| figure.text))
}

fn connection(sample: &Sample) -> String {
    let connection = &sample.connection;
    let state = connection.state.name();
    let mut text = format!("{state} {}", clock(sample.connected_for.as_secs()));
    if connection.state == ConnectionState::Lost {
        text.push_str(&format!(" ({}), retrying", printable(&connection.reason)));
    }
    text.push_str(&format!(
        " · {} · session {} · {} reconnects",
        sample.patterns, sample.session, connection.reconnects
    ));
    if let Ok((figures, _)) = &sample.hub {
        text.push_str(&format!(" · hub up {}", clock(figures.of("uptime_s"))));
    }
    text
}

fn stream(sample: &Sample) -> String {
    let loss = &sample.loss;
    format!(
        "{}/s · {} messages · {} gaps, {} recovered, {} lost · {} conflated · {} duplicate",
        grouped(sample.rate as u64),
        grouped(sample.messages),
        grouped(loss.gaps),
        grouped(loss.recovered),
        grouped(loss.lost),
        grouped(loss.conflated),
        grouped(loss.duplicate),
    )
}

fn spread(sample: &Sample) -> String {
    format!("latency {} ({})", percentiles(&sample.all), clocks(sample))
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

/// Returns how reliable the latencies are.
fn clocks(sample: &Sample) -> String {
    if sample.ahead > 0 {
        let ahead = grouped(sample.ahead);
        return format!("{ahead} timestamps are in the future: the clocks differ");
    }
    if sample.old > 0 {
        return format!("{} older than 60 s left out", grouped(sample.old));
    }
    "from the source's clock to this machine's".to_owned()
}

fn hub(sample: &Sample) -> String {
    let (figures, rate) = match &sample.hub {
        Ok(pair) => pair,
        Err(reason) => return format!("hub figures unavailable: {}", printable(reason)),
    };
    let [p50, p99] = ["latency_ns.p50", "latency_ns.p99"].map(|name| latency(figures.of(name)));
    format!(
        "hub {}/s · {} · {} · {} lost · {} delivered, {} conflated, {} \
         dropped, {} cut off · p50 {p50} p99 {p99}",
        grouped(*rate as u64),
        counted(figures.of("sources"), "source"),
        counted(figures.of("redis_clients"), "Redis client"),
        grouped(figures.of("lost")),
        grouped(figures.of("delivered")),
        grouped(figures.of("conflated")),
        grouped(figures.of("dropped")),
        grouped(figures.of("cut_off")),
    )
}

/// Returns the lines about the hub's cluster, if it is in one.
fn cluster(sample: &Sample) -> Vec<String> {
    let figures = sample.hub.as_ref().ok();
    let cluster = figures.and_then(|(figures, _)| figures.cluster.as_ref());
    cluster.map(Cluster::lines).unwrap_or_default()
}

fn clock(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("{}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
}

const KEYS: &str = "q quits · r resets the figures · / filters · ←→ change the sort column · space reverses the order \
     · ↑↓ PgUp PgDn · Enter shows the levels of the first row";
const COLUMNS: usize = Column::ALL.len();
const WIDTHS: [u16; COLUMNS] = [16, 12, 12, 12, 15, 9, 9, 13, 9, 6];
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// Columns of the price levels, with their frame.
const LADDER_WIDTH: u16 = 36;
/// Maximum delay until a signal is noticed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// The lines about a cluster take at most one of so many rows.
const CLUSTER_PART: u16 = 5;
/// Minimum number of rows for a screen that shows the latency panel.
const PANEL_FROM_ROWS: u16 = 16;
