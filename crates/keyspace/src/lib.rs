//! Sharded keys, data types, expiry, and commands as functions over them.
//!
//! A lane finds a request's command with [`resolve`]. It runs commands of [`Run::Data`] with
//! [`Keyspace::execute`], which locks the shards of the command's keys, runs its handler and writes
//! its reply. Once per turn, the lane calls [`Keyspace::expire_due`]. The caller supplies the time:
//! nothing here reads a clock. Even TIME replies the time it is given.
//!
//! ```
//! use tidewire_keyspace::{Keyspace, NullObserver, Options, Outcome, resolve};
//! use tidewire_resp::{ArgumentList, Protocol, Writer};
//!
//! let keyspace = Keyspace::new(Options::default());
//! let mut run = |words: &[&[u8]]| {
//!     let request = ArgumentList::from_slices(words);
//!     let command = resolve(request.as_arguments()).unwrap();
//!     let mut reply = Vec::new();
//!     let mut writer = Writer::new(&mut reply, Protocol::Resp2);
//!     let now_ms = 1_700_000_000_000;
//!     let outcome = keyspace.execute(
//!         command, request.as_arguments(), 0, now_ms, &mut writer, &mut NullObserver,
//!     );
//!     assert!(matches!(outcome, Outcome::Done));
//!     reply
//! };
//! assert_eq!(run(&[b"SET", b"greeting", b"hello"]), b"+OK\r\n");
//! assert_eq!(run(&[b"GET", b"greeting"]), b"$5\r\nhello\r\n");
//! ```
//!
//! Modules, lowest floor first: `entry` (a key and its value in one allocation), `table`
//! (extendible hashing), `wheel` (deadlines), `shard`, `locks`, `view` (the interface for
//! handlers), and `commands`, with one file per data type and the command table.

#![deny(unsafe_code)]

mod command;
pub use command::{Command, Flags, Group, Locks, Run, check_arity, unknown_subcommand_text};

mod waiting;
pub use waiting::{ClientTag, Waiter};

pub mod commands;
pub use commands::{debug_command, lookup, lookup_full, resolve, resolve_after, resolve_part};

mod keyspace;
pub use access::RecordedUse;
pub use keyspace::LIVE_CHANNEL;
pub use keyspace::{
    Census, ExpiredKeys, KeyHash, Keyspace, LazyFreeing, LoadError, LoadOptions, Loaded, Options,
    Outcome, Totals, is_reserved,
};
pub use keyspace::{ElementOf, Evicted, EvictionOrder, EvictionRules, Evictor, WantedKey};

#[allow(unsafe_code, reason = "a mutex implementation requires it")]
mod lock;
#[cfg(not(loom))]
pub use lock::lock_waits;
pub use lock::never_sleep;

pub mod order;

mod key;
pub use key::{DATABASES, SHARDS};

mod locks;
pub use locks::{Locked, ShardSet, Suspended};

mod error;
pub use error::{CommandError, unknown_command_text};

mod mount;
pub use mount::{Bare, Mount, MountChange, MountPush, MountWrite, MountWriter, Pushed};

mod propagation;
pub use propagation::{
    Audience, Log, OFFSET_MAX, Propagation, TooOld, Unit, changes_told_here, units_told_here,
};

mod observer;
pub use observer::{Changer, Event, EventClasses, LiveNames, NullObserver, Observer};

mod fields;
pub use fields::{Fields, FieldsIter};

mod text;
pub use text::Text;

mod value;
pub use value::{Items, Scores, ScoresIter, StreamEntry, ValueRef, ValueType};

mod shard;

pub mod fuzzing;
pub mod glob;

mod access;
mod bitmap;
#[allow(unsafe_code, reason = "prefetching is an intrinsic function")]
mod cache_line;
mod decimal;
mod digest;
mod elements;
mod encoding;
#[allow(unsafe_code, reason = "one allocation a key needs a layout of our own")]
mod entry;
mod gate;
pub use gate::AnyOrder;
mod geohash;
mod hash;
pub use hash::fix_hashes;
mod hyperloglog;
mod integers;
mod interest;
mod lcs;
mod list;
mod packed;
mod quicklist;
mod reclaim;
mod sampling;
mod serial;
pub use serial::{
    CannotHold, FileError, FileReader, FileRecord, FileVersion, KeyRecord, Usage, dump_libraries,
    read_libraries,
};

mod set;
mod snapshot;
pub use snapshot::{Snapshot, SnapshotOptions};

mod sorted_set;
mod stream;
#[allow(unsafe_code, reason = "tags are compared sixteen at a time")]
mod table;
mod view;
mod watch;
pub use watch::WatchedKey;

mod tracked;
pub use tracked::Trackers;

mod wheel;
