//! Commands that count distinct things.
