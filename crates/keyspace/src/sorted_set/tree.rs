//! A counted B+ tree: items ordered by score and then by member bytes. It finds a position by
//! score, by member or by rank in O(log n).

use std::cmp::Ordering;
use std::ops::{Index, IndexMut, Range};

use super::node::{Child, Inner, Item, Leaf, NONE, Node};
use super::records::Records;

/// The order of one sorted set.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    leaves: Nodes<Leaf>,
    inners: Nodes<Inner>,
    /// A leaf if `height` is 0, otherwise an inner node.
    root: u32,
    /// Number of levels of inner nodes.
    height: usize,
    len: usize,
}

impl Default for Tree {
    fn default() -> Self {
        let (mut leaves, inners) = (Nodes::default(), Nodes::default());
        let root = leaves.add(Leaf::new());
        Tree {
            leaves,
            inners,
            root,
            height: 0,
            len: 0,
        }
    }
}

/// The position of an item, or where it would be, and the way there.
struct Path {
    /// Inner nodes and the indexes of the chosen children, from the root on.
    steps: [(u32, usize); HEIGHT_MAX],
    leaf: u32,
    at: usize,
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a new item.
    pub(super) fn insert(&mut self, records: &Records, item: Item) {
        let member = records.member(item.record);
        let path = self.path(|other| {
            other.score < item.score
                || other.score == item.score && records.member(other.record) < member
        });
        self.insert_at(&path, item);
    }

    /// Removes an item; its record must still contain its member.
    pub(super) fn remove(&mut self, records: &Records, item: Item) {
        let path = self.path_to(records, item);
        self.remove_at(&path);
    }

    /// Changes the score of an item.
    pub(super) fn change(&mut self, records: &Records, item: Item, score: f64) {
        let path = self.path_to(records, item);
        let leaf = &mut self.leaves[path.leaf];
        // Most changes are small, so only the score changes in place.
        let inside = path.at > 0 && path.at + 1 < leaf.len();
        let changed = Item { score, ..item };
        if inside && leaf.item(path.at - 1).score < score && score < leaf.item(path.at + 1).score {
            leaf.set(path.at, changed);
            return;
        }
        self.remove_at(&path);
        self.insert(records, changed);
    }

    /// Removes and returns the item of this rank.
    pub(super) fn remove_rank(&mut self, rank: usize) -> Item {
        let path = self.path_of_rank(rank);
        let item = self.leaves[path.leaf].item(path.at);
        self.remove_at(&path);
        item
    }

    /// Returns how many items are before a bound; `before` decides for each item.
    #[inline]
    pub(super) fn rank(&self, before: impl Fn(Item) -> bool) -> usize {
        let (mut node, mut rank) = (self.root, 0);
        for _ in 0..self.height {
            let inner = &self.inners[node];
            let at = inner.search(&before);
            rank += inner.size_before(at) as usize;
            node = inner.nodes[at];
        }
        rank + self.leaves[node].search(before)
    }

    /// Returns the rank of an existing item.
    pub(super) fn rank_of(&self, records: &Records, item: Item) -> usize {
        let member = records.member(item.record);
        self.rank(|other| compare(records, other, item.score, member) == Ordering::Less)
    }

    /// Returns the item of a rank below the length.
    #[cfg(test)]
    pub(super) fn get(&self, rank: usize) -> Item {
        let (leaf, at) = self.place_of_rank(rank);
        self.leaves[leaf].item(at)
    }

    /// Iterates over the items of these ranks, which must exist.
    pub(super) fn range(&self, ranks: Range<usize>) -> TreeRange<'_> {
        TreeRange {
            tree: self,
            ranks,
            front: None,
            back: None,
        }
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.leaves.memory_bytes() + self.inners.memory_bytes()
    }

    fn path_to(&self, records: &Records, item: Item) -> Path {
        let member = records.member(item.record);
        let mut path = self.path(|other| {
            other.record == item.record
                || compare(records, other, item.score, member) == Ordering::Less
        });
        // The search ends after the item, so the position is never 0.
        debug_assert!(path.at > 0);
        path.at -= 1;
        debug_assert_eq!(self.leaves[path.leaf].item(path.at).record, item.record);
        path
    }

    fn path(&self, before: impl Fn(Item) -> bool) -> Path {
        let mut steps = [(NONE, 0); HEIGHT_MAX];
        let mut node = self.root;
        for step in &mut steps[..self.height] {
            let inner = &self.inners[node];
            let at = inner.search(&before);
            *step = (node, at);
            node = inner.nodes[at];
        }
        let at = self.leaves[node].search(before);
        Path {
            steps,
            leaf: node,
            at,
        }
    }

    fn path_of_rank(&self, rank: usize) -> Path {
        let mut steps = [(NONE, 0); HEIGHT_MAX];
        let (leaf, at) = self.descend_to(rank, |level, node, at| steps[level] = (node, at));
        Path { steps, leaf, at }
    }

    fn place_of_rank(&self, rank: usize) -> (u32, usize) {
        self.descend_to(rank, |_, _, _| {})
    }

    fn descend_to(&self, rank: usize, mut step: impl FnMut(usize, u32, usize)) -> (u32, usize) {
        debug_assert!(rank < self.len);
        let (mut node, mut left) = (self.root, rank as u32);
        for level in 0..self.height {
            let inner = &self.inners[node];
            let mut at = 0;
            while at + 1 < inner.len() && left >= inner.sizes[at] {
                left -= inner.sizes[at];
                at += 1;
            }
            step(level, node, at);
            node = inner.nodes[at];
        }
        debug_assert!(
            (left as usize) < self.leaves[node].len(),
            "the sizes along the path add up"
        );
        (node, left as usize)
    }

    fn insert_at(&mut self, path: &Path, item: Item) {
        self.len += 1;
        let leaf = &mut self.leaves[path.leaf];
        let mut added = None;
        if leaf.len() < Leaf::PARTS_MAX {
            leaf.insert(path.at, item);
        } else {
            added = Some(self.split_leaf(path, item));
        }
        let mut first = self.leaves[path.leaf].first();
        for &(node, at) in path.steps[..self.height].iter().rev() {
            let inner = &mut self.inners[node];
            inner.set_first(at, first);
            inner.sizes[at] += 1;
            if let Some(child) = added.take() {
                inner.sizes[at] -= child.size;
                if inner.len() < Inner::PARTS_MAX {
                    inner.insert(at + 1, child);
                } else {
                    added = Some(self.split_inner(node, at + 1, child));
                }
            }
            first = self.inners[node].first();
        }
        if let Some(child) = added {
            self.grow(first, child);
        }
    }

    /// Splits a full leaf for one more item. Returns the new right leaf.
    fn split_leaf(&mut self, path: &Path, item: Item) -> Child {
        let leaf = &mut self.leaves[path.leaf];
        debug_assert_eq!(leaf.len(), Leaf::PARTS_MAX, "a full one is split");
        let mut new = Leaf::new();
        // At either end of the tree, the full leaf stays full: items often arrive in order.
        let keep = match path.at {
            Leaf::PARTS_MAX if leaf.next == NONE => Leaf::PARTS_MAX,
            0 if leaf.previous == NONE => 0,
            _ => Leaf::PARTS_MAX / 2,
        };
        leaf.give_last(&mut new, Leaf::PARTS_MAX - keep);
        if path.at < keep || path.at == keep && keep < Leaf::PARTS_MAX {
            leaf.insert(path.at, item);
        } else {
            new.insert(path.at - keep, item);
        }
        debug_assert!(leaf.len() > 0 && new.len() > 0);
        new.previous = path.leaf;
        new.next = leaf.next;
        let (first, size, after) = (new.first(), new.len() as u32, new.next);
        let node = self.leaves.add(new);
        self.leaves[path.leaf].next = node;
        if after != NONE {
            self.leaves[after].previous = node;
        }
        Child { first, node, size }
    }

    /// Splits a full inner node for one more child. Returns the new right node.
    fn split_inner(&mut self, node: u32, at: usize, child: Child) -> Child {
        let inner = &mut self.inners[node];
        debug_assert_eq!(inner.len(), Inner::PARTS_MAX, "a full one is split");
        let mut new = Inner::new();
        let keep = match at {
            Inner::PARTS_MAX => at,
            _ => Inner::PARTS_MAX / 2,
        };
        inner.give_last(&mut new, Inner::PARTS_MAX - keep);
        if at <= keep && keep < Inner::PARTS_MAX {
            inner.insert(at, child);
        } else {
            new.insert(at - keep, child);
        }
        debug_assert!(inner.len() > 0 && new.len() > 0);
        let (first, size) = (new.first(), new.size());
        let node = self.inners.add(new);
        Child { first, node, size }
    }

    /// Adds a new root above the old one and its new neighbour.
    fn grow(&mut self, first: Item, child: Child) {
        assert!(self.height < HEIGHT_MAX, "2^32 members take fewer levels");
        debug_assert!((child.size as usize) < self.len);
        let mut root = Inner::new();
        let old = Child {
            first,
            node: self.root,
            size: self.len as u32 - child.size,
        };
        root.insert(0, old);
        root.insert(1, child);
        self.root = self.inners.add(root);
        self.height += 1;
    }

    fn remove_at(&mut self, path: &Path) {
        debug_assert!(self.len > 0 && path.at < self.leaves[path.leaf].len());
        self.len -= 1;
        self.leaves[path.leaf].remove(path.at);
        for (above, &(node, at)) in path.steps[..self.height].iter().rev().enumerate() {
            let mut parent = self.inners.take(node);
            debug_assert!(parent.sizes[at] > 0, "it counts the item that goes");
            parent.sizes[at] -= 1;
            if above > 0 {
                rebalance(&mut parent, &mut self.inners, at);
            } else if let Some(gone) = rebalance(&mut parent, &mut self.leaves, at) {
                if gone.previous != NONE {
                    self.leaves[gone.previous].next = gone.next;
                }
                if gone.next != NONE {
                    self.leaves[gone.next].previous = gone.previous;
                }
            }
            self.inners.put(node, parent);
        }
        while self.height > 0 && self.inners[self.root].len() == 1 {
            let root = self.root;
            self.root = self.inners[root].nodes[0];
            self.inners.take(root);
            self.inners.free.push(root);
            self.height -= 1;
        }
        debug_assert!(
            self.height > 0 || self.leaves[self.root].len() == self.len,
            "the last leaf has all items"
        );
    }
}

/// Updates a parent after a removal in a child. A child that became too small gets parts from its
/// neighbour, or is merged with it. Returns the removed node after a merge.
fn rebalance<N: Node>(parent: &mut Inner, nodes: &mut Nodes<N>, at: usize) -> Option<Box<N>> {
    let child = &nodes[parent.nodes[at]];
    if child.len() > 0 {
        parent.set_first(at, child.first());
    }
    if child.len() >= N::PARTS_MAX / 4 {
        return None;
    }
    if parent.len() == 1 {
        // Only at the end of the tree, after a split that kept the old node full.
        return (child.len() == 0).then(|| merge(parent, nodes, at));
    }
    let left = at.saturating_sub(1);
    let right = left + 1;
    let mut next = nodes.take(parent.nodes[right]);
    let this = &mut nodes[parent.nodes[left]];
    let (own, others) = (this.len(), next.len());
    if own + others <= N::PARTS_MAX / 4 * 3 {
        this.take_first(&mut next, others);
        parent.set_first(left, this.first());
        parent.sizes[left] += parent.sizes[right];
        debug_assert_eq!(parent.sizes[left], this.size());
        nodes.put(parent.nodes[right], next);
        return Some(merge(parent, nodes, right));
    }
    if own < others {
        this.take_first(&mut next, (others - own) / 2);
    } else {
        this.give_last(&mut next, (own - others) / 2);
    }
    for (at, node) in [(left, &*this), (right, &*next)] {
        parent.set_first(at, node.first());
        parent.sizes[at] = node.size();
    }
    nodes.put(parent.nodes[right], next);
    None
}

/// Merges a child with its neighbour and returns the removed node.
fn merge<N: Node>(parent: &mut Inner, nodes: &mut Nodes<N>, at: usize) -> Box<N> {
    let node = parent.nodes[at];
    parent.remove(at);
    nodes.free.push(node);
    nodes.take(node)
}

#[inline]
fn compare(records: &Records, other: Item, score: f64, member: &[u8]) -> Ordering {
    if other.score < score {
        Ordering::Less
    } else if other.score > score {
        Ordering::Greater
    } else {
        records.member(other.record).cmp(member)
    }
}

/// Iterator over the items of a range of ranks, from either end.
#[derive(Clone, Debug)]
pub(crate) struct TreeRange<'a> {
    tree: &'a Tree,
    ranks: Range<usize>,
    /// The leaf and position of the next item; determined at the first access.
    front: Option<(u32, usize)>,
    back: Option<(u32, usize)>,
}

impl Iterator for TreeRange<'_> {
    type Item = Item;

    #[inline]
    fn next(&mut self) -> Option<Item> {
        let rank = self.ranks.next()?;
        let place = self.front.unwrap_or_else(|| self.tree.place_of_rank(rank));
        let (mut leaf, mut at) = place;
        if at == self.tree.leaves[leaf].len() {
            (leaf, at) = (self.tree.leaves[leaf].next, 0);
        }
        self.front = Some((leaf, at + 1));
        Some(self.tree.leaves[leaf].item(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}

impl DoubleEndedIterator for TreeRange<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Item> {
        let rank = self.ranks.next_back()?;
        let place = self.back.unwrap_or_else(|| {
            let (leaf, at) = self.tree.place_of_rank(rank);
            (leaf, at + 1)
        });
        let (mut leaf, mut end) = place;
        if end == 0 {
            leaf = self.tree.leaves[leaf].previous;
            end = self.tree.leaves[leaf].len();
        }
        self.back = Some((leaf, end - 1));
        Some(self.tree.leaves[leaf].item(end - 1))
    }
}

/// Nodes by number; numbers of removed nodes are reused.
#[derive(Clone, Debug)]
struct Nodes<N> {
    nodes: Vec<Option<Box<N>>>,
    free: Vec<u32>,
}

impl<N> Default for Nodes<N> {
    fn default() -> Self {
        Nodes {
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<N> Nodes<N> {
    fn add(&mut self, node: Box<N>) -> u32 {
        if let Some(free) = self.free.pop() {
            debug_assert!(self.nodes[free as usize].is_none(), "a free place is empty");
            self.nodes[free as usize] = Some(node);
            return free;
        }
        self.nodes.push(Some(node));
        self.nodes.len() as u32 - 1
    }

    fn take(&mut self, node: u32) -> Box<N> {
        self.nodes[node as usize].take().expect(NODE_EXISTS)
    }

    fn put(&mut self, at: u32, node: Box<N>) {
        debug_assert!(self.nodes[at as usize].is_none(), "it was taken from there");
        self.nodes[at as usize] = Some(node);
    }

    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        let nodes = self.nodes.iter().flatten().count() * size_of::<N>();
        nodes + self.nodes.capacity() * 8 + self.free.capacity() * 4
    }
}

impl<N> Index<u32> for Nodes<N> {
    type Output = N;

    #[inline]
    fn index(&self, node: u32) -> &N {
        self.nodes[node as usize].as_deref().expect(NODE_EXISTS)
    }
}

impl<N> IndexMut<u32> for Nodes<N> {
    #[inline]
    fn index_mut(&mut self, node: u32) -> &mut N {
        self.nodes[node as usize].as_deref_mut().expect(NODE_EXISTS)
    }
}

const NODE_EXISTS: &str = "a referenced node exists";
/// All nodes except those at the end have at least 12 children, and there are fewer than 2^32
/// records.
const HEIGHT_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tree: &Tree, records: &Records, model: &[(f64, Vec<u8>)]) {
        assert_eq!(tree.len(), model.len());
        let pair = |item: Item| (item.score, records.member(item.record).to_vec());
        let forward: Vec<_> = tree.range(0..tree.len()).map(pair).collect();
        assert!(forward == model);
        let mut backward: Vec<_> = tree.range(0..tree.len()).rev().map(pair).collect();
        backward.reverse();
        assert!(backward == model);
        check_node(tree, tree.root, tree.height);
    }

    /// Checks a node; returns what its parent must store about it.
    fn check_node(tree: &Tree, node: u32, height: usize) -> (u32, u32) {
        if height == 0 {
            let leaf = &tree.leaves[node];
            let first = if leaf.len() == 0 {
                0
            } else {
                leaf.first().record
            };
            return (first, leaf.len() as u32);
        }
        let inner = &tree.inners[node];
        for at in 0..inner.len() {
            let (first, size) = check_node(tree, inner.nodes[at], height - 1);
            assert_eq!((inner.first_of(at).record, inner.sizes[at]), (first, size));
            assert!(size > 0);
        }
        (inner.first().record, inner.size())
    }

    #[test]
    fn items_stay_in_order_through_random_changes() {
        let mut word = 11u64;
        let mut random = move |bound: usize| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 33) as usize % bound
        };
        for scores in [1, 7, 1_000_000] {
            let (mut tree, mut records) = (Tree::default(), Records::default());
            let mut model: Vec<(f64, Vec<u8>, u32)> = Vec::new();
            for step in 0..24_000 {
                // The tree grows, then shrinks; scores change in between.
                let grows = if step < 9_000 { 85 } else { 15 };
                let score = random(scores) as f64 - 3.0;
                if random(100) < grows || model.is_empty() {
                    let member = format!("{}:{step}", random(1_000)).into_bytes();
                    let record = records.add(&member, score);
                    tree.insert(&records, Item { score, record });
                    let at = model.partition_point(|(s, m, _)| (*s, m) < (score, &member));
                    model.insert(at, (score, member, record));
                    continue;
                }
                let rank = random(model.len());
                let (old, member, record) = model.remove(rank);
                let item = Item { score: old, record };
                assert_eq!(tree.rank_of(&records, item), rank);
                assert_eq!(tree.get(rank).record, record);
                match random(3) {
                    0 => tree.remove(&records, item),
                    1 => assert_eq!(tree.remove_rank(rank).record, record),
                    _ => {
                        tree.change(&records, item, score);
                        let at = model.partition_point(|(s, m, _)| (*s, m) < (score, &member));
                        model.insert(at, (score, member, record));
                        continue;
                    }
                }
                records.remove(record);
                if step % 500 == 0 {
                    let pairs: Vec<_> = model.iter().map(|(s, m, _)| (*s, m.clone())).collect();
                    check(&tree, &records, &pairs);
                }
            }
            while tree.len() > 0 {
                let record = tree.remove_rank(random(tree.len())).record;
                records.remove(record);
            }
            assert_eq!(
                (tree.height, tree.leaves.free.len() + 1),
                (0, tree.leaves.nodes.len())
            );
        }
    }

    #[test]
    fn items_inserted_in_order_fill_their_leaves() {
        for descending in [false, true] {
            let (mut tree, mut records) = (Tree::default(), Records::default());
            for number in 0..50_000 {
                let score = if descending {
                    -f64::from(number)
                } else {
                    f64::from(number)
                };
                let record = records.add(b"m", score);
                tree.insert(&records, Item { score, record });
            }
            let full = 50_000 / 63 + 2;
            assert!(
                tree.leaves.nodes.len() <= full,
                "{}",
                tree.leaves.nodes.len()
            );
            // A queue: items leave at one end and arrive at the other.
            for number in 50_000..100_000 {
                let score = if descending {
                    -f64::from(number)
                } else {
                    f64::from(number)
                };
                let record = records.add(b"m", score);
                tree.insert(&records, Item { score, record });
                let rank = if descending { tree.len() - 1 } else { 0 };
                records.remove(tree.remove_rank(rank).record);
            }
            check_node(&tree, tree.root, tree.height);
            assert_eq!(tree.len(), 50_000);
            assert!(
                tree.leaves.nodes.len() <= full + 5,
                "{}",
                tree.leaves.nodes.len()
            );
        }
    }
}
