//! Nodes of the tree, stored as columns.

/// A member's position in the order: its score, then the member's bytes in its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(super) score: f64,
    pub(super) record: u32,
}

/// A leaf: items in order, and the neighbouring leaves.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    scores: [f64; LEAF_ITEMS_MAX],
    records: [u32; LEAF_ITEMS_MAX],
    pub(super) previous: u32,
    pub(super) next: u32,
    count: u16,
}

/// An inner node: children in order, with their first items and their total numbers of items.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    scores: [f64; CHILDREN_MAX],
    records: [u32; CHILDREN_MAX],
    pub(super) nodes: [u32; CHILDREN_MAX],
    pub(super) sizes: [u32; CHILDREN_MAX],
    count: u16,
}

/// One child of an inner node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) first: Item,
    pub(super) node: u32,
    pub(super) size: u32,
}

/// Operations of both kinds of nodes.
pub(super) trait Node: Sized {
    type Part: Copy;

    const PARTS_MAX: usize;

    fn new() -> Box<Self>;
    fn len(&self) -> usize;
    /// Returns the first item in or below it; it is not empty.
    fn first(&self) -> Item;
    /// Returns the number of items in or below it.
    fn size(&self) -> u32;
    fn insert(&mut self, at: usize, part: Self::Part);
    fn remove(&mut self, at: usize);
    /// Moves the first parts of `next`, its right neighbour, to its own end.
    fn take_first(&mut self, next: &mut Self, count: usize);
    /// Moves its last parts to the start of `next`, its right neighbour.
    fn give_last(&mut self, next: &mut Self, count: usize);
}

macro_rules! columns {
    ($self:ident, $next:ident, $count:ident, $($column:ident),*) => {
        fn len(&self) -> usize {
            usize::from(self.count)
        }

        fn remove(&mut $self, at: usize) {
            let count = $self.len();
            debug_assert!(at < count);
            $($self.$column.copy_within(at + 1..count, at);)*
            $self.count -= 1;
        }

        fn take_first(&mut $self, $next: &mut Self, $count: usize) {
            let (own, others) = ($self.len(), $next.len());
            debug_assert!($count <= others && own + $count <= Self::PARTS_MAX);
            $(
                $self.$column[own..own + $count].copy_from_slice(&$next.$column[..$count]);
                $next.$column.copy_within($count..others, 0);
            )*
            $self.count += $count as u16;
            $next.count -= $count as u16;
        }

        fn give_last(&mut $self, $next: &mut Self, $count: usize) {
            let (own, others) = ($self.len(), $next.len());
            debug_assert!($count <= own && others + $count <= Self::PARTS_MAX);
            $(
                $next.$column.copy_within(..others, $count);
                $next.$column[..$count].copy_from_slice(&$self.$column[own - $count..own]);
            )*
            $self.count -= $count as u16;
            $next.count += $count as u16;
        }
    };
}

impl Node for Leaf {
    type Part = Item;

    const PARTS_MAX: usize = LEAF_ITEMS_MAX;

    columns!(self, next, count, scores, records);

    fn new() -> Box<Self> {
        Box::new(Leaf {
            scores: [0.0; LEAF_ITEMS_MAX],
            records: [0; LEAF_ITEMS_MAX],
            previous: NONE,
            next: NONE,
            count: 0,
        })
    }

    fn first(&self) -> Item {
        self.item(0)
    }

    fn size(&self) -> u32 {
        u32::from(self.count)
    }

    fn insert(&mut self, at: usize, item: Item) {
        let count = self.len();
        debug_assert!(at <= count && count < Self::PARTS_MAX);
        debug_assert!(
            at == 0 || self.scores[at - 1] <= item.score,
            "scores ascend"
        );
        debug_assert!(
            at == count || item.score <= self.scores[at],
            "scores ascend"
        );
        self.scores.copy_within(at..count, at + 1);
        self.records.copy_within(at..count, at + 1);
        self.count += 1;
        self.set(at, item);
    }
}

impl Leaf {
    #[inline]
    pub(super) fn item(&self, at: usize) -> Item {
        Item {
            score: self.scores[at],
            record: self.records[at],
        }
    }

    pub(super) fn set(&mut self, at: usize, item: Item) {
        self.scores[at] = item.score;
        self.records[at] = item.record;
    }

    /// Returns how many of its items are before a bound.
    #[inline]
    pub(super) fn search(&self, before: impl Fn(Item) -> bool) -> usize {
        search(0, self.len(), |at| before(self.item(at)))
    }
}

impl Node for Inner {
    type Part = Child;

    const PARTS_MAX: usize = CHILDREN_MAX;

    columns!(self, next, count, scores, records, nodes, sizes);

    fn new() -> Box<Self> {
        Box::new(Inner {
            scores: [0.0; CHILDREN_MAX],
            records: [0; CHILDREN_MAX],
            nodes: [0; CHILDREN_MAX],
            sizes: [0; CHILDREN_MAX],
            count: 0,
        })
    }

    fn first(&self) -> Item {
        self.first_of(0)
    }

    fn size(&self) -> u32 {
        self.size_before(self.len())
    }

    fn insert(&mut self, at: usize, child: Child) {
        let count = self.len();
        debug_assert!(at <= count && count < Self::PARTS_MAX);
        debug_assert!(child.size > 0, "no child is empty");
        self.scores.copy_within(at..count, at + 1);
        self.records.copy_within(at..count, at + 1);
        self.nodes.copy_within(at..count, at + 1);
        self.sizes.copy_within(at..count, at + 1);
        self.count += 1;
        self.set_first(at, child.first);
        self.nodes[at] = child.node;
        self.sizes[at] = child.size;
    }
}

impl Inner {
    pub(super) fn set_first(&mut self, at: usize, item: Item) {
        self.scores[at] = item.score;
        self.records[at] = item.record;
    }

    /// Returns the number of items below the children before this one.
    #[inline]
    pub(super) fn size_before(&self, at: usize) -> u32 {
        self.sizes[..at].iter().sum()
    }

    /// Returns the child whose range contains the bound.
    #[inline]
    pub(super) fn search(&self, before: impl Fn(Item) -> bool) -> usize {
        search(1, self.len(), |at| before(self.first_of(at))) - 1
    }

    /// Returns the first item below a child.
    #[inline]
    pub(super) fn first_of(&self, at: usize) -> Item {
        Item {
            score: self.scores[at],
            record: self.records[at],
        }
    }
}

/// Returns the first position that is not before the bound, or `to`.
#[inline]
fn search(from: usize, to: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = (low + high) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// Maximum number of items; a leaf with them has 768 bytes.
const LEAF_ITEMS_MAX: usize = 63;
/// Maximum number of children; an inner node with them has 1,024 bytes.
const CHILDREN_MAX: usize = 51;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_fill_the_size_classes_of_allocators() {
        assert_eq!((size_of::<Leaf>(), size_of::<Inner>()), (768, 1024));
    }
}
