//! Lua scripts and function libraries, as in Redis.
//!
//! An [`Engine`] is one Lua state with Redis's sandbox: its globals are read-only, it has no access
//! to files, processes or precompiled code, and `redis.call` calls a [`Host`]. An engine belongs to
//! one thread. Threads share scripts by digest in [`Scripts`] and libraries by name in
//! [`Libraries`].

#![deny(unsafe_code)]

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

#[allow(
    unsafe_code,
    clippy::multiple_unsafe_ops_per_block,
    reason = "a call on Lua's own stack costs a third; its steps are safe together"
)]
mod calls;
mod convert;
mod library;
mod redis;
mod register;
mod sandbox;
mod watch;
