//! Observers of changes to keys.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::keyspace::Outcome;
use crate::tracked::Trackers;
use crate::value::ValueRef;
use crate::waiting::Waiter;

/// A set of names of live topics.
pub type LiveNames = HashSet<Box<[u8]>, RandomState>;

/// The cause of a change to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changer {
    /// The command under way.
    Command,
    /// The server itself: the key expired or was evicted, or it can no longer be tracked. A client
    /// whose command merely triggered this does not know about it.
    Server,
}

/// Receives every change to a live topic, in the order of the writes.
///
/// It is called while the key's shard is locked. It must return quickly and never call the
/// keyspace.
pub trait Observer {
    /// Reports a new value of `key` in `database`; `value` is `None` if the key was removed. Not
    /// called for a change of the TTL alone, nor for a collection that has lost its last element:
    /// its removal follows.
    fn changed(&mut self, database: usize, key: &[u8], event: Event, value: Option<ValueRef<'_>>);

    /// Reports an event of a class selected by [`Keyspace::set_notifications`].
    ///
    /// [`Keyspace::set_notifications`]: crate::Keyspace::set_notifications
    fn notified(&mut self, database: usize, key: &[u8], event: Event) {
        let _ = (database, key, event);
    }

    /// Reports any change of a key, if [`Keyspace::set_tracking`] requests it.
    ///
    /// [`Keyspace::set_tracking`]: crate::Keyspace::set_tracking
    fn modified(&mut self, key: &[u8], by: Changer) {
        let _ = (key, by);
    }

    /// Reports that clients must discard their cached values of a key.
    fn invalidated(&mut self, key: &[u8], trackers: &Trackers, by: Changer) {
        let _ = (key, trackers, by);
    }

    /// Reports that many live topics of database 0 changed at once, as with FLUSHALL, SWAPDB or a
    /// new data set. Each of these names has another value now, or none. `changed` is not called
    /// for them.
    fn renewed(&mut self, names: LiveNames) {
        let _ = names;
    }

    /// Reports that all keys of a database were removed: clients must discard their cached values.
    fn flushed(&mut self) {}

    /// Returns the number of the client that tracks the keys read by the command, if any.
    fn reader(&mut self) -> Option<u64> {
        None
    }

    /// Reports that the following changes are made by a client that was waiting, or, with `None`,
    /// again by the command's own client. [`served`](Self::served) is called in between, if the
    /// waiting client got its reply.
    fn serving(&mut self, waiter: Option<&Arc<Waiter>>) {
        let _ = waiter;
    }

    /// Reports the reply of a client that was waiting.
    fn served(&mut self, waiter: &Arc<Waiter>, reply: Vec<u8>, outcome: &Outcome) {
        let _ = (waiter, reply, outcome);
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullObserver;

impl Observer for NullObserver {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}
}

macro_rules! events {
    ($($(#[$doc:meta])* $class:ident $variant:ident = $name:literal,)*) => {
        /// An event on a key, with its name in Redis's keyspace events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[$doc])* $variant,)*
        }

        impl Event {
            /// Returns the name in a `__keyevent@0__:` channel.
            pub fn name(self) -> &'static str {
                match self {
                    $(Event::$variant => $name,)*
                }
            }

            /// Returns the class in `notify-keyspace-events`.
            #[inline]
            pub fn class(self) -> EventClasses {
                match self {
                    $(Event::$variant => EventClasses::$class,)*
                }
            }
        }
    };
}

events! {
    /// SET and its relatives.
    STRING Set = "set",
    /// APPEND.
    STRING Append = "append",
    /// SETRANGE.
    STRING SetRange = "setrange",
    /// INCR, DECR, INCRBY, DECRBY.
    STRING IncrBy = "incrby",
    /// INCRBYFLOAT.
    STRING IncrByFloat = "incrbyfloat",
    /// SETBIT, BITFIELD.
    STRING SetBit = "setbit",
    /// PFADD, PFMERGE.
    STRING HyperLogLogAdd = "pfadd",
    /// HSET, HMSET, HSETNX, HSETEX.
    HASH HashSet = "hset",
    /// HDEL, HGETDEL, or a TTL of a field in the past.
    HASH HashDelete = "hdel",
    /// HINCRBY.
    HASH HashIncrBy = "hincrby",
    /// HINCRBYFLOAT.
    HASH HashIncrByFloat = "hincrbyfloat",
    /// A field's TTL was set.
    HASH HashExpire = "hexpire",
    /// A field's TTL was removed.
    HASH HashPersist = "hpersist",
    /// A field has expired.
    HASH HashExpired = "hexpired",
    /// SADD, SMOVE.
    SET SetAdd = "sadd",
    /// SREM, SMOVE.
    SET SetRemove = "srem",
    /// SPOP.
    SET SetPop = "spop",
    /// SINTERSTORE.
    SET SetIntersectStore = "sinterstore",
    /// SUNIONSTORE.
    SET SetUnionStore = "sunionstore",
    /// SDIFFSTORE.
    SET SetDifferenceStore = "sdiffstore",
    /// LPUSH, LPUSHX, LMOVE, RPOPLPUSH.
    LIST ListPushFirst = "lpush",
    /// RPUSH, RPUSHX, LMOVE.
    LIST ListPushLast = "rpush",
    /// LPOP, LMOVE, LMPOP.
    LIST ListPopFirst = "lpop",
    /// RPOP, LMOVE, RPOPLPUSH, LMPOP.
    LIST ListPopLast = "rpop",
    /// LSET.
    LIST ListSet = "lset",
    /// LINSERT.
    LIST ListInsert = "linsert",
    /// LREM.
    LIST ListRemove = "lrem",
    /// LTRIM.
    LIST ListTrim = "ltrim",
    /// SORT with STORE.
    LIST SortStore = "sortstore",
    /// ZADD, GEOADD.
    SORTED_SET SortedSetAdd = "zadd",
    /// ZINCRBY, ZADD INCR.
    SORTED_SET SortedSetIncrement = "zincr",
    /// ZREM.
    SORTED_SET SortedSetRemove = "zrem",
    /// ZREMRANGEBYRANK.
    SORTED_SET SortedSetRemoveByRank = "zremrangebyrank",
    /// ZREMRANGEBYSCORE.
    SORTED_SET SortedSetRemoveByScore = "zremrangebyscore",
    /// ZREMRANGEBYLEX.
    SORTED_SET SortedSetRemoveByText = "zremrangebylex",
    /// ZPOPMIN, ZMPOP, BZPOPMIN.
    SORTED_SET SortedSetPopMin = "zpopmin",
    /// ZPOPMAX, ZMPOP, BZPOPMAX.
    SORTED_SET SortedSetPopMax = "zpopmax",
    /// ZRANGESTORE.
    SORTED_SET SortedSetRangeStore = "zrangestore",
    /// ZINTERSTORE.
    SORTED_SET SortedSetIntersectStore = "zinterstore",
    /// ZUNIONSTORE.
    SORTED_SET SortedSetUnionStore = "zunionstore",
    /// ZDIFFSTORE.
    SORTED_SET SortedSetDifferenceStore = "zdiffstore",
    /// GEORADIUS with STORE.
    SORTED_SET GeoRadiusStore = "georadiusstore",
    /// GEOSEARCHSTORE.
    SORTED_SET GeoSearchStore = "geosearchstore",
    /// XADD.
    STREAM StreamAdd = "xadd",
    /// XTRIM, XADD that trims.
    STREAM StreamTrim = "xtrim",
    /// XDEL, XDELEX, XACKDEL.
    STREAM StreamDelete = "xdel",
    /// The same for entries before the newest one, which stays.
    STREAM StreamDeleteOlder = "xdel",
    /// XSETID.
    STREAM StreamSetId = "xsetid",
    /// XGROUP CREATE.
    STREAM GroupCreate = "xgroup-create",
    /// XGROUP SETID.
    STREAM GroupSetId = "xgroup-setid",
    /// XGROUP DESTROY.
    STREAM GroupDestroy = "xgroup-destroy",
    /// XGROUP CREATECONSUMER, or the first read by a new consumer.
    STREAM GroupCreateConsumer = "xgroup-createconsumer",
    /// XGROUP DELCONSUMER.
    STREAM GroupDeleteConsumer = "xgroup-delconsumer",
    /// DEL, UNLINK, GETDEL, removal of a collection's last element, or a TTL in the past.
    GENERIC Delete = "del",
    /// The key has expired.
    EXPIRED Expired = "expired",
    /// The key was evicted because memory was full.
    EVICTED Evicted = "evicted",
    /// A TTL was set.
    GENERIC Expire = "expire",
    /// The TTL was removed.
    GENERIC Persist = "persist",
    /// RENAME, the old name.
    GENERIC RenameFrom = "rename_from",
    /// RENAME, the new name.
    GENERIC RenameTo = "rename_to",
    /// COPY, the copy.
    GENERIC CopyTo = "copy_to",
    /// MOVE, in the old database.
    GENERIC MoveFrom = "move_from",
    /// MOVE, in the new database.
    GENERIC MoveTo = "move_to",
    /// RESTORE.
    GENERIC Restore = "restore",
    /// The key is new; reported before the write's own event.
    NEW New = "new",
    /// A missing key was read.
    MISS Miss = "keymiss",
    /// PFCOUNT stored its estimate in the value; Redis has no event for it.
    NONE HyperLogLogCount = "pfcount",
}

impl Event {
    /// Returns the cause of such a change.
    pub(crate) fn changer(self) -> Changer {
        match self {
            Event::Expired | Event::HashExpired | Event::Evicted => Changer::Server,
            _ => Changer::Command,
        }
    }

    /// Returns whether a live topic looks the same as before: only a TTL changed, or a stream's
    /// consumers. Of a stream, only the newest entry is visible.
    pub fn keeps_value(self) -> bool {
        matches!(
            self,
            Event::Expire
                | Event::Persist
                | Event::HashExpire
                | Event::HashPersist
                | Event::StreamSetId
                | Event::StreamDeleteOlder
                | Event::GroupCreate
                | Event::GroupSetId
                | Event::GroupDestroy
                | Event::GroupCreateConsumer
                | Event::GroupDeleteConsumer
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Classes of events and their channels: the setting `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u32);

impl EventClasses {
    /// No class.
    pub const NONE: EventClasses = EventClasses(0);
    /// `K`: channels `__keyspace@<database>__:<key>`.
    pub const KEYSPACE_CHANNELS: EventClasses = EventClasses(1);
    /// `E`: channels `__keyevent@<database>__:<event>`.
    pub const KEYEVENT_CHANNELS: EventClasses = EventClasses(1 << 1);
    /// `g`: events of any type.
    pub const GENERIC: EventClasses = EventClasses(1 << 2);
    /// `$`: string events.
    pub const STRING: EventClasses = EventClasses(1 << 3);
    /// `l`: list events.
    pub const LIST: EventClasses = EventClasses(1 << 4);
    /// `s`: set events.
    pub const SET: EventClasses = EventClasses(1 << 5);
    /// `h`: hash events.
    pub const HASH: EventClasses = EventClasses(1 << 6);
    /// `z`: sorted set events.
    pub const SORTED_SET: EventClasses = EventClasses(1 << 7);
    /// `x`: expired keys.
    pub const EXPIRED: EventClasses = EventClasses(1 << 8);
    /// `e`: evicted keys.
    pub const EVICTED: EventClasses = EventClasses(1 << 9);
    /// `t`: stream events.
    pub const STREAM: EventClasses = EventClasses(1 << 10);
    /// `m`: reads of missing keys.
    pub const MISS: EventClasses = EventClasses(1 << 11);
    /// `d`: module events; there are none.
    pub const MODULE: EventClasses = EventClasses(1 << 12);
    /// `n`: new keys.
    pub const NEW: EventClasses = EventClasses(1 << 13);

    /// `A`: every class but `m` and `n`.
    pub const ALL: EventClasses = EventClasses(0x17FC);

    /// Parses the setting; returns `None` if a letter is unknown.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut classes = Self::NONE;
        for &letter in text {
            let known = LETTERS.iter().find(|(known, _)| *known == letter);
            classes = classes.union(match letter {
                b'A' => Self::ALL,
                _ => known?.1,
            });
        }
        Some(classes)
    }

    /// Returns the setting's text, as CONFIG GET shows it.
    pub fn text(self) -> String {
        let all = self.contains(Self::ALL);
        let mut text = String::from(if all { "A" } else { "" });
        for (letter, class) in LETTERS {
            let shown = self.contains(class) && !(all && Self::ALL.contains(class));
            text.extend(shown.then_some(char::from(letter)));
        }
        text
    }

    /// Returns the classes of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        EventClasses(self.0 | other.0)
    }

    /// Returns whether all classes of the other set are in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any class of the other set is in it.
    #[inline]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        EventClasses(bits)
    }
}

/// The letters in the order in which CONFIG GET shows them.
const LETTERS: [(u8, EventClasses); 14] = [
    (b'g', EventClasses::GENERIC),
    (b'$', EventClasses::STRING),
    (b'l', EventClasses::LIST),
    (b's', EventClasses::SET),
    (b'h', EventClasses::HASH),
    (b'z', EventClasses::SORTED_SET),
    (b'x', EventClasses::EXPIRED),
    (b'e', EventClasses::EVICTED),
    (b't', EventClasses::STREAM),
    (b'd', EventClasses::MODULE),
    (b'K', EventClasses::KEYSPACE_CHANNELS),
    (b'E', EventClasses::KEYEVENT_CHANNELS),
    (b'm', EventClasses::MISS),
    (b'n', EventClasses::NEW),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_formatted_as_in_redis() {
        for (text, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AKEmn", "AKEmn"),
            ("g$lshzxetd", "A"),
            ("Kg", "gK"),
            ("El", "lE"),
        ] {
            let classes = EventClasses::parse(text.as_bytes()).expect(text);
            assert_eq!(classes.text(), shown);
        }
        assert_eq!(EventClasses::parse(b"Kq"), None);
    }
}
