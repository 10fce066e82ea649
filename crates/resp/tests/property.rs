//! Tests that any requests, split anywhere, are found again, and that any written replies read
//! back.

use proptest::collection::vec;
use proptest::prelude::*;
use tidewire_resp::number::DoubleText;
use tidewire_resp::{
    ArgumentList, Limits, Progress, Protocol, ReplyParser, RequestParser, Value, Writer, decode,
    write_request,
};

type Request = Vec<Vec<u8>>;

/// Generates arguments of all header widths; half of them look like the protocol itself.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..12),
        vec(prop::sample::select(b"\r\n$*19".as_slice()), 0..40),
        vec(any::<u8>(), 95..105),
        vec(any::<u8>(), 990..1010),
    ]
}

/// Parses a stream in growing pieces, each at a new address. Complete requests are removed from the
/// front.
fn found_in_pieces(stream: &[u8], mut cuts: Vec<usize>) -> Vec<ArgumentList> {
    cuts.push(stream.len());
    cuts.iter_mut().for_each(|cut| *cut %= stream.len() + 1);
    cuts.push(stream.len());
    cuts.sort_unstable();
    let mut parser = RequestParser::new(Limits::default());
    let (mut found, mut start) = (Vec::new(), 0);
    for cut in cuts {
        while start < cut {
            let received = stream[start..cut].to_vec();
            match parser.parse(&received).expect("the stream is valid") {
                Progress::Complete { consumed } => {
                    found.push(ArgumentList::from(parser.arguments(&received)));
                    start += consumed;
                }
                Progress::Incomplete { .. } => break,
            }
        }
    }
    assert_eq!(start, stream.len());
    found
}

/// Generates any RESP3 reply, as a value.
fn reply() -> impl Strategy<Value = Value> {
    let text = || "[ -~]{0,20}".prop_map(String::into_bytes);
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::Integer),
        vec(any::<u8>(), 0..120).prop_map(Value::Bulk),
        text().prop_map(Value::Simple),
        text().prop_map(Value::Error),
        any::<bool>().prop_map(Value::Boolean),
        any::<f64>()
            .prop_filter("equal to itself", |value| !value.is_nan())
            .prop_map(Value::Double),
        "-?[0-9]{1,40}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
        ("[a-z]{3}", vec(any::<u8>(), 0..20)).prop_map(|(format, text)| {
            Value::Verbatim {
                format: format.into_bytes().try_into().unwrap(),
                text,
            }
        }),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 12, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..12).prop_map(Value::Array),
            vec(inner.clone(), 0..12).prop_map(Value::Set),
            vec((inner.clone(), inner.clone()), 0..6).prop_map(Value::Map),
            vec(inner, 0..4).prop_map(Value::Push),
        ]
    })
}

/// Writes `value`; arrays, sets and maps once with their length and once with a mark.
fn write(writer: &mut Writer<'_>, value: &Value, later: bool) {
    match value {
        Value::Integer(value) => writer.integer(*value),
        Value::Bulk(bytes) => writer.bulk(bytes),
        Value::Simple(text) => writer.simple(std::str::from_utf8(text).unwrap()),
        Value::Error(text) => writer.error(std::str::from_utf8(text).unwrap()),
        Value::Boolean(value) => writer.boolean(*value),
        Value::Double(value) => writer.double(*value),
        Value::BigNumber(digits) => writer.big_number(digits),
        Value::Verbatim { format, text } => {
            writer.verbatim(std::str::from_utf8(format).unwrap(), text);
        }
        Value::Null => writer.null(),
        Value::Array(values) => {
            let mark = later.then(|| writer.array_later());
            if mark.is_none() {
                writer.array(values.len());
            }
            values.iter().for_each(|value| write(writer, value, later));
            mark.into_iter()
                .for_each(|mark| writer.finish(mark, values.len()));
        }
        Value::Set(values) => {
            let mark = later.then(|| writer.set_later());
            if mark.is_none() {
                writer.set(values.len());
            }
            values.iter().for_each(|value| write(writer, value, later));
            mark.into_iter()
                .for_each(|mark| writer.finish(mark, values.len()));
        }
        Value::Map(pairs) => {
            let mark = later.then(|| writer.map_later());
            if mark.is_none() {
                writer.map(pairs.len());
            }
            for (key, value) in pairs {
                write(writer, key, later);
                write(writer, value, later);
            }
            mark.into_iter()
                .for_each(|mark| writer.finish(mark, pairs.len()));
        }
        Value::Push(values) => {
            writer.push(values.len());
            values.iter().for_each(|value| write(writer, value, later));
        }
        other => unreachable!("not generated: {other:?}"),
    }
}

/// Returns `value` as it reads back from RESP2.
fn flattened(value: &Value) -> Value {
    let all = |values: &[Value]| values.iter().map(flattened).collect();
    match value {
        Value::Boolean(value) => Value::Integer(i64::from(*value)),
        Value::Double(value) => Value::Bulk(DoubleText::new(*value).as_bytes().to_vec()),
        Value::BigNumber(bytes) | Value::Verbatim { text: bytes, .. } => Value::Bulk(bytes.clone()),
        Value::Null => Value::NullBulk,
        Value::Array(values) | Value::Set(values) | Value::Push(values) => {
            Value::Array(all(values))
        }
        Value::Map(pairs) => Value::Array(
            pairs
                .iter()
                .flat_map(|(key, value)| [flattened(key), flattened(value)])
                .collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn requests_are_found_again_for_any_split(
        requests in vec(vec(argument(), 0..14), 1..8),
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let mut stream = Vec::new();
        requests.iter().for_each(|request: &Request| write_request(&mut stream, request));
        let expected: Vec<ArgumentList> =
            requests.iter().map(|request| request.iter().collect()).collect();
        prop_assert_eq!(found_in_pieces(&stream, cuts), expected);
    }

    #[test]
    fn replies_read_back_in_both_formats(
        value in reply(),
        later: bool,
        cuts in vec(any::<usize>(), 0..8),
    ) {
        for (protocol, expected) in
            [(Protocol::Resp3, value.clone()), (Protocol::Resp2, flattened(&value))]
        {
            let mut out = Vec::new();
            write(&mut Writer::new(&mut out, protocol), &value, later);
            let length = out.len();
            prop_assert_eq!(decode(&out), Ok(Some((expected, length))));

            let mut parser = ReplyParser::new();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % length).collect();
            cuts.sort_unstable();
            for cut in cuts {
                let progress = parser.skip(&out[..cut]);
                let incomplete = matches!(progress, Ok(Progress::Incomplete { .. }));
                prop_assert!(incomplete);
            }
            prop_assert_eq!(parser.skip(&out), Ok(Progress::Complete { consumed: length }));
        }
    }
}
