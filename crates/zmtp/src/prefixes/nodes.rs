//! The radix tree under a prefix table.
//!
//! Nodes are in one vector and refer to each other by index. An edge's label is in the node that
//! it leads to and has at most fifteen bytes; a longer one is a chain of nodes. A node with
//! subscribers never changes its index: splitting puts the new node *above*, joining moves the
//! label of the upper node to the lower.

use super::branches::Children;

/// The tree. Node 0 is the root, the empty prefix.
#[derive(Debug, Clone)]
pub(super) struct Nodes<T> {
    nodes: Vec<Node<T>>,
    /// Free indexes.
    free: Vec<NodeId>,
}

/// The index of a node.
pub(super) type NodeId = u32;

#[derive(Debug, Clone)]
struct Node<T> {
    label: Label,
    parent: NodeId,
    children: Children,
    subscribers: Subscribers<T>,
}

/// The subscribers of one prefix in ascending order, each with its count.
#[derive(Debug, Clone, Default)]
pub(super) enum Subscribers<T> {
    #[default]
    None,
    One([(T, u32); 1]),
    Many(Vec<(T, u32)>),
}

/// The result of adding a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    New,
    Again,
}

impl<T: Copy + Ord> Nodes<T> {
    pub(super) fn new() -> Nodes<T> {
        Nodes {
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns the node of a prefix, if there is one.
    pub(super) fn find(&self, prefix: &[u8]) -> Option<NodeId> {
        let mut node = ROOT;
        let mut rest = prefix;
        self.nodes.first()?;
        while let Some(&first) = rest.first() {
            node = self.node(node).children.find(first)?;
            rest = rest.strip_prefix(self.node(node).label.as_bytes())?;
        }
        Some(node)
    }

    /// Returns the node of a prefix, and creates it if there is none.
    pub(super) fn make(&mut self, prefix: &[u8]) -> NodeId {
        if self.nodes.is_empty() {
            self.add(Label::default(), ROOT);
        }
        let mut node = ROOT;
        let mut rest = prefix;
        while let Some(&first) = rest.first() {
            let Some(child) = self.node(node).children.find(first) else {
                return self.make_chain(node, rest);
            };
            let label = self.node(child).label;
            let common = common_length(label.as_bytes(), rest);
            node = if common < label.as_bytes().len() {
                self.split(child, common)
            } else {
                child
            };
            rest = &rest[common..];
        }
        node
    }

    /// Iterates over the subscribers of each node on the path of a topic.
    #[inline]
    pub(super) fn walk<'n, 't>(&'n self, topic: &'t [u8]) -> Walk<'n, 't, T> {
        Walk {
            nodes: self,
            next: self.nodes.first(),
            rest: topic,
        }
    }

    /// Writes the prefix of a node.
    pub(super) fn spell(&self, node: NodeId, prefix: &mut Vec<u8>) {
        prefix.clear();
        let mut at = node;
        while at != ROOT {
            prefix.extend(self.node(at).label.as_bytes().iter().rev());
            at = self.node(at).parent;
        }
        prefix.reverse();
    }

    /// Iterates over the nodes with subscribers.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (NodeId, &[(T, u32)])> {
        let occupied = self.nodes.iter().map(|node| node.subscribers.as_slice());
        (0..)
            .zip(occupied)
            .filter(|(_, subscribers)| !subscribers.is_empty())
    }

    pub(super) fn subscribers(&self, node: NodeId) -> &[(T, u32)] {
        self.node(node).subscribers.as_slice()
    }

    pub(super) fn subscribers_mut(&mut self, node: NodeId) -> &mut Subscribers<T> {
        &mut self.node_mut(node).subscribers
    }

    /// Removes unused nodes upwards from a node that has lost its last subscriber.
    pub(super) fn prune(&mut self, node: NodeId) {
        let mut at = node;
        while at != ROOT && self.node(at).is_useless() {
            let parent = self.node(at).parent;
            let first = self.node(at).label.first();
            self.node_mut(parent).children.remove(first);
            self.release(at);
            at = parent;
        }
        if at != ROOT {
            self.join(at);
        }
        if at == ROOT && self.node(ROOT).is_useless() {
            // Nothing is left: free the memory.
            *self = Nodes::new();
        }
    }

    /// Moves the label of a node with one child and no subscribers to that child.
    fn join(&mut self, node: NodeId) {
        let upper = self.node(node);
        let (Some(child), true) = (upper.children.only(), upper.subscribers.is_empty()) else {
            return;
        };
        let Some(label) = upper.label.joined(&self.node(child).label) else {
            return;
        };
        let parent = upper.parent;
        let lower = self.node_mut(child);
        lower.label = label;
        lower.parent = parent;
        self.node_mut(parent).children.replace(label.first(), child);
        self.release(node);
    }

    /// Inserts a node above `lower` that takes the first `length` bytes of its label.
    fn split(&mut self, lower: NodeId, length: usize) -> NodeId {
        let (head, tail) = self.node(lower).label.split(length);
        let parent = self.node(lower).parent;
        let upper = self.add(head, parent);
        self.node_mut(upper).children.insert(tail.first(), lower);
        self.node_mut(parent).children.replace(head.first(), upper);
        let lower = self.node_mut(lower);
        lower.label = tail;
        lower.parent = upper;
        upper
    }

    /// Adds new nodes with these labels, as a chain below a node.
    fn make_chain(&mut self, above: NodeId, labels: &[u8]) -> NodeId {
        let mut node = above;
        for bytes in labels.chunks(Label::BYTES_MAX) {
            let label = Label::new(bytes);
            let child = self.add(label, node);
            self.node_mut(node).children.insert(label.first(), child);
            node = child;
        }
        node
    }

    fn add(&mut self, label: Label, parent: NodeId) -> NodeId {
        let children = Children::default();
        let node = Node {
            label,
            parent,
            children,
            subscribers: Subscribers::None,
        };
        if let Some(id) = self.free.pop() {
            *self.node_mut(id) = node;
            return id;
        }
        self.nodes.push(node);
        // 2^32 nodes would take about 250 GB: memory runs out before indexes do.
        (self.nodes.len() - 1) as NodeId
    }

    fn release(&mut self, node: NodeId) {
        self.node_mut(node).children = Children::default();
        self.free.push(node);
    }

    #[inline]
    fn node(&self, id: NodeId) -> &Node<T> {
        &self.nodes[id as usize]
    }

    #[inline]
    fn node_mut(&mut self, id: NodeId) -> &mut Node<T> {
        &mut self.nodes[id as usize]
    }
}

impl<T> Node<T> {
    fn is_useless(&self) -> bool {
        self.subscribers.is_empty() && self.children.is_empty()
    }
}

/// The path of a topic through the tree.
#[derive(Debug)]
pub(super) struct Walk<'n, 't, T> {
    nodes: &'n Nodes<T>,
    /// The next node; its label has been compared.
    next: Option<&'n Node<T>>,
    rest: &'t [u8],
}

impl<'n, T: Copy + Ord> Iterator for Walk<'n, '_, T> {
    type Item = &'n [(T, u32)];

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_within(usize::MAX)
    }
}

impl<'n, T: Copy + Ord> Walk<'n, '_, T> {
    /// Returns the subscribers of the next prefix that leaves at most `rest_max` bytes of the
    /// topic.
    #[inline]
    pub(super) fn next_within(&mut self, rest_max: usize) -> Option<&'n [(T, u32)]> {
        while let Some(node) = self.next {
            let is_within = self.rest.len() <= rest_max;
            self.next = self.rest.first().and_then(|&first| {
                let child = self.nodes.node(node.children.find(first)?);
                self.rest = self.rest.strip_prefix(child.label.as_bytes())?;
                Some(child)
            });
            let subscribers = node.subscribers.as_slice();
            if is_within && !subscribers.is_empty() {
                return Some(subscribers);
            }
        }
        None
    }
}

/// Up to fifteen bytes, stored in place.
#[derive(Debug, Clone, Copy, Default)]
struct Label {
    length: u8,
    bytes: [u8; Label::BYTES_MAX],
}

impl Label {
    const BYTES_MAX: usize = 15;

    fn new(from: &[u8]) -> Label {
        let mut bytes = [0; Label::BYTES_MAX];
        bytes[..from.len()].copy_from_slice(from);
        Label {
            length: from.len() as u8,
            bytes,
        }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn first(&self) -> u8 {
        self.bytes[0]
    }

    fn split(&self, length: usize) -> (Label, Label) {
        let (head, tail) = self.as_bytes().split_at(length);
        (Label::new(head), Label::new(tail))
    }

    /// Returns both labels joined, if they fit.
    fn joined(&self, tail: &Label) -> Option<Label> {
        let length = usize::from(self.length);
        let mut joined = *self;
        joined
            .bytes
            .get_mut(length..length + tail.as_bytes().len())?
            .copy_from_slice(tail.as_bytes());
        joined.length += tail.length;
        Some(joined)
    }
}

impl<T> Subscribers<T> {
    #[inline]
    pub(super) fn as_slice(&self) -> &[(T, u32)] {
        match self {
            Subscribers::None => &[],
            Subscribers::One(one) => one,
            Subscribers::Many(many) => many,
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Subscribers::None)
    }
}

impl<T: Copy + Ord> Subscribers<T> {
    pub(super) fn add(&mut self, subscriber: T) -> Count {
        match self.position(subscriber) {
            Ok(index) => {
                let count = &mut self.as_mut_slice()[index].1;
                *count = count.saturating_add(1);
                return Count::Again;
            }
            Err(index) => match self {
                Subscribers::None => *self = Subscribers::One([(subscriber, 1)]),
                Subscribers::One([one]) => {
                    let mut many = vec![*one];
                    many.insert(index, (subscriber, 1));
                    *self = Subscribers::Many(many);
                }
                Subscribers::Many(many) => many.insert(index, (subscriber, 1)),
            },
        }
        Count::New
    }

    /// Removes one count if there is more than one. Returns whether there was.
    pub(super) fn uncount(&mut self, subscriber: T) -> bool {
        let Ok(index) = self.position(subscriber) else {
            return false;
        };
        let count = &mut self.as_mut_slice()[index].1;
        let several = *count > 1;
        *count -= u32::from(several);
        several
    }

    /// Removes a subscriber. Returns whether it was there.
    pub(super) fn take(&mut self, subscriber: T) -> bool {
        let Ok(index) = self.position(subscriber) else {
            return false;
        };
        match self {
            Subscribers::None => {}
            Subscribers::One(_) => *self = Subscribers::None,
            Subscribers::Many(many) => {
                many.remove(index);
                match many[..] {
                    [] => *self = Subscribers::None,
                    [one] => *self = Subscribers::One([one]),
                    _ => {}
                }
            }
        }
        true
    }

    fn position(&self, subscriber: T) -> Result<usize, usize> {
        self.as_slice()
            .binary_search_by_key(&subscriber, |&(known, _)| known)
    }

    fn as_mut_slice(&mut self) -> &mut [(T, u32)] {
        match self {
            Subscribers::None => &mut [],
            Subscribers::One(one) => one,
            Subscribers::Many(many) => many,
        }
    }
}

fn common_length(left: &[u8], right: &[u8]) -> usize {
    left.iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count()
}

pub(super) const ROOT: NodeId = 0;
