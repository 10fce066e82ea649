//! Fuzz entries, also run by tests over the corpus. None may panic.

use crate::session::zmq::request;

/// Requests on the ROUTER port: frames, each behind its length in one octet.
pub fn fuzz_zmq_request(data: &[u8]) {
    request::fuzz(data);
}
