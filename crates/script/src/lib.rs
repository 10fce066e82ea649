//! Lua scripts and function libraries as Redis runs them.
//!
//! An [`Engine`] is one Lua state with Redis's sandbox in it: its globals cannot be changed, it has
//! no way to files, processes or precompiled code, and `redis.call` leads to a [`Host`]. An engine
//! belongs to one thread; what all threads share (scripts by their digest, libraries by name) is
//! kept in [`Scripts`] and [`Libraries`].

#![forbid(unsafe_code)]

mod engine;
pub use engine::{Engine, Purpose};

mod host;
pub use host::{Failure, Host};

mod flags;
pub use flags::ScriptFlags;

mod libraries;
pub use libraries::{FunctionInfo, Libraries, Library, LibrarySet, RestorePolicy};

mod scripts;
pub use scripts::{Script, Scripts};

mod sha1;
pub use sha1::Sha1;

mod convert;
mod library;
mod redis;
mod register;
mod sandbox;
mod watch;
