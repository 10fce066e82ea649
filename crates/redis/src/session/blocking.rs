//! Commands that have not ended: BLPOP and its kind, WAIT, CLIENT PAUSE and UNBLOCK.
//!
//! While a client waits, nothing more of its input is executed or even read; its connection is
//! held. What ends the wait (a reply from the client that changed the key, the timeout, CLIENT
//! UNBLOCK) reaches the client's lane, which writes the reply and resumes the connection.

use tidewire_keyspace::{ClientTag, Command, Flags, MountWriter, Outcome, Waiter};
use tidewire_lane::Context;
use tidewire_resp::number::parse_integer;
use tidewire_resp::{ArgumentList, Writer};

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::declared::counts_as_write;
use super::observing::Stopwatch;
use super::{Call, RespSession, State};
use crate::attention::Obstacles;
use crate::live::LiveObserver;
use crate::mail::RedisMail;
use crate::pause::PauseFor;
use crate::replication::{NO_FILE, Wanted};
use crate::scripting::Later;
use crate::server::Server;
use crate::tracked_clients::ON;
use crate::waiting::WaitId;
use crate::waiting::{Block, LaneWaiting};

/// Why a session executes nothing now.
#[derive(Debug, Default)]
pub(super) enum Stop {
    #[default]
    No,
    /// Its command waits; with the reply at the timeout.
    Waiting(TimeoutReply),
    /// A pause holds its next command.
    Postponed,
    /// Its next command needs shards, which its lane may not lock now.
    Parked,
}

/// The reply to a client whose wait timed out.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeoutReply {
    NullArray,
    /// How far it has come.
    Found(Wanted),
    Ok,
    /// This error.
    Error(&'static str),
    /// A live source has not answered this write: the error then.
    MountWrite {
        token: u64,
        unblocked: &'static str,
    },
}

impl RespSession {
    /// The reply that the client waited for.
    pub(crate) fn served(
        &mut self,
        server: &Server,
        context: &mut Context,
        reply: &[u8],
        failed: bool,
    ) {
        if failed && let Some(command) = self.state.last_command {
            let text = reply.strip_prefix(b"-").unwrap_or(reply);
            let text = String::from_utf8_lossy(text);
            server.note_failure(context.lane(), command, text.trim_end());
        }
        self.state.note_waited(server);
        if !matches!(self.state.stop, Stop::Waiting(TimeoutReply::Found(_))) {
            // Another client's command has served it, and changed the key for it.
            self.state.last_change.note(server);
        }
        self.state.end_wait(context, |state, context| {
            if state.replies()
                && let Some(out) = context.out(state.id)
            {
                out.buffer().extend_from_slice(reply);
            }
        });
    }

    /// Notes that the client does not wait for the end of its write to a live source any more, if
    /// that is what it waits for.
    fn note_unblocked(&self, server: &Server, context: &Context) {
        let Stop::Waiting(TimeoutReply::MountWrite { token, .. }) = self.state.stop else {
            return;
        };
        if let Some(writes) = server.hub_writes.get() {
            writes.note_unblocked(MountWriter {
                lane: context.lane(),
                client: self.state.client.id,
                token,
            });
        }
    }

    /// The client's time has come, or CLIENT UNBLOCK with TIMEOUT.
    pub(crate) fn timed_out(&mut self, server: &Server, context: &mut Context) {
        let Stop::Waiting(reply_at_timeout) = self.state.stop else {
            return;
        };
        self.note_unblocked(server, context);
        server.replication.forget_wait(self.state.client.id);
        self.state.note_waited(server);
        self.state.end_wait(context, |state, context| {
            state.reply(context, |reply| reply_at_timeout.write(server, reply));
        });
    }

    /// CLIENT UNBLOCK with ERROR.
    pub(crate) fn unblocked_with_error(&mut self, server: &Server, context: &mut Context) {
        match self.state.last_command {
            Some(command) => server.note_failure(context.lane(), command, "UNBLOCKED"),
            None => server.note_error("UNBLOCKED"),
        }
        self.note_unblocked(server, context);
        server.replication.forget_wait(self.state.client.id);
        self.state.note_waited(server);
        self.state.end_wait(context, |state, context| {
            state.reply(context, |reply| {
                reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
            });
        });
    }

    /// The client may no longer run its waiting command, which counts as never begun.
    pub(crate) fn denied(&mut self, server: &Server, context: &mut Context, text: &str) {
        if let Some(command) = self.state.last_command {
            server.statistics.of(context.lane(), command).taken_back();
        }
        // What never began is not slow either.
        self.state.waiting_request = None;
        let text = format!("NOPERM {text}");
        server.note_error(&text);
        server.replication.forget_wait(self.state.client.id);
        self.state.end_wait(context, |state, context| {
            state.reply(context, |reply| reply.error(&text));
        });
    }

    /// The pause is over: what was postponed is executed.
    pub(crate) fn resume(&mut self, context: &mut Context) {
        if matches!(self.state.stop, Stop::Postponed) {
            self.state.set_stop(Stop::No);
            self.state.client.set_blocked(false);
            context.release(self.state.id);
        }
    }

    /// Resumes a parked client: its command is executed, or refused while a script stays busy.
    pub(crate) fn unpark(&mut self, context: &mut Context) {
        if matches!(self.state.stop, Stop::Parked) {
            self.state.set_stop(Stop::No);
            context.release(self.state.id);
        }
    }

    /// The connection has ended.
    pub(crate) fn closed(&mut self, server: &Server, waiting: &mut LaneWaiting) {
        let client = self.state.client.id;
        match self.state.stop {
            Stop::No | Stop::Parked => {}
            Stop::Waiting(_) => {
                waiting.remove(client);
                let lane = self.state.client.lane;
                if server.scripting.rights.enter(lane) {
                    server.waiting.forget(client, &server.keyspace);
                    debug_assert!(
                        !server.waiting.contains(client),
                        "a client that has left waits for nothing"
                    );
                } else {
                    server.waiting.abandon(client);
                    server.scripting.put_off(lane, Later::GiveUp(client));
                }
            }
            Stop::Postponed => waiting.forget_postponed(client, &server.waiting),
        }
        self.state.drop_transaction(server);
        self.state.stop_tracking(server);
        self.state.stop_monitoring(server);
    }
}

impl RespSession {
    /// Whether its command waits.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state.stop, Stop::Waiting(_))
    }

    /// Asserts that no table has anything of the client any more. What another lane does with its
    /// number alone, such as a SHUTDOWN that it waited for, may still come.
    pub(crate) fn assert_gone(&self, server: &Server, waiting: &LaneWaiting) {
        let client = &*self.state.client;
        debug_assert!(
            server.clients.find(client.id).is_none(),
            "a client that has left is not in the list of clients"
        );
        debug_assert!(
            !waiting.has(client.id),
            "a client that has left waits for nothing on its lane"
        );
        debug_assert!(
            !server.monitors.has(client.id),
            "a client that has left is shown no commands"
        );
        debug_assert!(
            self.state.transaction.is_none() && self.state.watched.is_empty(),
            "a client that has left has no transaction and watches no key"
        );
        debug_assert!(
            !client.tracking.has(ON) && client.tracking.prefixes().is_empty(),
            "a client that has left tracks nothing"
        );
    }
}

impl State {
    pub(super) fn set_stop(&mut self, stop: Stop) {
        debug_assert!(
            matches!(stop, Stop::No) != matches!(self.stop, Stop::No),
            "a client that is stopped goes on before it is stopped again"
        );
        self.own.set(Obstacles::STOPPED, !matches!(stop, Stop::No));
        self.stop = stop;
    }

    /// Whether it executes nothing now.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.own.has(Obstacles::CLOSING | Obstacles::STOPPED)
    }

    /// Runs a command that may wait.
    pub(super) fn run_waiting(&mut self, call: &mut Call<'_>, command: &'static Command) {
        let tag = ClientTag {
            lane: call.context.lane(),
            client: self.client.id,
        };
        let now_ms = call.now_ms();
        let Some(out) = call.context.out(self.id) else {
            return;
        };
        let start = out.buffer().len();
        let mut reply = self.writer(out);
        let mut observer = LiveObserver(call.server);
        let outcome = call.server.keyspace.execute_waiting(
            tag,
            command,
            call.arguments,
            self.database,
            now_ms,
            &mut reply,
            &mut observer,
        );
        if !self.replies() {
            out.buffer().truncate(start);
        }
        match outcome {
            Outcome::Failed(error) => {
                let lane = call.context.lane();
                call.server.note_failure(lane, command, &error.to_string());
            }
            Outcome::Waiting(waiter) => self.wait_for(call, waiter),
            _ => {}
        }
    }

    /// Keeps the request of a command that waits, if every command's time is taken: it is noted
    /// when the wait has ended.
    pub(super) fn keep_request(&mut self, call: &Call<'_>, stopwatch: &Stopwatch<'_>) {
        if let Some(ns) = stopwatch.stop(call.server)
            && ns >= call.server.parameters.slow_from_ns.load(Ordering::Relaxed)
        {
            self.waiting_request = Some((ArgumentList::from(call.arguments), ns));
        }
    }

    /// Notes how long the command took that has waited; the wait itself does not count.
    pub(super) fn note_waited(&mut self, server: &Server) {
        if let Some((request, ns)) = self.waiting_request.take()
            && let Some(command) = self.last_command
        {
            self.note_time(server, command, request.as_arguments(), ns);
        }
    }

    fn wait_for(&mut self, call: &mut Call<'_>, waiter: Arc<Waiter>) {
        let deadline_ms = next_time_ms(&waiter);
        self.begin_wait(
            call,
            Block::Keys(waiter),
            deadline_ms,
            TimeoutReply::NullArray,
        );
    }

    /// A flush: the client gets its reply when what was there has been freed, and its lane serves
    /// others meanwhile.
    pub(super) fn wait_until_freed(&mut self, call: &mut Call<'_>) {
        let wait = self.begin_wait(call, Block::Firm, None, TimeoutReply::Ok);
        let server = call.server.own.clone();
        call.server.keyspace.when_freed(Box::new(move || {
            if let Some(server) = server.upgrade() {
                server.answer_wait(wait, b"+OK\r\n".to_vec(), false);
            }
        }));
    }

    /// SHUTDOWN: the connection ends with the process, or the client hears that nothing came of it.
    pub(super) fn wait_for_end(&mut self, call: &mut Call<'_>) {
        let wait = self.begin_wait(call, Block::Firm, None, TimeoutReply::Ok);
        call.server.await_stop(wait);
    }

    /// WAIT: replies how many replicas have this connection's changes, when they are enough or the
    /// timeout is over.
    pub(super) fn wait(&mut self, call: &mut Call<'_>) {
        if call.server.replication.master().is_some() {
            return self.refuse(call, WAIT_ON_REPLICA);
        }
        debug_assert_eq!(
            call.arguments.len(),
            3,
            "the table has the number of arguments"
        );
        let Some(replicas) = parse_integer(&call.arguments[1]) else {
            return self.refuse(call, NOT_INTEGER);
        };
        match timeout_deadline_ms(call, 2) {
            Ok(deadline_ms) => {
                self.last_change.end_input(call.server);
                let replicas = replicas.max(0) as usize;
                let wanted = Wanted::by_replicas(call.server, self.last_change, replicas);
                self.wait_for_others(call, wanted, deadline_ms);
            }
            Err(text) => self.refuse(call, text),
        }
    }

    /// WAITAOF: the same, and they and this server are to have it on their disks.
    pub(super) fn wait_aof(&mut self, call: &mut Call<'_>) {
        let local = parse_integer(&call.arguments[1]);
        let replicas = parse_integer(&call.arguments[2]);
        let (is_needed, replicas) = match (local, replicas) {
            (None, _) => return self.refuse(call, NOT_INTEGER),
            (Some(local), _) if !(0..=1).contains(&local) => {
                return self.refuse(call, NOT_ZERO_OR_ONE);
            }
            (_, None | Some(..0)) => {
                return self.refuse(call, "ERR value is out of range, must be positive");
            }
            (Some(local), Some(replicas)) => (local == 1, replicas as usize),
        };
        let deadline_ms = match timeout_deadline_ms(call, 3) {
            Ok(deadline_ms) => deadline_ms,
            Err(text) => return self.refuse(call, text),
        };
        let server = call.server;
        if server.replication.master().is_some() {
            return self.refuse(call, WAITAOF_ON_REPLICA);
        } else if is_needed && !server.durability.log.is_on() {
            return self.refuse(call, NO_FILE);
        }
        self.last_change.end_input(server);
        let wanted = Wanted::on_disks(server, self.last_change, is_needed, replicas);
        self.wait_for_others(call, wanted, deadline_ms);
    }

    fn wait_for_others(&mut self, call: &mut Call<'_>, wanted: Wanted, deadline_ms: Option<i64>) {
        let server = call.server;
        if wanted.is_met(server) || self.is_executing {
            let found = wanted.reply(server);
            return self.reply(call.context, |reply| reply.raw(&found));
        }
        let wait = self.begin_wait(call, Block::Time, deadline_ms, TimeoutReply::Found(wanted));
        server.replication.wait(server, wait, wanted);
    }

    pub(super) fn begin_wait(
        &mut self,
        call: &mut Call<'_>,
        block: Block,
        deadline_ms: Option<i64>,
        reply_at_timeout: TimeoutReply,
    ) -> WaitId {
        debug_assert!(
            matches!(self.stop, Stop::No),
            "a client waits for one thing"
        );
        debug_assert!(
            !self.is_executing,
            "nothing waits in a transaction or a script, which holds shards"
        );
        self.set_stop(Stop::Waiting(reply_at_timeout));
        self.client.set_blocked(true);
        let client = self.client.id;
        let lane = call.context.lane();
        let wait = call.server.waiting.insert(client, lane, block);
        call.waiting.insert(client, self.id, deadline_ms);
        call.context.hold(self.id);
        wait
    }

    pub(super) fn end_wait(
        &mut self,
        context: &mut Context,
        reply: impl FnOnce(&mut Self, &mut Context),
    ) {
        if !matches!(self.stop, Stop::Waiting(_)) {
            return;
        }
        debug_assert!(
            self.waiting_request.is_none(),
            "the request of a command that waited is noted before its reply"
        );
        self.set_stop(Stop::No);
        self.client.set_blocked(false);
        reply(self, context);
        self.after_reply();
        context.release(self.id);
    }

    /// Whether a pause holds this command.
    pub(super) fn is_postponed(&self, call: &Call<'_>, command: &'static Command) -> bool {
        call.server.is_paused_for(call.now_ms(), || {
            let queued = self
                .transaction
                .as_ref()
                .filter(|_| command.has(Flags::EXECUTES));
            counts_as_write(call.server, command, call.arguments)
                || queued.is_some_and(|transaction| transaction.writes(call.server))
        })
    }

    /// Leaves the command for after the pause.
    pub(super) fn postpone(&mut self, call: &mut Call<'_>) {
        debug_assert!(
            matches!(self.stop, Stop::No),
            "a client waits for one thing"
        );
        debug_assert!(!self.is_executing, "a pause holds whole transactions");
        self.set_stop(Stop::Postponed);
        self.client.set_blocked(true);
        call.waiting
            .postpone(self.client.id, self.id, &call.server.waiting);
        call.context.hold(self.id);
    }

    /// Leaves the command until the lane may lock shards. It is executed even if the client leaves
    /// meanwhile, as if it had come a moment earlier.
    pub(super) fn park(&mut self, call: &mut Call<'_>) {
        debug_assert!(
            matches!(self.stop, Stop::No),
            "a client waits for one thing"
        );
        debug_assert!(
            !self.is_executing,
            "EXEC and scripts have the right they need"
        );
        self.set_stop(Stop::Parked);
        call.waiting.park(self.id, false);
        call.server.scripting.rights.wait(call.context.lane());
        call.context.set_aside(self.id);
    }

    pub(super) fn client_pause(&mut self, call: &mut Call<'_>) {
        if call.arguments.len() > 4 {
            return self.refuse_subcommand(call);
        }
        let everything = match call.arguments.get(3) {
            None => true,
            Some(mode) if mode.eq_ignore_ascii_case(b"ALL") => true,
            Some(mode) if mode.eq_ignore_ascii_case(b"WRITE") => false,
            Some(_) => return self.refuse(call, "ERR CLIENT PAUSE mode must be WRITE or ALL"),
        };
        match timeout_deadline_ms(call, 2) {
            Ok(until_ms) => {
                let until_ms = until_ms.unwrap_or(0);
                let pause = &call.server.pause;
                pause.begin(PauseFor::Client, until_ms, everything);
                if call.server.replication.master().is_none()
                    && let Some(until_ms) = call.server.pause.until_ms(call.now_ms())
                {
                    call.server.keyspace.pause_expiry(until_ms);
                }
            }
            Err(text) => return self.refuse(call, text),
        }
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn client_unpause(&mut self, call: &mut Call<'_>) {
        // Those of SHUTDOWN and FAILOVER end with them.
        call.server.pause.end(PauseFor::Client);
        if call.server.replication.master().is_none() {
            let until_ms = call.server.pause.until_ms(call.now_ms());
            call.server.keyspace.pause_expiry(until_ms.unwrap_or(0));
        }
        call.server.tell_unpaused();
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn client_unblock(&mut self, call: &mut Call<'_>) {
        if call.arguments.len() > 4 {
            return self.refuse_subcommand(call);
        }
        let error = match call.arguments.get(3) {
            None => false,
            Some(reason) if reason.eq_ignore_ascii_case(b"TIMEOUT") => false,
            Some(reason) if reason.eq_ignore_ascii_case(b"ERROR") => true,
            Some(_) => {
                let text = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
                return self.refuse(call, text);
            }
        };
        let Some(client) = parse_integer(&call.arguments[2]) else {
            return self.refuse(call, NOT_INTEGER);
        };
        let client = client.max(0) as u64;
        let lane = call.server.waiting.unblock(client, &call.server.keyspace);
        if let Some(lane) = lane {
            call.server
                .mail
                .send(lane, RedisMail::Unblocked { client, error });
        }
        self.reply(call.context, |reply| {
            reply.integer(i64::from(lane.is_some()))
        });
    }
}

impl TimeoutReply {
    fn write(self, server: &Server, reply: &mut Writer<'_>) {
        match self {
            TimeoutReply::Found(wanted) => reply.raw(&wanted.reply(server)),
            TimeoutReply::NullArray => reply.null_array(),
            TimeoutReply::MountWrite { unblocked, .. } => reply.error(unblocked),
            TimeoutReply::Error(text) => reply.error(text),
            TimeoutReply::Ok => reply.ok(),
        }
    }
}

/// When a client that waits for a key has to be looked at next, ms since the UNIX epoch.
pub(crate) fn next_time_ms(waiter: &Waiter) -> Option<i64> {
    let times = [waiter.deadline_ms, waiter.retry_ms()];
    times.into_iter().flatten().min()
}

/// When a timeout in ms ends, ms since the UNIX epoch; `None` for 0, which is never.
fn timeout_deadline_ms(call: &Call<'_>, index: usize) -> Result<Option<i64>, &'static str> {
    match parse_integer(&call.arguments[index]) {
        None => Err("ERR timeout is not an integer or out of range"),
        Some(..0) => Err("ERR timeout is negative"),
        Some(0) => Ok(None),
        Some(timeout_ms) => {
            let deadline_ms = call.now_ms().checked_add(timeout_ms);
            deadline_ms.map(Some).ok_or("ERR timeout is out of range")
        }
    }
}

const WAIT_ON_REPLICA: &str = "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a \
     replica is configured to be writable (which is not the default) writes to replicas are just \
     local and are not propagated.";
const WAITAOF_ON_REPLICA: &str = "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas \
     are just local and are not propagated.";
pub(super) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const NOT_ZERO_OR_ONE: &str = "ERR value is out of range, value must between 0 and 1";
