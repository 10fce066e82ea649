//! Streams: packed blocks of entries in the order of their ids.

/// A stream and the groups that read it.
#[derive(Clone, Debug)]
pub(crate) struct Stream {}
