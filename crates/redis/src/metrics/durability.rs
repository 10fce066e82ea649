//! Metrics of what outlives the process, and of who follows whom.

use super::Page;
use crate::replication::{LinkState, log_of};
use crate::server::Server;
use tidewire_lane::unix_ms;

pub(super) fn durability(server: &Server, page: &mut Page) {
    let (saving, log) = (&server.durability.saving, &server.durability.log);
    let help = "Whether keys are being loaded.";
    let is_loading = u8::from(server.is_filling());
    page.one("loading", "gauge", help, is_loading);
    let help = "When the last snapshot was saved, UNIX time.";
    let last = saving.last_save_s();
    page.one("snapshot_timestamp_seconds", "gauge", help, last);
    let help = "Whether the last snapshot was saved: 0 if that failed.";
    let is_saved = u8::from(!saving.has_failed());
    page.one("snapshot_ok", "gauge", help, is_saved);
    let help = "Changes of keys that no snapshot has.";
    let changes = saving.unsaved_of(server.keyspace.census().totals.changes);
    page.one("snapshot_missing_changes", "gauge", help, changes);
    let help = "Whether there is an append-only file.";
    let is_on = u8::from(log.is_on());
    page.one("append_only_enabled", "gauge", help, is_on);
    let help = "Whether it can be written: 0 if that failed.";
    let is_written = u8::from(!log.is_failing());
    page.one("append_only_ok", "gauge", help, is_written);
    let help = "Bytes of its files.";
    let bytes = if log.is_on() { log.numbers().bytes } else { 0 };
    page.one("append_only_bytes", "gauge", help, bytes);
}

pub(super) fn replication(server: &Server, page: &mut Page) {
    let replicas = server.replication.statuses(unix_ms());
    let help = "Replicas that follow, or are about to.";
    page.one("replicas", "gauge", help, replicas.len());
    let help = "Bytes of the stream that a replica has not acknowledged.";
    page.begin("replica_behind_bytes", "gauge", help);
    let end = log_of(server).end();
    for replica in &replicas {
        let address = format!("{}:{}", replica.address, replica.port);
        let behind = end.saturating_sub(replica.acked);
        page.value("replica_behind_bytes", &[("replica", &address)], behind);
    }
    let master = server.replication.master();
    let help = "Whether this server follows another one.";
    page.one("is_replica", "gauge", help, u8::from(master.is_some()));
    let is_up = master.is_some_and(|master| master.state() == LinkState::Connected);
    let help = "Whether it is connected to that one and has its keys.";
    page.one("master_link_up", "gauge", help, u8::from(is_up));
}
