//! HTTP/1.1, limited to what the hub's ports need.

mod head;
pub use head::{
    BAD_REQUEST, FORBIDDEN, HEAD_BYTES_MAX, Headers, gather_head, is_whole, split_head,
};

mod request;
pub use request::{LINE_BYTES_MAX, Parsed, Status, parse_request, response};

mod server;
pub use server::{BODY_BYTES_MAX, Method, Read, Refusal, Reply, Request, read};
