//! Receiving side of a native feed: gap detection and recovery.
