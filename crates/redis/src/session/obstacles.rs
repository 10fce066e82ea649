//! Conditions that keep a request from being executed, checked one after the other.

use std::sync::atomic::Ordering;

use tidewire_keyspace::{Command, DATABASES, Flags};
use tidewire_resp::Protocol;

use super::blocking::Stop;
use super::{Call, ReplyMode, State};
use crate::attention::Obstacles;
use crate::server::Server;

impl State {
    /// The obstacles of a request now: this connection's, its user's and the server's.
    #[inline]
    pub(super) fn obstacles(&self, server: &Server) -> Obstacles {
        self.check_obstacles();
        server.attention.obstacles(self.own, self.permit.free_in())
    }

    /// Asserts that each bit agrees with the field that it stands for.
    fn check_obstacles(&self) {
        let has = |one| self.own.has(one);
        debug_assert_eq!(has(Obstacles::STOPPED), !matches!(self.stop, Stop::No));
        debug_assert_eq!(has(Obstacles::MUTED), self.reply_mode != ReplyMode::On);
        debug_assert_eq!(has(Obstacles::TRANSACTION), self.transaction.is_some());
        debug_assert_eq!(has(Obstacles::REPLICA), self.replica.is_some());
        debug_assert_eq!(has(Obstacles::SUBSCRIBER), self.client.is_subscriber());
        debug_assert_eq!(has(Obstacles::BUSY), self.busy.is_some());
        let client = &*self.client;
        debug_assert_eq!(
            has(Obstacles::NO_TOUCH),
            client.no_touch.load(Ordering::Relaxed),
            "CLIENT NO-TOUCH stands in the session and in the list of clients"
        );
        debug_assert_eq!(
            has(Obstacles::TRANSACTION),
            client.multi.load(Ordering::Relaxed) >= 0,
            "CLIENT LIST counts the commands of a transaction that there is"
        );
        debug_assert_eq!(
            client.watched.load(Ordering::Relaxed) as usize,
            self.watched.len(),
            "CLIENT LIST counts the watched keys"
        );
        debug_assert_eq!(
            client.database.load(Ordering::Relaxed) as usize,
            self.database,
            "CLIENT LIST shows the database"
        );
        debug_assert_eq!(
            client.blocked.load(Ordering::Relaxed),
            matches!(self.stop, Stop::Waiting(_) | Stop::Postponed),
            "a client is blocked while its command waits or is postponed"
        );
    }

    /// Asserts what holds while none of the client's requests is being executed.
    pub(super) fn assert_between_requests(&self) {
        self.check_obstacles();
        debug_assert!(
            !self.is_executing,
            "EXEC and scripts end within their request"
        );
        debug_assert!(
            self.told.is_empty(),
            "what a command tells others is in the log when it has ended"
        );
        debug_assert!(
            self.busy.is_none(),
            "one command is refused as busy, not those behind it"
        );
        debug_assert!(
            self.waiting_request.is_none() || matches!(self.stop, Stop::Waiting(_)),
            "a request is kept while its command waits"
        );
        debug_assert!(
            self.database < DATABASES,
            "a client has selected a database that there is"
        );
    }

    /// Nothing more is executed: QUIT, or an error that ends the connection.
    pub(super) fn set_closing(&mut self) {
        self.own.set(Obstacles::CLOSING, true);
    }

    pub(super) fn set_reply_mode(&mut self, mode: ReplyMode) {
        self.reply_mode = mode;
        self.own.set(Obstacles::MUTED, mode != ReplyMode::On);
    }

    pub(super) fn set_busy(&mut self, busy: Option<&'static str>) {
        self.busy = busy;
        self.own.set(Obstacles::BUSY, busy.is_some());
    }

    /// Checks what can end a command before it begins. `Some`: the command ends here, with true if
    /// it is over and false if it waits.
    #[cold]
    pub(super) fn begin_past(
        &mut self,
        call: &mut Call<'_>,
        command: &Result<&'static Command, String>,
    ) -> Option<bool> {
        if self.replica.is_some() && self.ends_stray_replica(call, command) {
            return Some(true);
        }
        if let Ok(command) = command
            && !self.client.monitors.load(Ordering::Relaxed)
            && self.is_postponed(call, command)
        {
            self.postpone(call);
            return Some(false);
        }
        if self.reply_mode == ReplyMode::SkipNext {
            self.set_reply_mode(ReplyMode::Skip);
        }
        None
    }

    /// Executes a command, as far as what stands before it allows.
    #[inline(never)]
    pub(super) fn run_past(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
        obstacles: Obstacles,
    ) {
        match obstacles.has(Obstacles::TRACKED) {
            false => self.pass(call, command, obstacles),
            true => self.run_tracked(call, command, obstacles),
        }
    }

    /// Executes a command unless it is refused or queued.
    pub(super) fn pass(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
        obstacles: Obstacles,
    ) {
        if obstacles.has(Obstacles::USER) && !self.may_run(call, command) {
            return;
        }
        if let Some(text) = self.busy {
            return self.refuse_for_now(call, command, text);
        }
        if obstacles.has(Obstacles::GATE) && self.is_stopped_at_gate(call, command) {
            return;
        }
        if self.subscriber_mode() && !command.has(Flags::FOR_SUBSCRIBERS) {
            return self.refuse_in_subscriber_mode(call, command);
        }
        if obstacles.has(Obstacles::MONITORED) && self.is_refused_as_monitor(call, command) {
            return;
        }
        if obstacles.has(Obstacles::TRANSACTION) && !command.has(Flags::AT_ONCE) {
            return self.queue(call, command);
        }
        match obstacles.has(Obstacles::SIZED) {
            true => self.run_sized(call, command),
            false => self.run(call, command),
        }
        self.show(call, command);
    }

    /// Executes a command, and looks at how large its request and its reply are.
    fn run_sized(&mut self, call: &mut Call<'_>, command: &'static Command) {
        let before = self.unsent_bytes(call);
        self.run(call, command);
        let reply_bytes = self.unsent_bytes(call).saturating_sub(before);
        self.note_size(call.server, command, call.arguments, reply_bytes);
    }

    /// Bytes of replies that are not sent yet.
    pub(super) fn unsent_bytes(&self, call: &mut Call<'_>) -> u64 {
        let out = call.context.out(self.id);
        out.map_or(0, |out| out.buffer().len()) as u64
    }

    /// Refuses keys to a client that runs MONITOR, as to a replica.
    fn is_refused_as_monitor(&mut self, call: &mut Call<'_>, command: &'static Command) -> bool {
        let uses_keys = Flags::READONLY | Flags::WRITE | Flags::MAY_REPLICATE;
        let is_refused = self.client.monitors.load(Ordering::Relaxed) && command.has(uses_keys);
        if is_refused {
            call.note_rejected();
            self.abort_transaction();
            self.refuse(call, "ERR Replica can't interact with the keyspace");
        }
        is_refused
    }

    /// In RESP2 a subscriber's connection carries messages, so that only few commands are allowed.
    #[inline]
    pub(super) fn subscriber_mode(&self) -> bool {
        self.own.has(Obstacles::SUBSCRIBER) && self.protocol == Protocol::Resp2
    }

    fn refuse_in_subscriber_mode(&mut self, call: &mut Call<'_>, command: &Command) {
        let name = command.full_name;
        let text = format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context"
        );
        self.refuse_for_now(call, command, &text);
    }
}
