//! Commands on sorted sets.

use super::super::sorted_sets::{self, By, Combination, End};
use super::super::{Command, Group, Run, scan};
use super::{command, counted_keys, key_spec};
use crate::observer::Event;

#[rustfmt::skip]
pub(super) const SORTED_SETS: &[Command] = &[
    command("zadd", -4, "write denyoom fast", Group::SortedSet, "1.2.0",
        Run::Data(sorted_sets::zadd)).keys(&[key_spec(1, 0, 1, "RW update")])
        .categories("sortedset").element(3)
        .syntax("key:k [condition(NX | XX)] [comparison(GT | LT)] [CH!change] [INCR!increment] \
            data(score:d member)+")
        .docs("Adds members or changes their scores.", "O(log N) a member given."),
    command("zincrby", 4, "write denyoom fast", Group::SortedSet, "1.2.0",
        Run::Data(sorted_sets::zincrby)).keys(&[key_spec(1, 0, 1, "RW access update")])
        .categories("sortedset").element(3).syntax("key:k increment:i member")
        .docs("Adds to the score of a member.", "O(log N)"),
    command("zrem", -3, "write fast", Group::SortedSet, "1.2.0", Run::Data(sorted_sets::zrem))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("sortedset").element(2)
        .syntax("key:k member+")
        .docs("Removes members.", "O(log N) a member given."),
    command("zcard", 2, "readonly fast", Group::SortedSet, "1.2.0", Run::Data(sorted_sets::zcard))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("sortedset").syntax("key:k")
        .docs("Counts the members.", "O(1)"),
    command("zscore", 3, "readonly fast", Group::SortedSet, "1.2.0",
        Run::Data(sorted_sets::zscore)).keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("sortedset").element(2).syntax("key:k member")
        .docs("Returns the score of a member.", "O(1)"),
    command("zmscore", -3, "readonly fast", Group::SortedSet, "6.2.0",
        Run::Data(sorted_sets::zmscore)).keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("sortedset").syntax("key:k member+")
        .docs("Returns the scores of several members.", "O(N) in the number of members given."),
    command("zrank", -3, "readonly fast", Group::SortedSet, "2.0.0",
        Run::Data(|call| sorted_sets::show_rank(call, false)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("sortedset").element(2)
        .syntax("key:k member [WITHSCORE]")
        .docs("Returns the rank of a member, from the lowest score.", "O(log N)"),
    command("zrevrank", -3, "readonly fast", Group::SortedSet, "2.0.0",
        Run::Data(|call| sorted_sets::show_rank(call, true)))
        .keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("sortedset").element(2).syntax("key:k member [WITHSCORE]")
        .docs("Returns the rank of a member, from the highest score.", "O(log N)"),
    command("zcount", 4, "readonly fast", Group::SortedSet, "2.0.0",
        Run::Data(|call| sorted_sets::count_range(call, By::Score)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("sortedset").syntax("key:k min:d max:d")
        .docs("Counts the members within a range of scores.", "O(log N)"),
    command("zlexcount", 4, "readonly fast", Group::SortedSet, "2.8.9",
        Run::Data(|call| sorted_sets::count_range(call, By::Text)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("sortedset").syntax("key:k min max")
        .docs("Counts the members within a lexicographical range.", "O(log N)"),
    command("zrange", -4, "readonly", Group::SortedSet, "1.2.0",
        Run::Data(|call| sorted_sets::show_range(call, None, None)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("sortedset")
        .syntax("key:k start stop [sortby(BYSCORE | BYLEX)] [REV] [LIMIT=limit(offset:i count:i)] \
            [WITHSCORES]")
        .docs("Returns members within a range of ranks or scores, or a lexicographical range.",
            "O(log N+M) for M members returned."),
    command("zrangebyscore", -4, "readonly", Group::SortedSet, "1.0.5",
        Run::Data(|call| sorted_sets::show_range(call, Some(By::Score), Some(false))))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("sortedset")
        .syntax("key:k min:d max:d [WITHSCORES] [LIMIT=limit(offset:i count:i)]")
        .docs("Returns members within a range of scores.", "O(log N+M) for M members returned."),
    command("zrevrangebyscore", -4, "readonly", Group::SortedSet, "2.2.0",
        Run::Data(|call| sorted_sets::show_range(call, Some(By::Score), Some(true))))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("sortedset")
        .syntax("key:k max:d min:d [WITHSCORES] [LIMIT=limit(offset:i count:i)]")
        .docs("Returns members within a range of scores, the highest first.",
            "O(log N+M) for M members returned."),
    command("zrangebylex", -4, "readonly", Group::SortedSet, "2.8.9",
        Run::Data(|call| sorted_sets::show_range(call, Some(By::Text), Some(false))))
        .keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("sortedset").syntax("key:k min max [LIMIT=limit(offset:i count:i)]")
        .docs("Returns members within a lexicographical range.", "O(log N+M) for M members returned."),
    command("zrevrangebylex", -4, "readonly", Group::SortedSet, "2.8.9",
        Run::Data(|call| sorted_sets::show_range(call, Some(By::Text), Some(true))))
        .keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("sortedset").syntax("key:k max min [LIMIT=limit(offset:i count:i)]")
        .docs("Returns members within a lexicographical range, in reverse order.",
            "O(log N+M) for M members returned."),
    command("zrevrange", -4, "readonly", Group::SortedSet, "1.2.0",
        Run::Data(|call| sorted_sets::show_range(call, Some(By::Rank), Some(true))))
        .keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("sortedset").syntax("key:k start:i stop:i [WITHSCORES]")
        .docs("Returns members within a range of ranks, the highest score first.",
            "O(log N+M) for M members returned."),
    command("zrangestore", -5, "write denyoom", Group::SortedSet, "6.2.0",
        Run::Data(sorted_sets::zrangestore))
        .keys(&[key_spec(1, 0, 1, "OW update"), key_spec(2, 0, 1, "RO access")])
        .categories("sortedset")
        .syntax("dst:k src:k1 min max [sortby(BYSCORE | BYLEX)] [REV] [LIMIT=limit(offset:i \
            count:i)]")
        .docs("Stores members within a range of ranks or scores, or a lexicographical range.",
            "O(log N+M) for M members stored."),
    command("zremrangebyrank", 4, "write", Group::SortedSet, "2.0.0",
        Run::Data(|call| sorted_sets::remove_range(call, By::Rank, Event::SortedSetRemoveByRank)))
        .keys(&[key_spec(1, 0, 1, "RW delete")])
        .categories("sortedset").syntax("key:k start:i stop:i")
        .docs("Removes members within a range of ranks.", "O(M log N) for M members removed."),
    command("zremrangebyscore", 4, "write", Group::SortedSet, "1.2.0",
        Run::Data(|call| sorted_sets::remove_range(call, By::Score, Event::SortedSetRemoveByScore)))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("sortedset").syntax("key:k min:d max:d")
        .docs("Removes members within a range of scores.", "O(M log N) for M members removed."),
    command("zremrangebylex", 4, "write", Group::SortedSet, "2.8.9",
        Run::Data(|call| sorted_sets::remove_range(call, By::Text, Event::SortedSetRemoveByText)))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("sortedset").syntax("key:k min max")
        .docs("Removes members within a lexicographical range.", "O(M log N) for M members removed."),
    command("zpopmin", -2, "write fast", Group::SortedSet, "5.0.0",
        Run::Data(|call| sorted_sets::pop_some(call, End::Lowest)))
        .keys(&[key_spec(1, 0, 1, "RW access delete")])
        .categories("sortedset").syntax("key:k [count:i]")
        .docs("Pops the members with the lowest scores.", "O(M log N) for M members taken."),
    command("zpopmax", -2, "write fast", Group::SortedSet, "5.0.0",
        Run::Data(|call| sorted_sets::pop_some(call, End::Highest)))
        .keys(&[key_spec(1, 0, 1, "RW access delete")])
        .categories("sortedset").syntax("key:k [count:i]")
        .docs("Pops the members with the highest scores.", "O(M log N) for M members taken."),
    command("zmpop", -4, "write movablekeys", Group::SortedSet, "7.0.0",
        Run::Data(sorted_sets::zmpop)).keys(&[counted_keys(1, 2, "RW access delete")])
        .categories("sortedset").syntax("numkeys:i key:k+ where(MIN | MAX) [COUNT=count:i]")
        .docs("Pops members from the first non-empty sorted set.",
            "O(K+M log N) for K keys and M members taken."),
    command("bzpopmin", -3, "write blocking fast", Group::SortedSet, "5.0.0",
        Run::Data(|call| sorted_sets::pop_or_wait(call, End::Lowest)))
        .keys(&[key_spec(1, -2, 1, "RW access delete")])
        .categories("sortedset").syntax("key:k+ timeout:d")
        .docs("Pops the lowest member of the first non-empty sorted set; waits for one.",
            "O(K+log N) for K keys."),
    command("bzpopmax", -3, "write blocking fast", Group::SortedSet, "5.0.0",
        Run::Data(|call| sorted_sets::pop_or_wait(call, End::Highest)))
        .keys(&[key_spec(1, -2, 1, "RW access delete")])
        .categories("sortedset").syntax("key:k+ timeout:d")
        .docs("Pops the highest member of the first non-empty sorted set; waits for one.",
            "O(K+log N) for K keys."),
    command("bzmpop", -5, "write blocking movablekeys", Group::SortedSet, "7.0.0",
        Run::Data(sorted_sets::bzmpop)).keys(&[counted_keys(2, 3, "RW access delete")])
        .categories("sortedset")
        .syntax("timeout:d numkeys:i key:k+ where(MIN | MAX) [COUNT=count:i]")
        .docs("Pops members from the first non-empty sorted set; waits for one.",
            "O(K+M log N) for K keys and M members taken."),
    command("zrandmember", -2, "readonly", Group::SortedSet, "6.2.0",
        Run::Data(sorted_sets::zrandmember)).keys(&[key_spec(1, 0, 1, "RO access")])
        .categories("sortedset").tips("nondeterministic_output")
        .syntax("key:k [options(count:i [WITHSCORES])]")
        .docs("Returns random members.", "O(M log N) for M members returned."),
    command("zunion", -3, "readonly movablekeys", Group::SortedSet, "6.2.0",
        Run::Data(|call| sorted_sets::show_combined(call, Combination::Union)))
        .keys(&[counted_keys(1, 2, "RO access")])
        .categories("sortedset")
        .syntax("numkeys:i key:k+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM | MIN | MAX)] \
            [WITHSCORES]")
        .docs("Returns the union of sorted sets, with combined scores.",
            "O(N log N) for N members of all sets."),
    command("zunionstore", -4, "write denyoom movablekeys", Group::SortedSet, "2.0.0",
        Run::Data(|call| sorted_sets::store_combined(call, Combination::Union)))
        .keys(&[key_spec(1, 0, 1, "OW update"), counted_keys(2, 3, "RO access")])
        .categories("sortedset")
        .syntax("destination:k numkeys:i key:k1+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM | \
            MIN | MAX)]")
        .docs("Stores the union of sorted sets, with combined scores.",
            "O(N log N) for N members of all sets."),
    command("zinter", -3, "readonly movablekeys", Group::SortedSet, "6.2.0",
        Run::Data(|call| sorted_sets::show_combined(call, Combination::Intersection)))
        .keys(&[counted_keys(1, 2, "RO access")])
        .categories("sortedset")
        .syntax("numkeys:i key:k+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM | MIN | MAX)] \
            [WITHSCORES]")
        .docs("Returns the intersection of sorted sets, with combined scores.",
            "O(N*K+M log M) for the smallest set's N members, K sets and M results."),
    command("zinterstore", -4, "write denyoom movablekeys", Group::SortedSet, "2.0.0",
        Run::Data(|call| sorted_sets::store_combined(call, Combination::Intersection)))
        .keys(&[key_spec(1, 0, 1, "OW update"), counted_keys(2, 3, "RO access")])
        .categories("sortedset")
        .syntax("destination:k numkeys:i key:k1+ [WEIGHTS=weight:i+] [AGGREGATE=aggregate(SUM | \
            MIN | MAX)]")
        .docs("Stores the intersection of sorted sets, with combined scores.",
            "O(N*K+M log M) for the smallest set's N members, K sets and M results."),
    command("zintercard", -3, "readonly movablekeys", Group::SortedSet, "7.0.0",
        Run::Data(sorted_sets::zintercard)).keys(&[counted_keys(1, 2, "RO access")])
        .categories("sortedset").syntax("numkeys:i key:k+ [LIMIT=limit:i]")
        .docs("Counts the intersection of sets.", "O(N*K) for the smallest set's N members and K sets."),
    command("zdiff", -3, "readonly movablekeys", Group::SortedSet, "6.2.0",
        Run::Data(|call| sorted_sets::show_combined(call, Combination::Difference)))
        .keys(&[counted_keys(1, 2, "RO access")])
        .categories("sortedset").syntax("numkeys:i key:k+ [WITHSCORES]")
        .docs("Returns the difference of sets.",
            "O(N*K+M log M) for the first set's N members, K sets and M results."),
    command("zdiffstore", -4, "write denyoom movablekeys", Group::SortedSet, "6.2.0",
        Run::Data(|call| sorted_sets::store_combined(call, Combination::Difference)))
        .keys(&[key_spec(1, 0, 1, "OW update"), counted_keys(2, 3, "RO access")])
        .categories("sortedset").syntax("destination:k numkeys:i key:k1+")
        .docs("Stores the difference of sets.",
            "O(N*K+M log M) for the first set's N members, K sets and M results."),
    command("zscan", -3, "readonly", Group::SortedSet, "2.8.0", Run::Data(scan::zscan))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("sortedset")
        .tips("nondeterministic_output").syntax("key:k cursor:i [MATCH=pattern:p] [COUNT=count:i]")
        .docs("Iterates over members and scores, a few per call.",
            "O(1) per call, O(N) for a whole scan."),
];
