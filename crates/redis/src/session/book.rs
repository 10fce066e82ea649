//! TIDEWIRE.BOOK: the price levels of a market topic.

use tidewire_resp::Writer;
use tidewire_resp::number::parse_integer;

use super::{Call, State};
use crate::access::NO_KEY;

impl State {
    pub(super) fn book(&self, call: &mut Call<'_>) {
        let levels = match call.arguments.len() {
            2 => LEVELS_DEFAULT,
            4 if call.arguments[2].eq_ignore_ascii_case(b"LEVELS") => {
                match parse_integer(&call.arguments[3]) {
                    Some(levels @ 1..=LEVELS_MAX) => levels,
                    _ => return self.refuse(call, "ERR LEVELS must be between 1 and 65536"),
                }
            }
            _ => return self.refuse(call, "ERR syntax error"),
        };
        let key = [BOOK_PREFIX, &call.arguments[1]].concat();
        if !self.may_read_with(call, b"tidewire.book", key) {
            return self.refuse(call, &format!("NOPERM {NO_KEY}"));
        }
        let Some(house) = call.server.house() else {
            return self.refuse(call, "ERR the server is stopping");
        };
        let (symbol, unix_ns) = (&call.arguments[1], call.context.unix_ns());
        let mut book = Vec::new();
        let mut writer = Writer::new(&mut book, self.protocol);
        if !house.write_book(symbol, levels as usize, unix_ns, &mut writer) {
            return self.refuse(call, "ERR unknown symbol");
        }
        self.reply(call.context, |reply| reply.raw(&book));
    }
}

/// What the keys of books begin with.
const BOOK_PREFIX: &[u8] = b"book:";
const LEVELS_DEFAULT: i64 = 10;
/// The most levels that a side may have.
const LEVELS_MAX: i64 = 65_536;
