//! Fuzz entries of this crate's decoders.
