//! Entry points for fuzzers, also called by the tests over the corpus. None may panic.

use crate::http::{self, HEAD_BYTES_MAX, Parsed, gather_head, is_whole, parse_request, split_head};
use crate::websocket::{
    FrameHead, Receiver, accept_of, accept_upgrade, is_response, may_become_request,
    may_become_response, response_to,
};

/// Parses the bytes as an upgrade request and as an upgrade response, whole and in pieces.
pub fn fuzz_web_upgrade(data: &[u8]) {
    let (mut whole, mut dripped) = (Vec::new(), Vec::new());
    let taken = gather_head(&mut whole, data);
    assert_eq!(taken, whole.len());
    for octet in data {
        if is_whole(&dripped) || gather_head(&mut dripped, &[*octet]) == 0 {
            break;
        }
    }
    assert!(whole == dripped && whole.len() <= HEAD_BYTES_MAX);
    if !is_whole(&whole) {
        return;
    }
    if let Some(response) = response_to(&whole, "chat") {
        assert!(may_become_request(&whole));
        let key =
            split_head(&whole).and_then(|(_, headers)| headers.values("Sec-WebSocket-Key").next());
        let key = key.unwrap_or_default();
        assert!(is_response(
            response.as_bytes(),
            &accept_of(key.as_bytes()),
            "chat"
        ));
    }
    if is_response(&whole, "accept", "chat") {
        assert!(may_become_response(&whole));
    }
}

/// Parses the bytes as a request. A prefix must give the same result as the whole.
pub fn fuzz_web_request(data: &[u8]) {
    let whole = parse_request(data);
    // A longer head is refused as soon as its length shows, even if its end comes later.
    if data.len() > HEAD_BYTES_MAX {
        return;
    }
    for end in (0..data.len()).step_by(data.len() / 16 + 1) {
        let part = parse_request(&data[..end]);
        assert!(part == Parsed::Incomplete || part == whole);
    }
}

/// Reads the bytes as requests that follow each other, and as messages of a client. A prefix must
/// give the same result as the whole, or none.
pub fn fuzz_web_server(data: &[u8]) {
    let mut rest = data;
    while let http::Read::Request(request) = http::read(rest) {
        assert!(request.size_bytes <= rest.len() && request.size_bytes > 0);
        let _ = accept_upgrade(request.head, &["a", "b"]);
        let before = http::read(&rest[..request.size_bytes - 1]);
        assert!(matches!(before, http::Read::Incomplete));
        rest = &rest[request.size_bytes..];
    }
    let (mut receiver, mut rest) = (Receiver::new(1_000), data);
    while let Ok(Some((count, _))) = receiver.receive(rest) {
        rest = &rest[count..];
    }
}

/// Parses the bytes as frames of a client and of a server. A frame that is read must be written
/// back unchanged, except for a length in a longer form than necessary.
pub fn fuzz_web_frames(data: &[u8]) {
    for is_masked in [false, true] {
        let mut rest = data;
        while let Ok(Some((head, size_bytes))) = FrameHead::read(rest, is_masked) {
            let mut written = Vec::new();
            head.write(&mut written);
            assert!(written.len() <= size_bytes && size_bytes <= FrameHead::BYTES_MAX);
            assert_eq!(
                FrameHead::read(&written, is_masked),
                Ok(Some((head, written.len())))
            );
            let behind = &rest[size_bytes..];
            let payload = usize::try_from(head.payload_bytes).unwrap_or(usize::MAX);
            rest = &behind[payload.min(behind.len())..];
        }
    }
}
