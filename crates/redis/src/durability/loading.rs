//! Keys from files: at the start, and for DEBUG.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::durability::log_files::{CommandReader, LogError, Next};
use tidewire_keyspace::{DATABASES, FileReader, FileRecord, KeyRecord, LoadOptions, Loaded, Unit};
use tracing::{info, warn};

use super::apply::{LogApplier, ToldPosition};
use super::snapshot_path;
use super::state::Durability;
use crate::attention::Obstacles;
use crate::durability::state::LoadProgress;
use crate::live::LiveObserver;
use crate::parameters::{APPENDONLY, DBFILENAME, DIR, KEY_LOAD_DELAY, RDBCHECKSUM, SAVE};
use crate::server::Server;
use tidewire_lane::{instant, unix_ms};

/// How a log's file may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    /// In the middle of a command, which is cut off.
    Cut,
}

impl Durability {
    /// Whether anything is to be loaded at the start: only where the parameters ask for it, or a
    /// redis.conf makes this server take a Redis's place.
    pub fn is_asked_for(server: &Server) -> bool {
        server.parameters.read(APPENDONLY)
            || server.parameters.is_set(SAVE)
            || server.config.redis_conf.is_some()
            || server.config.given(DIR).is_some()
            || server.config.given(DBFILENAME).is_some()
    }

    /// Begins to load what was saved, if that is asked for; commands are refused until it is done.
    /// To be called before the lanes start.
    pub fn load_in_background(server: &Arc<Server>) -> io::Result<()> {
        let own = &server.durability;
        own.log.follow_policy(server);
        if server.quorum.is_on() {
            // The stream has the keys, and files may have others.
            return Ok(());
        }
        if !Self::is_asked_for(server) {
            return Ok(());
        }
        own.own_directory(server)?;
        own.set_loading(server, true);
        let server = server.clone();
        let background = &own.background.clone();
        background.spawn("loading", move || {
            let own = &server.durability;
            let began = instant();
            match own.load_saved(&server) {
                Ok(()) => {
                    let took_us = (instant() - began).as_micros() as u64;
                    own.loading.took_us.store(took_us, Ordering::Relaxed);
                    let keys = (0..DATABASES).map(|one| server.keyspace.keys(one) as u64);
                    own.loading.keys.store(keys.sum(), Ordering::Relaxed);
                    own.set_loading(&server, false);
                    // They may have been changed meanwhile.
                    let _ = own.follow_parameters(&server);
                }
                Err(text) => *own.loading.failure.lock() = Some(text),
            }
        })?;
        Ok(())
    }

    /// Why the load at the start failed, if it did: then nothing can be served.
    pub fn load_failure(&self) -> Option<String> {
        self.loading.failure.lock().clone()
    }

    fn load_saved(&self, server: &Server) -> Result<(), String> {
        if server.parameters.read(APPENDONLY) {
            self.load_log_at_start(server)?;
        } else {
            self.load_snapshot_at_start(server)?;
        }
        self.saving.set_saved(server.keyspace.totals().changes);
        Ok(())
    }

    /// Loads the snapshot, if there is one; whether there is.
    pub(super) fn load_snapshot_at_start(&self, server: &Server) -> Result<bool, String> {
        let path = snapshot_path(server);
        if !self.disk.has(&path) {
            return Ok(false);
        }
        // What has expired on a master goes when that says so.
        let drops_expired = server.replication.master().is_none();
        let options = LoadOptions {
            drops_expired,
            replaces: false,
            now_ms: unix_ms(),
        };
        self.load_snapshot(server, &path, options, true)?;
        Ok(true)
    }

    pub(super) fn set_loading(&self, server: &Server, on: bool) {
        if on {
            let loading = &self.loading;
            loading
                .started_s
                .store(unix_ms() / 1_000, Ordering::Relaxed);
            for counter in [
                &loading.total_bytes,
                &loading.loaded_bytes,
                &loading.keys_loaded,
                &loading.keys_expired,
            ] {
                counter.store(0, Ordering::Relaxed);
            }
        }
        // The gate closes first and opens last: what passes it meets an open keyspace, but for what
        // is on its way just now, which the keyspace refuses.
        if on {
            self.attention.set(Obstacles::LOADING, true);
        }
        server.keyspace.set_loading(on);
        if !on {
            self.attention.set(Obstacles::LOADING, false);
            server.post.owe_all_values();
        }
    }

    /// DEBUG RELOAD: saves, removes and loads all keys, as far as is said. The text of the
    /// refusal.
    pub(crate) fn reload(
        &self,
        server: &Server,
        saves: bool,
        flushes: bool,
        replaces: bool,
    ) -> Result<(), &'static str> {
        // A command of the master between saving and loading would be lost.
        let _stream = server.replication.keep_stream().ok_or(MASTER_WRITES)?;
        // A snapshot or a rewrite that began meanwhile would hold none of the keys.
        self.alone(server, || {
            // Closed first: what is written behind the snapshot would be lost.
            self.set_loading(server, true);
            let saved = if saves { self.save_now(server) } else { Ok(()) };
            let reloaded = saved.and_then(|()| self.reload_keys(server, flushes, replaces));
            self.set_loading(server, false);
            reloaded
        })
    }

    fn reload_keys(
        &self,
        server: &Server,
        flushes: bool,
        replaces: bool,
    ) -> Result<(), &'static str> {
        let options = LoadOptions {
            drops_expired: true,
            replaces,
            now_ms: unix_ms(),
        };
        if flushes {
            server.keyspace.clear(&mut LiveObserver(server));
            server.scripting.libraries.flush();
        }
        let loaded = self.load_snapshot(server, &snapshot_path(server), options, false);
        self.saving.set_saved(server.keyspace.totals().changes);
        loaded.map_err(|text| {
            warn!("{text}");
            "ERR Error trying to load the RDB dump, check server logs."
        })
    }

    /// Loads a file of keys; if it is all that there is, the stream of changes goes on where the
    /// file says that it was.
    pub(super) fn load_snapshot(
        &self,
        server: &Server,
        path: &Path,
        options: LoadOptions,
        is_all: bool,
    ) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let file = self.disk.read(path).map_err(failed)?;
        let length = self.disk.length(path).map_err(failed)?;
        self.loading
            .total_bytes
            .fetch_add(length, Ordering::Relaxed);
        let mut applier = LogApplier::new(server);
        applier.told = is_all.then(ToldPosition::default);
        let ending = self.load_file(server, file, &mut applier, options, false);
        match ending.map_err(|text| format!("{}: {text}", path.display()))? {
            (Ending::Whole, _) => Ok(()),
            (Ending::Cut, _) => Err(format!("{}: it ends too early", path.display())),
        }
    }

    /// Loads a file of keys, or, if it is part of a log, of commands, or of keys and then commands.
    /// An empty file of a log holds nothing. Returns how it ends, and how many bytes of it are
    /// good.
    pub(super) fn load_file(
        &self,
        server: &Server,
        mut file: Box<dyn Read + Send>,
        applier: &mut LogApplier<'_>,
        options: LoadOptions,
        is_log: bool,
    ) -> Result<(Ending, u64), String> {
        let mut buffer = vec![0; READ_BYTES];
        let mut source = |progress: &LoadProgress| -> Result<Vec<u8>, String> {
            self.background.let_others_run();
            let count = file.read(&mut buffer).map_err(|error| error.to_string())?;
            progress
                .loaded_bytes
                .fetch_add(count as u64, Ordering::Relaxed);
            Ok(buffer[..count].to_vec())
        };
        let first = source(&self.loading)?;
        if first.is_empty() && !is_log {
            return Err("empty file; remove it to start without keys".to_owned());
        }
        let mut commands = CommandReader::new();
        let mut before = 0;
        let has_keys = [&b"REDIS"[..], b"VALKEY"]
            .iter()
            .any(|head| first.starts_with(head));
        if has_keys || !is_log {
            let mut reader = FileReader::new(server.parameters.read(RDBCHECKSUM));
            reader.push(&first);
            self.load_keys(server, &mut reader, &mut source, applier, options)?;
            before = reader.position();
            if !is_log {
                // As in Redis: what stands behind the checksum is not read.
                return Ok((Ending::Whole, before));
            }
            commands.push(reader.rest());
        } else {
            commands.push(&first);
        }
        let mut good = before;
        loop {
            match commands.next_command() {
                Ok(Next::Command(arguments)) => {
                    applier.apply(arguments)?;
                    load_slowly(server);
                }
                Ok(Next::More) => match source(&self.loading)?.as_slice() {
                    [] => commands.finish(),
                    bytes => commands.push(bytes),
                },
                Ok(Next::End) if applier.is_in_transaction() => return Ok((Ending::Cut, good)),
                Ok(Next::End) => return Ok((Ending::Whole, before + commands.position())),
                Err(LogError::Truncated(_)) => return Ok((Ending::Cut, good)),
                Err(_) if applier.ends_at_holes => return Ok((Ending::Cut, good)),
                Err(error) => return Err(error.to_string()),
            }
            if !applier.is_in_transaction() {
                good = before + commands.position();
            }
        }
    }

    fn load_keys(
        &self,
        server: &Server,
        reader: &mut FileReader,
        source: &mut dyn FnMut(&LoadProgress) -> Result<Vec<u8>, String>,
        applier: &mut LogApplier<'_>,
        options: LoadOptions,
    ) -> Result<(), String> {
        let (mut told, mut counts) = (instant(), [0u64; 4]);
        loop {
            match reader.next_record().map_err(|error| error.to_string())? {
                Some(FileRecord::Key(record)) => {
                    if let Some(position) = applier.told.take().and_then(ToldPosition::whole) {
                        server.replication.restore(server, position);
                    }
                    counts[load_key(server, &record, options)?] += 1;
                    load_slowly(server);
                }
                Some(FileRecord::Aux { name, value }) => {
                    if let Some(told) = &mut applier.told {
                        told.note(&name, &value);
                    }
                }
                Some(FileRecord::Library(code)) => {
                    applier.load_library(&code, options.replaces)?;
                }
                Some(FileRecord::End) => {
                    if let Some(position) = applier.told.take().and_then(ToldPosition::whole) {
                        server.replication.restore(server, position);
                    }
                    break;
                }
                Some(_) => {}
                None => match source(&self.loading)?.as_slice() {
                    [] => reader.finish(),
                    bytes => reader.push(bytes),
                },
            }
            if instant() - told > TELL_EACH {
                told = instant();
                info!(
                    loaded_bytes = self.loading.loaded_bytes.load(Ordering::Relaxed),
                    total_bytes = self.loading.total_bytes.load(Ordering::Relaxed),
                    keys = counts[0],
                    "loading"
                );
            }
        }
        let [kept, expired, empty, mounted] = counts;
        let loading = &self.loading;
        loading.keys_loaded.fetch_add(kept, Ordering::Relaxed);
        loading.keys_expired.fetch_add(expired, Ordering::Relaxed);
        info!(kept, expired, "keys loaded from a snapshot");
        if empty + mounted > 0 {
            warn!(
                empty,
                mounted, "keys were left out: they hold nothing, or a feed has the name"
            );
        }
        Ok(())
    }
}

/// The refusal of DEBUG RELOAD and LOADAOF while a master's stream cannot stand still.
pub(super) const MASTER_WRITES: &str =
    "ERR a command of the master still runs, or its keys are being loaded: try again";

/// `key-load-delay`: tests want to see a load in the middle.
pub(crate) fn load_slowly(server: &Server) {
    let delay_us = server.parameters.read(KEY_LOAD_DELAY);
    if delay_us > 0 {
        let background = &server.durability.background;
        background.pause(Duration::from_micros(delay_us.cast_unsigned()));
    }
}

fn load_key(
    server: &Server,
    record: &KeyRecord<'_>,
    options: LoadOptions,
) -> Result<usize, String> {
    match server.keyspace.load(record, options) {
        Ok(Loaded::Kept) => Ok(0),
        Ok(Loaded::Expired) => {
            // Replicas that go on where they were have it still.
            let propagation = server.keyspace.propagation();
            if propagation.is_wanted() {
                let words = [propagation.expiry_command(), &record.key];
                let mut unit = Unit::default();
                unit.push(record.database, words);
                propagation.append(&unit);
            }
            Ok(1)
        }
        Ok(Loaded::Empty) => Ok(2),
        Ok(Loaded::Mounted) => Ok(3),
        Err(error) => {
            let key = record.key.escape_ascii();
            Err(format!(
                "key '{key}' of database {}: {error}",
                record.database
            ))
        }
    }
}

const READ_BYTES: usize = 256 << 10;
/// How often the log tells how far loading has come.
const TELL_EACH: Duration = Duration::from_secs(2);
