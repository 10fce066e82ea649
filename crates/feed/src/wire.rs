//! Byte layout of the native feed.
