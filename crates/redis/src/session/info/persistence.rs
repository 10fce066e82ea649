//! INFO persistence.

use std::sync::atomic::Ordering;

use super::{line, read};
use crate::durability::Job;
use crate::server::Server;
use tidewire_lane::unix_ms;

pub(super) fn persistence(server: &Server, _: u64, out: &mut String) {
    let durability = &server.durability;
    let (loading, saving) = (&durability.loading, &durability.saving);
    let status = |failed: bool| if failed { "err" } else { "ok" };
    let saving_s = saving.running_s(Job::Snapshot);
    line(out, "loading", u8::from(server.is_filling()));
    line(out, "async_loading", 0);
    line(out, "current_cow_peak", 0);
    line(out, "current_cow_size", 0);
    line(out, "current_cow_size_age", 0);
    let [written, total] = saving.progress();
    let percentage = written as f64 * 100.0 / total.max(1) as f64;
    line(out, "current_fork_perc", format!("{percentage:.2}"));
    line(out, "current_save_keys_processed", written);
    line(out, "current_save_keys_total", total);
    let changes = saving.unsaved_changes(server);
    line(out, "rdb_changes_since_last_save", changes);
    // As in Redis, one for a replica counts.
    let is_saving = saving_s >= 0 || server.replication.makes_file();
    line(out, "rdb_bgsave_in_progress", u8::from(is_saving));
    line(out, "rdb_last_save_time", saving.last_save_s());
    line(out, "rdb_last_bgsave_status", status(saving.has_failed()));
    line(out, "rdb_last_bgsave_time_sec", saving.last_took_s());
    line(out, "rdb_current_bgsave_time_sec", saving_s);
    line(out, "rdb_saves", saving.saves());
    line(out, "rdb_last_cow_size", 0);
    line(
        out,
        "rdb_last_load_keys_expired",
        read(&loading.keys_expired),
    );
    line(out, "rdb_last_load_keys_loaded", read(&loading.keys_loaded));
    append_only(server, out);
    if durability.is_loading() {
        progress(server, out);
    }
}

fn append_only(server: &Server, out: &mut String) {
    let durability = &server.durability;
    let (log, saving) = (&durability.log, &durability.saving);
    let numbers = log.numbers();
    let status = |failed: bool| if failed { "err" } else { "ok" };
    let rewriting_s = saving.running_s(Job::Rewrite);
    let is_scheduled = saving.is_scheduled(Job::Rewrite);
    line(out, "aof_enabled", u8::from(log.is_on()));
    line(out, "aof_rewrite_in_progress", u8::from(rewriting_s >= 0));
    line(out, "aof_rewrite_scheduled", u8::from(is_scheduled));
    line(out, "aof_last_rewrite_time_sec", numbers.rewrite_took_s);
    line(out, "aof_current_rewrite_time_sec", rewriting_s);
    line(
        out,
        "aof_last_bgrewrite_status",
        status(numbers.rewrite_failed),
    );
    line(out, "aof_rewrites", numbers.rewrites);
    line(out, "aof_rewrites_consecutive_failures", numbers.failures);
    line(out, "aof_last_write_status", status(log.is_failing()));
    line(out, "aof_last_cow_size", 0);
    line(out, "module_fork_in_progress", 0);
    line(out, "module_fork_last_cow_size", 0);
    if log.is_on() {
        line(out, "aof_current_size", numbers.bytes);
        line(out, "aof_base_size", numbers.base_bytes);
        line(out, "aof_pending_rewrite", 0);
        line(out, "aof_buffer_length", log.unwritten_bytes(server));
        line(out, "aof_pending_bio_fsync", 0);
        line(out, "aof_delayed_fsync", 0);
    }
}

fn progress(server: &Server, out: &mut String) {
    let loading = &server.durability.loading;
    let (total, loaded) = (read(&loading.total_bytes), read(&loading.loaded_bytes));
    let started_s = loading.started_s.load(Ordering::Relaxed);
    let elapsed_s = (unix_ms() / 1_000 - started_s).max(0) as u64;
    let left = total.saturating_sub(loaded);
    let left_s = elapsed_s.saturating_mul(left).checked_div(loaded);
    let percentage = loaded as f64 * 100.0 / total.max(1) as f64;
    line(out, "loading_start_time", started_s);
    line(out, "loading_total_bytes", total);
    line(out, "loading_rdb_used_mem", 0);
    line(out, "loading_loaded_bytes", loaded);
    line(out, "loading_loaded_perc", format!("{percentage:.2}"));
    line(out, "loading_eta_seconds", left_s.unwrap_or(1));
}
