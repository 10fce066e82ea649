//! The children of a node of the radix tree.

use super::nodes::{NodeId, ROOT};

/// The children of a node, by the first byte of their label.
#[derive(Debug, Clone, Default)]
pub(super) struct Children {
    /// `None` for a leaf, which is most nodes: one pointer.
    nodes: Option<Box<Branches>>,
}

#[derive(Debug, Clone)]
enum Branches {
    /// In ascending order of the byte.
    Few(Vec<(u8, NodeId)>),
    /// By byte; ROOT, which is never a child, if there is none.
    All {
        count: usize,
        nodes: Box<[NodeId; 256]>,
    },
}

impl Children {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_none()
    }

    #[inline]
    pub(super) fn find(&self, first: u8) -> Option<NodeId> {
        match self.nodes.as_deref()? {
            Branches::Few(few) => few
                .iter()
                .find(|&&(known, _)| known == first)
                .map(|&(_, node)| node),
            Branches::All { nodes, .. } => {
                Some(nodes[usize::from(first)]).filter(|&node| node != ROOT)
            }
        }
    }

    /// Returns the child, if there is exactly one.
    pub(super) fn only(&self) -> Option<NodeId> {
        match self.nodes.as_deref()? {
            Branches::Few(few) => match few[..] {
                [(_, node)] => Some(node),
                _ => None,
            },
            Branches::All { .. } => None,
        }
    }

    /// Adds a child for a byte that has none.
    pub(super) fn insert(&mut self, first: u8, node: NodeId) {
        let Some(branches) = self.nodes.as_deref_mut() else {
            self.nodes = Some(Box::new(Branches::Few(vec![(first, node)])));
            return;
        };
        match branches {
            Branches::Few(few) if few.len() < Children::FEW_MAX => few.push((first, node)),
            Branches::Few(few) => {
                let mut nodes = Box::new([ROOT; 256]);
                for &(first, node) in &*few {
                    nodes[usize::from(first)] = node;
                }
                nodes[usize::from(first)] = node;
                *branches = Branches::All {
                    count: Children::FEW_MAX + 1,
                    nodes,
                };
            }
            Branches::All { count, nodes } => {
                nodes[usize::from(first)] = node;
                *count += 1;
            }
        }
    }

    /// Replaces the child of this byte.
    pub(super) fn replace(&mut self, first: u8, node: NodeId) {
        match self.nodes.as_deref_mut() {
            None => {}
            Some(Branches::Few(few)) => {
                few.iter_mut()
                    .filter(|(known, _)| *known == first)
                    .for_each(|pair| pair.1 = node);
            }
            Some(Branches::All { nodes, .. }) => nodes[usize::from(first)] = node,
        }
    }

    pub(super) fn remove(&mut self, first: u8) {
        let left = match self.nodes.as_deref_mut() {
            None => 0,
            Some(Branches::Few(few)) => {
                few.retain(|&(known, _)| known != first);
                few.len()
            }
            Some(branches @ Branches::All { .. }) => branches.remove_from_all(first),
        };
        if left == 0 {
            self.nodes = None;
        }
    }

    /// More children than this are found faster by index.
    const FEW_MAX: usize = 12;
}

impl Branches {
    /// Removes from the wide form. Returns to the narrow form well below the limit, so that a
    /// table at the limit does not change form with each subscription. Returns the number of
    /// remaining children.
    fn remove_from_all(&mut self, first: u8) -> usize {
        let Branches::All { count, nodes } = self else {
            return 0;
        };
        nodes[usize::from(first)] = ROOT;
        *count -= 1;
        let left = *count;
        if left <= Children::FEW_MAX / 2 {
            let kept = (0..=255u8).zip(&**nodes).filter(|&(_, &node)| node != ROOT);
            *self = Branches::Few(kept.map(|(first, &node)| (first, node)).collect());
        }
        left
    }
}
