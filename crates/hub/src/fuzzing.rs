//! Entry points for fuzzers, also called by tests over the corpus. None may panic.

use crate::session::zmq::request;

/// Parses requests on the ROUTER port: frames, each after its length in one octet.
pub fn fuzz_zmq_request(data: &[u8]) {
    request::fuzz(data);
}
