//! Exchange simulator: a seeded market.
