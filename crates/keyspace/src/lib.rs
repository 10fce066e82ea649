//! Sharded keys, data types, expiry, and commands as functions over them.
