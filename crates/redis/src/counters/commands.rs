//! Commands: how often each was called, how long it took, and which errors there were.

use super::{Row, ServerLook};
use crate::parameters::LATENCY_TRACKING_INFO_PERCENTILES;
use crate::registry::{Page, line};
use crate::statistics::CommandCounts;

/// Times are of the calls that were timed, one in a few; `usec` is their mean times all calls.
pub(super) const COMMANDS: &[Row] = &[
    Row::lines(|look, out| {
        for (name, counts) in look.commands() {
            let mean_us = counts.mean_us();
            let text = format!(
                "calls={},usec={:.0},usec_per_call={mean_us:.2},rejected_calls={},failed_calls={}",
                counts.calls,
                mean_us * counts.calls as f64,
                counts.rejected,
                counts.failed
            );
            line(out, &format!("cmdstat_{name}"), text);
        }
    }),
    Row::series(|look, name, page| by_command(look, name, page, |counts| counts.calls))
        .counter(500, "commands_total")
        .help("Redis commands executed."),
    Row::series(|look, name, page| by_command(look, name, page, |counts| counts.failed))
        .counter(510, "commands_failed_total")
        .help("Those that ended with an error."),
    Row::series(|look, name, page| by_command(look, name, page, |counts| counts.rejected))
        .counter(520, "commands_rejected_total")
        .help("Those that were refused."),
    Row::size("", |look| look.command_logs.slow.len())
        .gauge(550, "slowlog_length")
        .help("Commands that SLOWLOG holds."),
];

pub(super) const HOT_KEYS: &[Row] = &[Row::lines(|look, out| {
    if let Some(tracking) = look.hot_keys.look((look.unix_ns / 1_000_000) as i64) {
        line(out, "hotkeys-tracking-active", u8::from(tracking.is_active));
        // What it costs is part of no command's time, and is not taken.
        line(out, "hotkeys-cmd-cpu-time", 0);
    }
})];

pub(super) const ERRORS: &[Row] = &[
    Row::lines(|look, out| {
        for (word, count) in look.statistics.errors() {
            line(out, &format!("errorstat_{word}"), format!("count={count}"));
        }
    }),
    Row::series(|look, name, page| {
        for (word, count) in look.statistics.errors() {
            page.value(name, &[("error", &word)], count);
        }
    })
    .counter(540, "errors_total")
    .help("Error replies by their first word."),
];

pub(super) const LATENCIES: &[Row] = &[
    Row::lines(percentiles),
    Row::series(durations)
        .metric(530, "histogram", "command_duration_seconds")
        .help("Execution time; of brief commands one in 16 is timed, and stands for all."),
];

fn by_command(look: &ServerLook<'_>, name: &str, page: &mut Page, read: fn(&CommandCounts) -> u64) {
    for (command, counts) in look.commands() {
        page.value(name, &[("command", command)], read(counts));
    }
}

fn percentiles(look: &ServerLook<'_>, out: &mut String) {
    let percentiles = look.parameters.read(LATENCY_TRACKING_INFO_PERCENTILES);
    let percentiles: Vec<&str> = percentiles.split(' ').collect();
    for (name, counts) in look.commands() {
        if !counts.has_percentiles() {
            continue;
        }
        let part = |percentile: &&str| {
            let number = percentile.parse().ok()?;
            Some(format!("p{percentile}={:.3}", counts.percentile_us(number)))
        };
        let parts: Vec<_> = percentiles.iter().filter_map(part).collect();
        line(
            out,
            &format!("latency_percentiles_usec_{name}"),
            parts.join(","),
        );
    }
}

fn durations(look: &ServerLook<'_>, name: &str, page: &mut Page) {
    let bucket = format!("{name}_bucket");
    for (command, counts) in look
        .commands()
        .iter()
        .filter(|(_, counts)| counts.calls > 0)
    {
        let label = ("command", *command);
        let rows = counts.cumulated();
        debug_assert!(
            rows.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1),
            "a histogram's buckets and counts ascend"
        );
        let mut below = 0;
        for power in 0..BUCKETS {
            let limit_us = 1u64 << power;
            if let Some((_, count)) = rows.iter().rfind(|(us, _)| *us <= limit_us) {
                below = *count;
            }
            let limit = (limit_us as f64 / 1e6).to_string();
            page.value(&bucket, &[label, ("le", &limit)], below);
        }
        page.value(&bucket, &[label, ("le", "+Inf")], counts.calls);
        let seconds = counts.mean_us() * counts.calls as f64 / 1e6;
        page.value(&format!("{name}_sum"), &[label], seconds);
        page.value(&format!("{name}_count"), &[label], counts.calls);
    }
}

/// From a microsecond to 17 seconds, each twice the last.
const BUCKETS: u32 = 25;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RedisConfig;
    use crate::counters::write_metrics;
    use crate::server::Server;
    use tidewire_keyspace::lookup;

    #[test]
    fn a_histogram_ends_with_all_calls() {
        let server = Server::of_one_lane(RedisConfig::default());
        let get = server.statistics.of(0, lookup(b"get").unwrap());
        for ns in [900, 3_000, 40_000_000] {
            get.called();
            get.took(ns, true);
        }
        let mut page = Page::default();
        write_metrics(&server, &mut page);
        let page = page.into_text();
        let rows: Vec<u64> = page
            .lines()
            .filter(|line| line.starts_with("tidewire_command_duration_seconds_bucket"))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(rows.len(), BUCKETS as usize + 1);
        assert!(rows.is_sorted());
        assert_eq!((rows[0], rows[2], rows[BUCKETS as usize]), (1, 2, 3));
    }
}
