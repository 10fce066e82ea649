//! Entries for fuzzers: each takes any bytes and must not panic.
