//! Tests that requests and replies allocate nothing once the buffers have grown to the traffic.

use tidewire_memory::counting::{CountingAllocator, allocations_of};
use tidewire_resp::{
    Limits, Progress, Protocol, ReplyParser, RequestParser, Writer, write_request,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns the number of allocations of a hundred calls of `turn`, after a warm-up call.
fn allocations_of_turns(mut turn: impl FnMut()) -> u64 {
    turn();
    turn();
    allocations_of(|| (0..100).for_each(|_| turn()))
}

/// Parses all requests of `stream` in pieces of `piece_bytes`; returns the number of arguments.
fn read_requests(parser: &mut RequestParser, stream: &[u8], piece_bytes: usize) -> usize {
    let (mut arguments, mut start) = (0, 0);
    for end in (0..stream.len() + piece_bytes).step_by(piece_bytes) {
        let end = end.min(stream.len());
        while let Ok(Progress::Complete { consumed }) = parser.parse(&stream[start..end]) {
            arguments += parser.arguments(&stream[start..end]).iter().len();
            start += consumed;
        }
    }
    assert_eq!(start, stream.len());
    arguments
}

fn write_replies(writer: &mut Writer<'_>) {
    writer.ok();
    writer.error("ERR no such key");
    writer.integer(-12_345);
    writer.bulk(&[b'x'; 300]);
    writer.bulk_integer(i64::MIN);
    writer.double(2.5e-9);
    writer.verbatim("txt", b"text");
    writer.null();
    writer.map(1);
    writer.simple("key");
    writer.boolean(true);
    let mark = writer.array_later();
    (0..100).for_each(|number| writer.integer(number));
    writer.finish(mark, 100);
}

#[test]
fn requests_allocate_nothing() {
    let mut stream = Vec::new();
    for count in [1, 2, 3, 40] {
        write_request(&mut stream, &vec!["argument"; count]);
    }
    stream.extend_from_slice(b"PING inline\r\nSET key \"a \\x41 b\" 'c d'\r\n*0\r\n");
    let mut parser = RequestParser::new(Limits::default());
    let allocations = allocations_of_turns(|| {
        assert_eq!(read_requests(&mut parser, &stream, 4096), 52);
        assert_eq!(read_requests(&mut parser, &stream, 3), 52);
    });
    assert_eq!(allocations, 0);
}

#[test]
fn replies_allocate_nothing_to_write_or_to_skip() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut out = Vec::new();
        let mut parser = ReplyParser::new();
        let allocations = allocations_of_turns(|| {
            out.clear();
            write_replies(&mut Writer::new(&mut out, protocol));
            let (mut start, mut replies) = (0, 0);
            while let Ok(Progress::Complete { consumed }) = parser.skip(&out[start..]) {
                start += consumed;
                replies += 1;
            }
            assert_eq!((start, replies), (out.len(), 10));
        });
        assert_eq!(allocations, 0);
    }
}
