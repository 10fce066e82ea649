//! What a master sends, executed.

use std::sync::Arc;
use std::time::Instant;

use tidewire_keyspace::{
    Command, CommandError, DATABASES, LIVE_CHANNEL, Locked, Outcome, Run, ShardSet, resolve,
};
use tidewire_resp::number::parse_integer;
use tidewire_resp::{
    ArgumentList, Arguments, Limits, Progress, Protocol, ProtocolError, RequestParser, Writer,
};
use tidewire_script::{Engine, Purpose};
use tracing::warn;

use super::log_of;
use super::state::Master;
use crate::live::LiveObserver;
use crate::parameters::LATENCY_TRACKING;
use crate::script_turn::new_engine;
use crate::server::Server;
use tidewire_fanout::Origin;
use tidewire_lane::unix_ms;
use tidewire_retry::Seldom;

/// Executes a stream of commands.
pub(super) struct StreamApplier<'a> {
    server: &'a Server,
    master: &'a Master,
    parser: RequestParser,
    database: usize,
    /// What has come since MULTI.
    queued: Option<Vec<ArgumentList>>,
    /// The bytes of that: they are passed on with the end of the transaction.
    held: Vec<u8>,
    engine: Option<Engine>,
    reply: Vec<u8>,
    /// Keys that the master has told to be live topics, to be marked once no shard is locked.
    made_live: Vec<Box<[u8]>>,
    /// The master wants to know how far we are.
    pub(super) is_asked: bool,
    /// What may come with every command is logged now and then.
    refusals: Seldom,
}

impl<'a> StreamApplier<'a> {
    pub(super) fn new(server: &'a Server, master: &'a Master) -> Self {
        StreamApplier {
            server,
            master,
            parser: RequestParser::new(Limits::of_server()),
            database: 0,
            queued: None,
            held: Vec::new(),
            engine: None,
            reply: Vec::new(),
            made_live: Vec::new(),
            is_asked: false,
            refusals: Seldom::new(1, 10),
        }
    }

    /// Another connection brings the stream, which has selected a database. What was not executed
    /// of a transaction comes again.
    pub(super) fn restart(&mut self, database: usize) {
        debug_assert!(
            database < DATABASES,
            "a stream selects only databases that are there"
        );
        self.parser = RequestParser::new(Limits::of_server());
        self.database = database;
        self.queued = None;
        self.held.clear();
    }

    /// The database that the stream has selected.
    pub(super) fn database(&self) -> usize {
        self.database
    }

    /// Executes the commands that are whole, and passes them on; returns how many bytes they are.
    /// A transaction counts as one. Ends early when the master is followed no more.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        let mut parser = RequestParser::new(Limits::of_server());
        std::mem::swap(&mut parser, &mut self.parser);
        while taken < input.len() {
            let rest = &input[taken..];
            match parser.parse(rest)? {
                Progress::Complete { consumed } => {
                    debug_assert!(
                        (1..=rest.len()).contains(&consumed),
                        "a command has bytes, and they have come"
                    );
                    // The keys and the stream's end go on together.
                    let _stream = self.server.replication.hold_stream();
                    if self.master.is_over() {
                        return Ok(taken);
                    }
                    self.one(parser.arguments(rest));
                    self.pass_on(&rest[..consumed]);
                    taken += consumed;
                }
                _ => break,
            }
        }
        // It knows how far it has come with a command that is not whole.
        self.parser = parser;
        Ok(taken)
    }

    fn pass_on(&mut self, bytes: &[u8]) {
        let log = log_of(self.server);
        if self.queued.is_some() || !self.held.is_empty() {
            self.held.extend_from_slice(bytes);
            if self.queued.is_none() {
                log.relay(&self.held, self.database);
                self.held.clear();
            }
        } else {
            log.relay(bytes, self.database);
        }
        debug_assert_eq!(
            self.queued.is_some(),
            !self.held.is_empty(),
            "bytes are held back while a transaction is queued"
        );
    }

    /// FUNCTION LOAD, or a library of the file of all keys.
    pub(super) fn load_library(&mut self, code: &[u8], replaces: bool) {
        let libraries = &self.server.scripting.libraries;
        let loaded = self.functions().and_then(|engine| {
            let loaded = libraries.load(engine, code, replaces);
            loaded.map(drop)
        });
        if let Err(error) = loaded {
            warn!(error, "a library of the master cannot be loaded");
        }
    }

    fn one(&mut self, arguments: Arguments<'_>) {
        let Some(name) = arguments.get(0) else {
            return;
        };
        if name.eq_ignore_ascii_case(b"EXEC") {
            let queued = self.queued.take().unwrap_or_default();
            self.transaction(&queued);
        } else if name.eq_ignore_ascii_case(b"DISCARD") && self.queued.is_some() {
            self.queued = None;
        } else if let Some(queued) = &mut self.queued {
            queued.push(ArgumentList::from(arguments));
        } else if name.eq_ignore_ascii_case(b"MULTI") {
            self.queued = Some(Vec::new());
        } else if let Some(command) = self.data_command(arguments) {
            let mut observer = LiveObserver(self.server);
            self.reply.clear();
            let began = Instant::now();
            let outcome = self.server.keyspace.execute_told(
                command,
                arguments,
                self.database,
                unix_ms(),
                &mut Writer::new(&mut self.reply, Protocol::Resp2),
                &mut observer,
            );
            self.note(command, &outcome, began);
        } else {
            self.other(arguments, None);
        }
        self.mark_live();
    }

    /// Marks the keys that are live topics because the master says so. No shard is locked.
    fn mark_live(&mut self) {
        for key in self.made_live.drain(..) {
            let observer = &mut LiveObserver(self.server);
            self.server.keyspace.mark_live(&key, unix_ms(), observer);
        }
    }

    /// Executes commands together, with the shards of all of them locked.
    fn transaction(&mut self, queued: &[ArgumentList]) {
        let keyspace = &self.server.keyspace;
        let mut shards = ShardSet::empty();
        for one in queued {
            let arguments = one.as_arguments();
            if let Some(command) = self.data_command(arguments) {
                shards.union(&keyspace.shards_of_queued(command, arguments));
            } else if let Some(name) = arguments.get(1) {
                // Of a channel: whether it is a live key's is looked up there.
                shards.union(&keyspace.shard_of_name(name));
            }
        }
        let now_ms = unix_ms();
        let mut locked = keyspace.lock(shards);
        locked.keep_due();
        for one in queued {
            let arguments = one.as_arguments();
            let Some(command) = self.data_command(arguments) else {
                self.other(arguments, Some(&locked));
                continue;
            };
            self.reply.clear();
            let began = Instant::now();
            let outcome = keyspace.run_locked(
                &mut locked,
                command,
                arguments,
                self.database,
                now_ms,
                &mut Writer::new(&mut self.reply, Protocol::Resp2),
                &mut LiveObserver(self.server),
            );
            self.note(command, &outcome, began);
        }
        keyspace.release(locked, now_ms, &mut LiveObserver(self.server));
    }

    fn data_command(&self, arguments: Arguments<'_>) -> Option<&'static Command> {
        let command = resolve(arguments).ok()?;
        matches!(command.run, Run::Data(_)).then_some(command)
    }

    /// Commands that are no changes of keys.
    fn other(&mut self, arguments: Arguments<'_>, locked: Option<&Locked<'_>>) {
        let word = |at: usize| {
            let word = arguments.get(at).unwrap_or_default();
            word.to_ascii_uppercase()
        };
        match (word(0).as_slice(), arguments.len()) {
            (b"PING", _) => {}
            (b"SELECT", 2) => {
                let database = parse_integer(&arguments[1]);
                let database = database.and_then(|number| usize::try_from(number).ok());
                let known = database.filter(|&number| number < DATABASES);
                match known {
                    Some(database) => self.database = database,
                    None => warn!("the master selects a database that is not there"),
                }
            }
            (b"REPLCONF", _) => self.is_asked |= word(1) == b"GETACK",
            (b"PUBLISH", 3) => self.publish(arguments, Origin::Channel, locked),
            (b"SPUBLISH", 3) => self.publish(arguments, Origin::Shard, locked),
            (b"FUNCTION", _) => self.function(&word(1), arguments),
            _ => warn!(
                command = %String::from_utf8_lossy(&word(0)),
                "the master sends a command that is not known here"
            ),
        }
    }

    fn publish(&mut self, arguments: Arguments<'_>, origin: Origin, locked: Option<&Locked<'_>>) {
        let (name, payload) = (&arguments[1], &arguments[2]);
        if name == LIVE_CHANNEL {
            return self.made_live.push(payload.into());
        }
        if self.master.is_replacing() {
            // A message of a time that is over: the stream of a quorum is read from a snapshot on.
            return;
        }
        if origin == Origin::Channel
            && let Some(text) = self.server.publish_refusal(name, locked)
        {
            if self.refusals.note_now().is_some() {
                let channel = name.escape_ascii();
                warn!(%channel, "a message of the master is left out: {text}");
            }
            return;
        }
        self.server.post.publish(0, name, payload, origin, false);
    }

    fn function(&mut self, part: &[u8], arguments: Arguments<'_>) {
        let libraries = &self.server.scripting.libraries;
        match (part, arguments.len()) {
            (b"LOAD", 3..) => self.load_library(&arguments[arguments.len() - 1], true),
            (b"DELETE", 3) => {
                libraries.delete(&arguments[2]);
            }
            (b"FLUSH", _) => {
                libraries.flush();
                self.engine = None;
            }
            (b"RESTORE", 3..) => {
                let codes = tidewire_keyspace::read_libraries(&arguments[2]);
                let is_flush = |word: &[u8]| word.eq_ignore_ascii_case(b"FLUSH");
                if arguments.get(3).is_some_and(is_flush) {
                    libraries.flush();
                }
                for code in codes.unwrap_or_default() {
                    self.load_library(&code, true);
                }
            }
            _ => {}
        }
    }

    /// Counts a command for INFO commandstats, and logs one that fails.
    fn note(&self, command: &'static Command, outcome: &Outcome, began: Instant) {
        let slot = self.server.statistics.of_master(command);
        slot.called();
        let tracks = self.server.parameters.read(LATENCY_TRACKING);
        slot.took(began.elapsed().as_nanos() as u64, tracks);
        if let Outcome::Failed(error) = outcome {
            slot.failed();
            let is_mounted = matches!(**error, CommandError::Mounted(_));
            if is_mounted && self.refusals.note_now().is_none() {
                return;
            }
            let command = command.full_name;
            warn!(command, %error, "a command of the master fails here");
        }
    }

    fn functions(&mut self) -> Result<&mut Engine, String> {
        // One that was made before all libraries went may have what is not there any more.
        let engine = new_engine(self.server, Purpose::Functions);
        Ok(self.engine.insert(engine.map_err(|failure| failure.text)?))
    }
}

/// The hub as the thread that follows a master has it.
pub(super) fn start(server: &Server, master: Arc<Master>) {
    if let Some(server) = server.own.upgrade() {
        master.follow(server);
    }
}
