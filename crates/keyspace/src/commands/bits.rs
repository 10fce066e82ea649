//! Commands on bits.
