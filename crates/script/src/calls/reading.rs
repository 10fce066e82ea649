//! Replies as values of Lua.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use tidewire_resp::number::parse_integer;

use super::{push_text, set_field};
use crate::convert::{COUNTED, DEPTH_MAX};

/// A reader of a reply that this server has written, which pushes what it reads. It owns nothing.
pub(super) struct Reader<'a> {
    state: *mut lua_State,
    reply: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(state: *mut lua_State, reply: &'a [u8]) -> Self {
        Reader {
            state,
            reply,
            at: 0,
        }
    }

    /// Pushes the next value. Returns false if it is too deep.
    ///
    /// # Safety
    /// The callers' frames own nothing.
    pub(super) unsafe fn push(&mut self, depth: usize) -> bool {
        let state = self.state;
        // SAFETY: the room is asked for.
        if depth > DEPTH_MAX || unsafe { ffi::lua_checkstack(state, SLOTS) } == 0 {
            return false;
        }
        let line = self.line();
        let (kind, text) = line
            .split_first()
            .map_or((b'_', line), |(&kind, text)| (kind, text));
        // SAFETY: there is room, and nothing is owned.
        unsafe {
            match kind {
                b':' => ffi::lua_pushnumber(state, parse_integer(text).unwrap_or(0) as f64),
                b'$' => match parse_integer(text) {
                    Some(length @ 0..) => push_text(state, self.bytes(length as usize)),
                    _ => ffi::lua_pushboolean(state, 0),
                },
                b'+' => self.field("ok", text),
                b'-' => push_error_reply(state, text),
                b'*' | b'>' => match parse_integer(text) {
                    Some(count @ 0..) => return self.array(count as usize, depth),
                    _ => ffi::lua_pushboolean(state, 0),
                },
                b'%' => return self.pairs(count_of(text), depth),
                b'~' => return self.members(count_of(text), depth),
                b'#' => ffi::lua_pushboolean(state, c_int::from(text == b"t")),
                b',' => {
                    ffi::lua_createtable(state, 0, 1);
                    ffi::lua_pushnumber(state, double_of(text));
                    set_field(state, "double");
                }
                b'(' => self.field("big_number", text),
                b'=' => self.verbatim(count_of(text)),
                b'|' => {
                    // Scripts do not see attributes; the reply itself follows them.
                    for _ in 0..count_of(text).saturating_mul(2) {
                        if !self.push(depth + 1) {
                            return false;
                        }
                        ffi::lua_settop(state, -2);
                    }
                    return self.push(depth + 1);
                }
                _ => ffi::lua_pushnil(state),
            }
        }
        true
    }

    /// Pushes a table of one field with a text.
    ///
    /// # Safety
    /// As of [`push`](Self::push).
    unsafe fn field(&self, name: &str, text: &[u8]) {
        // SAFETY: as in `push`.
        unsafe {
            ffi::lua_createtable(self.state, 0, 1);
            push_text(self.state, text);
            set_field(self.state, name);
        }
    }

    /// # Safety
    /// As of [`push`](Self::push).
    unsafe fn array(&mut self, count: usize, depth: usize) -> bool {
        // The remaining bytes of the reply limit the initial capacity.
        let room = count.min(self.reply.len() - self.at);
        // SAFETY: as in `push`.
        unsafe {
            ffi::lua_createtable(self.state, c_int::try_from(room).unwrap_or(0), 0);
            for index in 0..count {
                if !self.push(depth + 1) {
                    return false;
                }
                ffi::lua_rawseti(self.state, -2, index as i64 + 1);
            }
        }
        true
    }

    /// # Safety
    /// As of [`push`](Self::push).
    unsafe fn pairs(&mut self, count: usize, depth: usize) -> bool {
        let state = self.state;
        // SAFETY: as in `push`.
        unsafe {
            ffi::lua_createtable(state, 0, 1);
            ffi::lua_createtable(state, 0, 0);
            for _ in 0..count {
                if !(self.push(depth + 1) && self.push(depth + 1)) {
                    return false;
                }
                match ffi::lua_type(state, -2) {
                    ffi::LUA_TNIL => ffi::lua_settop(state, -3),
                    _ => ffi::lua_rawset(state, -3),
                }
            }
            set_field(state, "map");
        }
        true
    }

    /// # Safety
    /// As of [`push`](Self::push).
    unsafe fn members(&mut self, count: usize, depth: usize) -> bool {
        let state = self.state;
        // SAFETY: as in `push`.
        unsafe {
            ffi::lua_createtable(state, 0, 1);
            ffi::lua_createtable(state, 0, 0);
            for _ in 0..count {
                if !self.push(depth + 1) {
                    return false;
                }
                match ffi::lua_type(state, -1) {
                    ffi::LUA_TNIL => ffi::lua_settop(state, -2),
                    _ => {
                        ffi::lua_pushboolean(state, 1);
                        ffi::lua_rawset(state, -3);
                    }
                }
            }
            set_field(state, "set");
        }
        true
    }

    /// # Safety
    /// As of [`push`](Self::push).
    unsafe fn verbatim(&mut self, length: usize) {
        let all = self.bytes(length);
        let (format, text) = (all.get(..3).unwrap_or(all), all.get(4..).unwrap_or(b""));
        // SAFETY: as in `push`.
        unsafe {
            ffi::lua_createtable(self.state, 0, 1);
            ffi::lua_createtable(self.state, 0, 2);
            push_text(self.state, text);
            set_field(self.state, "string");
            push_text(self.state, format);
            set_field(self.state, "format");
            set_field(self.state, "verbatim_string");
        }
    }

    /// Returns the current line without its end.
    fn line(&mut self) -> &'a [u8] {
        let rest = &self.reply[self.at..];
        let length = rest.iter().position(|&byte| byte == b'\r');
        let line = &rest[..length.unwrap_or(rest.len())];
        self.at = (self.at + line.len() + 2).min(self.reply.len());
        line
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let end = self.at.saturating_add(length).min(self.reply.len());
        let bytes = &self.reply[self.at..end];
        self.at = (end + 2).min(self.reply.len());
        bytes
    }
}

/// Pushes the table of an error within a reply. A text of one word gets the code `ERR`.
///
/// # Safety
/// The stack has room for [`SLOTS`] values. The callers' frames own nothing.
unsafe fn push_error_reply(state: *mut lua_State, text: &[u8]) {
    // SAFETY: as the caller says.
    unsafe {
        ffi::lua_createtable(state, 0, 2);
        if text.contains(&b' ') {
            push_text(state, text);
        } else {
            push_text(state, b"ERR ");
            push_text(state, text);
            ffi::lua_concat(state, 2);
        }
        set_field(state, "err");
        ffi::lua_pushboolean(state, 1);
        set_field(state, COUNTED);
    }
}

fn count_of(text: &[u8]) -> usize {
    parse_integer(text).unwrap_or(0).max(0) as usize
}

fn double_of(text: &[u8]) -> f64 {
    let text = std::str::from_utf8(text).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.unwrap_or(f64::NAN)
}

/// Slots of the stack that one value needs while it is pushed.
const SLOTS: c_int = 8;
