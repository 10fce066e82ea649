//! INFO.

mod lanes;
mod memory;
mod persistence;
mod redis;
mod rest;

pub(super) use memory::Held;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Call, State};
use crate::server::Server;

impl State {
    pub(super) fn info(&self, call: &mut Call<'_>) {
        call.sessions.times_turn = true;
        let asked: Vec<String> = call
            .arguments
            .tail(1)
            .iter()
            .map(|name| String::from_utf8_lossy(name).to_lowercase())
            .collect();
        let is_asked = |words: &[&str]| asked.iter().any(|name| words.contains(&name.as_str()));
        let all = is_asked(&["all", "everything"]);
        let default = all || asked.is_empty() || is_asked(&["default"]);
        let mut text = String::new();
        for section in SECTIONS {
            let wanted = match section.shown {
                Shown::Default => default,
                Shown::WithAll => all,
                Shown::Never => false,
            };
            if wanted || is_asked(&[section.name.to_lowercase().as_str()]) {
                begin(&mut text, section.name);
                let mut own = String::from("\n");
                (section.write)(call.server, call.context.unix_ns(), &mut own);
                rest::fill(call.server, section.name, &mut own);
                text += &own[1..];
            }
        }
        if let Some(house) = call.server.house() {
            for &name in house.sections() {
                if default || is_asked(&[name.to_lowercase().as_str()]) {
                    begin(&mut text, name);
                    house.write_section(name, &mut text);
                }
            }
        }
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }
}

fn begin(text: &mut String, section: &str) {
    if !text.is_empty() {
        *text += "\r\n";
    }
    let _ = write!(text, "# {section}\r\n");
}

/// When a section is shown beside those that are asked for by name.
#[derive(Clone, Copy)]
enum Shown {
    Default,
    WithAll,
    Never,
}

struct Section {
    name: &'static str,
    shown: Shown,
    write: fn(&Server, u64, &mut String),
}

const fn section(
    name: &'static str,
    by_default: bool,
    write: fn(&Server, u64, &mut String),
) -> Section {
    let shown = match by_default {
        true => Shown::Default,
        false => Shown::WithAll,
    };
    Section { name, shown, write }
}

const SECTIONS: &[Section] = &[
    section("Server", true, redis::server),
    section("Clients", true, redis::clients),
    section("Memory", true, memory::memory),
    section("Persistence", true, persistence::persistence),
    section("Stats", true, redis::stats),
    section("Threads", true, rest::threads),
    section("Replication", true, redis::replication),
    section("CPU", true, redis::cpu),
    section("Modules", true, |_, _, _| ()),
    section("Commandstats", false, redis::command_statistics),
    section("Errorstats", true, redis::error_statistics),
    section("Latencystats", false, redis::latency_statistics),
    section("Cluster", true, redis::cluster),
    section("Keyspace", true, redis::keyspace),
    section("Keysizes", false, memory::key_sizes),
    section("Lanes", true, lanes::lanes),
    section("Shares", false, lanes::shares),
    Section {
        name: "Debug",
        shown: Shown::Never,
        write: rest::debug,
    },
];

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(out, "{name}:{value}\r\n");
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
