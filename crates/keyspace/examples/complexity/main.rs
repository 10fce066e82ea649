//! Runs one request of each command at size N and at size 10 N, for `cargo xtask complexity`. The
//! chore counts the instructions of [`measured`] for each run.
//!
//! Prints a line per case, in the order of the runs: growth, the meaning of N, the request, and the
//! complexity in COMMAND DOCS. Then it prints the commands without a case.

use std::collections::BTreeSet;

use tidewire_keyspace::commands::table;
use tidewire_keyspace::{Command, Keyspace, NullObserver, Options, Run, resolve};
use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};

fn main() {
    let only = std::env::args().nth(1);
    let mut seen = BTreeSet::new();
    for line in CASES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [growth, what, before, request] = parts[..] else {
            panic!("a case has four parts: {line}");
        };
        let words = expanded(request, SIZES[0], 0);
        let command = resolve(words.as_arguments()).expect("a case names a command");
        seen.insert(command.full_name);
        if only
            .as_deref()
            .is_some_and(|only| only != command.full_name)
        {
            continue;
        }
        for size in SIZES {
            let keyspace = Keyspace::new(Options::default());
            let lines = before
                .split(';')
                .map(str::trim)
                .filter(|line| !line.is_empty());
            lines.for_each(|line| prepare(&keyspace, line, size));
            let list = expanded(request, size, 0);
            let mut reply = Vec::with_capacity(32 << 20);
            measured(&keyspace, command, list.as_arguments(), &mut reply);
            check(request, &reply);
        }
        let name = command.full_name;
        println!(
            "{growth}\t{name}\t{what}\t{request}\t{}",
            command.complexity
        );
    }
    let all = table::with_parts().iter();
    let has_keys = all.filter(|one| matches!(one.run, Run::Data(_)) && !one.keys.is_empty());
    for command in
        has_keys.filter(|one| !seen.contains(one.full_name) && !UNMEASURED.contains(&one.full_name))
    {
        println!("missing\t{}", command.full_name);
    }
}

/// Executes the measured part; the chore counts the instructions of this function, by name.
#[inline(never)]
fn measured(
    keyspace: &Keyspace,
    command: &'static Command,
    arguments: Arguments<'_>,
    reply: &mut Vec<u8>,
) {
    let mut reply = Writer::new(reply, Protocol::Resp2);
    let mut observer = NullObserver;
    let _ = keyspace.execute(command, arguments, 0, NOW_MS, &mut reply, &mut observer);
}

fn prepare(keyspace: &Keyspace, line: &str, size: usize) {
    let (times, line) = match line.strip_prefix("@N ") {
        Some(line) => (size, line),
        None => (1, line),
    };
    let mut reply = Vec::new();
    for number in 0..times {
        let words = expanded(line, size, number);
        let command = resolve(words.as_arguments()).expect("a case names commands");
        reply.clear();
        let to = &mut Writer::new(&mut reply, Protocol::Resp2);
        let arguments = words.as_arguments();
        let _ = keyspace.execute(command, arguments, 0, NOW_MS, to, &mut NullObserver);
        check(line, &reply);
    }
}

/// Reports a case that is refused: its cost would be meaningless.
fn check(line: &str, reply: &[u8]) {
    if reply.starts_with(b"-") {
        eprintln!("{line}: {}", reply.escape_ascii());
    }
}

fn expanded(line: &str, size: usize, number: usize) -> ArgumentList {
    let mut list = ArgumentList::new();
    for word in line.split(' ') {
        if let Some((letter, _)) = word.split_once("^N") {
            list.push(letter.repeat(size).as_bytes());
        } else if let Some((name, value)) = word.split_once("*N") {
            for at in 0..size {
                match name.strip_prefix('#') {
                    Some(name) => {
                        list.push(at.to_string().as_bytes());
                        list.push(format!("{name}{at}").as_bytes());
                    }
                    None => list.push(format!("{name}{at}").as_bytes()),
                }
                if let Some(value) = value.strip_prefix('=') {
                    list.push(value.as_bytes());
                }
            }
        } else {
            let word = match word {
                "N" => size.to_string(),
                "-N" => format!("-{size}"),
                "N/2" => (size / 2).to_string(),
                word => word.replace('%', &number.to_string()),
            };
            list.push(word.as_bytes());
        }
    }
    list
}

const CASES: &str = include_str!("cases.txt");
/// Commands that require a payload of DUMP or a `maxmemory-policy`, or are for tests of the server.
const UNMEASURED: [&str; 4] = ["object|freq", "pfdebug", "restore", "restore-asking"];
/// Large enough that nothing is packed, small enough for valgrind.
const SIZES: [usize; 2] = [1_000, 10_000];
const NOW_MS: i64 = 1_750_000_000_000;
