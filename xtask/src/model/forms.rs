//! The tested commands as forms, in which capital letters stand for random words.
//!
//! | letter | word |
//! |---|---|
//! | `K` | a key, mostly of the table's own type |
//! | `J` | a key of any type |
//! | `V` | a value: numbers, texts, nothing |
//! | `N` | an integer at the edges, or no integer |
//! | `S` | a small integer, sometimes negative |
//! | `I` | an integer |
//! | `F` | a field or a member |
//! | `W` | a score |
//! | `R` | a bound of scores |
//! | `X` | a bound of members |
//! | `T` | an absolute expiry time in seconds, far away |
//! | `P` | an absolute expiry time in milliseconds, far away |
//! | `E` | a TTL, long or none |
//! | `D` | the id of a stream's entry |
//! | `Q` | a consumer group |
//! | `C` | a consumer |
//! | `G` | a longitude and a latitude |
//! | `U` | a unit of distance |
//! | `B` | the place of a bit |
//! | `Y` | the type of a bit field |
//! | `M` | a pattern |
//!
//! `F,W*30` stands for thirty pairs. A form that begins with `8` needs Redis 8, one that begins
//! with `8.6` needs that.

mod streams;
mod table;

use streams::{PRODUCED, STREAMS};
use table::{
    BITS, COUNTS, FIELD_DEADLINES, HASHES, KEYS, LISTS, NAMES, PLACES, SETS, SORTED_SETS, SORTS,
    STRINGS,
};

/// The commands of one type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// The prefix of its keys' names.
    pub(crate) name: &'static str,
    /// Whether these commands are used only with these keys, and no others are.
    pub(crate) alone: bool,
    pub(crate) forms: &'static [&'static str],
}

/// By type; all are equally likely.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "string",
        alone: false,
        forms: STRINGS,
    },
    Table {
        name: "bits",
        alone: false,
        forms: BITS,
    },
    Table {
        name: "count",
        // No rule says how an estimate that another type wrote is read.
        alone: true,
        forms: COUNTS,
    },
    Table {
        name: "hash",
        alone: false,
        forms: HASHES,
    },
    Table {
        name: "fields",
        alone: false,
        forms: FIELD_DEADLINES,
    },
    Table {
        name: "list",
        alone: false,
        forms: LISTS,
    },
    Table {
        name: "set",
        alone: false,
        forms: SETS,
    },
    Table {
        name: "sorted",
        alone: false,
        forms: SORTED_SETS,
    },
    Table {
        name: "name",
        // Ranges of names are defined only if all scores are equal.
        alone: true,
        forms: NAMES,
    },
    Table {
        name: "place",
        // No rule says how a place that does not exist is read.
        alone: true,
        forms: PLACES,
    },
    Table {
        name: "stream",
        alone: false,
        forms: STREAMS,
    },
    Table {
        name: "produced",
        // The ids that a server makes follow those that were given, which are in the far future.
        alone: true,
        forms: PRODUCED,
    },
    Table {
        name: "sort",
        // Redis's SORT converts a small sorted set to the large encoding, which is visible
        // afterwards.
        alone: true,
        forms: SORTS,
    },
    Table {
        name: "string",
        alone: false,
        forms: KEYS,
    },
];

/// Commands for all keys.
pub(crate) const EVERYWHERE: &[&str] = &[
    "DBSIZE",
    "KEYS *",
    "KEYS M",
    "SCAN 0 COUNT 100000",
    "SCAN 0 COUNT 100000 MATCH M",
    "SCAN 0 COUNT 100000 TYPE list",
    "SCAN 0 COUNT 100000 TYPE hash MATCH M",
    "SCAN 0 COUNT 100000 TYPE zset",
    "SCAN 0 COUNT 100000 TYPE stream",
    "SCAN 0 COUNT 100000 TYPE nosuch",
    "SCAN 0 COUNT 0",
    "SCAN x",
    "SCAN 0 BOGUS 1",
    "SWAPDB 0 1",
    "SWAPDB 0 x",
    "SWAPDB 0 99",
    "FLUSHDB BOGUS",
    "WAIT 0 1",
    "NOSUCH K V",
    "GET",
    "ECHO V",
    "PING V",
    "PING V V",
];

/// Commands that wait; inside a transaction they never do.
pub(crate) const WAITING: &[(&str, &[&str])] = &[
    (
        "list",
        &[
            "BLPOP K K 0",
            "BRPOP K K 0",
            "BLPOP K -1",
            "BRPOP K x",
            "BLMOVE K K LEFT RIGHT 0",
            "BLMOVE K K RIGHT LEFT 0.5",
            "BRPOPLPUSH K K 0",
            "BLMPOP 0 2 K K LEFT",
            "BLMPOP 0 1 K RIGHT COUNT S",
            "BLMPOP x 1 K RIGHT",
        ],
    ),
    (
        "sorted",
        &[
            "BZPOPMIN K K 0",
            "BZPOPMAX K K 0",
            "BZPOPMAX K -1",
            "BZMPOP 0 2 K K MIN",
            "BZMPOP 0 1 K MAX COUNT S",
        ],
    ),
    (
        "stream",
        &[
            "XREAD BLOCK 0 STREAMS K $",
            "XREAD COUNT 2 BLOCK 0 STREAMS K K D D",
            "XREADGROUP GROUP Q C BLOCK 0 STREAMS K >",
            "8.6 XREADGROUP GROUP Q C BLOCK 0 CLAIM 0 STREAMS K >",
            "XREAD BLOCK -1 STREAMS K D",
        ],
    ),
];
