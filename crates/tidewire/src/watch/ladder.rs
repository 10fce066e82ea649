//! The price levels of one symbol, beside the table.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use tidewire_resp::Value;

use crate::columns::whole_words;
use crate::units::{grouped, printable};

/// A symbol's best levels, as TIDEWIRE.BOOK replies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ladder {
    pub(super) symbol: String,
    /// Why there are no levels; empty if they are known.
    reason: String,
    is_stale: bool,
    bids: Vec<Step>,
    asks: Vec<Step>,
}

/// One level: price, size, and number of orders.
type Step = (String, u64, u64);

impl Ladder {
    /// Reads a RESP2 reply to [`request`].
    pub(super) fn from_reply(symbol: &str, reply: &Value) -> Self {
        let mut ladder = Self {
            symbol: symbol.to_owned(),
            ..Self::default()
        };
        let fields = match reply {
            Value::Array(fields) => fields,
            Value::Error(text) => {
                ladder.reason = String::from_utf8_lossy(text).into_owned();
                return ladder;
            }
            _ => {
                "unexpected reply".clone_into(&mut ladder.reason);
                return ladder;
            }
        };
        let is_known = field(fields, b"depth").is_some_and(|depth| number(depth) > 0);
        if !is_known {
            "levels not known".clone_into(&mut ladder.reason);
        }
        ladder.is_stale = field(fields, b"stale").is_some_and(|stale| number(stale) != 0);
        ladder.bids = field(fields, b"bids").map_or_else(Vec::new, steps);
        ladder.asks = field(fields, b"asks").map_or_else(Vec::new, steps);
        ladder
    }

    /// Draws the asks above the bids, the best in the middle.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut title = format!(" {} ", printable(&self.symbol));
        if self.is_stale {
            title.push_str("stale ");
        }
        let width = usize::from(area.width.saturating_sub(2));
        let block = Block::bordered().title(whole_words(&title, width));
        let inside = block.inner(area);
        frame.render_widget(block, area);
        let lines = self.lines(usize::from(inside.height), width);
        frame.render_widget(Paragraph::new(lines), inside);
    }

    fn lines(&self, height: usize, width: usize) -> Vec<Line<'static>> {
        if !self.reason.is_empty() {
            return vec![Line::raw(whole_words(&printable(&self.reason), width))];
        }
        let room = height.saturating_sub(1) / 2;
        let asks = self.asks.iter().take(room).rev();
        let asks = asks.map(|step| (step, Color::Red));
        let bids = self.bids.iter().take(room);
        let bids = bids.map(|step| (step, Color::Green));
        let steps: Vec<(&Step, Color)> = asks.chain(bids).collect();
        let decimals = steps.iter().map(|(step, _)| decimals_of(&step.0));
        let decimals = decimals.max().unwrap_or(0).max(DECIMALS_MIN);
        let cells: Vec<[String; 3]> = steps
            .iter()
            .map(|((price, size, orders), _)| {
                [padded(price, decimals), grouped(*size), grouped(*orders)]
            })
            .collect();
        let widths = widths(&cells, width);
        let dim = Style::new().add_modifier(Modifier::DIM);
        let mut lines = vec![Line::styled(row(&TITLES.map(str::to_owned), &widths), dim)];
        for (cells, (_, color)) in cells.iter().zip(&steps) {
            let price = row(&cells[..1], &widths[..widths.len().min(1)]);
            let figures = row(cells, &widths).split_off(price.len());
            let price = Span::styled(price, Style::new().fg(*color));
            lines.push(Line::from(vec![price, Span::raw(figures)]));
        }
        debug_assert!(lines.len() <= height.max(1), "the lines have room");
        lines
    }
}

/// Returns the widths of the columns that fit: price, size and orders, or fewer. A number that has
/// no room is not shown; it is never cut.
fn widths(cells: &[[String; 3]], room: usize) -> Vec<usize> {
    let needed: [usize; 3] = std::array::from_fn(|column| {
        let cells = cells.iter().map(|row| row[column].len());
        cells.max().unwrap_or(0).max(TITLES[column].len())
    });
    let usual: [usize; 3] = std::array::from_fn(|column| needed[column].max(WIDTHS[column]));
    let taken = |widths: &[usize]| widths.iter().map(|width| width + 1).sum::<usize>();
    // The gap before the first column is not drawn.
    let fits = |widths: &&[usize]| taken(widths) <= room + 1;
    let choices = [&usual[..], &needed, &needed[..2], &needed[..1]];
    choices.into_iter().find(fits).unwrap_or_default().to_vec()
}

/// Returns the first cells, each aligned right in its width.
fn row(cells: &[String], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths);
    let cells: Vec<String> = cells
        .map(|(cell, &width)| format!("{cell:>width$}"))
        .collect();
    cells.join(" ")
}

/// Returns how many decimals a price has.
fn decimals_of(price: &str) -> usize {
    price
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len())
}

/// Returns a price with this many decimals, which are not fewer than it has.
fn padded(price: &str, decimals: usize) -> String {
    let missing = decimals.saturating_sub(decimals_of(price));
    let point = if price.contains('.') || missing == 0 {
        ""
    } else {
        "."
    };
    format!("{price}{point}{:0<missing$}", "")
}

/// Returns the words of the request for a symbol's levels.
pub(super) fn request(symbol: &str) -> [&[u8]; 4] {
    [
        b"TIDEWIRE.BOOK",
        symbol.as_bytes(),
        b"LEVELS",
        LEVELS_MAX.as_bytes(),
    ]
}

/// Returns the value behind a name.
fn field<'a>(fields: &'a [Value], name: &[u8]) -> Option<&'a Value> {
    let is_name = |value: &Value| matches!(value, Value::Bulk(text) if text == name);
    let mut pairs = fields.chunks_exact(2);
    Some(&pairs.find(|pair| is_name(&pair[0]))?[1])
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Integer(number) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

fn steps(levels: &Value) -> Vec<Step> {
    let Value::Array(levels) = levels else {
        return Vec::new();
    };
    let step = |level: &Value| match level {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Bulk(price), size, orders] => {
                let price = String::from_utf8_lossy(price).into_owned();
                Some((price, number(size), number(orders)))
            }
            _ => None,
        },
        _ => None,
    };
    levels.iter().filter_map(step).collect()
}

/// Levels of each side: more than a usual screen has room for.
const LEVELS_MAX: &str = "40";
const TITLES: [&str; 3] = ["price", "size", "orders"];
/// Usual widths of the columns.
const WIDTHS: [usize; 3] = [12, 11, 7];
/// Decimals of every price in the table.
const DECIMALS_MIN: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_best_prices_meet_in_the_middle() {
        let reply = b"*8\r\n$5\r\ndepth\r\n:10\r\n$5\r\nstale\r\n:1\r\n\
            $4\r\nbids\r\n*2\r\n*3\r\n$3\r\n100\r\n:5\r\n:2\r\n*3\r\n$2\r\n99\r\n:7\r\n:1\r\n\
            $4\r\nasks\r\n*2\r\n*3\r\n$3\r\n101\r\n:4\r\n:1\r\n*3\r\n$3\r\n103\r\n:1234\r\n:3\r\n";
        let (value, _) = tidewire_resp::decode(reply).unwrap().unwrap();
        let ladder = Ladder::from_reply("A", &value);
        assert!(ladder.is_stale);
        let prices = |lines: &[String]| -> Vec<String> {
            let first = |line: &String| line.split_whitespace().next().map(str::to_owned);
            lines.iter().filter_map(first).collect()
        };
        let lines = text(&ladder.lines(9, 34));
        assert_eq!(
            prices(&lines),
            ["price", "103.00", "101.00", "100.00", "99.00"]
        );
        let lines = text(&ladder.lines(3, 34));
        assert_eq!(prices(&lines), ["price", "101.00", "100.00"]);
    }

    fn of(prices: [&str; 2], size: u64) -> Ladder {
        let step = |price: &str| (price.to_owned(), size, 3);
        Ladder {
            bids: vec![step(prices[0])],
            asks: vec![step(prices[1])],
            ..Ladder::default()
        }
    }

    #[test]
    fn all_prices_have_the_same_number_of_decimals() {
        for (prices, shown) in [
            (["4810.5", "4811"], ["4811.00", "4810.50"]),
            (["4810.25", "4810.5"], ["4810.50", "4810.25"]),
            (["-0.125", "3"], ["3.000", "-0.125"]),
        ] {
            let lines = text(&of(prices, 7).lines(9, 34));
            let first = |line: &String| line.split_whitespace().next().map(str::to_owned);
            let prices: Vec<String> = lines[1..].iter().filter_map(first).collect();
            assert_eq!(prices, shown);
        }
    }

    #[test]
    fn a_narrow_ladder_has_fewer_columns_and_no_cut_number() {
        let ladder = of(["4810.25", "123456789.123456789"], 1_234_567);
        for width in 0..60 {
            for line in &text(&ladder.lines(9, width))[1..] {
                assert!(line.len() <= width, "{width}: {line}");
                for word in line.split_whitespace() {
                    let whole = ["4810.250000000", "123456789.123456789", "1,234,567", "3"];
                    assert!(whole.contains(&word), "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_known_is_told() {
        let (error, _) = tidewire_resp::decode(b"-ERR unknown symbol\r\n")
            .unwrap()
            .unwrap();
        let ladder = Ladder::from_reply("A", &error);
        assert!(text(&ladder.lines(9, 40))[0].contains("unknown symbol"));
        let ladder = Ladder::from_reply("A", &Value::Array(Vec::new()));
        assert_eq!(text(&ladder.lines(9, 40)), ["levels not known"]);
    }
}
