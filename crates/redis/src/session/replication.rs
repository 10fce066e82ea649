//! SYNC, PSYNC, REPLCONF, ROLE, and what the session's own commands tell replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_keyspace::{Audience, Command, FileVersion, Run, Unit};
use tidewire_lane::{CloseReason, Context};
use tidewire_resp::ArgumentList;
use tidewire_resp::number::parse_integer;
use tracing::info;

use super::blocking::{NOT_INTEGER, NOT_ZERO_OR_ONE, TimeoutReply};
use super::{Call, RespSession, State};
use crate::attention::Obstacles;
use crate::lane_waits::{LaneWait, WaitReason};
use crate::replication::{
    FailoverOrder, LinkState, Master, NEWEST_FILES, Phase, Replica, WantedOfFile, is_sentinel,
    log_of, parse_offset, parse_port,
};
use crate::server::Server;
use crate::waiting::Block;

/// The REPLCONF settings of a client, and the replica that it becomes.
#[derive(Debug, Default)]
pub(super) struct ReplicaSession {
    port: u16,
    address: Option<String>,
    wanted: WantedOfFile,
    knows_histories: bool,
    replica: Option<Arc<Replica>>,
}

/// A command that the session has run and that others are to be told of, in the unit of what runs
/// with it.
#[derive(Debug)]
pub(super) struct ToldCommand {
    database: usize,
    words: ArgumentList,
    replicas_only: bool,
}

impl RespSession {
    /// Whether it is a replica's.
    pub(crate) fn is_replica(&self) -> bool {
        self.state.replica.is_some()
    }
}

impl State {
    /// SYNC: everything, then the stream.
    pub(super) fn sync(&mut self, call: &mut Call<'_>) {
        if !self.is_replica() && !self.refused_without_master(call) {
            self.begin_replica(call, false, None);
        }
    }

    /// PSYNC: the stream from where the replica is, or everything.
    pub(super) fn psync(&mut self, call: &mut Call<'_>) {
        if self.is_replica() || self.refused_to_take_over(call) || self.refused_without_master(call)
        {
            return;
        }
        let Some(next) = parse_integer(&call.arguments[2]) else {
            if let Some(left_out) = WRONG_REPLICAS.note_now() {
                tracing::warn!(
                    left_out,
                    "Replica {} asks for synchronization but with a wrong offset",
                    self.client.address
                );
            }
            return self.refuse(call, NOT_INTEGER);
        };
        let id = &call.arguments[1];
        let (server, replication) = (call.server, &call.server.replication);
        let log = log_of(server);
        replication.trim_backlog(server);
        // The offset counts from 1, and names the next byte.
        let from = next
            .checked_sub(1)
            .and_then(|from| u64::try_from(from).ok());
        let from = from.filter(|&from| {
            let is_ours = replication.shares(id, from);
            is_ours && log.is_open() && (log.oldest()..=log.end()).contains(&from)
        });
        match from {
            Some(from) => {
                replication.partial_syncs.fetch_add(1, Ordering::Relaxed);
                self.begin_replica(call, true, Some(from));
                let knows = self.replica.as_ref().is_some_and(|own| own.knows_histories);
                let reply = match knows {
                    true => format!("+CONTINUE {}\r\n", replication.id()),
                    false => "+CONTINUE\r\n".to_owned(),
                };
                if let Some(out) = call.context.out(self.id) {
                    out.buffer().extend_from_slice(reply.as_bytes());
                }
            }
            None => {
                if id != b"?" {
                    let refused = &replication.partial_syncs_refused;
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                self.begin_replica(call, true, None);
            }
        }
    }

    /// PSYNC with FAILOVER: the master wants to be the replica, so this server is the master from
    /// now on; unless there is a reason against it.
    fn refused_to_take_over(&self, call: &mut Call<'_>) -> bool {
        let (server, replication) = (call.server, &call.server.replication);
        let word = call.arguments.get(3);
        if !word.is_some_and(|word| word.eq_ignore_ascii_case(b"FAILOVER")) {
            return false;
        }
        let id = &call.arguments[1];
        info!(id = %id.escape_ascii(), "Failover request received for replid");
        let _permit = LaneWait::permit(WaitReason::Promotion);
        let refusal = if replication.master().is_none() {
            "ERR PSYNC FAILOVER can't be sent to a master."
        } else if !id.eq_ignore_ascii_case(replication.id().as_bytes()) {
            "ERR PSYNC FAILOVER replid must match my replid."
        } else if !replication.follow_nobody(server) {
            BUSY_WITH_MASTER
        } else {
            return false;
        };
        self.refuse(call, refusal);
        true
    }

    /// A replica that has not all of its master's keys has none to give.
    fn refused_without_master(&self, call: &mut Call<'_>) -> bool {
        if call.server.replication.failover.is_on() {
            self.refuse(call, "NOMASTERLINK Can't SYNC while failing over");
            return true;
        }
        let master = call.server.replication.master();
        let is_down = master.is_some_and(|master| master.state() != LinkState::Connected);
        if is_down {
            self.refuse(call, NO_MASTER_LINK);
        }
        is_down
    }

    fn begin_replica(&mut self, call: &mut Call<'_>, acknowledges: bool, from: Option<u64>) {
        debug_assert!(!self.is_replica(), "a connection becomes a replica's once");
        self.own.set(Obstacles::REPLICA, true);
        let own = self.replica.get_or_insert_default();
        let address = own.address.clone().unwrap_or_else(|| {
            let address = &self.client.address;
            let host = address.rsplit_once(':').map_or(&**address, |parts| parts.0);
            host.trim_matches(['[', ']']).to_owned()
        });
        let now_ms = call.now_ms();
        let mut wanted = own.wanted;
        wanted.takes_mark &= acknowledges;
        let replica = Replica::new(
            self.client.clone(),
            address,
            own.port,
            acknowledges,
            wanted,
            now_ms,
        );
        let replica = Arc::new(replica);
        match from {
            Some(from) => {
                replica.begin_at(from);
                replica.set_phase(Phase::Online);
            }
            None => {
                let full_syncs = &call.server.replication.full_syncs;
                full_syncs.fetch_add(1, Ordering::Relaxed);
            }
        }
        own.replica = Some(replica.clone());
        self.client.is_replica.store(true, Ordering::Relaxed);
        let lane = call.context.lane();
        let replicas = &mut call.sessions.replicas;
        replicas.add(call.server, lane, self.id, replica, now_ms);
    }

    /// Something has come: a replica that loads its file sends empty lines, to say that it is
    /// there.
    #[inline]
    pub(super) fn note_heard(&self, context: &Context) {
        if let Some(own) = &self.replica
            && let Some(replica) = &own.replica
        {
            replica.heard_of((context.unix_ns() / 1_000_000) as i64);
        }
    }

    /// A replica that sends what is no replica's to send would find the reply in its stream: its
    /// connection is ended.
    pub(super) fn ends_stray_replica(
        &mut self,
        call: &mut Call<'_>,
        command: &Result<&'static Command, String>,
    ) -> bool {
        let name = match command {
            _ if !self.is_replica() => return false,
            Ok(command) if REPLICAS_MAY_SEND.contains(&command.name) => return false,
            Ok(command) => command.full_name,
            Err(_) => "unknown",
        };
        let (client, address) = (self.client.id, &self.client.address);
        let left_out = WRONG_REPLICAS.note_now();
        if let Ok(command) = command
            && matches!(command.run, Run::Data(_))
            && left_out.is_some()
        {
            tracing::warn!(
                client, %address,
                "== CRITICAL == This master is sending an error to its replica: 'Replica can't \
                 interact with the keyspace' after processing the command '{name}'"
            );
        }
        if let Some(left_out) = left_out {
            tracing::warn!(
                client, %address, left_out,
                "Replica generated a reply to command '{name}', disconnecting it: it sends more \
                 than replicas do"
            );
        }
        call.context.cut_off(self.id, CloseReason::Requested);
        self.set_closing();
        true
    }

    fn is_replica(&self) -> bool {
        let own = self.replica.as_ref();
        own.is_some_and(|own| own.replica.is_some())
    }

    /// REPLCONF: what a replica says of itself. An acknowledgement has no reply.
    pub(super) fn replconf(&mut self, call: &mut Call<'_>) {
        let arguments = call.arguments;
        if arguments.len().is_multiple_of(2) {
            return self.refuse(call, "ERR syntax error");
        }
        for at in (1..arguments.len()).step_by(2) {
            let (option, value) = (&arguments[at], &arguments[at + 1]);
            self.own.set(Obstacles::REPLICA, true);
            let own = self.replica.get_or_insert_default();
            match option.to_ascii_lowercase().as_slice() {
                b"listening-port" => match parse_integer(value) {
                    Some(port) => own.port = u16::try_from(port).unwrap_or(0),
                    None => return self.refuse(call, NOT_INTEGER),
                },
                b"ip-address" if value.len() < ADDRESS_BYTES_MAX => {
                    own.address = Some(String::from_utf8_lossy(value).into_owned());
                }
                b"ip-address" => {
                    let length = value.len();
                    let text = format!(
                        "ERR REPLCONF ip-address provided by replica instance is too long: \
                         {length} bytes"
                    );
                    return self.refuse(call, &text);
                }
                b"capa" => {
                    own.wanted.takes_mark |= value.eq_ignore_ascii_case(b"eof");
                    own.knows_histories |= value.eq_ignore_ascii_case(b"psync2");
                    // A hub, whose version below is that of a Valkey.
                    if value.eq_ignore_ascii_case(NEWEST_FILES.as_bytes()) {
                        own.wanted.version = Some(FileVersion::Fitting);
                    }
                }
                b"ack" => return self.acknowledge(call, value),
                b"getack" => return,
                // Valkey's replicas tell theirs; from 9.0 on they have a format of their own.
                b"version" => {
                    let major = value.split(|&byte| byte == b'.').next();
                    let Some(major) = major.and_then(parse_integer) else {
                        let value = String::from_utf8_lossy(value).into_owned();
                        let text = format!("ERR Unrecognized version format: {value}");
                        return self.refuse(call, &text);
                    };
                    let reads_newest = own.wanted.version == Some(FileVersion::Fitting);
                    own.wanted.version = match major {
                        _ if reads_newest => Some(FileVersion::Fitting),
                        ..9 => Some(FileVersion::Redis72),
                        9.. => Some(FileVersion::Valkey9),
                    };
                }
                b"rdb-only" => match parse_integer(value) {
                    Some(flag @ 0..=1) => own.wanted.is_all = flag == 1,
                    Some(_) => return self.refuse(call, NOT_ZERO_OR_ONE),
                    None => return self.refuse(call, NOT_INTEGER),
                },
                b"rdb-filter-only" => {
                    own.wanted.without_keys = true;
                    own.wanted.without_libraries = true;
                    let words = value.split(u8::is_ascii_whitespace);
                    for word in words.filter(|word| !word.is_empty()) {
                        if !word.eq_ignore_ascii_case(b"functions") {
                            let word = String::from_utf8_lossy(word);
                            let text = format!("ERR Unsupported rdb-filter-only option: {word}");
                            return self.refuse(call, &text);
                        }
                        own.wanted.without_libraries = false;
                    }
                }
                b"rdb-channel" if value == b"0" => {}
                _ => {
                    let option = String::from_utf8_lossy(option).into_owned();
                    let text = format!("ERR Unrecognized REPLCONF option: {option}");
                    return self.refuse(call, &text);
                }
            }
        }
        self.reply(call.context, |reply| reply.ok());
    }

    fn acknowledge(&self, call: &mut Call<'_>, offset: &[u8]) {
        let own = self.replica.as_ref();
        let Some(replica) = own.and_then(|own| own.replica.as_ref()) else {
            return;
        };
        // Nothing can have come that is not in the stream.
        let end = log_of(call.server).end();
        if let Some(offset) = parse_offset(offset).filter(|&offset| offset <= end) {
            let words = call.arguments;
            let mut pairs = (1..words.len() - 1).step_by(2);
            let on_disk = pairs.find(|&at| words[at].eq_ignore_ascii_case(b"FACK"));
            let on_disk = on_disk.and_then(|at| parse_offset(&words[at + 1]));
            replica.acknowledge(offset, on_disk, call.now_ms());
            if replica.phase() == Phase::Loaded {
                // It has found the file's end; the turn's end sends what comes behind it.
                replica.set_phase(Phase::Online);
            }
            call.server.replication.serve_waits(call.server);
        }
    }

    /// REPLICAOF: the server to follow, or none.
    pub(super) fn replica_of(&self, call: &mut Call<'_>) {
        let (server, host, port) = (call.server, &call.arguments[1], &call.arguments[2]);
        if server.quorum.is_on() {
            return self.refuse(call, CHOSEN_BY_QUORUM);
        }
        if server.replication.failover.is_on() {
            return self.refuse(call, "ERR REPLICAOF not allowed while failing over.");
        }
        if host.eq_ignore_ascii_case(b"NO") && port.eq_ignore_ascii_case(b"ONE") {
            let is_sentinel = is_sentinel(&self.client.labels.lock().name);
            if is_sentinel && server.replication.begin_handover(server) {
                return self.reply(call.context, |reply| reply.ok());
            }
            let _permit = LaneWait::permit(WaitReason::Promotion);
            return match server.replication.follow_nobody(server) {
                true => self.reply(call.context, |reply| reply.ok()),
                false => self.refuse(call, BUSY_WITH_MASTER),
            };
        }
        if self.is_replica() {
            return self.refuse(call, "ERR Command is not valid when client is a replica.");
        }
        let Some(port) = parse_port(port) else {
            return self.refuse(call, "ERR Invalid master port");
        };
        let host = String::from_utf8_lossy(host).into_owned();
        let known = server.replication.master();
        if known.is_some_and(|master| master.host == host && master.port == port) {
            let text = "OK Already connected to specified master";
            return self.reply(call.context, |reply| reply.simple(text));
        }
        let master = Master::new(host, port, false);
        server.replication.follow_master(server, master);
        self.reply(call.context, |reply| reply.ok());
    }

    /// TIDEWIRE.KEYS: the keys of a group of hubs, by hand.
    pub(super) fn quorum_keys(&mut self, call: &mut Call<'_>) {
        match call.arguments[1].to_ascii_uppercase().as_slice() {
            b"REBUILD" if self.is_executing => self.refuse(call, REBUILD_ALONE),
            b"REBUILD" => match call.server.quorum.rebuilding_misfit() {
                Some(text) => self.refuse(call, &text),
                None => {
                    let wait = self.begin_wait(call, Block::Firm, None, TimeoutReply::Ok);
                    call.server.quorum.rebuild(wait);
                }
            },
            b"HELP" => self.help(call, KEYS_HELP),
            _ => self.refuse(call, "ERR syntax error"),
        }
    }

    /// FAILOVER: a replica becomes the master, and this server its replica.
    pub(super) fn fail_over(&self, call: &mut Call<'_>) {
        let _permit = LaneWait::permit(WaitReason::Promotion);
        let (server, arguments) = (call.server, call.arguments);
        if server.quorum.is_on() {
            return self.refuse(call, CHOSEN_BY_QUORUM);
        }
        let is = |at: usize, word: &str| {
            let given = arguments.get(at);
            given.is_some_and(|given| given.eq_ignore_ascii_case(word.as_bytes()))
        };
        if arguments.len() == 2 && is(1, "ABORT") {
            return match server.replication.abort_failover(server) {
                true => self.reply(call.context, |reply| reply.ok()),
                false => self.refuse(call, "ERR No failover in progress."),
            };
        }
        let (mut order, mut at) = (FailoverOrder::default(), 1);
        while at < arguments.len() {
            if is(at, "TIMEOUT") && at + 1 < arguments.len() && order.deadline_ms.is_none() {
                let timeout_ms = match parse_integer(&arguments[at + 1]) {
                    Some(timeout_ms) if timeout_ms > 0 => timeout_ms,
                    Some(_) => {
                        return self.refuse(call, "ERR FAILOVER timeout must be greater than 0");
                    }
                    None => return self.refuse(call, NOT_INTEGER),
                };
                order.deadline_ms = Some(call.now_ms().saturating_add(timeout_ms));
                at += 2;
            } else if is(at, "TO") && at + 2 < arguments.len() && order.target.is_none() {
                let host = String::from_utf8_lossy(&arguments[at + 1]).into_owned();
                let Some(port) = parse_integer(&arguments[at + 2]) else {
                    return self.refuse(call, NOT_INTEGER);
                };
                order.target = Some((host, port));
                at += 3;
            } else if is(at, "FORCE") && !order.is_forced {
                order.is_forced = true;
                at += 1;
            } else {
                return self.refuse(call, "ERR syntax error");
            }
        }
        match server.replication.fail_over(server, order) {
            Ok(()) => self.reply(call.context, |reply| reply.ok()),
            Err(text) => self.refuse(call, &text),
        }
    }

    pub(super) fn role(&self, call: &mut Call<'_>) {
        if let Some(master) = call.server.replication.master() {
            let state = master.state();
            let offset = match state {
                LinkState::Connected => StreamStatus::of(call.server).end as i64,
                _ => -1,
            };
            return self.reply(call.context, |reply| {
                reply.array(5);
                reply.bulk(b"slave");
                reply.bulk(master.host.as_bytes());
                reply.integer(i64::from(master.port));
                reply.bulk(state.name().as_bytes());
                reply.integer(offset);
            });
        }
        let statuses = call.server.replication.statuses(call.now_ms());
        let offset = log_of(call.server).end() as i64;
        let mut replicas = statuses;
        replicas.retain(|one| matches!(one.phase, Phase::Loaded | Phase::Online));
        self.reply(call.context, |reply| {
            reply.array(3);
            reply.bulk(b"master");
            reply.integer(offset);
            reply.array(replicas.len());
            for one in &replicas {
                reply.array(3);
                reply.bulk(one.address.as_bytes());
                reply.bulk(one.port.to_string().as_bytes());
                reply.bulk(one.acked.to_string().as_bytes());
            }
        });
    }

    /// Tells others the command that has run: replicas alone if nothing of it is kept.
    pub(super) fn tell(&mut self, call: &Call<'_>, replicas_only: bool) {
        let propagation = call.server.keyspace.propagation();
        if !propagation.is_wanted() {
            return;
        }
        let mut words = ArgumentList::new();
        words.extend(call.arguments);
        self.told.push(ToldCommand {
            database: self.database,
            words,
            replicas_only,
        });
        if !self.is_executing {
            // Nothing runs with it.
            let mut unit = Unit::default();
            self.tell_into(&mut unit);
            propagation.append(&unit);
        }
    }

    /// Moves what was told into the unit of what runs with it.
    pub(super) fn tell_into(&mut self, unit: &mut Unit) {
        for told in self.told.drain(..) {
            let words = told.words.as_arguments();
            match told.replicas_only {
                true => unit.push_for_replicas(told.database, words),
                false => unit.push(told.database, words),
            }
        }
        debug_assert!(!self.has_told(), "each command is told once");
    }

    /// Whether there is something to [`tell_into`](Self::tell_into) a unit.
    #[inline]
    pub(super) fn has_told(&self) -> bool {
        !self.told.is_empty()
    }
}

/// The stream's numbers in INFO.
pub(crate) struct StreamStatus {
    pub(crate) end: u64,
    pub(crate) first: u64,
    pub(crate) kept: u64,
    pub(crate) is_open: bool,
}

impl StreamStatus {
    pub(crate) fn of(server: &Server) -> Self {
        let log = server.keyspace.propagation().log(Audience::Replicas);
        let (start, end, is_open) = (log.oldest(), log.end(), log.is_open());
        let is_lost = !is_open && server.replication.master().is_some();
        // A replica that has no part of its master's stream is nowhere.
        let end = if is_lost { 0 } else { end };
        StreamStatus {
            end,
            first: if is_open { start + 1 } else { 0 },
            kept: end.saturating_sub(start),
            is_open,
        }
    }
}

/// The commands that a replica sends.
const REPLICAS_MAY_SEND: &[&str] = &["replconf", "psync", "sync"];
/// The longest address that a replica may give itself.
const ADDRESS_BYTES_MAX: usize = 256;
const BUSY_WITH_MASTER: &str =
    "BUSY a command of the master still runs; try again when it has ended";
const NO_MASTER_LINK: &str = "NOMASTERLINK Can't SYNC while not connected with my master";
/// Limits the log lines that a peer causes by coming back.
static WRONG_REPLICAS: tidewire_retry::Seldom = tidewire_retry::Seldom::new(10, 10);
const KEYS_HELP: &[&str] = &[
    "TIDEWIRE.KEYS <subcommand>. Subcommands are:",
    "REBUILD",
    "    Store the keys of this hub's memory as those of its group, whose stream",
    "    cannot be gone on with. The reply is OK when this hub has the lease of the",
    "    keys. INFO cluster says when it is the primary.",
    "HELP",
    "    Print this help.",
];
const REBUILD_ALONE: &str = "ERR TIDEWIRE.KEYS REBUILD waits for the lease of the keys: it cannot \
                             be a part of a transaction or a script";
const CHOSEN_BY_QUORUM: &str = "ERR durability is \"quorum\": the hubs choose the primary by a \
                                lease; stop the primary to move it";
