//! What outlives the process: snapshots and the append-only file.

use std::sync::atomic::Ordering;

use tidewire_lane::unix_ms;

use super::{Row, ServerLook};
use crate::durability::SaveJob;
use crate::durability::state::{Rewrites, Saving};
use crate::registry::line;
use crate::replication::Phase;

pub(super) const PERSISTENCE: &[Row] = &[
    Row::flag("loading", |look| look.is_filling())
        .gauge(800, "loading")
        .help("Whether keys are being loaded."),
    Row::fixed("async_loading", "0"),
    Row::fixed("current_cow_peak", "0"),
    Row::fixed("current_cow_size", "0"),
    Row::fixed("current_cow_size_age", "0"),
    Row::decimal("current_fork_perc", 2, |look| {
        let [written, total] = progress(look);
        percent(written, total)
    }),
    Row::count("current_save_keys_processed", |look| progress(look)[0]),
    Row::count("current_save_keys_total", |look| progress(look)[1]),
    Row::count("rdb_changes_since_last_save", |look| {
        look.durability.saving.unsaved_of(look.totals().changes)
    })
    .gauge(830, "snapshot_missing_changes")
    .help("Changes of keys that no snapshot has."),
    // As in Redis, one for a replica counts.
    Row::flag("rdb_bgsave_in_progress", |look| {
        running_s(look, SaveJob::Snapshot) >= 0 || look.replication.count_in(Phase::Loading) > 0
    }),
    Row::signed("rdb_last_save_time", |look| saving(look).last_save_s())
        .gauge(810, "snapshot_timestamp_seconds")
        .help("When the last snapshot was saved, UNIX time."),
    Row::status("rdb_last_bgsave_status", |look| !saving(look).has_failed())
        .gauge(820, "snapshot_ok")
        .help("Whether the last snapshot was saved: 0 if that failed."),
    Row::signed("rdb_last_bgsave_time_sec", |look| {
        saving(look).last_took_s.load(Ordering::Relaxed)
    }),
    Row::signed("rdb_current_bgsave_time_sec", |look| {
        running_s(look, SaveJob::Snapshot)
    }),
    Row::atomic("rdb_saves", |look| &look.durability.saving.saves),
    Row::fixed("rdb_last_cow_size", "0"),
    Row::atomic("rdb_last_load_keys_expired", |look| {
        &look.durability.loading.keys_expired
    }),
    Row::atomic("rdb_last_load_keys_loaded", |look| {
        &look.durability.loading.keys_loaded
    }),
    Row::flag("aof_enabled", has_log)
        .gauge(840, "append_only_enabled")
        .help("Whether there is an append-only file."),
    Row::flag("aof_rewrite_in_progress", |look| {
        running_s(look, SaveJob::Rewrite) >= 0
    }),
    Row::flag("aof_rewrite_scheduled", |look| {
        look.durability.saving.is_scheduled(SaveJob::Rewrite)
    }),
    Row::signed("aof_last_rewrite_time_sec", |look| {
        rewrites(look).last_took_s.load(Ordering::Relaxed)
    }),
    Row::signed("aof_current_rewrite_time_sec", |look| {
        running_s(look, SaveJob::Rewrite)
    }),
    Row::status("aof_last_bgrewrite_status", |look| {
        !rewrites(look).has_failed.load(Ordering::Relaxed)
    }),
    Row::atomic("aof_rewrites", |look| &rewrites(look).count),
    Row::atomic("aof_rewrites_consecutive_failures", |look| {
        &rewrites(look).failures
    }),
    Row::status("aof_last_write_status", |look| {
        !look.durability.log.is_failing()
    })
    .gauge(850, "append_only_ok")
    .help("Whether it can be written: 0 if that failed."),
    Row::fixed("aof_last_cow_size", "0"),
    Row::fixed("module_fork_in_progress", "0"),
    Row::fixed("module_fork_last_cow_size", "0"),
    Row::count("aof_current_size", |look| match has_log(look) {
        true => look.durability.log.bytes.load(Ordering::Relaxed),
        false => 0,
    })
    .when(has_log)
    .gauge(860, "append_only_bytes")
    .help("Bytes of its files."),
    Row::atomic("aof_base_size", |look| &look.durability.log.base_bytes).when(has_log),
    Row::fixed("aof_pending_rewrite", "0").when(has_log),
    Row::count("aof_buffer_length", |look| {
        look.durability.log.unwritten_bytes(look)
    })
    .when(has_log),
    Row::fixed("aof_pending_bio_fsync", "0").when(has_log),
    Row::fixed("aof_delayed_fsync", "0").when(has_log),
    Row::lines(loading).when(|look| look.durability.is_loading()),
];

fn has_log(look: &ServerLook<'_>) -> bool {
    look.durability.log.is_on()
}

fn saving<'a>(look: &'a ServerLook<'_>) -> &'a Saving {
    &look.durability.saving
}

fn rewrites<'a>(look: &'a ServerLook<'_>) -> &'a Rewrites {
    &look.durability.log.rewrites
}

/// Keys of the snapshot that is being written: those in it, and all.
fn progress(look: &ServerLook<'_>) -> [u64; 2] {
    [0, 1].map(|at: usize| saving(look).progress[at].load(Ordering::Relaxed))
}

fn running_s(look: &ServerLook<'_>, job: SaveJob) -> i64 {
    saving(look).running_s(job)
}

fn percent(part: u64, total: u64) -> f64 {
    part as f64 * 100.0 / total.max(1) as f64
}

/// How far the loading of keys has come.
fn loading(look: &ServerLook<'_>, out: &mut String) {
    let loading = &look.durability.loading;
    let total = loading.total_bytes.load(Ordering::Relaxed);
    let loaded = loading.loaded_bytes.load(Ordering::Relaxed);
    let started_s = loading.started_s.load(Ordering::Relaxed);
    let elapsed_s = (unix_ms() / 1_000 - started_s).max(0) as u64;
    let left = total.saturating_sub(loaded);
    let left_s = elapsed_s.saturating_mul(left).checked_div(loaded);
    line(out, "loading_start_time", started_s);
    line(out, "loading_total_bytes", total);
    line(out, "loading_rdb_used_mem", 0);
    line(out, "loading_loaded_bytes", loaded);
    line(
        out,
        "loading_loaded_perc",
        format!("{:.2}", percent(loaded, total)),
    );
    line(out, "loading_eta_seconds", left_s.unwrap_or(1));
}
