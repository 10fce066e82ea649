//! Scripts as shared by all lanes: the cached ones, and the running one.
//!
//! A script may need every shard, so that only one runs at a time. Before it locks any, its lane
//! takes the [rights](crate::rights) of all other lanes. What comes to those meanwhile is parked
//! for `busy-reply-threshold` at most: after that every client gets -BUSY.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tidewire_keyspace::WatchedKey;
use tidewire_lane::monotonic_ns;
use tidewire_resp::ArgumentList;
use tidewire_script::{Libraries, ScriptFlags, Scripts, Sha1};

use crate::rights::Rights;

/// Scripts and functions, and the one that runs.
#[derive(Debug, Default)]
pub(crate) struct Scripting {
    pub(crate) scripts: Scripts,
    pub(crate) libraries: Libraries,
    /// Which lanes may lock shards.
    pub(crate) rights: Rights,
    /// One of the constants below.
    pub(crate) state: AtomicU8,
    /// When what runs has run for too long, monotonic ns. Its lane may be in one long call and not
    /// notice.
    pub(crate) busy_at_ns: AtomicU64,
    /// The script is a function.
    pub(crate) is_function: AtomicBool,
    /// The script has written, and cannot be undone.
    pub(crate) is_dirty: AtomicBool,
    /// SCRIPT KILL has come.
    pub(crate) is_killed: AtomicBool,
    /// The script that has run for too long, if one has.
    pub(crate) running: Mutex<Option<LongScript>>,
    /// Work that each lane has put off because it had no right to lock shards.
    pub(crate) put_off: Vec<PutOff>,
    /// Bytes of each lane's Lua states, of scripts and of functions, as last seen.
    pub(crate) bytes: Vec<[AtomicU64; 2]>,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS: scripts may call any command.
    pub(crate) allows_all: AtomicBool,
}

/// A script that has run for too long.
#[derive(Clone, Debug)]
pub(crate) struct LongScript {
    pub(crate) name: String,
    pub(crate) request: ArgumentList,
    pub(crate) started: Instant,
}

/// Work that a lane does when it has its right again.
#[derive(Debug)]
pub(crate) enum Later {
    /// These keys are watched no more.
    Unwatch(Vec<WatchedKey>),
    /// This client, which waited for a key, has left.
    GiveUp(u64),
}

#[derive(Debug, Default)]
pub(crate) struct PutOff {
    is_some: AtomicBool,
    list: Mutex<Vec<Later>>,
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
            rights: Rights::new(lanes),
            put_off: (0..lanes).map(|_| PutOff::default()).collect(),
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

    /// Whether a script runs, on any lane.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Ordering::Relaxed) != IDLE
    }

    /// The error that all clients get while a script has run for too long.
    pub(crate) fn busy_text(&self) -> Option<&'static str> {
        match self.state() {
            BUSY_SCRIPT => Some(BUSY_SCRIPT_TEXT),
            BUSY_FUNCTION => Some(BUSY_FUNCTION_TEXT),
            _ => None,
        }
    }

    fn state(&self) -> u8 {
        match self.state.load(Ordering::Acquire) {
            RUNNING if monotonic_ns() >= self.busy_at_ns.load(Ordering::Relaxed) => {
                match self.is_function.load(Ordering::Relaxed) {
                    true => BUSY_FUNCTION,
                    false => BUSY_SCRIPT,
                }
            }
            state => state,
        }
    }

    /// The script has run for too long.
    pub(crate) fn set_busy(&self, form: Form, running: LongScript) {
        debug_assert_eq!(
            self.state.load(Ordering::Relaxed),
            RUNNING,
            "a script is announced as busy once"
        );
        debug_assert_eq!(
            form == Form::Function,
            self.is_function.load(Ordering::Relaxed),
            "a script is announced as what it was begun as"
        );
        *self.running.lock() = Some(running);
        let state = match form {
            Form::Function => BUSY_FUNCTION,
            Form::Body | Form::Sha1 => BUSY_SCRIPT,
        };
        self.state.store(state, Ordering::SeqCst);
    }

    /// Whether a script runs of which [`running`](Self::running) does not tell: it is young, or its
    /// lane has not noticed yet that it has run for too long.
    pub(crate) fn is_unannounced(&self) -> bool {
        self.is_running() && self.running.lock().is_none()
    }

    /// Whether a script runs that has not run for too long.
    pub(crate) fn is_young(&self) -> bool {
        self.state() == RUNNING
    }

    /// The script writes.
    pub(crate) fn set_dirty(&self) {
        debug_assert!(self.is_running(), "only a script that runs writes");
        self.is_dirty.store(true, Ordering::SeqCst);
    }

    /// Whether the script that runs has written.
    pub(crate) fn has_written(&self) -> bool {
        self.is_dirty.load(Ordering::SeqCst)
    }

    /// Whether the script that runs is to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::SeqCst)
    }

    /// SCRIPT KILL and FUNCTION KILL. A script that has only begun is not seen: while one of
    /// another lane runs, the command is parked until it ends or has run for too long.
    pub(crate) fn kill(&self, function: bool) -> Result<(), &'static str> {
        match self.state() {
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

    /// Returns the script that runs, if it has run for too long.
    pub(crate) fn running(&self) -> Option<LongScript> {
        self.running.lock().clone()
    }

    /// Whether a script runs that has not written: the end of the process kills it. One that has
    /// written may end by itself.
    pub(crate) fn kill_to_stop(&self) -> bool {
        let runs = self.state.load(Ordering::Acquire) != IDLE;
        if runs && !self.is_dirty.load(Ordering::SeqCst) {
            self.is_killed.store(true, Ordering::SeqCst);
        }
        runs
    }

    /// Leaves something for when a lane has its right again.
    pub(crate) fn put_off(&self, lane: usize, later: Later) {
        debug_assert!(
            !self.rights.has(lane),
            "who may lock shards does it at once"
        );
        let put_off = &self.put_off[lane];
        put_off.list.lock().push(later);
        put_off.is_some.store(true, Ordering::Release);
    }

    /// Whether a lane has put something off.
    #[inline]
    pub(crate) fn has_put_off(&self, lane: usize) -> bool {
        self.put_off[lane].is_some.load(Ordering::Relaxed)
    }

    /// Takes what a lane has put off; it has its right again.
    pub(crate) fn take_put_off(&self, lane: usize) -> Vec<Later> {
        debug_assert!(
            self.rights.holds(lane),
            "what was put off needs the right to lock shards"
        );
        let put_off = &self.put_off[lane];
        put_off.is_some.store(false, Ordering::Relaxed);
        std::mem::take(&mut *put_off.list.lock())
    }

    /// Returns the flags that a known script declares, if it declares any.
    pub(crate) fn flags(&self, form: Form, name: &[u8]) -> Option<ScriptFlags> {
        let flags = match form {
            Form::Body => ScriptFlags::of_script(name).ok()?.0,
            Form::Sha1 => self.scripts.find(&Sha1::parse(name)?)?.flags,
            Form::Function => self.libraries.flags(name)?,
        };
        (!flags.has(ScriptFlags::UNDECLARED)).then_some(flags)
    }
}

pub(crate) const IDLE: u8 = 0;
pub(crate) const RUNNING: u8 = 1;
pub(crate) const BUSY_SCRIPT: u8 = 2;
pub(crate) const BUSY_FUNCTION: u8 = 3;

const BUSY_SCRIPT_TEXT: &str = "BUSY Redis is busy running a script. You can only call SCRIPT \
                                KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION_TEXT: &str = "BUSY Redis is busy running a script. You can only call FUNCTION \
                                  KILL or SHUTDOWN NOSAVE.";
const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the \
                          dataset. You can either wait the script termination or kill the server \
                          in a hard way using the SHUTDOWN NOSAVE command.";
