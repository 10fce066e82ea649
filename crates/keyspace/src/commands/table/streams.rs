//! Commands on streams.

use super::super::{Command, Group, KeySpec, Run, finding, streams};
use super::{command, key_spec, keyword_keys};

#[rustfmt::skip]
pub(super) const STREAMS: &[Command] = &[
    command("xadd", -5, "write denyoom fast", Group::Stream, "5.0.0", Run::Data(streams::xadd))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("stream")
        .tips("nondeterministic_output")
        .syntax("key:k [NOMKSTREAM] [condition(KEEPREF | DELREF | ACKED)] \
            [idmp(idmpauto-with-pid(IDMPAUTO!idmpauto-token pid<producer-id>) | \
            idmp-with-pid-iid(IDMP!idmp-token pid<producer-id> iid<idempotent-id>))] [trim(strategy(MAXLEN | MINID) [operator('='!equal | \
            '~'!approximately)] threshold [LIMIT=count:i])] id-selector('*'!auto-id | id) \
            data(field value)+")
        .docs("Adds an entry to the end of a stream.",
            "O(1), and O(N) for N entries that are trimmed."),
    command("xlen", 2, "readonly fast", Group::Stream, "5.0.0", Run::Data(streams::xlen))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("stream").syntax("key:k")
        .docs("Counts the entries.", "O(1)"),
    command("xrange", -4, "readonly", Group::Stream, "5.0.0",
        Run::Data(|call| streams::show_range(call, false)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("stream")
        .syntax("key:k start end [COUNT=count:i]")
        .docs("Returns entries in the order of their ids.",
            "O(N) in the number of entries returned."),
    command("xrevrange", -4, "readonly", Group::Stream, "5.0.0",
        Run::Data(|call| streams::show_range(call, true)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("stream")
        .syntax("key:k end start [COUNT=count:i]")
        .docs("Returns entries in the reverse order of their ids.",
            "O(N) in the number of entries returned."),
    command("xread", -4, "readonly blocking movablekeys", Group::Stream, "5.0.0",
        Run::Data(streams::xread)).keys(&[stream_keys(1)]).categories("stream")
        .syntax("[COUNT=count:i] [BLOCK=milliseconds:i] STREAMS=streams(key:k+ id+)")
        .docs("Returns entries after an id from several streams, and can wait for them.",
            "O(N) in the number of entries returned."),
    command("xreadgroup", -7, "write blocking movablekeys", Group::Stream, "5.0.0",
        Run::Data(streams::xreadgroup)).keys(&[stream_keys(4)]).categories("stream")
        .syntax("GROUP=group-block(group consumer) [COUNT=count:i] [BLOCK=milliseconds:i] \
            [CLAIM=min-idle-time:i] [NOACK] \
            STREAMS=streams(key:k+ id+)")
        .docs("Delivers entries to a consumer of a group, and can wait for them.",
            "O(N) in the number of entries returned."),
    command("xtrim", -4, "write", Group::Stream, "5.0.0", Run::Data(streams::xtrim))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("stream")
        .tips("nondeterministic_output")
        .syntax("key:k trim(strategy(MAXLEN | MINID) [operator('='!equal | '~'!approximately)] \
            threshold [LIMIT=count:i] [condition(KEEPREF | DELREF | ACKED)])")
        .docs("Removes entries from the beginning of a stream.",
            "O(N) in the number of entries removed; a block of them at a time."),
    command("xdel", -3, "write fast", Group::Stream, "5.0.0", Run::Data(streams::xdel))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("stream").syntax("key:k id+")
        .docs("Deletes entries by their ids.", "O(1) an entry."),
    command("xdelex", -5, "write fast", Group::Stream, "8.2.0",
        Run::Data(|call| streams::delete_with_options(call, false)))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("stream")
        .syntax("key:k [condition(KEEPREF | DELREF | ACKED)] IDS=ids(numids:i id+)")
        .docs("Deletes entries by their ids, and their references in groups.",
            "O(1) an entry and group."),
    command("xsetid", -3, "write denyoom fast", Group::Stream, "5.0.0", Run::Data(streams::xsetid))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("stream")
        .syntax("key:k last-id [ENTRIESADDED=entries-added:i] [MAXDELETEDID=max-deleted-id]")
        .docs("Sets the last id and the counters of a stream.", "O(1)"),
    command("xcfgset", -2, "write fast", Group::Stream, "8.6.0", Run::Data(streams::xcfgset))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("stream")
        .syntax("key:k [idmp-duration-block(IDMP-DURATION!idmp-duration-token duration:i)] \
            [idmp-maxsize-block(IDMP-MAXSIZE!idmp-maxsize-token maxsize:i)]")
        .docs("Sets how long, and for how many entries, a stream knows what a producer has sent.",
            "O(1)"),
    command("xidmprecord", 5, "write denyoom fast", Group::Stream, "8.6.2",
        Run::Data(streams::xidmprecord)).keys(&[key_spec(1, 0, 1, "RW update")])
        .categories("stream").syntax("key:k pid iid stream-id")
        .docs("Records which producer has sent an entry, with its id; for logs and replicas.",
            "O(1)"),
    command("xack", -4, "write fast", Group::Stream, "5.0.0", Run::Data(streams::xack))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("stream").syntax("key:k group id+")
        .docs("Acknowledges delivered entries.", "O(1) an entry."),
    command("xackdel", -6, "write fast", Group::Stream, "8.2.0",
        Run::Data(|call| streams::delete_with_options(call, true)))
        .keys(&[key_spec(1, 0, 1, "RW update delete")]).categories("stream")
        .syntax("key:k group [condition(KEEPREF | DELREF | ACKED)] IDS=ids(numids:i id+)")
        .docs("Acknowledges delivered entries and deletes them.",
            "O(1) an entry and group."),
    command("xpending", -3, "readonly", Group::Stream, "5.0.0", Run::Data(streams::xpending))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("stream")
        .tips("nondeterministic_output")
        .syntax("key:k group [filters([IDLE=min-idle-time:i] start end count:i [consumer])]")
        .docs("Lists pending entries.",
            "O(N) in the number of entries returned, and of those that a filter passes over."),
    command("xclaim", -6, "write fast", Group::Stream, "5.0.0", Run::Data(streams::xclaim))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("stream")
        .tips("nondeterministic_output")
        .syntax("key:k group consumer min-idle-time id+ [IDLE=ms:i] \
            [TIME=unix-time-milliseconds:t] [RETRYCOUNT=count:i] [FORCE] [JUSTID] [LASTID=lastid]")
        .docs("Claims pending entries of other consumers.",
            "O(log N) an entry for N that are pending."),
    command("xautoclaim", -6, "write fast", Group::Stream, "6.2.0", Run::Data(streams::xautoclaim))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("stream")
        .tips("nondeterministic_output")
        .syntax("key:k group consumer min-idle-time start [COUNT=count:i] [JUSTID]")
        .docs("Claims entries that have been pending for a time.",
            "O(1) for a small count."),
    command("xgroup", -2, "", Group::Stream, "5.0.0", Run::Container)
        .docs("Commands on consumer groups.", "Depends on subcommand."),
    command("xgroup|create", -5, "write denyoom", Group::Stream, "5.0.0",
        Run::Data(streams::xgroup_create)).keys(&[key_spec(2, 0, 1, "RW insert")])
        .categories("stream")
        .syntax("key:k group id-selector(id | '$'!new-id) [MKSTREAM] \
            [ENTRIESREAD=entriesread<entries-read>:i]")
        .docs("Creates a group.", "O(1)"),
    command("xgroup|createconsumer", 5, "write denyoom", Group::Stream, "6.2.0",
        Run::Data(streams::xgroup_createconsumer)).keys(&[key_spec(2, 0, 1, "RW insert")])
        .categories("stream").syntax("key:k group consumer")
        .docs("Creates a consumer of a group.", "O(1)"),
    command("xgroup|delconsumer", 5, "write", Group::Stream, "5.0.0",
        Run::Data(streams::xgroup_delconsumer)).keys(&[key_spec(2, 0, 1, "RW delete")])
        .categories("stream").syntax("key:k group consumer")
        .docs("Removes a consumer and its pending entries.",
            "O(N) in the number of entries that it had to acknowledge."),
    command("xgroup|destroy", 4, "write", Group::Stream, "5.0.0",
        Run::Data(streams::xgroup_destroy)).keys(&[key_spec(2, 0, 1, "RW delete")])
        .categories("stream").syntax("key:k group")
        .docs("Removes a group.", "O(N) in the number of entries that are pending."),
    command("xgroup|help", 2, "loading stale", Group::Stream, "5.0.0",
        Run::Data(streams::xgroup_help)).categories("stream")
        .docs("Lists the subcommands.", "O(1)"),
    command("xgroup|setid", -5, "write", Group::Stream, "5.0.0", Run::Data(streams::xgroup_setid))
        .keys(&[key_spec(2, 0, 1, "RW update")]).categories("stream")
        .syntax("key:k group id-selector(id | '$'!new-id) \
            [ENTRIESREAD=entriesread<entries-read>:i]")
        .docs("Sets the last delivered id of a group.", "O(1)"),
    command("xinfo", -2, "", Group::Stream, "5.0.0", Run::Container)
        .docs("Commands that describe streams.", "Depends on subcommand."),
    command("xinfo|consumers", 4, "readonly", Group::Stream, "5.0.0",
        Run::Data(streams::xinfo_consumers)).keys(&[key_spec(2, 0, 1, "RO access")])
        .categories("stream").tips("nondeterministic_output").syntax("key:k group")
        .docs("Lists the consumers of a group.", "O(N) in the number of consumers."),
    command("xinfo|groups", 3, "readonly", Group::Stream, "5.0.0",
        Run::Data(streams::xinfo_groups)).keys(&[key_spec(2, 0, 1, "RO access")])
        .categories("stream").syntax("key:k")
        .docs("Lists the groups of a stream.", "O(N) in the number of groups."),
    command("xinfo|help", 2, "loading stale", Group::Stream, "5.0.0",
        Run::Data(streams::xinfo_help)).categories("stream")
        .docs("Lists the subcommands.", "O(1)"),
    command("xinfo|stream", -3, "readonly", Group::Stream, "5.0.0",
        Run::Data(streams::xinfo_stream)).keys(&[key_spec(2, 0, 1, "RO access")])
        .categories("stream").syntax("key:k [full-block(FULL [COUNT=count:i])]")
        .docs("Returns information on a stream.", "O(1), and O(N) in what FULL shows."),
];

/// Describes the keys after STREAMS: the first half of the remaining arguments.
const fn stream_keys(from: u16) -> KeySpec {
    KeySpec {
        last: -1,
        half: true,
        ..keyword_keys("STREAMS", from, "RO access", finding::streams)
    }
}
