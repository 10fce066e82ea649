//! Stops scripts on request, and lets their lane serve other clients while they run.
//!
//! Lua calls a hook after a number of instructions. A single instruction may run for long if it
//! calls a library function. So these functions report their steps ([`spend`]), which checks too.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::debug::{Debug, DebugEvent};
use mlua::{HookTriggers, Lua, Result, VmState};

use crate::redis::raise;
use crate::sandbox::{Shared, may_end};

/// The state of the checks whether a script must end.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Rc<Shared>,
    /// Number of steps until the next check.
    left: Cell<usize>,
    /// Time of the last check.
    looked: Cell<Instant>,
    /// Time of the last call of the hook.
    hooked: Cell<Instant>,
    /// Whether instructions are slow, so that the hook is called more often.
    is_slow: Cell<bool>,
}

/// Starts to watch a Lua state.
pub(crate) fn begin(lua: &Lua, shared: &Rc<Shared>) -> Result<()> {
    let watch = Rc::new(Watch {
        shared: shared.clone(),
        left: Cell::new(STEPS),
        looked: Cell::new(Instant::now()),
        hooked: Cell::new(Instant::now()),
        is_slow: Cell::new(false),
    });
    lua.set_app_data(watch.clone());
    watch.install(lua)
}

/// Resumes watching after a script was ended.
pub(crate) fn resume(lua: &Lua) -> Result<()> {
    let watch = lua.app_data_ref::<Rc<Watch>>().map(|watch| watch.clone());
    watch.map_or(Ok(()), |watch| watch.install(lua))
}

/// Reports `steps` steps of a library function, about a nanosecond each. An error ends the script.
#[inline]
pub(crate) fn spend(lua: &Lua, steps: usize) -> Result<()> {
    if steps < STEPS_REPORTED_MIN {
        return Ok(());
    }
    look(lua, steps)
}

/// A counter of the elements that a library function has processed.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    lua: &'a Lua,
    left: Cell<u32>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(lua: &'a Lua) -> Self {
        let left = Cell::new(ELEMENTS);
        Meter { lua, left }
    }

    /// Counts another element.
    #[inline]
    pub(crate) fn tick(&self) -> Result<()> {
        match self.left.get() {
            0 => {
                self.left.set(ELEMENTS);
                spend(self.lua, ELEMENTS as usize * STEPS_PER_ELEMENT)
            }
            left => {
                self.left.set(left - 1);
                Ok(())
            }
        }
    }
}

fn look(lua: &Lua, steps: usize) -> Result<()> {
    let watch = lua.app_data_ref::<Rc<Watch>>().map(|watch| watch.clone());
    match watch {
        Some(watch) => watch.spend(lua, steps),
        None => Ok(()),
    }
}

impl Watch {
    fn spend(&self, lua: &Lua, steps: usize) -> Result<()> {
        if let Some(left) = self.left.get().checked_sub(steps) {
            self.left.set(left);
            return Ok(());
        }
        self.left.set(STEPS);
        if steps >= STEPS_SLOW {
            // The code that built such a large value may process it further without calling a
            // function.
            self.be_slow(lua, true)?;
        }
        match self.verdict()? {
            Some(text) => {
                end_at_each_line(lua, text)?;
                Err(raise(text))
            }
            None => Ok(()),
        }
    }

    /// Returns why the script must end, if it must.
    fn verdict(&self) -> Result<Option<&'static str>> {
        self.looked.set(Instant::now());
        let shared = &self.shared;
        if let Some(deadline) = shared.load_deadline.get() {
            if Instant::now() < deadline {
                return Ok(None);
            }
            shared.is_killed.set(true);
            return Ok(Some(LOAD_TIMEOUT));
        } else if !shared.is_killed.get() {
            // Outside of a run, no script can be ended.
            if !shared.calls.is_killed() {
                return Ok(None);
            }
            shared.is_killed.set(true);
        }
        Ok(Some(shared.killed.get()))
    }

    fn install(self: &Rc<Self>, lua: &Lua) -> Result<()> {
        let watch = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(match self.is_slow.get() {
            true => INSTRUCTIONS_SLOW,
            false => INSTRUCTIONS,
        });
        lua.set_global_hook(triggers, move |lua, place| {
            let now = Instant::now();
            let is_due = now - watch.looked.get() >= CHECK_INTERVAL || watch.shared.is_killed.get();
            if is_due && let Some(text) = watch.verdict()? {
                end_at_each_line(lua, text)?;
                return end(place, text);
            }
            let elapsed = now - watch.hooked.replace(now);
            if watch.is_slow.get() && elapsed < QUICK {
                watch.be_slow(lua, false)?;
            } else if elapsed > SLOW {
                watch.be_slow(lua, true)?;
            }
            Ok(VmState::Continue)
        })
    }

    fn be_slow(&self, lua: &Lua, is_slow: bool) -> Result<()> {
        self.hooked.set(Instant::now());
        if self.is_slow.replace(is_slow) == is_slow {
            return Ok(());
        }
        resume(lua)
    }
}

/// Ends the script at each of its lines from now on, so that no `pcall` keeps it alive.
fn end_at_each_line(lua: &Lua, text: &'static str) -> Result<()> {
    lua.set_global_hook(HookTriggers::EVERY_LINE, move |lua, place| {
        if place.event() == DebugEvent::Count {
            // Another coroutine, whose hook still counts instructions.
            end_at_each_line(lua, text)?;
        }
        end(place, text)
    })
}

/// Ends a script at its current position, unless that is in the code that runs it and would report
/// the outcome.
fn end(place: &Debug<'_>, text: &'static str) -> Result<VmState> {
    let source = place.source().source;
    match source.is_some_and(|source| may_end(&source)) {
        true => Err(raise(text)),
        false => Ok(VmState::Continue),
    }
}

/// Minimum time between two checks of the hook.
const CHECK_INTERVAL: Duration = Duration::from_micros(400);
/// Number of instructions between two calls of the hook: a few dozen microseconds.
const INSTRUCTIONS: u32 = 10_000;
/// The same while each instruction processes something large.
const INSTRUCTIONS_SLOW: u32 = 10;
/// Time between two calls of the hook above which instructions count as slow.
const SLOW: Duration = Duration::from_millis(10);
const QUICK: Duration = Duration::from_micros(50);
/// Number of steps between two checks in library functions.
const STEPS: usize = 400_000;
/// Fewer steps of one call are covered by counting its instruction.
const STEPS_REPORTED_MIN: usize = 2_000;
/// Number of elements between two reports, and the steps of each element.
const ELEMENTS: u32 = 1_000;
const STEPS_PER_ELEMENT: usize = 150;
/// Number of steps from which a call counts as processing something large.
const STEPS_SLOW: usize = 8_000_000;
const LOAD_TIMEOUT: &str = "ERR FUNCTION LOAD timeout";
pub(crate) const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";
/// The same for a function, with Valkey's rules.
pub(crate) const FUNCTION_KILLED: &str = "ERR Script killed by user with FUNCTION KILL...";
