//! Entries for fuzzers, called by the tests over the corpus as well. None may panic.

use crate::session::zmq::request;

/// Requests on the ROUTER port: frames, each behind its length in one octet.
pub fn fuzz_zmq_request(data: &[u8]) {
    request::fuzz(data);
}
