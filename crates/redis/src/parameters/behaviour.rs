//! What CONFIG and redis.conf answer, compared with `behaviour.txt`: every parameter with values
//! that it takes and others that it refuses. Parameters that answer alike share a paragraph.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use tidewire_keyspace::{Keyspace, Options};

use super::table::TABLE;
use super::{Effect, Parameters, has_effect, is_secret};
use crate::config::RedisConfig;

/// Values of which each kind takes some and refuses others.
const PROBES: &[&str] = &[
    "",
    "yes",
    "NO",
    "local",
    "0",
    "-1",
    "17",
    "101",
    "1025",
    "70000",
    "-2147483649",
    "18446744073709551615",
    "18446744073709551616",
    "2kb",
    "3k",
    "50%",
    "101%",
    "777",
    "778",
    "x",
    "a b",
    "a/b",
    "/",
    "/nowhere",
    "50 99.90",
    "60 1 70 2",
    "0 10 2000",
    "replica 1kb 7 60",
    "KEA",
    "now save",
    "save nosave",
    "ALLKEYS-lru",
    "allchannels",
    "best-effort",
    "hostname",
    "always",
    "debug",
    "relative",
    "80",
    "swapdb",
    "panic",
    "clients",
    "local3",
    "systemd",
    "optional",
    "\u{fffd}",
];

fn config() -> RedisConfig {
    RedisConfig {
        parameters: vec![("enable-protected-configs".into(), "yes".into())],
        ..RedisConfig::default()
    }
}

/// The text without what depends on the machine and on the parameter's own name.
fn plain(text: &str, name: &str) -> String {
    let directory = std::env::current_dir().unwrap();
    let text = text.replace(&*directory.display().to_string(), "{directory}");
    text.replace(&format!("'{name}'"), "'{name}'")
        .replace(&format!("{name} "), "{name} ")
}

/// One line for each answer to the probes, with those that it answers.
fn grouped(out: &mut String, title: &str, answer: impl Fn(&str) -> Option<String>) {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for probe in PROBES {
        let Some(answer) = answer(probe) else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, probes)) => probes.push(probe),
            None => groups.push((answer, vec![probe])),
        }
    }
    let answered: usize = groups.iter().map(|(_, probes)| probes.len()).sum();
    let is_whole = answered == PROBES.len();
    for (answer, probes) in groups {
        match is_whole && probes.len() * 2 > answered {
            true => writeln!(out, "{title} all others\n  {answer}").unwrap(),
            false => writeln!(out, "{title} {probes:?}\n  {answer}").unwrap(),
        }
    }
}

/// What one parameter answers to each of [`PROBES`].
fn answers(keyspace: &Keyspace, name: &str) -> String {
    let mut out = String::new();
    let own_lines = |parameters: &Parameters| {
        let all = parameters.directives();
        let own = all.iter().find(|directive| directive.name == name);
        let lines = own.into_iter().flat_map(|own| &own.lines);
        let line = |line: &crate::redis_conf::Line| {
            let text = String::from_utf8_lossy(&line.text).into_owned();
            format!("[{text}{}]", if line.is_default { " *" } else { "" })
        };
        lines.map(line).collect::<Vec<_>>().join("")
    };
    let flags = [
        ("words", Parameters::takes_words(name)),
        ("secret", is_secret(name.to_uppercase().as_bytes())),
        ("limit", has_effect(name.as_bytes(), Effect::MemoryLimit)),
        ("files", has_effect(name.as_bytes(), Effect::Files)),
    ];
    let flags = flags.iter().filter(|(_, is_set)| *is_set);
    let flags: Vec<_> = flags.map(|(flag, _)| *flag).collect();
    let fresh = Parameters::new(&config(), Arc::default());
    let (_, value) = fresh.find(&[name.as_bytes()]).remove(0);
    let value = String::from_utf8(value).unwrap();
    writeln!(out, "{value:?} {flags:?} {}", own_lines(&fresh)).unwrap();
    let set = |probe: &str| {
        let parameters = Parameters::new(&config(), Arc::default());
        match parameters.set(keyspace, &[(name.as_bytes(), probe.as_bytes())], false) {
            Ok(()) => {
                let (_, value) = parameters.find(&[name.as_bytes()]).remove(0);
                let value = String::from_utf8_lossy(&value).into_owned();
                let shown = format!("{value:?} {}", own_lines(&parameters));
                match probe.is_empty() {
                    true => Ok(shown),
                    false => Ok(shown.replace(probe, "{itself}")),
                }
            }
            Err(text) => Err(text),
        }
    };
    grouped(&mut out, "set", |probe| {
        Some(set(probe).unwrap_or_else(|text| text))
    });
    let differs = |probe: &str, refused: Result<(), String>| match (set(probe), refused) {
        (Ok(_), Ok(())) => None,
        (Err(text), Err(refused)) if text.ends_with(&refused) => None,
        (_, refused) => Some(format!("{refused:?}")),
    };
    grouped(&mut out, "at the start", |probe| {
        differs(probe, Parameters::check(name, probe))
    });
    grouped(&mut out, "ever", |probe| {
        differs(probe, Parameters::check_value(name, probe))
    });
    plain(&out, name)
}

fn behaviour() -> String {
    let keyspace = Keyspace::new(Options::default());
    let mut out = String::new();
    let parameters = Parameters::new(&config(), Arc::default());
    for (name, value) in parameters.find(&[b"*"]) {
        let [name, value] = [name, value].map(|text| String::from_utf8(text).unwrap());
        writeln!(out, "{name} {}", plain(&value, "")).unwrap();
    }
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in TABLE {
        let names = std::iter::once(one.name).chain(one.alias);
        for name in names.chain(one.of_valkey) {
            let directive = Parameters::directive_name(name);
            assert_eq!(directive.as_deref(), Some(one.name));
        }
        alike
            .entry(answers(&keyspace, one.name))
            .or_default()
            .push(one.name);
    }
    let mut groups: Vec<_> = alike.into_iter().collect();
    groups.sort_by_key(|(_, names)| names[0]);
    for (answers, names) in groups {
        writeln!(out, "\n{}\n{}", names.join(" "), answers.trim_end()).unwrap();
    }
    out
}

#[test]
fn answers_are_as_they_were() {
    let (actual, expected) = (behaviour(), include_str!("behaviour.txt"));
    if actual != expected {
        let path = std::env::temp_dir().join("tidewire-behaviour.txt");
        std::fs::write(&path, &actual).unwrap();
        let first = actual.lines().zip(expected.lines());
        let first = first.enumerate().find(|(_, (new, old))| new != old);
        panic!("{first:#?}\nall of it: {}", path.display());
    }
}
