//! Retry with backoff, and limits on how often a repeated failure is logged.

#![forbid(unsafe_code)]

mod back_off;
pub use back_off::BackOff;

mod telling;
pub use telling::{LinkLog, Repeated, Seldom, note_failed_login};
