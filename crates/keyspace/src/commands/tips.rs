//! Tips for cluster clients, as COMMAND shows them.

/// A command's tips.
pub(super) fn tips(full_name: &str) -> impl Iterator<Item = &'static str> {
    let own = |names: &str| names.split(' ').any(|name| name == full_name);
    let found = TIPS.iter().find(|(_, names)| own(names));
    let tips = found.map_or("", |(tips, _)| tips);
    tips.split(' ').filter(|tip| !tip.is_empty())
}

/// Tips, and the commands that have them.
const TIPS: &[(&str, &str)] = &[
    (
        "request_policy:all_nodes response_policy:all_succeeded",
        "acl|deluser acl|save acl|setuser client|setinfo client|setname config|resetstat \
         config|rewrite config|set script|flush script|load slowlog|reset",
    ),
    (
        "nondeterministic_output",
        "client|info client|list cluster|bumpepoch cluster|count-failure-reports \
         cluster|getkeysinslot cluster|info cluster|links cluster|myshardid cluster|nodes \
         cluster|replicas cluster|shards cluster|slaves cluster|slots dump hpttl hrandfield \
         hscan httl lastsave migrate object|encoding object|freq object|idletime \
         object|refcount pttl spop srandmember sscan time ttl xadd xautoclaim xclaim \
         xinfo|consumers xpending xtrim zrandmember zscan",
    ),
    (
        "nondeterministic_output_order",
        "command command|docs command|info command|list function|list hgetall hkeys hvals \
         module|list sdiff sinter smembers sunion",
    ),
    (
        "request_policy:all_shards response_policy:agg_sum",
        "dbsize",
    ),
    (
        "request_policy:multi_shard response_policy:agg_sum",
        "del exists touch unlink",
    ),
    (
        "request_policy:all_shards response_policy:all_succeeded",
        "flushall flushdb function|delete function|flush function|load function|restore \
         memory|purge ping",
    ),
    (
        "request_policy:all_shards response_policy:one_succeeded",
        "function|kill script|kill",
    ),
    (
        "nondeterministic_output request_policy:all_shards response_policy:special",
        "function|stats info memory|doctor memory|malloc-stats memory|stats",
    ),
    (
        "request_policy:all_shards nondeterministic_output_order",
        "keys",
    ),
    (
        "nondeterministic_output request_policy:all_nodes response_policy:special",
        "latency|doctor latency|graph latency|histogram latency|history latency|latest",
    ),
    (
        "request_policy:all_nodes response_policy:agg_sum",
        "latency|reset",
    ),
    ("request_policy:multi_shard", "mget"),
    (
        "request_policy:multi_shard response_policy:all_succeeded",
        "mset",
    ),
    (
        "request_policy:all_shards response_policy:special nondeterministic_output",
        "randomkey",
    ),
    (
        "nondeterministic_output request_policy:special response_policy:special",
        "scan",
    ),
    (
        "request_policy:all_shards response_policy:agg_logical_and",
        "script|exists",
    ),
    (
        "request_policy:all_nodes nondeterministic_output",
        "slowlog|get",
    ),
    (
        "request_policy:all_nodes response_policy:agg_sum nondeterministic_output",
        "slowlog|len",
    ),
    (
        "request_policy:all_shards response_policy:agg_min",
        "wait waitaof",
    ),
];
