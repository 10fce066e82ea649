//! Commands on lists.

use super::super::{Command, Group, Run, lists};
use super::{command, counted_keys, key_spec};

#[rustfmt::skip]
pub(super) const LISTS: &[Command] = &[
    command("lpush", -3, "write denyoom fast", Group::List, "1.0.0", Run::Data(lists::lpush))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).writes_directly(lists::lpush_directly)
        .categories("list").syntax("key:k element+")
        .docs("Adds elements to the front of a list.", "O(N) in the number of elements given."),
    command("rpush", -3, "write denyoom fast", Group::List, "1.0.0", Run::Data(lists::rpush))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).writes_directly(lists::rpush_directly)
        .categories("list").syntax("key:k element+")
        .docs("Adds elements to the end of a list.", "O(N) in the number of elements given."),
    command("lpushx", -3, "write denyoom fast", Group::List, "2.2.0",
        Run::Data(|call| lists::push_all(call, true, false)))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).categories("list").syntax("key:k element+")
        .docs("Adds elements to the front of an existing list.",
            "O(N) in the number of elements given."),
    command("rpushx", -3, "write denyoom fast", Group::List, "2.2.0",
        Run::Data(|call| lists::push_all(call, false, false)))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).categories("list").syntax("key:k element+")
        .docs("Adds elements to the end of an existing list.",
            "O(N) in the number of elements given."),
    command("lpop", -2, "write fast", Group::List, "1.0.0",
        Run::Data(|call| lists::pop(call, true)))
        .keys(&[key_spec(1, 0, 1, "RW access delete")]).categories("list")
        .syntax("key:k [count:i]")
        .docs("Pops elements from the front of a list.", "O(N) in the number of elements taken."),
    command("rpop", -2, "write fast", Group::List, "1.0.0",
        Run::Data(|call| lists::pop(call, false)))
        .keys(&[key_spec(1, 0, 1, "RW access delete")]).categories("list")
        .syntax("key:k [count:i]")
        .docs("Pops elements from the end of a list.", "O(N) in the number of elements taken."),
    command("llen", 2, "readonly fast", Group::List, "1.0.0", Run::Data(lists::llen))
        .keys(&[key_spec(1, 0, 1, "RO")]).categories("list").syntax("key:k")
        .docs("Counts the elements.", "O(1)"),
    command("lrange", 4, "readonly", Group::List, "1.0.0", Run::Data(lists::lrange))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("list").syntax("key:k start:i stop:i")
        .docs("Returns a range of elements.",
            "O(S+N) for a start S from the nearer end and N elements."),
    command("lindex", 3, "readonly", Group::List, "1.0.0", Run::Data(lists::lindex))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("list").syntax("key:k index:i")
        .docs("Returns the element at a position.", "O(N) in the distance from the nearer end."),
    command("lset", 4, "write denyoom", Group::List, "1.0.0", Run::Data(lists::lset))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("list").syntax("key:k index:i element")
        .docs("Replaces the element at a position.", "O(N) in the distance from the nearer end."),
    command("linsert", 5, "write denyoom", Group::List, "2.2.0", Run::Data(lists::linsert))
        .keys(&[key_spec(1, 0, 1, "RW insert")]).categories("list")
        .syntax("key:k where(BEFORE | AFTER) pivot element")
        .docs("Inserts an element before or after another one.",
            "O(N) in the distance of the other one from the head."),
    command("lrem", 4, "write", Group::List, "1.0.0", Run::Data(lists::lrem))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("list").syntax("key:k count:i element")
        .docs("Removes elements equal to a value.", "O(N) in the length of the list."),
    command("ltrim", 4, "write", Group::List, "1.0.0", Run::Data(lists::ltrim))
        .keys(&[key_spec(1, 0, 1, "RW delete")]).categories("list").syntax("key:k start:i stop:i")
        .docs("Trims a list to a range.", "O(N) in the number of elements removed."),
    command("lpos", -3, "readonly", Group::List, "6.0.6", Run::Data(lists::lpos))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("list")
        .syntax("key:k element [RANK=rank:i] [COUNT=num-matches:i] [MAXLEN=len:i]")
        .docs("Finds the positions of an element.", "O(N) in the number of elements looked at."),
    command("lmove", 5, "write denyoom", Group::List, "6.2.0", Run::Data(lists::lmove))
        .keys(&[key_spec(1, 0, 1, "RW access delete"), key_spec(2, 0, 1, "RW insert")])
        .categories("list")
        .syntax("source:k destination:k1 wherefrom(LEFT | RIGHT) whereto(LEFT | RIGHT)")
        .docs("Moves an element from one end of a list to an end of another.", "O(1)"),
    command("rpoplpush", 3, "write denyoom", Group::List, "1.2.0",
        Run::Data(|call| lists::move_element(call, false, true)))
        .keys(&[key_spec(1, 0, 1, "RW access delete"), key_spec(2, 0, 1, "RW insert")])
        .categories("list").syntax("source:k destination:k1")
        .docs("Moves the last element to the front of another list.", "O(1)"),
    command("lmpop", -4, "write movablekeys", Group::List, "7.0.0", Run::Data(lists::lmpop))
        .keys(&[counted_keys(1, 2, "RW access delete")]).categories("list")
        .syntax("numkeys:i key:k+ where(LEFT | RIGHT) [COUNT=count:i]")
        .docs("Pops elements from the first non-empty list.",
            "O(N+M) for N keys and M elements taken."),
];
