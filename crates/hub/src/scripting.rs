//! Scripts as all lanes share them: which are known, and which one runs.
//!
//! A script holds every shard, so that only one runs at a time. While it runs, lanes that need
//! shards wait for it here, not at a shard's lock, and for no longer than `busy-reply-threshold`:
//! after that everybody is told that the server is busy.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidewire_keyspace::{Keyspace, WatchedKey};
use tidewire_resp::ArgumentList;
use tidewire_script::{Libraries, ScriptFlags, Scripts, Sha1};

use crate::hub::Hub;

/// Scripts and functions, and the one that runs.
#[derive(Debug, Default)]
pub(crate) struct Scripting {
    pub(crate) scripts: Scripts,
    pub(crate) libraries: Libraries,
    /// One of the constants below.
    state: AtomicU8,
    /// Held by the lane whose script runs.
    turn: Mutex<()>,
    /// It has written, and cannot be undone.
    is_dirty: AtomicBool,
    /// SCRIPT KILL has come.
    is_killed: AtomicBool,
    /// What runs, once it has run for too long.
    running: Mutex<Option<Running>>,
    /// Keys that clients gave up watching while every shard was locked.
    unwatched: Mutex<Vec<WatchedKey>>,
    /// Bytes of each lane's Lua states, of scripts and of functions, as last seen.
    bytes: Vec<[AtomicU64; 2]>,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call any command.
    pub(crate) allows_all: AtomicBool,
}

/// A script that has run for too long.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) request: ArgumentList,
    pub(crate) started: Instant,
}

/// The right to run a script; it ends with this.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    scripting: &'a Scripting,
    keyspace: &'a Keyspace,
    guard: Option<MutexGuard<'a, ()>>,
}

/// How a command names its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Body,
    Sha1,
    Function,
}

impl Scripting {
    pub(crate) fn new(lanes: usize) -> Self {
        Scripting {
            bytes: (0..lanes).map(|_| Default::default()).collect(),
            ..Scripting::default()
        }
    }

    /// Notes how much a lane's Lua states hold, that of scripts and that of functions.
    pub(crate) fn set_bytes(&self, lane: usize, bytes: [usize; 2]) {
        for (to, bytes) in self.bytes[lane].iter().zip(bytes) {
            to.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes of all Lua states: those of scripts and those of functions.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        let sum = |which: usize| {
            let lanes = self.bytes.iter();
            lanes.map(|lane| lane[which].load(Ordering::Relaxed)).sum()
        };
        [sum(0), sum(1)]
    }

    /// All functions are gone: no lane holds a Lua state for them, or not for long.
    pub(crate) fn forget_function_bytes(&self) {
        for lane in &self.bytes {
            lane[1].store(0, Ordering::Relaxed);
        }
    }

    /// Whether a script runs, on whatever lane.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Ordering::Relaxed) != IDLE
    }

    /// The right to run a script, when others have ended theirs; or why not.
    pub(crate) fn begin<'a>(&'a self, keyspace: &'a Keyspace) -> Result<Turn<'a>, &'static str> {
        let guard = loop {
            match self.turn.try_lock_for(PATIENCE) {
                Some(guard) => break guard,
                None => self.busy_text().map_or(Ok(()), Err)?,
            }
        };
        self.is_dirty.store(false, Ordering::Relaxed);
        self.is_killed.store(false, Ordering::Relaxed);
        self.state.store(RUNNING, Ordering::SeqCst);
        Ok(Turn {
            scripting: self,
            keyspace,
            guard: Some(guard),
        })
    }

    /// Waits until no script runs. The text of the refusal if one runs for too long.
    pub(crate) fn wait_for_end(&self) -> Result<(), &'static str> {
        while self.is_running() {
            self.busy_text().map_or(Ok(()), Err)?;
            if self.turn.try_lock_for(PATIENCE).is_some() {
                break;
            }
        }
        Ok(())
    }

    /// What everybody is told while a script has run for too long.
    pub(crate) fn busy_text(&self) -> Option<&'static str> {
        match self.state.load(Ordering::Acquire) {
            BUSY_SCRIPT => Some(BUSY_SCRIPT_TEXT),
            BUSY_FUNCTION => Some(BUSY_FUNCTION_TEXT),
            _ => None,
        }
    }

    /// The script has run for too long.
    pub(crate) fn set_busy(&self, form: Form, running: Running) {
        *self.running.lock() = Some(running);
        let state = match form {
            Form::Function => BUSY_FUNCTION,
            Form::Body | Form::Sha1 => BUSY_SCRIPT,
        };
        self.state.store(state, Ordering::SeqCst);
    }

    /// The script writes.
    pub(crate) fn set_dirty(&self) {
        self.is_dirty.store(true, Ordering::SeqCst);
    }

    /// Whether the script that runs is to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// SCRIPT KILL and FUNCTION KILL.
    pub(crate) fn kill(&self, function: bool) -> Result<(), &'static str> {
        // One that has only begun is let end, as where nobody can be heard meanwhile.
        let _ = self.wait_for_end();
        match self.state.load(Ordering::Acquire) {
            IDLE | RUNNING => Err("NOTBUSY No scripts in execution right now."),
            _ if self.is_dirty.load(Ordering::SeqCst) => Err(UNKILLABLE),
            BUSY_SCRIPT if function => Err(BUSY_SCRIPT_TEXT),
            BUSY_FUNCTION if !function => Err(BUSY_FUNCTION_TEXT),
            _ => {
                self.is_killed.store(true, Ordering::SeqCst);
                Ok(())
            }
        }
    }

    /// What runs, if it has run for too long.
    pub(crate) fn running(&self) -> Option<Running> {
        self.running.lock().clone()
    }

    /// Takes keys that are watched no more; their shards are locked now.
    pub(crate) fn unwatch_later(&self, watched: Vec<WatchedKey>) {
        self.unwatched.lock().extend(watched);
    }

    /// What a script says about itself, if it is known and says something.
    pub(crate) fn flags(&self, form: Form, name: &[u8]) -> Option<ScriptFlags> {
        let flags = match form {
            Form::Body => ScriptFlags::of_script(name).ok()?.0,
            Form::Sha1 => self.scripts.find(&Sha1::parse(name)?)?.flags,
            Form::Function => self.libraries.flags(name)?,
        };
        (!flags.has(ScriptFlags::UNDECLARED)).then_some(flags)
    }
}

/// Whether scripts have what Lua has deprecated: the setting `lua-enable-deprecated-api`.
pub(crate) fn has_deprecated(hub: &Hub) -> bool {
    hub.parameters.text("lua-enable-deprecated-api") == "yes"
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let scripting = self.scripting;
        if scripting.busy_text().is_some() {
            *scripting.running.lock() = None;
        }
        scripting.state.store(IDLE, Ordering::SeqCst);
        self.guard = None;
        // Another script may run by now, on another lane: then this waits for its shards.
        for watched in std::mem::take(&mut *scripting.unwatched.lock()) {
            self.keyspace.unwatch(watched);
        }
    }
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const BUSY_SCRIPT: u8 = 2;
const BUSY_FUNCTION: u8 = 3;

/// How long to wait for a script's end before looking again.
const PATIENCE: Duration = Duration::from_millis(2);

const BUSY_SCRIPT_TEXT: &str = "BUSY Redis is busy running a script. You can only call SCRIPT \
                                KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION_TEXT: &str = "BUSY Redis is busy running a script. You can only call FUNCTION \
                                  KILL or SHUTDOWN NOSAVE.";
const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the \
                          dataset. You can either wait the script termination or kill the server \
                          in a hard way using the SHUTDOWN NOSAVE command.";
