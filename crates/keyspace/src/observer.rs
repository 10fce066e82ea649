//! Observers of changes to keys.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::keyspace::Outcome;
use crate::tracked::Trackers;
use crate::value::ValueRef;
use crate::waiting::Waiter;

/// Names of live topics.
pub type LiveNames = HashSet<Box<[u8]>, RandomState>;

/// Who has changed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changer {
    /// The command under way.
    Command,
    /// The server by itself: the key's time came, it made room, or it cannot keep track. A client
    /// whose command only came across that does not know it.
    Server,
}

/// Hears of every change to a live topic, in the order of the writes.
///
/// It is called while the key's shard is locked: it takes note and returns, and never calls back.
pub trait Observer {
    /// `key` of `database` has another value; `value` is what it holds now, `None` if it is gone.
    /// Changes of deadlines alone are not told, nor is a collection that has lost its last element:
    /// its removal follows.
    fn changed(&mut self, database: usize, key: &[u8], event: Event, value: Option<ValueRef<'_>>);

    /// Something of a class that [`Keyspace::set_notifications`] asks for happened to a key.
    ///
    /// [`Keyspace::set_notifications`]: crate::Keyspace::set_notifications
    fn notified(&mut self, database: usize, key: &[u8], event: Event) {
        let _ = (database, key, event);
    }

    /// Any change of a key, if [`Keyspace::set_tracking`] asks for it.
    ///
    /// [`Keyspace::set_tracking`]: crate::Keyspace::set_tracking
    fn modified(&mut self, key: &[u8], by: Changer) {
        let _ = (key, by);
    }

    /// Clients that had read a key must not use what they read any more.
    fn invalidated(&mut self, key: &[u8], trackers: &Trackers, by: Changer) {
        let _ = (key, trackers, by);
    }

    /// Many live topics of database 0 changed at once, as FLUSHALL, SWAPDB and a new set of keys
    /// change them. Each of these names has another value now, or none. `changed` is not called
    /// for them.
    fn renewed(&mut self, names: LiveNames) {
        let _ = names;
    }

    /// All keys of a database are gone: clients must not use what they have read.
    fn flushed(&mut self) {}

    /// The client that is to hear of changes of what the command has read, by number.
    fn reader(&mut self) -> Option<u64> {
        None
    }

    /// The changes that follow are made by a client that waited; with `None`, by the same client
    /// as before. [`served`](Self::served) comes in between, if the client has its reply.
    fn serving(&mut self, waiter: Option<&Arc<Waiter>>) {
        let _ = waiter;
    }

    /// A client that waited has its reply.
    fn served(&mut self, waiter: &Arc<Waiter>, reply: Vec<u8>, outcome: &Outcome) {
        let _ = (waiter, reply, outcome);
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullObserver;

impl Observer for NullObserver {
    fn changed(&mut self, _: usize, _: &[u8], _: Event, _: Option<ValueRef<'_>>) {}
}

macro_rules! events {
    ($($(#[$doc:meta])* $class:ident $variant:ident = $name:literal,)*) => {
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

            /// The class that `notify-keyspace-events` switches.
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
    /// HDEL, HGETDEL, a field's deadline in the past.
    HASH HashDelete = "hdel",
    /// HINCRBY.
    HASH HashIncrBy = "hincrby",
    /// HINCRBYFLOAT.
    HASH HashIncrByFloat = "hincrbyfloat",
    /// A field's deadline was set.
    HASH HashExpire = "hexpire",
    /// A field's deadline was taken away.
    HASH HashPersist = "hpersist",
    /// A field's deadline came.
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
    /// The same of entries before the newest one, which stays.
    STREAM StreamDeleteOlder = "xdel",
    /// XSETID.
    STREAM StreamSetId = "xsetid",
    /// XGROUP CREATE.
    STREAM GroupCreate = "xgroup-create",
    /// XGROUP SETID.
    STREAM GroupSetId = "xgroup-setid",
    /// XGROUP DESTROY.
    STREAM GroupDestroy = "xgroup-destroy",
    /// XGROUP CREATECONSUMER, or the first read by a name.
    STREAM GroupCreateConsumer = "xgroup-createconsumer",
    /// XGROUP DELCONSUMER.
    STREAM GroupDeleteConsumer = "xgroup-delconsumer",
    /// DEL, UNLINK, GETDEL, a collection's last element, a deadline in the past.
    GENERIC Delete = "del",
    /// The deadline came.
    EXPIRED Expired = "expired",
    /// The key was evicted because memory was full.
    EVICTED Evicted = "evicted",
    /// A deadline was set.
    GENERIC Expire = "expire",
    /// The deadline was taken away.
    GENERIC Persist = "persist",
    /// RENAME, the old name.
    GENERIC RenameFrom = "rename_from",
    /// RENAME, the new name.
    GENERIC RenameTo = "rename_to",
    /// COPY, the copy.
    GENERIC CopyTo = "copy_to",
    /// MOVE, the old place.
    GENERIC MoveFrom = "move_from",
    /// MOVE, the new place.
    GENERIC MoveTo = "move_to",
    /// RESTORE.
    GENERIC Restore = "restore",
    /// The key was not there before; told ahead of the write's own event.
    NEW New = "new",
    /// A key was read that is not there.
    MISS Miss = "keymiss",
    /// PFCOUNT kept its estimate in the value; Redis has no event for it.
    NONE HyperLogLogCount = "pfcount",
}

impl Event {
    /// Who makes such a change.
    pub(crate) fn changer(self) -> Changer {
        match self {
            Event::Expired | Event::HashExpired | Event::Evicted => Changer::Server,
            _ => Changer::Command,
        }
    }

    /// Whether what a live topic shows is the same as before: only a deadline has changed, or what
    /// is known of readers. Of a stream only its newest entry is shown.
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

/// Classes of events and the channels that tell of them: the setting `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u32);

impl EventClasses {
    /// Nothing.
    pub const NONE: EventClasses = EventClasses(0);
    /// `K`: channels `__keyspace@<database>__:<key>`.
    pub const KEYSPACE_CHANNELS: EventClasses = EventClasses(1);
    /// `E`: channels `__keyevent@<database>__:<event>`.
    pub const KEYEVENT_CHANNELS: EventClasses = EventClasses(1 << 1);
    /// `g`: of any type.
    pub const GENERIC: EventClasses = EventClasses(1 << 2);
    /// `$`: of strings.
    pub const STRING: EventClasses = EventClasses(1 << 3);
    /// `l`: of lists.
    pub const LIST: EventClasses = EventClasses(1 << 4);
    /// `s`: of sets.
    pub const SET: EventClasses = EventClasses(1 << 5);
    /// `h`: of hashes.
    pub const HASH: EventClasses = EventClasses(1 << 6);
    /// `z`: of sorted sets.
    pub const SORTED_SET: EventClasses = EventClasses(1 << 7);
    /// `x`: deadlines that came.
    pub const EXPIRED: EventClasses = EventClasses(1 << 8);
    /// `e`: evicted keys.
    pub const EVICTED: EventClasses = EventClasses(1 << 9);
    /// `t`: of streams.
    pub const STREAM: EventClasses = EventClasses(1 << 10);
    /// `m`: reads of keys that are not there.
    pub const MISS: EventClasses = EventClasses(1 << 11);
    /// `d`: of modules, which there are none of.
    pub const MODULE: EventClasses = EventClasses(1 << 12);
    /// `n`: new keys.
    pub const NEW: EventClasses = EventClasses(1 << 13);

    /// `A`: every class but `m` and `n`.
    pub const ALL: EventClasses = EventClasses(0x17FC);

    /// Reads the setting; `None` if a letter means nothing.
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

    /// The setting's text, as CONFIG GET shows it.
    pub fn text(self) -> String {
        let all = self.contains(Self::ALL);
        let mut text = String::from(if all { "A" } else { "" });
        for (letter, class) in LETTERS {
            let shown = self.contains(class) && !(all && Self::ALL.contains(class));
            text.extend(shown.then_some(char::from(letter)));
        }
        text
    }

    /// Both sets' classes.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        EventClasses(self.0 | other.0)
    }

    /// Whether all of the other's classes are in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of the other's classes is in it.
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

/// In the order in which CONFIG GET shows them.
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
    fn the_setting_reads_back_as_redis_shows_it() {
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
