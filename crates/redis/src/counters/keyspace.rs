//! Keys by database, and how large their values are.

use tidewire_keyspace::DATABASES;
use tidewire_lane::unix_ms;

use super::{Row, ServerLook};
use crate::registry::{Page, line};

pub(super) const KEYSPACE: &[Row] = &[
    Row::lines(databases),
    Row::series(|look, name, page| by_database(look, name, page, &look.census().keys))
        .gauge(700, "keys")
        .help("Keys by database."),
    Row::series(|look, name, page| by_database(look, name, page, &look.census().expiring))
        .gauge(710, "expiring_keys")
        .help("Keys with a deadline by database."),
];

/// Values of each type by size. It walks all keys, so INFO shows it only on request.
pub(super) const KEY_SIZES: &[Row] = &[Row::lines(key_sizes)];

fn databases(look: &ServerLook<'_>, out: &mut String) {
    for database in 0..DATABASES {
        let keys = look.keyspace.keys(database);
        if keys > 0 {
            let expires = look.keyspace.expiring_keys(database);
            let lifetime_ms = look.keyspace.mean_lifetime_ms(database, unix_ms());
            let hashes = look.keyspace.timed_hashes(database);
            let of_hashes = match look.keyspace.follows_valkey() {
                true => "keys_with_volatile_items",
                false => "subexpiry",
            };
            let text =
                format!("keys={keys},expires={expires},avg_ttl={lifetime_ms},{of_hashes}={hashes}");
            line(out, &format!("db{database}"), text);
        }
    }
}

/// Of databases that have keys, and of the first.
fn by_database(look: &ServerLook<'_>, name: &str, page: &mut Page, counts: &[usize]) {
    for (database, count) in counts.iter().enumerate() {
        if database == 0 || look.census().keys[database] > 0 {
            page.value(name, &[("database", &database.to_string())], count);
        }
    }
}

fn key_sizes(look: &ServerLook<'_>, out: &mut String) {
    for database in 0..DATABASES {
        for (kind, counts) in look.keyspace.value_sizes(database) {
            let part = |(power, count): (usize, &u64)| {
                (*count > 0).then(|| format!("{}={count}", size_label(power)))
            };
            let parts: Vec<_> = counts.iter().enumerate().filter_map(part).collect();
            if !parts.is_empty() {
                line(
                    out,
                    &format!("db{database}_distrib_{kind}"),
                    parts.join(","),
                );
            }
        }
    }
}

/// `4K` for values of 4,096 to 8,191 parts, which are counted at 13.
fn size_label(power: usize) -> String {
    match power.checked_sub(1) {
        None => "0".to_owned(),
        Some(power) => {
            let unit = ["", "K", "M", "G", "T", "P", "E"][(power / 10).min(6)];
            format!("{}{unit}", 1u64 << (power % 10))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_by_the_power_of_two_below() {
        let labels = [0, 1, 2, 10, 11, 12, 21, 31].map(size_label);
        assert_eq!(labels, ["0", "1", "2", "512", "1K", "2K", "1M", "1G"]);
    }
}
