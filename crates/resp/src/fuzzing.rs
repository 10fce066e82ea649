//! Entry points for fuzzers and corpus tests. Each accepts any bytes and must not panic. Assertions
//! also check the parsers' guarantees.

use crate::{
    ArgumentList, Limits, Progress, ProtocolError, ReplyError, ReplyKind, ReplyParser,
    RequestParser, Value, decode,
};

/// Parses `data` as a connection's requests, at once and in pieces of several sizes. Asserts that
/// all find the same requests and the same error, also if requests are recognized by the previous
/// request's head.
pub fn fuzz_resp_request(data: &[u8]) {
    // Small limits, so that small inputs reach them.
    let limits = Limits {
        arguments_max: 64,
        bulk_bytes_max: 512,
        inline_bytes_max: 128,
        unauthenticated: data.len() % 2 == 1,
    };
    let whole = requests(data, limits, data.len(), false);
    for piece_bytes in PIECE_BYTES {
        assert_eq!(requests(data, limits, piece_bytes, false), whole);
        assert_eq!(requests(data, limits, piece_bytes, true), whole);
    }
    assert_eq!(requests(data, limits, data.len(), true), whole);
}

/// Parses `data` as a connection's replies, at once and in pieces of several sizes. Asserts that
/// all replies end at the same places and that [`decode`] agrees.
pub fn fuzz_resp_reply(data: &[u8]) {
    let (ends, error) = replies(data, data.len());
    for piece_bytes in PIECE_BYTES {
        assert_eq!(replies(data, piece_bytes), (ends.clone(), error));
    }
    let mut start = 0;
    for (end, kind) in ends {
        match decode(&data[start..]) {
            Ok(Some((value, consumed))) => {
                assert_eq!(start + consumed, end);
                let is_error = matches!(value, Value::Error(_) | Value::BulkError(_));
                assert_eq!(is_error, kind == ReplyKind::Error);
                assert_eq!(matches!(value, Value::Push(_)), kind == ReplyKind::Push);
            }
            Ok(None) => panic!("a complete reply counted as incomplete"),
            Err(error) => assert_eq!(error, ReplyError::InvalidScalar),
        }
        start = end;
    }
    match (decode(&data[start..]), error) {
        (Ok(None), None) | (Err(ReplyError::InvalidScalar), _) => {}
        (decoded, error) => assert_eq!(decoded.err(), error),
    }
}

/// The first size cuts everywhere; the others leave whole lines, bulks and requests between two
/// cuts.
const PIECE_BYTES: [usize; 4] = [1, 2, 5, 13];

type Requests = (Vec<ArgumentList>, Option<ProtocolError>);

fn requests(data: &[u8], limits: Limits, piece_bytes: usize, by_heads: bool) -> Requests {
    let mut parser = RequestParser::new(limits);
    let mut head = None;
    let (mut found, mut start, mut arrived) = (Vec::new(), 0, piece_bytes.min(data.len()));
    loop {
        let input = &data[start..arrived];
        let like_it = head.and_then(|head| parser.parse_like(&head, input));
        match like_it.unwrap_or_else(|| parser.parse(input)) {
            Ok(Progress::Complete { consumed }) => {
                assert!((1..=input.len()).contains(&consumed));
                head = parser.head(input).filter(|_| by_heads).or(head);
                found.push(ArgumentList::from(parser.arguments(input)));
                start += consumed;
            }
            Ok(Progress::Incomplete { needed }) => {
                assert!(needed > 0 && needed <= limits.bulk_bytes_max + 2);
                if arrived == data.len() {
                    return (found, None);
                }
                arrived = data.len().min(arrived + piece_bytes);
            }
            Err(error) => return (found, Some(error)),
        }
    }
}

fn replies(data: &[u8], piece_bytes: usize) -> (Vec<(usize, ReplyKind)>, Option<ReplyError>) {
    let mut parser = ReplyParser::new();
    let (mut ends, mut start, mut arrived) = (Vec::new(), 0, piece_bytes.min(data.len()));
    loop {
        match parser.skip(&data[start..arrived]) {
            Ok(Progress::Complete { consumed }) => {
                start += consumed;
                ends.push((start, parser.kind()));
            }
            Ok(Progress::Incomplete { needed }) => {
                assert!(needed > 0);
                if arrived == data.len() {
                    return (ends, None);
                }
                arrived = data.len().min(arrived + piece_bytes);
            }
            Err(error) => return (ends, Some(error)),
        }
    }
}
