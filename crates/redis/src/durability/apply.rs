//! Commands of a log, executed without a client.

use tidewire_keyspace::{
    Command, DATABASES, LIVE_CHANNEL, NullObserver, Run, read_libraries, resolve,
};
use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer, number::parse_integer};
use tidewire_script::{Engine, Purpose, RestorePolicy};

use crate::replication::state::{StreamPosition, is_history_id, parse_offset};
use crate::script_turn::new_engine;
use crate::server::Server;
use tidewire_lane::unix_ms;

/// Executes the commands of a log, without replies, notifications or access control.
pub(super) struct LogApplier<'h> {
    server: &'h Server,
    database: usize,
    /// Commands since MULTI.
    queued: Option<Vec<ArgumentList>>,
    engine: Option<Engine>,
    reply: Vec<u8>,
    /// What the file tells of the stream of changes, if that is to go on there.
    pub(super) told: Option<ToldPosition>,
    /// What is no command ends the file, as the disk may have lost a part of it.
    pub(super) ends_at_holes: bool,
}

/// Where the stream of changes was when a file was written, as far as it has told.
#[derive(Debug, Default)]
pub(super) struct ToldPosition {
    id: Option<String>,
    offset: Option<u64>,
    database: Option<usize>,
}

impl ToldPosition {
    pub(super) fn note(&mut self, name: &[u8], value: &[u8]) {
        let number = || parse_integer(value).and_then(|number| u64::try_from(number).ok());
        match name {
            b"repl-id" if is_history_id(value) => {
                self.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"repl-offset" => self.offset = parse_offset(value),
            b"repl-stream-db" => {
                let database = number().and_then(|number| usize::try_from(number).ok());
                self.database = database.filter(|&one| one < DATABASES);
            }
            _ => {}
        }
    }

    /// All of it, or nothing.
    pub(super) fn whole(self) -> Option<StreamPosition> {
        Some(StreamPosition {
            id: self.id?,
            offset: self.offset?,
            database: self.database?,
        })
    }
}

impl<'h> LogApplier<'h> {
    pub(super) fn new(server: &'h Server) -> Self {
        LogApplier {
            server,
            database: 0,
            queued: None,
            engine: None,
            reply: Vec::new(),
            told: None,
            ends_at_holes: false,
        }
    }

    /// Whether commands since MULTI wait for their EXEC.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.queued.is_some()
    }

    /// The rest of a transaction does not come: what was queued of it is cut off as well.
    pub(super) fn drop_transaction(&mut self) {
        self.queued = None;
    }

    /// Executes a command, or keeps it until EXEC. The text says why it cannot be.
    pub(super) fn apply(&mut self, arguments: Arguments<'_>) -> Result<(), String> {
        let name = arguments[0].to_ascii_lowercase();
        match name.as_slice() {
            b"multi" => {
                self.queued = Some(Vec::new());
                Ok(())
            }
            b"exec" => {
                let queued = self.queued.take().unwrap_or_default();
                queued
                    .iter()
                    .try_for_each(|queued| self.run(queued.as_arguments()))
            }
            _ => match &mut self.queued {
                Some(queued) => {
                    queued.push(arguments.iter().collect());
                    Ok(())
                }
                None => self.run(arguments),
            },
        }
    }

    /// Makes a library of its text; one of the same name goes, or is in the way.
    pub(super) fn load_library(&mut self, code: &[u8], replaces: bool) -> Result<(), String> {
        let server = self.server;
        let loaded = server
            .scripting
            .libraries
            .load(self.engine()?, code, replaces);
        loaded
            .map(|_| ())
            .map_err(|text| format!("a library of functions: {text}"))
    }

    fn engine(&mut self) -> Result<&mut Engine, String> {
        if self.engine.is_none() {
            let engine = new_engine(self.server, Purpose::Functions);
            self.engine = Some(engine.map_err(|failure| failure.text)?);
        }
        self.engine.as_mut().ok_or_else(String::new)
    }

    fn run(&mut self, arguments: Arguments<'_>) -> Result<(), String> {
        debug_assert!(
            self.database < DATABASES,
            "a log selects only databases that are there"
        );
        let command = resolve(arguments).map_err(|_| {
            let name = String::from_utf8_lossy(&arguments[0]);
            format!("Unknown command '{name}' reading the append only file")
        })?;
        match command.run {
            Run::Data(_) => {
                self.reply.clear();
                let mut reply = Writer::new(&mut self.reply, Protocol::Resp2);
                // The client that sent it got the reply then, even if it was an error.
                let _ = self.server.keyspace.execute_told(
                    command,
                    arguments,
                    self.database,
                    unix_ms(),
                    &mut reply,
                    &mut NullObserver,
                );
                Ok(())
            }
            Run::Session => self.run_session(command, arguments),
            _ => Err(format!("'{}' is no command of a log", command.full_name)),
        }
    }

    fn run_session(&mut self, command: &Command, arguments: Arguments<'_>) -> Result<(), String> {
        let libraries = &self.server.scripting.libraries;
        match command.full_name {
            "select" => {
                let number = parse_integer(&arguments[1]).and_then(|n| usize::try_from(n).ok());
                let number = number.filter(|&number| number < DATABASES);
                self.database = number.ok_or("a database that is not there")?;
                Ok(())
            }
            "function|load" => self.load_library(&arguments[arguments.len() - 1], true),
            "function|delete" => {
                libraries.delete(&arguments[2]);
                Ok(())
            }
            "function|flush" => {
                libraries.flush();
                Ok(())
            }
            "function|restore" => {
                let policy = match arguments.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
                    Some(b"flush") => RestorePolicy::Flush,
                    Some(b"replace") => RestorePolicy::Replace,
                    _ => RestorePolicy::Append,
                };
                let codes = read_libraries(&arguments[2])?;
                libraries.restore(self.engine()?, &codes, policy)
            }
            "publish" if arguments.get(1) == Some(LIVE_CHANNEL) => {
                let key = arguments.get(2).unwrap_or_default();
                self.server
                    .keyspace
                    .mark_live(key, unix_ms(), &mut NullObserver);
                Ok(())
            }
            "ping" | "publish" | "spublish" => Ok(()),
            _ => Err(format!(
                "'{}' cannot be executed from a log",
                String::from_utf8_lossy(&arguments[0])
            )),
        }
    }
}
