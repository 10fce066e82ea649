//! MULTI, EXEC, DISCARD, WATCH and UNWATCH.
//!
//! EXEC locks the shards of everything that was queued, and of the keys that are watched, at once:
//! no command of another client runs in between, on any lane.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{
    Command, DATABASES, Flags, Locked, Outcome, Run, ShardSet, Suspended, WatchedKey,
};
use tidewire_resp::number::parse_integer;
use tidewire_resp::{ArgumentList, Arguments};

use super::blocking::Stop;
use super::declared::counts_as_write;
use super::fixed;
use super::observing::Stopwatch;
use super::scripting::{ScriptCommand, TAKES_TURN};
use super::{Call, State};
use crate::attention::Obstacles;
use crate::live::LiveObserver;
use crate::parameters::{Effect, has_effect};
use crate::scripting::Later;
use crate::server::Server;

/// The commands that a client has queued since MULTI.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    queued: Vec<(&'static Command, ArgumentList)>,
    bytes: usize,
    /// The database that the commands queued so far have selected.
    database: Option<usize>,
    /// A command could not be queued: EXEC will refuse.
    is_aborted: bool,
}

impl Transaction {
    /// Bytes of what is queued.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its bytes are those of what is queued, as long as it will be executed.
    fn assert_invariants(&self) {
        let bytes_of = |(_, arguments): &(&Command, ArgumentList)| {
            arguments.memory_bytes() + size_of::<(&Command, ArgumentList)>()
        };
        debug_assert!(
            self.is_aborted || self.bytes == self.queued.iter().map(bytes_of).sum::<usize>(),
            "the bytes of a transaction are those of its commands"
        );
        debug_assert!(
            self.is_aborted || self.bytes <= TRANSACTION_BYTES_MAX,
            "a transaction that is executed is within its limit"
        );
    }

    /// Whether no other lane may do anything while EXEC runs: shards that a transaction lets go in
    /// its middle would be theirs.
    fn needs_all_lanes(&self) -> bool {
        let mut queued = self.queued.iter();
        !self.is_aborted
            && queued.any(|(command, arguments)| {
                matches!(command.run, Run::Session)
                    && (command.has(TAKES_TURN) || locks_shards(command, arguments.as_arguments()))
            })
    }

    /// Whether a replica would have to hear of it.
    pub(super) fn writes(&self, server: &Server) -> bool {
        let mut queued = self.queued.iter();
        queued
            .any(|(command, arguments)| counts_as_write(server, command, arguments.as_arguments()))
    }

    /// Whether it needs every shard, for a script or a change of functions.
    fn needs_all_shards(&self) -> bool {
        let mut queued = self.queued.iter();
        queued.any(|(command, _)| command.has(TAKES_TURN))
    }
}

impl State {
    /// Whether a command is EXEC, and what is queued needs the turn that a script needs.
    pub(super) fn executes_alone(&self, command: &Command) -> bool {
        let queued = self
            .transaction
            .as_ref()
            .filter(|_| command.has(Flags::EXECUTES));
        queued.is_some_and(|queued| queued.needs_all_lanes())
    }

    /// Returns the database of the next command: a transaction's SELECT counts for what is queued
    /// behind it.
    pub(super) fn next_database(&self) -> usize {
        let queued = self.transaction.as_ref();
        let selected = queued.and_then(|queued| queued.database);
        selected.unwrap_or(self.database)
    }

    /// A command was refused: if it was meant for a transaction, that will not be executed.
    pub(super) fn abort_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_aborted = true;
        }
    }

    /// Queues a command.
    pub(super) fn queue(&mut self, call: &mut Call<'_>, command: &'static Command) {
        let is_valkeys = call.server.follows_valkey() && command.full_name == "client|reply";
        if command.has(Flags::NO_MULTI) || is_valkeys {
            self.abort_transaction();
            return match call.server.follows_valkey() {
                true => self.refuse_inside(call, command.full_name),
                false => self.refuse(call, "ERR Command not allowed inside a transaction"),
            };
        }
        if command.has(Flags::DEBUGS) && !self.may_debug(call) {
            self.abort_transaction();
            return self.refuse(call, fixed::DEBUG_NOT_ALLOWED);
        }
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        debug_assert!(!self.is_executing, "what EXEC runs is not queued again");
        let mut arguments = ArgumentList::new();
        call.arguments
            .iter()
            .for_each(|argument| arguments.push(argument));
        transaction.bytes += arguments.memory_bytes() + size_of::<(&Command, ArgumentList)>();
        if transaction.bytes > TRANSACTION_BYTES_MAX {
            transaction.is_aborted = true;
            transaction.queued = Vec::new();
            return self.refuse(call, "ERR the transaction is too long");
        }
        if !transaction.is_aborted {
            transaction.database = selected(command, call.arguments).or(transaction.database);
            // One that will not be executed need not be kept.
            transaction.queued.push((command, arguments));
        }
        let count = transaction.queued.len();
        self.client.multi.store(count as i64, Ordering::Relaxed);
        self.reply(call.context, |reply| reply.simple("QUEUED"));
    }

    /// Returns what EXEC would run; empty for other commands.
    pub(super) fn queued_by(&self, command: &Command) -> &[(&'static Command, ArgumentList)] {
        let queued = self
            .transaction
            .as_ref()
            .filter(|_| command.has(Flags::EXECUTES));
        queued.map_or(&[], |queued| &queued.queued)
    }

    /// Refuses a command that cannot be executed as things are; of a transaction, all of it.
    pub(super) fn refuse_for_now(&mut self, call: &mut Call<'_>, command: &Command, text: &str) {
        call.note_rejected();
        if command.has(Flags::EXECUTES) {
            return self.refuse_exec(call, text);
        }
        self.abort_transaction();
        self.refuse(call, text);
    }

    /// Refuses EXEC, with which the transaction ends.
    pub(super) fn refuse_exec(&mut self, call: &mut Call<'_>, text: &str) {
        self.drop_transaction(call.server);
        let reason = text.trim_start_matches("ERR ");
        let text = format!("EXECABORT Transaction discarded because of: {reason}");
        self.refuse(call, &text);
    }

    /// Refuses a command inside of a transaction as Valkey does, and aborts the transaction.
    fn refuse_inside(&mut self, call: &mut Call<'_>, name: &str) {
        self.abort_transaction();
        let text = format!("ERR Command '{name}' not allowed inside a transaction");
        self.refuse(call, &text);
    }

    pub(super) fn multi(&mut self, call: &mut Call<'_>) {
        if self.transaction.is_some() {
            if call.server.follows_valkey() {
                return self.refuse_inside(call, "multi");
            }
            return self.refuse(call, "ERR MULTI calls can not be nested");
        }
        self.transaction = Some(Box::default());
        self.own.set(Obstacles::TRANSACTION, true);
        self.client.multi.store(0, Ordering::Relaxed);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn discard(&mut self, call: &mut Call<'_>) {
        if self.transaction.is_none() {
            return self.refuse(call, "ERR DISCARD without MULTI");
        }
        self.drop_transaction(call.server);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn watch(&mut self, call: &mut Call<'_>) {
        if self.transaction.is_some() {
            if call.server.follows_valkey() {
                return self.refuse_inside(call, "watch");
            }
            return self.refuse(call, "ERR WATCH inside MULTI is not allowed");
        }
        let (server, now_ms, database) = (call.server, call.now_ms(), self.database);
        for key in call.arguments.tail(1) {
            let mut observer = LiveObserver(server);
            let watched = server.keyspace.watch(database, key, now_ms, &mut observer);
            if self.watched.is_empty() {
                server.watching_clients.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(first) = self.watched.replace(watched)
                && let Some(again) = self.watched.replace(first)
            {
                // The version that the client saw first counts.
                server.keyspace.unwatch(again);
            }
        }
        self.client
            .watched
            .store(self.watched.len() as u32, Ordering::Relaxed);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn unwatch(&mut self, call: &mut Call<'_>) {
        // Inside EXEC its shards may be locked, and what was watched is given up anyway.
        if !self.is_executing {
            self.unwatch_all(call.server);
        }
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn exec(&mut self, call: &mut Call<'_>) {
        let Some(transaction) = self.transaction.take() else {
            return self.refuse(call, "ERR EXEC without MULTI");
        };
        self.own.set(Obstacles::TRANSACTION, false);
        self.client.multi.store(-1, Ordering::Relaxed);
        transaction.assert_invariants();
        if transaction.is_aborted {
            self.unwatch_all(call.server);
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return self.refuse(call, text);
        }
        let server = call.server;
        let shards = match transaction.needs_all_shards() {
            true => ShardSet::all(),
            false => self.shards_of(server, &transaction),
        };
        let mut locked = server.keyspace.lock(shards);
        if !self.is_unchanged(call, &mut locked) {
            server
                .keyspace
                .release(locked, call.now_ms(), &mut LiveObserver(server));
            self.unwatch_all(server);
            return self.reply(call.context, |reply| reply.null_array());
        }
        let start = call.context.out(self.id).map(|out| out.buffer().len());
        self.send(call.context, |reply| reply.array(transaction.queued.len()));
        self.is_executing = true;
        let refusals = self.refusals.get();
        // It may kill or cut off its own client; all of it is executed nevertheless.
        let outer = call.context.work_for(Some(self.id));
        let locked = self.run_queued(call, &transaction, shards, locked);
        let _ = call.context.work_for(outer);
        debug_assert!(
            self.is_executing,
            "a script within EXEC leaves EXEC running"
        );
        debug_assert!(
            matches!(self.stop, Stop::No),
            "no command of a transaction waits"
        );
        // They are of the commands that were queued: EXEC itself has not failed.
        self.refusals.set(refusals);
        self.is_executing = false;
        // By the clock as it is now: the commands may have taken their time, and what a client
        // waits for may be over.
        let now_ms = tidewire_lane::unix_ms();
        server
            .keyspace
            .release(locked, now_ms, &mut LiveObserver(server));
        self.unwatch_all(server);
        debug_assert!(self.watched.is_empty(), "EXEC ends every WATCH");
        if !self.replies()
            && let Some(start) = start
            && let Some(out) = call.context.out(self.id)
        {
            out.buffer().truncate(start);
        }
        // New subscriptions get their current values behind the reply.
        call.fanout.pump(call.context, self.id);
    }

    /// Gives up what was queued and watched.
    pub(super) fn drop_transaction(&mut self, server: &Server) {
        self.transaction = None;
        self.own.set(Obstacles::TRANSACTION, false);
        self.client.multi.store(-1, Ordering::Relaxed);
        self.unwatch_all(server);
    }

    fn unwatch_all(&mut self, server: &Server) {
        if self.watched.is_empty() {
            return;
        }
        let before = server.watching_clients.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a client that watches keys is counted");
        self.client.watched.store(0, Ordering::Relaxed);
        let watched = std::mem::take(&mut self.watched);
        let lane = self.client.lane;
        if !server.scripting.rights.has(lane) && !server.scripting.rights.enter(lane) {
            let watched = watched.into_iter().collect();
            return server.scripting.put_off(lane, Later::Unwatch(watched));
        }
        watched
            .into_iter()
            .for_each(|watched: WatchedKey| server.keyspace.unwatch(watched));
    }

    fn shards_of(&self, server: &Server, transaction: &Transaction) -> ShardSet {
        let mut shards = ShardSet::empty();
        self.watched
            .iter()
            .for_each(|watched| shards.insert_watched(watched));
        for (command, arguments) in &transaction.queued {
            let arguments = arguments.as_arguments();
            match command.run {
                Run::Data(_) => shards.union(&server.keyspace.shards_of_queued(command, arguments)),
                // Whether the channel is a live key's is looked up there.
                Run::Session if command.has(Flags::PUBLISHES) => {
                    shards.union(&server.keyspace.shard_of_name(&arguments[1]));
                }
                _ => {}
            }
        }
        shards
    }

    fn is_unchanged(&self, call: &Call<'_>, locked: &mut Locked<'_>) -> bool {
        let (server, now_ms) = (call.server, call.now_ms());
        self.watched.iter().all(|watched| {
            server
                .keyspace
                .is_unchanged(locked, watched, now_ms, &mut LiveObserver(server))
        })
    }

    fn run_queued<'h>(
        &mut self,
        call: &mut Call<'h>,
        transaction: &Transaction,
        shards: ShardSet,
        mut locked: Locked<'h>,
    ) -> Locked<'h> {
        let server = call.server;
        for (command, arguments) in &transaction.queued {
            let mut queued = Call {
                server,
                fanout: &mut *call.fanout,
                waiting: &mut *call.waiting,
                sessions: &mut *call.sessions,
                context: &mut *call.context,
                arguments: arguments.as_arguments(),
                first_key: None,
            };
            queued.context.clear_scrap();
            if !self.may_still_run(&mut queued, command) {
                continue;
            }
            let is_sized = server.attention.has(Obstacles::SIZED);
            let before = match is_sized {
                true => self.unsent_bytes(&mut queued),
                false => 0,
            };
            match command.run {
                Run::Data(_) => self.run_locked(&mut queued, command, &mut locked),
                Run::Session
                    if command.has(Flags::PUBLISHES)
                        && let Some(text) =
                            server.publish_refusal(&queued.arguments[1], Some(&locked)) =>
                {
                    self.refuse(&mut queued, text);
                }
                Run::Session => {
                    let script = ScriptCommand::of(command);
                    let apart = script.is_none() && locks_shards(command, queued.arguments);
                    let mut suspended = None;
                    if apart {
                        // It locks shards by itself, so they must not be locked here.
                        // Waiting clients are served at the end.
                        suspended = Some(suspend(server, locked, command, queued.arguments));
                        locked = server.keyspace.lock(ShardSet::empty());
                    }
                    self.last_command = Some(command);
                    let stopwatch = Stopwatch::start(server, queued.context.lane(), command);
                    let refusals = self.refusals.get();
                    match script {
                        Some(script) => {
                            locked = self.run_script(server, &mut queued, script, locked)
                        }
                        None => self.run_session(&mut queued, command),
                    }
                    if self.refusals.get() != refusals {
                        stopwatch.failed();
                    }
                    if let Some(ns) = stopwatch.stop(server) {
                        self.note_time(server, command, queued.arguments, ns);
                        self.note_hot(server, command, queued.arguments, ns, 0);
                    }
                    self.show(&queued, command);
                    self.follow_own_change(&mut queued, command);
                    if let Some(suspended) = suspended {
                        locked = server.keyspace.resume(shards, suspended);
                    }
                    if self.has_told() {
                        self.tell_into(locked.unit());
                    }
                }
                _ => self.refuse(&mut queued, "ERR unknown command"),
            }
            if is_sized {
                let reply_bytes = self.unsent_bytes(&mut queued).saturating_sub(before);
                self.note_size(server, command, queued.arguments, reply_bytes);
            }
        }
        locked
    }

    fn run_locked(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
        locked: &mut Locked<'_>,
    ) {
        let now_ms = call.now_ms();
        let lane = call.context.lane();
        let stopwatch = Stopwatch::start(call.server, lane, command);
        let database = self.database;
        self.sample_key(call.server, call.context, database, command, call.arguments);
        let written = call.context.out_bytes(self.id);
        let Some(out) = call.context.out(self.id) else {
            return;
        };
        let outcome = call.server.keyspace.run_locked(
            locked,
            command,
            call.arguments,
            self.database,
            now_ms,
            &mut self.writer(out),
            &mut LiveObserver(call.server),
        );
        if let Outcome::Failed(error) = outcome {
            call.server.note_failure(lane, command, &error.to_string());
        }
        if let Some(ns) = stopwatch.stop(call.server) {
            self.note_time(call.server, command, call.arguments, ns);
            let replied = call.context.out_bytes(self.id).saturating_sub(written);
            self.note_hot(call.server, command, call.arguments, ns, replied);
        }
        self.show(call, command);
    }
}

/// Returns the database that a command selects, if it is SELECT and there is one.
fn selected(command: &Command, arguments: Arguments<'_>) -> Option<usize> {
    let number = (command.name == "select").then(|| arguments.get(1))??;
    let database = usize::try_from(parse_integer(number)?).ok()?;
    (database < DATABASES).then_some(database)
}

/// Whether a session's command may look into shards. All others run while EXEC holds its own.
pub(super) fn locks_shards(command: &Command, arguments: Arguments<'_>) -> bool {
    match command.has(Flags::SETS_PARAMETERS) {
        true => sets_more_than_memory(arguments),
        false => !command.has(Flags::LOCKS_NOTHING),
    }
}

/// Whether CONFIG SET sets more than limits of memory: others may begin or end what is written to
/// disk.
pub(super) fn sets_more_than_memory(arguments: Arguments<'_>) -> bool {
    let is_limit = |name: &[u8]| has_effect(name, Effect::MemoryLimit);
    !arguments.tail(2).iter().step_by(2).all(is_limit)
}

/// Unlocks shards in the middle of a transaction or a script, whose changes are told together.
pub(super) fn suspend<'h>(
    server: &Server,
    locked: Locked<'h>,
    command: &Command,
    arguments: Arguments<'_>,
) -> Suspended<'h> {
    let is_of_files = |name: &[u8]| has_effect(name, Effect::Files);
    let tells_by_itself = command.has(Flags::TELLS_ITSELF)
        || command.has(Flags::SETS_PARAMETERS)
            && arguments.tail(2).iter().step_by(2).any(is_of_files);
    if tells_by_itself {
        // The command may change keys, or wait for another thread. Earlier changes are told first.
        server.replication.unbar_stream();
    }
    match server.replication.bars_stream() {
        true => locked.suspend_whole(),
        false => locked.suspend(),
    }
}

/// Bytes that a client may queue in one transaction.
const TRANSACTION_BYTES_MAX: usize = 1 << 30;
