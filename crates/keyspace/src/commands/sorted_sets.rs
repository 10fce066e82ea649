//! Commands on sorted sets.
