//! What the rest of the crate needs of the cluster under loom, with which NATS's client cannot be
//! built.

pub(crate) mod own;

/// No hub is in a cluster.
#[derive(Clone, Copy, Debug)]
pub enum ClusterConfig {}

/// No figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterStatus;

/// No reader of the journal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reader;

impl Reader {
    /// Tells no thread.
    pub(crate) fn tell(&self) {}
}
