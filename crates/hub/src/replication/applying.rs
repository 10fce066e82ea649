//! What a master sends, executed.

use std::sync::Arc;

use tidewire_keyspace::{Command, Outcome, Run, ShardSet, resolve};
use tidewire_resp::number::parse_integer;
use tidewire_resp::{
    ArgumentList, Arguments, Limits, Progress, Protocol, ProtocolError, RequestParser, Writer,
};
use tidewire_script::{Engine, Purpose};
use tracing::warn;

use crate::hub::{Hub, LiveObserver, unix_ms};
use crate::publication::Origin;
use crate::scripting::has_deprecated;

/// Executes a stream of commands.
pub(super) struct Applier<'a> {
    hub: &'a Hub,
    parser: RequestParser,
    database: usize,
    /// What has come since MULTI.
    queued: Option<Vec<ArgumentList>>,
    engine: Option<Engine>,
    reply: Vec<u8>,
    /// The master wants to know how far we are.
    pub(super) is_asked: bool,
}

impl<'a> Applier<'a> {
    pub(super) fn new(hub: &'a Hub) -> Self {
        Applier {
            hub,
            parser: RequestParser::new(Limits::default()),
            database: 0,
            queued: None,
            engine: None,
            reply: Vec::new(),
            is_asked: false,
        }
    }

    /// Another stream begins.
    pub(super) fn restart(&mut self) {
        self.parser = RequestParser::new(Limits::default());
        self.database = 0;
        self.queued = None;
    }

    /// Executes the commands that are whole; returns how many bytes they are.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        let mut parser = RequestParser::new(Limits::default());
        std::mem::swap(&mut parser, &mut self.parser);
        while taken < input.len() {
            let rest = &input[taken..];
            match parser.parse(rest)? {
                Progress::Complete { consumed } => {
                    self.one(parser.arguments(rest));
                    taken += consumed;
                }
                _ => break,
            }
        }
        // What is not whole is looked at again from its first byte.
        Ok(taken)
    }

    /// FUNCTION LOAD, or a library of the file of all keys.
    pub(super) fn load_library(&mut self, code: &[u8], replaces: bool) {
        let libraries = &self.hub.scripting.libraries;
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
        } else if let Some(queued) = &mut self.queued {
            queued.push(ArgumentList::from(arguments));
        } else if name.eq_ignore_ascii_case(b"MULTI") {
            self.queued = Some(Vec::new());
        } else if let Some(command) = self.data_command(arguments) {
            let mut observer = LiveObserver(self.hub);
            self.reply.clear();
            let outcome = self.hub.keyspace.execute_told(
                command,
                arguments,
                self.database,
                unix_ms(),
                &mut Writer::new(&mut self.reply, Protocol::Resp2),
                &mut observer,
            );
            note(command, &outcome);
        } else {
            self.other(arguments);
        }
    }

    /// Executes commands together, with the shards of all of them locked.
    fn transaction(&mut self, queued: &[ArgumentList]) {
        let keyspace = &self.hub.keyspace;
        let mut shards = ShardSet::empty();
        for one in queued {
            if let Some(command) = self.data_command(one.as_arguments()) {
                shards.union(&keyspace.shards_of_queued(command, one.as_arguments()));
            }
        }
        let now_ms = unix_ms();
        let mut locked = keyspace.lock(shards);
        locked.keep_due();
        for one in queued {
            let arguments = one.as_arguments();
            let Some(command) = self.data_command(arguments) else {
                self.other(arguments);
                continue;
            };
            self.reply.clear();
            let outcome = keyspace.run_locked(
                &mut locked,
                command,
                arguments,
                self.database,
                now_ms,
                &mut Writer::new(&mut self.reply, Protocol::Resp2),
                &mut LiveObserver(self.hub),
            );
            note(command, &outcome);
        }
        keyspace.release(locked, now_ms, &mut LiveObserver(self.hub));
    }

    fn data_command(&self, arguments: Arguments<'_>) -> Option<&'static Command> {
        let command = resolve(arguments).ok()?;
        matches!(command.run, Run::Data(_)).then_some(command)
    }

    /// Commands that are no changes of keys.
    fn other(&mut self, arguments: Arguments<'_>) {
        let word = |at: usize| {
            let word = arguments.get(at).unwrap_or_default();
            word.to_ascii_uppercase()
        };
        match (word(0).as_slice(), arguments.len()) {
            (b"PING", _) => {}
            (b"SELECT", 2) => {
                let database = parse_integer(&arguments[1]);
                let database = database.and_then(|number| usize::try_from(number).ok());
                let known = database.filter(|&number| number < tidewire_keyspace::DATABASES);
                match known {
                    Some(database) => self.database = database,
                    None => warn!("the master selects a database that is not there"),
                }
            }
            (b"REPLCONF", _) => self.is_asked |= word(1) == b"GETACK",
            (b"PUBLISH", 3) => self.publish(arguments, Origin::Channel),
            (b"SPUBLISH", 3) => self.publish(arguments, Origin::Shard),
            (b"FUNCTION", _) => self.function(&word(1), arguments),
            _ => warn!(
                command = %String::from_utf8_lossy(&word(0)),
                "the master sends a command that is not known here"
            ),
        }
    }

    fn publish(&self, arguments: Arguments<'_>, origin: Origin) {
        let (name, payload) = (&arguments[1], &arguments[2]);
        self.hub.publish(0, name, payload, origin, false);
    }

    fn function(&mut self, part: &[u8], arguments: Arguments<'_>) {
        let libraries = &self.hub.scripting.libraries;
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

    fn functions(&mut self) -> Result<&mut Engine, String> {
        // One that was made before all libraries went may have what is not there any more.
        let engine = Engine::new(Purpose::Functions, has_deprecated(self.hub));
        Ok(self.engine.insert(engine.map_err(|failure| failure.text)?))
    }
}

fn note(command: &Command, outcome: &Outcome) {
    if let Outcome::Failed(error) = outcome {
        let command = command.full_name;
        warn!(command, %error, "a command of the master fails here");
    }
}

/// The hub as the thread that follows a master has it.
pub(super) fn start(hub: &Hub, master: Arc<super::Master>) {
    if let Some(hub) = hub.own.upgrade() {
        master.follow(hub);
    }
}
