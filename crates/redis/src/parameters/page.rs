//! The tables of `docs/parameters.md`.

use std::fmt::Write as _;

use super::Parameters;
use super::parameter::{Does, Mutability, Parameter};
use super::table::TABLE;

impl Parameters {
    /// The two tables of `docs/parameters.md`: what acts, and what is only kept and shown.
    pub fn page() -> [String; 2] {
        [acting(), kept()]
    }
}

fn acting() -> String {
    let mut out = String::from("| parameter | default | CONFIG SET | |\n|---|---|---|---|\n");
    for one in TABLE {
        let Does::This(text) = one.does else {
            continue;
        };
        let names = one.alias.into_iter().chain(one.of_valkey);
        let alias: String = names.map(|name| format!(", `{name}`")).collect();
        let default = match one.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let access = match one.access {
            Mutability::Free => "yes",
            Mutability::Fixed => "no",
            Mutability::Protected => "protected",
            Mutability::Unavailable(_) => "refused",
        };
        let text = text.trim_end_matches('.');
        let _ = writeln!(
            out,
            "| `{}`{alias} | {default} | {access} | {text} |",
            one.name
        );
    }
    out
}

fn kept() -> String {
    let mut groups: Vec<(&str, &str, Vec<String>)> = Vec::new();
    let kept = |one: &Parameter| match one.does {
        Does::Nothing(redis, here) => Some((redis, here, format!("`{}`", one.name))),
        Does::This(_) => None,
    };
    for (redis, here, name) in TABLE.iter().filter_map(kept) {
        match groups
            .iter_mut()
            .find(|known| (known.0, known.1) == (redis, here))
        {
            Some((.., names)) => names.push(name),
            None => groups.push((redis, here, vec![name])),
        }
    }
    let mut out = String::from(
        "| parameter | what it does in Redis | why it does nothing here |\n|---|---|---|\n",
    );
    for (redis, here, names) in groups {
        let _ = writeln!(out, "| {} | {redis} | {here} |", names.join(", "));
    }
    out
}
