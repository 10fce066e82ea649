//! How long to wait before something is tried again, and how often to tell that it fails.

#![forbid(unsafe_code)]

mod back_off;
pub use back_off::BackOff;

mod telling;
pub use telling::{Repeated, Seldom, note_failed_login};
