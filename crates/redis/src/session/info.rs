//! INFO.

use super::{Call, State};
use crate::counters::{ServerLook, TABLE};
use crate::registry::{Shown, write_heading};

impl State {
    pub(super) fn info(&self, call: &mut Call<'_>) {
        call.sessions.times_turn = true;
        let asked: Vec<String> = call
            .arguments
            .tail(1)
            .iter()
            .map(|name| String::from_utf8_lossy(name).to_lowercase())
            .collect();
        let is_asked = |word: &str| asked.iter().any(|name| name == word);
        let all = is_asked("all") || is_asked("everything");
        let default = all || asked.is_empty() || is_asked("default");
        let is_shown = |name: &str, shown: Shown| match shown {
            Shown::Default if default => true,
            Shown::WithAll if all => true,
            _ => is_asked(&name.to_lowercase()),
        };
        let look = ServerLook::of_lane(call.server, call.context.unix_ns());
        let mut text = String::new();
        for section in TABLE {
            if is_shown(section.name, section.shown) {
                write_heading(&mut text, section.name);
                section.write_info(&look, &mut text);
            }
        }
        if let Some(house) = call.server.house() {
            house.write_info(&is_shown, &mut text);
        }
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }
}
