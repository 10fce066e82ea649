//! Who hears of changes to live topics.

use std::fmt;

use crate::value::ValueRef;

/// Hears of every change to a live topic, in the order of the writes.
///
/// It is called while the key's shard is locked: it takes note and returns, and never calls back.
pub trait Observer {
    /// `key` of `database` changed; `value` is what it holds now, `None` if it is gone.
    fn changed(&mut self, database: usize, key: &[u8], event: Event, value: Option<ValueRef<'_>>);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullObserver;

impl Observer for NullObserver {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What happened to a key, named as Redis's keyspace events are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[$doc])* $variant,)*
        }

        impl Event {
            /// The name in a `__keyevent@0__:` channel.
            pub fn name(self) -> &'static str {
                match self {
                    $(Event::$variant => $name,)*
                }
            }
        }
    };
}

events! {
    /// SET and its relatives.
    Set = "set",
    /// APPEND.
    Append = "append",
    /// SETRANGE.
    SetRange = "setrange",
    /// INCR, DECR, INCRBY, DECRBY.
    IncrBy = "incrby",
    /// INCRBYFLOAT.
    IncrByFloat = "incrbyfloat",
    /// HSET, HMSET, HSETNX.
    HashSet = "hset",
    /// HDEL.
    HashDelete = "hdel",
    /// HINCRBY.
    HashIncrBy = "hincrby",
    /// HINCRBYFLOAT.
    HashIncrByFloat = "hincrbyfloat",
    /// SADD, SMOVE.
    SetAdd = "sadd",
    /// SREM, SMOVE.
    SetRemove = "srem",
    /// SPOP.
    SetPop = "spop",
    /// SINTERSTORE.
    SetIntersectStore = "sinterstore",
    /// SUNIONSTORE.
    SetUnionStore = "sunionstore",
    /// SDIFFSTORE.
    SetDifferenceStore = "sdiffstore",
    /// LPUSH, LPUSHX, LMOVE, RPOPLPUSH.
    ListPushFirst = "lpush",
    /// RPUSH, RPUSHX, LMOVE.
    ListPushLast = "rpush",
    /// LPOP, LMOVE, LMPOP.
    ListPopFirst = "lpop",
    /// RPOP, LMOVE, RPOPLPUSH, LMPOP.
    ListPopLast = "rpop",
    /// LSET.
    ListSet = "lset",
    /// LINSERT.
    ListInsert = "linsert",
    /// LREM.
    ListRemove = "lrem",
    /// LTRIM.
    ListTrim = "ltrim",
    /// DEL, UNLINK, GETDEL, a collection's last element, a deadline in the past.
    Delete = "del",
    /// The deadline came.
    Expired = "expired",
    /// A deadline was set.
    Expire = "expire",
    /// The deadline was taken away.
    Persist = "persist",
    /// RENAME, the old name.
    RenameFrom = "rename_from",
    /// RENAME, the new name.
    RenameTo = "rename_to",
    /// COPY, the copy.
    CopyTo = "copy_to",
    /// MOVE, the old place.
    MoveFrom = "move_from",
    /// MOVE, the new place.
    MoveTo = "move_to",
    /// FLUSHDB, FLUSHALL; Redis has no event for it.
    Flush = "flushdb",
    /// SWAPDB; Redis has no event for it.
    Swap = "swapdb",
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
