//! The price levels of one symbol, beside the table.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use tidewire_resp::Value;

use crate::columns::whole_words;
use crate::units::grouped;

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
        let mut title = format!(" {} ", self.symbol);
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
            return vec![Line::raw(whole_words(&self.reason, width))];
        }
        let dim = Style::new().add_modifier(Modifier::DIM);
        let mut lines = vec![Line::styled(
            format!("{:>12} {:>11} {:>7}", "price", "size", "orders"),
            dim,
        )];
        let room = height.saturating_sub(1) / 2;
        let line = |step: &Step, color| {
            let (price, size, orders) = step;
            let figures = format!(" {:>11} {:>7}", grouped(*size), grouped(*orders));
            let price = Span::styled(format!("{price:>12}"), Style::new().fg(color));
            Line::from(vec![price, Span::raw(figures)])
        };
        let asks = self.asks.iter().take(room).rev();
        lines.extend(asks.map(|step| line(step, Color::Red)));
        let bids = self.bids.iter().take(room);
        lines.extend(bids.map(|step| line(step, Color::Green)));
        debug_assert!(lines.len() <= height.max(1), "the lines have room");
        lines
    }
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
        assert_eq!(prices(&lines), ["price", "103", "101", "100", "99"]);
        let lines = text(&ladder.lines(3, 34));
        assert_eq!(prices(&lines), ["price", "101", "100"]);
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
