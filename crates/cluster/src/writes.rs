//! Writes to topics of other hubs: a request to the owner, and its answer
//! (`docs/cluster-protocol.md`, section 11).
//!
//! ```text
//!  client ─▶ edge: AskedWrites ─▶ WriteRequest ─▶ NATS ─▶ owner: TakenWrites ─▶ key or tag
//!  client ◀─ edge: AskedWrites ◀─ WriteAnswer  ◀─ NATS ◀─ owner: TakenWrites ◀─ outcome
//! ```
//!
//! An edge sends a request once, and an owner takes it once: at most one of them changes a value.

mod asked;
mod frame;
mod taken;
mod words;

pub use asked::{AskedWrites, WAITING_BYTES_MAX, WAITING_MAX};
pub use frame::{
    ADDRESS_LENGTH_MAX, KIND_ANSWER, KIND_COMMAND, KIND_REQUEST, NAME_LENGTH_MAX, REPLY_LENGTH_MAX,
    TEXT_LENGTH_MAX, USER_LENGTH_MAX, VALUE_LENGTH_MAX, WRITE_HEADER_LENGTH, WriteAnswer,
    WriteFrameError, WriteId, WriteOutcome, WriteRequest, seal_write,
};
pub use taken::{Admission, EDGES_MAX, SESSIONS_MAX, TAKEN_MAX, TakenWrites};
pub use words::{decode_words, encode_words};
