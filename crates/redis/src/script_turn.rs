//! The right to run a script, and what lanes do without it.

use std::sync::atomic::Ordering;

use tidewire_fanout::bits;
use tidewire_lane::monotonic_ns;
use tidewire_script::{Engine, Failure, Purpose};

use crate::activity::Part;
use crate::mail::RedisMail;
use crate::parameters::{BUSY_REPLY_THRESHOLD, LUA_ENABLE_DEPRECATED_API};
use crate::scripting::{IDLE, Later, RUNNING, Scripting};
use crate::server::Server;

/// The right to run a script; it ends with this.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    server: &'a Server,
    lane: usize,
}

impl Scripting {
    /// The right to run a script on a lane that has its own right. `None` while another lane has
    /// it, or does not let its own go in a moment: the client is to be parked.
    pub(crate) fn begin<'a>(
        &self,
        server: &'a Server,
        lane: usize,
        is_function: bool,
    ) -> Option<Turn<'a>> {
        server.turns[lane].doing.part(Part::ScriptBegins);
        if !self.rights.take_all(lane) {
            return None;
        }
        if !server.replication.bar_stream() {
            self.rights.give_back(lane);
            return None;
        }
        debug_assert!(
            self.rights.has(lane),
            "who runs a script has the right of its lane"
        );
        self.begin_one(server, is_function);
        Some(Turn { server, lane })
    }

    /// A script begins: that of a turn, or one of several in a transaction. Each has its own time,
    /// and can be killed unless it has written itself.
    pub(crate) fn begin_one(&self, server: &Server, is_function: bool) {
        debug_assert!(
            self.rights.are_taken(),
            "a script begins once its lane has all rights"
        );
        if self.state.load(Ordering::Relaxed) != RUNNING {
            *self.running.lock() = None;
        }
        self.is_dirty.store(false, Ordering::SeqCst);
        self.is_killed.store(false, Ordering::SeqCst);
        self.is_function.store(is_function, Ordering::Relaxed);
        let busy_at_ns = match server.parameters.read(BUSY_REPLY_THRESHOLD) {
            0 => u64::MAX,
            threshold_ms => monotonic_ns().saturating_add(threshold_ms.saturating_mul(1_000_000)),
        };
        self.busy_at_ns.store(busy_at_ns, Ordering::Relaxed);
        self.state.store(RUNNING, Ordering::SeqCst);
    }
}

/// Makes a Lua state as the parameters have it.
pub(crate) fn new_engine(server: &Server, purpose: Purpose) -> Result<Engine, Failure> {
    let has_deprecated = server.parameters.read(LUA_ENABLE_DEPRECATED_API);
    let engine = Engine::new(purpose, has_deprecated)?;
    if server.follows_valkey() {
        engine.follow_valkey(purpose);
    }
    Ok(engine)
}

impl Server {
    /// Whether a lane may lock shards now. False while a script of another lane holds them.
    pub fn may_lock(&self, lane: usize) -> bool {
        let rights = &self.scripting.rights;
        rights.has(lane) || rights.enter_soon(lane)
    }

    /// A lane has parked a connection that needs shards.
    pub fn wait_to_lock(&self, lane: usize) {
        self.scripting.rights.wait(lane);
    }

    /// Whether a script runs that is likely to end within microseconds.
    pub fn is_in_short_script(&self) -> bool {
        self.scripting.is_running() && self.scripting.busy_text().is_none()
    }

    /// The error that clients get while a script has run for too long, if one has.
    pub fn busy_text(&self) -> Option<&'static str> {
        self.scripting.busy_text()
    }

    /// SCRIPT KILL, or FUNCTION KILL: ends the script that has run for too long.
    ///
    /// # Errors
    /// The text of the refusal: there is none, or it has written.
    pub fn kill_script(&self, is_function: bool) -> Result<(), &'static str> {
        self.scripting.kill(is_function)
    }

    /// Does what a lane has put off, now that it has its right again.
    #[cold]
    pub(crate) fn do_put_off(&self, lane: usize) {
        for later in self.scripting.take_put_off(lane) {
            match later {
                Later::Unwatch(watched) => {
                    watched
                        .into_iter()
                        .for_each(|key| self.keyspace.unwatch(key));
                }
                Later::GiveUp(client) => self.waiting.forget(client, &self.keyspace),
            }
        }
    }

    /// Wakes lanes whose connections wait for the end of a script.
    pub(crate) fn tell_script_over(&self, lanes: u64) {
        debug_assert!(
            lanes.checked_shr(self.mail.lanes() as u32).unwrap_or(0) == 0,
            "only lanes that there are wait"
        );
        for lane in bits(lanes) {
            self.mail.send(lane, RedisMail::ScriptOver);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let scripting = &self.server.scripting;
        debug_assert!(scripting.is_running(), "a turn ends with its script");
        if scripting.busy_text().is_some() {
            *scripting.running.lock() = None;
        }
        scripting.state.store(IDLE, Ordering::SeqCst);
        self.server.replication.unbar_stream();
        let waiting = scripting.rights.owe(self.lane);
        debug_assert_eq!(
            waiting >> self.lane & 1,
            0,
            "a lane does not wait for itself"
        );
        scripting.rights.give_back(self.lane);
        self.server.tell_script_over(waiting);
    }
}
