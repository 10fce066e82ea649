//! Templates, groups and enums of `schema/mdp.xml`, as views and writers.
//!
//! Prices are integers in units of 1e-9, in the exchange's display format: the price that traders
//! use is the product with the definition's display factor.

#![allow(clippy::all, reason = "the generated code is read by compilers only")]
#![allow(
    dead_code,
    reason = "a writer of a message without fields writes its header only"
)]

include!(concat!(env!("OUT_DIR"), "/schema.rs"));
