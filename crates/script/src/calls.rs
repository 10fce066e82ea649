//! `redis.call` and the run of a script, on Lua's own stack.
//!
//! mlua's safe interface makes a handle for each value that comes out of Lua, and a closure with a
//! userdata for each function that borrows: for one call of a command that is more work than the
//! command. So this file uses Lua's C interface, which is `unsafe`.
//!
//! A Lua error leaves a C function by longjmp, which runs no destructors. Only functions of Lua
//! that allocate or raise can do that. No frame of this file owns anything while it calls one.

mod reading;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, MultiValue, Result};
use tidewire_resp::number::DoubleText;
use tidewire_resp::{ArgumentList, Arguments, Protocol, Writer};

use reading::Reader;

use crate::convert::{COUNTED, TOO_DEEP};
use crate::engine::{MAY_RUN, SET_REPLICATION};
use crate::host::{Failure, Host};
use crate::redis::{TO_FILE, TO_REPLICAS};
use crate::sandbox::Sandbox;

/// The host of the running script, and what its calls need.
pub(crate) struct Calls {
    /// `None`: no script runs, or the host is at work.
    host: Cell<Option<NonNull<dyn Host>>>,
    /// The reply format of the running script.
    pub(crate) protocol: Cell<Protocol>,
    /// The name of the table of functions in errors.
    pub(crate) api: Cell<&'static str>,
    /// A panic of the host, which must not pass through Lua.
    panic: Cell<Option<Box<dyn Any + Send>>>,
    buffers: UnsafeCell<Buffers>,
}

/// Kept to reuse their memory.
#[derive(Default)]
struct Buffers {
    arguments: ArgumentList,
    /// The reply of a command, or the text of an error.
    reply: Vec<u8>,
}

/// What a call gives its script.
enum Answer {
    /// The reply in the buffer.
    Reply,
    Nil,
    Boolean(bool),
    /// The error in the buffer.
    Error {
        is_counted: bool,
    },
}

/// What to run: a number in the table of functions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// Its keys and arguments are globals.
    Script(i64),
    /// It gets them as its arguments.
    Function(i64),
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Calls {
            host: Cell::new(None),
            protocol: Cell::new(Protocol::Resp2),
            api: Cell::new("redis"),
            panic: Cell::new(None),
            buffers: UnsafeCell::default(),
        })
    }

    /// Creates the function `redis.call`.
    pub(crate) fn function(self: &Rc<Self>, lua: &Lua) -> Result<Function> {
        let address = Rc::as_ptr(self).cast_mut().cast::<c_void>();
        // SAFETY: the closure pushes one value, for which `exec_raw` has made room.
        unsafe {
            lua.exec_raw((), |state| {
                ffi::lua_pushlightuserdata(state, address);
                ffi::lua_pushcclosure(state, call, 1);
            })
        }
    }

    /// Lends a host to the script that `run` runs.
    pub(crate) fn lend<R>(&self, host: &mut dyn Host, run: impl FnOnce() -> R) -> R {
        struct Return<'a>(&'a Calls);
        impl Drop for Return<'_> {
            fn drop(&mut self) {
                self.0.host.set(None);
            }
        }
        debug_assert!(self.host.get().is_none(), "one script runs at a time");
        let host: NonNull<dyn Host + '_> = NonNull::from(host);
        // SAFETY: it differs in the lifetime alone. `Return` takes the pointer back before this
        // function returns, while `host` is borrowed.
        let host =
            unsafe { std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host>>(host) };
        self.host.set(Some(host));
        let returned = Return(self);
        let ended = run();
        drop(returned);
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
        ended
    }

    /// Returns whether the running script must end.
    pub(crate) fn is_killed(&self) -> bool {
        self.with_host(|host| host.is_killed()).unwrap_or(false)
    }

    fn with_host<R>(&self, act: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        struct Back<'a>(&'a Calls, NonNull<dyn Host>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.host.set(Some(self.1));
            }
        }
        let mut back = Back(self, self.host.take()?);
        // SAFETY: `lend` borrows it for as long as the pointer is here, and meanwhile it is not
        // here, so that no second reference is made.
        Some(act(unsafe { back.1.as_mut() }))
    }

    /// Answers a call whose arguments are on the stack.
    ///
    /// # Safety
    /// `state` is the state that calls. The buffers are not in use: the only other user is a call
    /// that has not returned, and then the host is away.
    unsafe fn answer(&self, state: *mut lua_State) -> Answer {
        // SAFETY: as the caller says.
        let buffers = unsafe { &mut *self.buffers.get() };
        // SAFETY: these functions look at the stack alone.
        let (count, token) = unsafe {
            let token = match ffi::lua_type(state, 1) {
                ffi::LUA_TLIGHTUSERDATA => ffi::lua_touserdata(state, 1),
                _ => std::ptr::null_mut(),
            };
            (ffi::lua_gettop(state), token)
        };
        if token == SET_REPLICATION.0.0 {
            // SAFETY: it converts the value on the stack, if there is one.
            let flags = unsafe { ffi::lua_tonumber(state, 2) } as i64;
            let to = |flag: i64| flags & flag != 0;
            self.with_host(|host| host.set_replication(to(TO_REPLICAS), to(TO_FILE)));
            return Answer::Nil;
        }
        let asks = token == MAY_RUN.0.0;
        let first = if asks { 2 } else { 1 };
        if count < first {
            return buffers.fail(NO_ARGUMENT);
        }
        buffers.arguments.clear();
        for at in first..=count {
            // SAFETY: `at` is on the stack.
            if !unsafe { push_argument(state, at, &mut buffers.arguments) } {
                return buffers.fail(WRONG_ARGUMENT);
            }
        }
        let Buffers { arguments, reply } = buffers;
        if asks {
            let may = self.with_host(|host| host.may_run(arguments.as_arguments()));
            return match may.flatten() {
                Some(may) => Answer::Boolean(may),
                None => {
                    let api = self.api.get();
                    let text = format!("ERR Invalid command passed to {api}.acl_check_cmd()");
                    buffers.fail(&text)
                }
            };
        }
        reply.clear();
        let protocol = self.protocol.get();
        let called = self.with_host(|host| host.call(arguments.as_arguments(), protocol, reply));
        match called {
            Some(Ok(())) => buffers.answer_of_reply(),
            Some(Err(text)) => {
                buffers.fail(&text);
                Answer::Error { is_counted: true }
            }
            None => buffers.fail("ERR commands are called by scripts that run"),
        }
    }
}

impl Buffers {
    fn fail(&mut self, text: &str) -> Answer {
        self.reply.clear();
        self.reply.extend_from_slice(text.as_bytes());
        Answer::Error { is_counted: false }
    }

    fn answer_of_reply(&mut self) -> Answer {
        let Some((b'-', text)) = self.reply.split_first() else {
            return Answer::Reply;
        };
        let failure = Failure::of_reply(text);
        self.fail(&failure.text);
        Answer::Error { is_counted: true }
    }
}

/// The C function behind `redis.call`.
///
/// # Safety
/// Only Lua calls it, as the closure of [`Calls::function`].
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: the upvalue is the address of the `Calls` that the sandbox keeps until after it has
    // closed the state. While the host is at work no script runs, so that the buffers are free.
    let calls = unsafe { &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast::<Calls>() };
    // SAFETY: as above.
    let answered = catch_unwind(AssertUnwindSafe(|| unsafe { calls.answer(state) }));
    let answer = match answered {
        Ok(answer) => answer,
        Err(panic) => {
            // The script can call nothing more.
            calls.host.set(None);
            calls.panic.set(Some(panic));
            Answer::Nil
        }
    };
    // SAFETY: nothing else uses the buffers until this function has returned. This frame owns
    // nothing.
    unsafe {
        let reply: *const Vec<u8> = &raw const (*calls.buffers.get()).reply;
        let bytes: &[u8] = &*reply;
        ffi::lua_settop(state, 0);
        match answer {
            Answer::Nil => ffi::lua_pushnil(state),
            Answer::Boolean(truth) => ffi::lua_pushboolean(state, c_int::from(truth)),
            Answer::Error { is_counted } => {
                push_error(state, bytes, is_counted);
                ffi::lua_error(state);
            }
            Answer::Reply => {
                if !Reader::new(state, bytes).push(0) {
                    push_error(state, TOO_DEEP.as_bytes(), false);
                    ffi::lua_error(state);
                }
            }
        }
        shrink(calls);
    }
    1
}

/// Frees a buffer that was needed for a long reply.
fn shrink(calls: &Calls) {
    // SAFETY: a call that ends is its only user.
    let reply = unsafe { &mut (*calls.buffers.get()).reply };
    if reply.capacity() > REPLY_BYTES_KEPT {
        *reply = Vec::new();
    }
}

/// Adds the argument at a place of the stack. Returns false if it is neither a string nor a number.
///
/// # Safety
/// There is a value at `at`.
unsafe fn push_argument(state: *mut lua_State, at: c_int, arguments: &mut ArgumentList) -> bool {
    // SAFETY: the value is there. A string stays where it is while it is on the stack, and nothing
    // is converted.
    unsafe {
        match ffi::lua_type(state, at) {
            ffi::LUA_TSTRING => arguments.push(text_at(state, at)),
            ffi::LUA_TNUMBER => push_number(ffi::lua_tonumber(state, at), arguments),
            _ => return false,
        }
    }
    true
}

/// Returns the bytes of the string at a place of the stack.
///
/// # Safety
/// There is a string at `at`, which stays there for as long as the bytes are used.
unsafe fn text_at<'a>(state: *mut lua_State, at: c_int) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: as the caller says.
    unsafe {
        let start = ffi::lua_tolstring(state, at, &raw mut length);
        std::slice::from_raw_parts(start.cast::<u8>(), length)
    }
}

/// Adds a number as Redis formats it: digits if it is an integer, otherwise the shortest text.
fn push_number(number: f64, arguments: &mut ArgumentList) {
    if number.trunc() == number && number.abs() <= EXACT_MAX {
        // Includes -0.
        arguments.push(itoa::Buffer::new().format(number as i64).as_bytes());
    } else if number.is_nan() && number.is_sign_negative() {
        arguments.push(b"-nan");
    } else {
        arguments.push(DoubleText::new(number).as_bytes());
    }
}

/// Pushes a text.
///
/// # Safety
/// The stack has room for a value. The caller's frame owns nothing.
unsafe fn push_text(state: *mut lua_State, text: &[u8]) {
    // SAFETY: as the caller says; Lua copies the bytes.
    unsafe {
        ffi::lua_pushlstring(state, text.as_ptr().cast::<c_char>(), text.len());
    }
}

/// Sets a field of the table below the top to the value at the top, which it takes.
///
/// # Safety
/// Both are there, and the stack has room for two values. The caller's frame owns nothing.
unsafe fn set_field(state: *mut lua_State, name: &str) {
    // SAFETY: as the caller says.
    unsafe {
        push_text(state, name.as_bytes());
        ffi::lua_insert(state, -2);
        ffi::lua_rawset(state, -3);
    }
}

/// Pushes the table that scripts know an error by.
///
/// # Safety
/// The stack has room for three values. The caller's frame owns nothing.
unsafe fn push_error(state: *mut lua_State, text: &[u8], is_counted: bool) {
    // SAFETY: as the caller says.
    unsafe {
        ffi::lua_createtable(state, 0, 2);
        push_text(state, text);
        set_field(state, "err");
        if is_counted {
            ffi::lua_pushboolean(state, 1);
            set_field(state, COUNTED);
        }
    }
}

/// Runs a function with its keys and arguments. Writes its value as the reply if that is no table;
/// otherwise returns whether it succeeded, and its value or error.
pub(crate) fn run(
    sandbox: &Sandbox,
    functions: &mlua::Table,
    job: Job,
    arguments: Arguments<'_>,
    keys: usize,
    reply: &mut Writer<'_>,
) -> Result<MultiValue> {
    let protocol = &sandbox.shared.calls.protocol;
    let run = |state: *mut lua_State| {
        // SAFETY: the three values that `exec_raw` was given are at 1 to 3, and the stack of a C
        // function has room for 17 more. The closure owns nothing.
        unsafe {
            push_table(state, arguments.iter().take(keys), keys);
            let rest = arguments.tail(keys);
            push_table(state, rest.iter(), rest.len());
            let (number, passed) = match job {
                Job::Script(number) => {
                    push_text(state, b"ARGV");
                    ffi::lua_insert(state, -2);
                    ffi::lua_rawset(state, 1);
                    push_text(state, b"KEYS");
                    ffi::lua_insert(state, -2);
                    ffi::lua_rawset(state, 1);
                    (number, 0)
                }
                Job::Function(number) => (number, 2),
            };
            ffi::lua_rawgeti(state, 3, number);
            ffi::lua_insert(state, 4);
            let ended = ffi::lua_pcall(state, passed, 1, 2);
            if ended == 0 && write(state, protocol.get(), reply) {
                ffi::lua_settop(state, 0);
                return;
            }
            ffi::lua_pushboolean(state, c_int::from(ended == 0));
            ffi::lua_replace(state, 1);
            ffi::lua_replace(state, 2);
            ffi::lua_settop(state, 2);
        }
    };
    let given = (&sandbox.globals, &sandbox.on_error, functions);
    // SAFETY: see above. A panic cannot happen in the closure: nothing of it indexes or unwraps.
    unsafe { sandbox.lua.exec_raw(given, run) }
}

/// Writes the value at the top of the stack, unless it is a table or another thing with parts.
///
/// # Safety
/// There is a value.
unsafe fn write(state: *mut lua_State, protocol: Protocol, reply: &mut Writer<'_>) -> bool {
    // SAFETY: the value stays on the stack while its text is used.
    unsafe {
        match ffi::lua_type(state, -1) {
            ffi::LUA_TSTRING => reply.bulk(text_at(state, -1)),
            ffi::LUA_TNUMBER => reply.integer(ffi::lua_tonumber(state, -1) as i64),
            ffi::LUA_TNIL => reply.null(),
            ffi::LUA_TBOOLEAN => match (protocol, ffi::lua_toboolean(state, -1) != 0) {
                (Protocol::Resp3, truth) => reply.boolean(truth),
                (Protocol::Resp2, true) => reply.integer(1),
                (Protocol::Resp2, false) => reply.null(),
            },
            _ => return false,
        }
    }
    true
}

/// Pushes an array of texts.
///
/// # Safety
/// The stack has room for two values. The caller's frame owns nothing.
unsafe fn push_table<'a>(
    state: *mut lua_State,
    texts: impl Iterator<Item = &'a [u8]>,
    count: usize,
) {
    // SAFETY: as the caller says.
    unsafe {
        ffi::lua_createtable(state, c_int::try_from(count).unwrap_or(0), 0);
        for (index, text) in texts.enumerate() {
            push_text(state, text);
            ffi::lua_rawseti(state, -2, index as i64 + 1);
        }
    }
}

/// Integers up to this are formatted digit by digit.
const EXACT_MAX: f64 = (1_u64 << 62) as f64;
/// A longer reply buffer is freed after use.
const REPLY_BYTES_KEPT: usize = 64 << 10;
const NO_ARGUMENT: &str = "ERR Please specify at least one argument for this redis lib call";
const WRONG_ARGUMENT: &str = "ERR Lua redis lib command arguments must be strings or integers";
