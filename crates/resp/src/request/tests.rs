//! Requests by example: whole, split at every position, inline, hostile.

use super::*;
use crate::{ArgumentList, write_request};

/// Parses the only request in `input`, at once and byte by byte; returns its arguments.
fn parsed(input: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut whole = RequestParser::default();
    let mut pieces = RequestParser::default();
    for length in 0..input.len() {
        match pieces.parse(&input[..length]) {
            Ok(Progress::Incomplete { needed }) => {
                assert!(
                    (1..=input.len() - length).contains(&needed),
                    "{}",
                    input.escape_ascii()
                );
            }
            Ok(Progress::Complete { .. }) => panic!("complete after {length} bytes"),
            Err(error) => {
                assert_eq!(whole.parse(input), Err(error));
                return Err(error);
            }
        }
    }
    let progress = whole.parse(input)?;
    assert_eq!(
        progress,
        Progress::Complete {
            consumed: input.len()
        }
    );
    assert_eq!(pieces.parse(input), Ok(progress));
    assert_eq!(pieces.arguments(input), whole.arguments(input));
    Ok(whole.arguments(input).iter().map(<[u8]>::to_vec).collect())
}

fn inline(line: &str) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let bare = parsed(format!("{line}\n").as_bytes());
    assert_eq!(parsed(format!("{line}\r\n").as_bytes()), bare);
    bare
}

#[test]
fn a_request_is_a_list_of_slices_of_the_input() {
    let input = b"*3\r\n$3\r\nSET\r\n$16\r\n0123456789abcdef\r\n$0\r\n\r\n*1";
    let mut parser = RequestParser::default();
    let Ok(Progress::Complete { consumed }) = parser.parse(input) else {
        panic!("incomplete")
    };
    assert_eq!(consumed, input.len() - 2);
    let arguments = parser.arguments(input);
    assert_eq!(arguments.len(), 3);
    assert_eq!(&arguments[0], b"SET");
    assert_eq!(&arguments[2], b"");
    assert_eq!(arguments[1].as_ptr(), input[18..].as_ptr());
}

#[test]
fn bulks_of_every_header_width_hold_any_bytes() {
    for length in [0, 1, 9, 10, 99, 100, 512, 999, 1000, 70_000] {
        let body: Vec<u8> = (0..length).map(|byte| b"\r\n$*\0\xFF"[byte % 6]).collect();
        let mut input = Vec::new();
        write_request(&mut input, &[b"ECHO".as_slice(), &body]);
        let found = if length > 1000 {
            let mut parser = RequestParser::default();
            assert!(matches!(
                parser.parse(&input),
                Ok(Progress::Complete { .. })
            ));
            ArgumentList::from(parser.arguments(&input))
        } else {
            parsed(&input).unwrap().into_iter().collect()
        };
        assert_eq!(
            found,
            ArgumentList::from_slices(&[b"ECHO", &body]),
            "{length}"
        );
    }
}

#[test]
fn requests_with_many_arguments_are_parsed() {
    for count in [9, 10, 11, 99, 100, 1234] {
        let arguments: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        let mut input = Vec::new();
        write_request(&mut input, &arguments);
        let found = parsed(&input).unwrap();
        assert!(
            found
                .iter()
                .map(Vec::as_slice)
                .eq(arguments.iter().map(String::as_bytes))
        );
    }
}

#[test]
fn empty_requests_complete_without_arguments() {
    for input in [
        "*0\r\n",
        "*-1\r\n",
        "*-10\r\n",
        "\r\n",
        "\n",
        "  \t \r\n",
        "\x0B\n",
    ] {
        assert_eq!(parsed(input.as_bytes()), Ok(vec![]), "{input:?}");
    }
}

#[test]
fn a_pipeline_is_parsed_request_by_request() {
    let mut input =
        b"*1\r\n$4\r\nPING\r\nPING again\r\n*0\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".as_slice();
    let mut parser = RequestParser::default();
    let mut found = Vec::new();
    while let Ok(Progress::Complete { consumed }) = parser.parse(input) {
        found.push(format!("{:?}", parser.arguments(input)));
        input = &input[consumed..];
    }
    assert_eq!(
        found,
        [
            r#"["PING"]"#,
            r#"["PING", "again"]"#,
            "[]",
            r#"["GET", "k"]"#
        ]
    );
    assert!(input.is_empty());
}

#[test]
fn a_request_with_the_head_of_the_previous_one_is_recognized() {
    let mut parser = RequestParser::default();
    let first = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    parser.parse(first).unwrap();
    let head = parser.head(first).expect("a short head");
    let second = b"*2\r\n$3\r\nGET\r\n$5\r\nother\r\n";
    let progress = parser.parse_like(&head, second).expect("it has this head");
    let consumed = second.len();
    assert_eq!(progress, Ok(Progress::Complete { consumed }));
    let expected = r#"["GET", "other"]"#;
    assert_eq!(format!("{:?}", parser.arguments(second)), expected);
    for other in [
        &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"[..],
        b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n",
        b"*2\r\n$3\r\nGET\r\n",
        b"GET k and more than that\r\n",
    ] {
        assert!(parser.parse_like(&head, other).is_none());
    }
    // A request split inside its second argument continues as usual, and no head applies then.
    let (part, whole) = (&second[..20], second);
    let progress = parser.parse_like(&head, part).expect("it has this head");
    assert!(matches!(progress, Ok(Progress::Incomplete { .. })));
    assert!(parser.parse_like(&head, whole).is_none());
    assert_eq!(parser.parse(whole), Ok(Progress::Complete { consumed }));
    assert_eq!(format!("{:?}", parser.arguments(whole)), expected);
    for longer in [&b"*1\r\n$12\r\nan inline one\r\n"[..], b"PING k\r\n"] {
        let _ = parser.parse(longer);
        assert!(parser.head(longer).is_none());
    }
}

#[test]
fn an_incomplete_bulk_reports_how_many_bytes_are_missing() {
    let mut parser = RequestParser::default();
    let mut input = b"*2\r\n$3\r\nSET\r\n$100000\r\nabc".to_vec();
    assert_eq!(
        parser.parse(&input),
        Ok(Progress::Incomplete { needed: 99_999 })
    );
    input.resize(input.len() + 99_997, b'x');
    assert_eq!(parser.parse(&input), Ok(Progress::Incomplete { needed: 2 }));
    input.extend_from_slice(b"\r\n");
    assert_eq!(
        parser.parse(&input),
        Ok(Progress::Complete {
            consumed: input.len()
        })
    );
}

#[test]
fn the_input_may_move_between_two_calls() {
    let mut parser = RequestParser::default();
    let first = b"*2\r\n$3\r\nGET\r\n$3\r\nk".to_vec();
    assert_eq!(parser.parse(&first), Ok(Progress::Incomplete { needed: 4 }));
    let moved = [first.as_slice(), b"ey\r\n"].concat();
    drop(first);
    assert!(matches!(
        parser.parse(&moved),
        Ok(Progress::Complete { .. })
    ));
    assert_eq!(&parser.arguments(&moved)[1], b"key");
}

#[test]
fn protocol_errors_have_the_texts_of_redis() {
    let long = "7".repeat(65_537);
    for (input, text) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*-0\r\n", "invalid multibulk length"),
        ("* 1\r\n", "invalid multibulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*3000000000\r\n", "invalid multibulk length"),
        ("*9223372036854775808\r\n", "invalid multibulk length"),
        ("*1\r\nfoo\r\n", "expected '$', got 'f'"),
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        (
            "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n",
            "expected '$', got 'f'",
        ),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$-10\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$+3\r\n", "invalid bulk length"),
        ("*1\r\n$03\r\n", "invalid bulk length"),
        ("*1\r\n$00\r\n", "invalid bulk length"),
        ("*1\r\n$-0\r\n", "invalid bulk length"),
        ("*1\r\n$3 \r\n", "invalid bulk length"),
        ("*1\r\n$blabla\r\n", "invalid bulk length"),
        ("*1\r\n$3\rx", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n$2000000000\r\n", "invalid bulk length"),
        ("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        ("*1\r\n$3\r\nabcd\r\n", "expected CRLF after bulk"),
        ("*1\r\n$3\r\nabc\n\n", "expected CRLF after bulk"),
        (
            "set \"\"\"key\"\"\" value\r\n",
            "unbalanced quotes in request",
        ),
        (&format!("*{long}"), "too big mbulk count string"),
        (&format!("*1\r\n${long}"), "too big bulk count string"),
        (&format!("{long}\r\n"), "too big inline request"),
    ] {
        let mut parser = RequestParser::default();
        let error = parser.parse(input.as_bytes()).unwrap_err();
        let shown: String = input.chars().take(60).collect();
        assert_eq!(error.to_string(), text, "{shown:?}");
        assert_eq!(parser.parse(input.as_bytes()), Err(error), "it fails again");
        if input.len() < 100 {
            assert_eq!(parsed(input.as_bytes()), Err(error), "{shown:?}");
        }
    }
}

#[test]
fn lines_are_refused_just_beyond_their_limit() {
    let limits = Limits {
        inline_bytes_max: 8,
        ..Limits::default()
    };
    let parse = |input: &[u8]| RequestParser::new(limits).parse(input);
    assert_eq!(parse(b"12345678\n"), Ok(Progress::Complete { consumed: 9 }));
    assert_eq!(parse(b"12345678"), Ok(Progress::Incomplete { needed: 1 }));
    assert_eq!(parse(b"123456789"), Err(ProtocolError::TooBigInline));
    assert_eq!(parse(b"123456789\n"), Err(ProtocolError::TooBigInline));
    assert_eq!(parse(b"*xxxxxxx"), Ok(Progress::Incomplete { needed: 1 }));
    assert_eq!(
        parse(b"*xxxxxxxx"),
        Err(ProtocolError::TooBigMultibulkCount)
    );
    assert_eq!(
        parse(b"*1\r\n$xxxxxxxx"),
        Err(ProtocolError::TooBigBulkCount)
    );
}

#[test]
fn a_client_has_small_limits_until_it_authenticates() {
    let mut parser = RequestParser::new(Limits::unauthenticated());
    let login = b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
    assert!(matches!(parser.parse(login), Ok(Progress::Complete { .. })));
    for (input, error) in [
        ("*11\r\n", ProtocolError::UnauthenticatedMultibulkLength),
        ("*100\r\n", ProtocolError::UnauthenticatedMultibulkLength),
        ("*2147483648\r\n", ProtocolError::InvalidMultibulkLength),
        ("*1\r\n$16385\r\n", ProtocolError::UnauthenticatedBulkLength),
        (
            "*1\r\n$100000000\r\n",
            ProtocolError::UnauthenticatedBulkLength,
        ),
        ("*1\r\n$536870913\r\n", ProtocolError::InvalidBulkLength),
    ] {
        let mut stranger = RequestParser::new(Limits::unauthenticated());
        assert_eq!(stranger.parse(input.as_bytes()), Err(error), "{input:?}");
    }
    parser.set_limits(Limits::default());
    assert!(matches!(
        parser.parse(b"*100\r\n"),
        Ok(Progress::Incomplete { .. })
    ));
}

#[test]
fn inline_requests_are_split_and_unquoted_as_in_redis() {
    for (line, arguments) in [
        ("PING", &["PING"][..]),
        ("  set\tkey   value ", &["set", "key", "value"]),
        (r#"set key "a b""#, &["set", "key", "a b"]),
        (r#""\n\r\t\b\a\\\"\q""#, &["\n\r\t\u{8}\u{7}\\\"q"]),
        (r#""\x41\x7a\x0A""#, &["Az\n"]),
        (r#""\x4" "\xg1""#, &["x4", "xg1"]),
        (r"'a \' b' 'c\n'", &["a ' b", "c\\n"]),
        (r#"'"' "'""#, &["\"", "'"]),
        (r#""" ''"#, &["", ""]),
        (r#"key"quoted part" next"#, &["keyquoted part", "next"]),
        (r"back\slash", &["back\\slash"]),
        ("a\u{b}b", &["a\u{b}b"]),
        ("$3", &["$3"]),
    ] {
        let expected: Vec<Vec<u8>> = arguments
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
        assert_eq!(inline(line), Ok(expected), "{line:?}");
    }
    assert_eq!(inline(r#""\xff\xFE""#), Ok(vec![vec![0xFF, 0xFE]]));
    for line in [
        "\"",
        "'",
        "\"abc",
        "'abc",
        r#""abc\""#,
        r"'abc\'",
        r#""a"b"#,
        "'a'b",
        r#""a"'b'"#,
    ] {
        assert_eq!(
            inline(line),
            Err(ProtocolError::UnbalancedQuotes),
            "{line:?}"
        );
    }
}

#[test]
fn a_split_length_line_does_not_affect_later_ones() {
    let input = b"*3\r\n$5\r\nabcde\r\n$1\r\na\r\n$2\r\nbc\r\n";
    let third_length_at = 22;
    let mut parser = RequestParser::default();
    for length in [7, third_length_at + 1, input.len() - 1] {
        let progress = parser.parse(&input[..length]);
        assert!(matches!(progress, Ok(Progress::Incomplete { .. })));
    }
    let complete = Progress::Complete {
        consumed: input.len(),
    };
    assert_eq!(parser.parse(input), Ok(complete));
}

#[test]
fn no_line_is_searched_twice() {
    let mut parser = RequestParser::default();
    for (start, marker) in [("", b'a'), ("", b'*'), ("*1\r\n", b'$')] {
        let mut input = start.as_bytes().to_vec();
        input.push(marker);
        for length in 1..100 {
            assert_eq!(parser.parse(&input), Ok(Progress::Incomplete { needed: 1 }));
            assert_eq!(parser.searched, start.len() + length);
            input.push(b'1');
        }
        parser = RequestParser::default();
    }
}

#[test]
fn a_claimed_count_allocates_nothing_and_a_huge_request_s_memory_is_freed() {
    let mut parser = RequestParser::default();
    assert_eq!(
        parser.parse(b"*1048576\r\n$1\r\na\r\n"),
        Ok(Progress::Incomplete { needed: 1 })
    );
    assert!(parser.memory_bytes() < 1024);

    let mut parser = RequestParser::default();
    let mut input = Vec::new();
    write_request(&mut input, &vec![b"x"; 100_000]);
    assert!(matches!(
        parser.parse(&input),
        Ok(Progress::Complete { .. })
    ));
    assert!(parser.memory_bytes() > 1_000_000);
    for _ in 0..2 {
        assert!(matches!(
            parser.parse(b"PING\r\n"),
            Ok(Progress::Complete { .. })
        ));
    }
    assert!(parser.memory_bytes() <= 16 * 1024);
}
