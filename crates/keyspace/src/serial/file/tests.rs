use super::*;

/// Returns a file of a version with these records after its header.
fn file(version: &str, records: &[u8]) -> Vec<u8> {
    let mut bytes = b"REDIS".to_vec();
    bytes.extend_from_slice(version.as_bytes());
    bytes.extend_from_slice(records);
    bytes
}

/// Reads keys as `database:key`, with all bytes at once and byte by byte.
fn keys(bytes: &[u8]) -> Result<Vec<String>, FileError> {
    let read = |chunk: usize| {
        let mut reader = FileReader::new(true);
        let mut chunks = bytes.chunks(chunk);
        let mut keys = Vec::new();
        loop {
            match reader.next_record()? {
                Some(FileRecord::Key(key)) => {
                    let name = String::from_utf8_lossy(&key.key);
                    keys.push(format!("{}:{name}:{:?}", key.database, key.deadline_ms));
                }
                Some(FileRecord::End) => return Ok(keys),
                Some(_) => {}
                None => match chunks.next() {
                    Some(chunk) => reader.push(chunk),
                    None => reader.finish(),
                },
            }
        }
    };
    let whole = read(usize::MAX);
    assert_eq!(read(1), whole);
    whole
}

#[test]
fn attributes_apply_only_to_the_next_key() {
    let mut records = b"\xFA\x03abc\x01d\xFE\x02\xFB\x02\x01".to_vec();
    records.extend_from_slice(b"\xFC\x01\0\0\0\0\0\0\0\xF8\x05\xF9\x07\0\x01k\x01v");
    records.extend_from_slice(b"\xFD\x02\0\0\0\0\x01l\x01v\0\x01m\xC0\x05\xFF\0\0\0\0\0\0\0\0");
    let expected = ["2:k:Some(1)", "2:l:Some(2000)", "2:m:None"];
    assert_eq!(keys(&file("0012", &records)).unwrap(), expected);
}

#[test]
fn each_read_error_is_distinct() {
    let end = b"\xFF\0\0\0\0\0\0\0\0";
    assert_eq!(keys(b""), Err(FileError::Truncated));
    assert_eq!(keys(b"NOREDIS12345"), Err(FileError::Signature));
    assert_eq!(keys(&file("0014", end)), Err(FileError::Version(14)));
    assert_eq!(keys(&file("0012", b"")), Err(FileError::Truncated));
    assert_eq!(keys(&file("0004", b"\xFF")), Ok(vec![]));
    let wrong = b"\xFF\x01\0\0\0\0\0\0\0";
    assert!(matches!(
        keys(&file("0012", wrong)),
        Err(FileError::Checksum { stored: 1, .. })
    ));
    let unknown = keys(&file("0012", b"\x63\x01k"));
    assert_eq!(unknown, Err(FileError::Kind { at: 9, kind: 0x63 }));
    assert_eq!(keys(&file("0012", b"\x07\x01k")), Err(FileError::Module(9)));
    let database = keys(&file("0012", b"\xFE\x10"));
    assert!(matches!(
        database,
        Err(FileError::Database { database: 16, .. })
    ));
}

/// A file must not combine Redis's signature with Valkey's version, or vice versa.
#[test]
fn versions_belong_to_their_dialect() {
    let end = b"\xFF\0\0\0\0\0\0\0\0";
    let valkey = |version: &str, records: &[u8]| [b"VALKEY", version.as_bytes(), records].concat();
    assert_eq!(keys(&valkey("080", end)), Ok(vec![]));
    assert_eq!(keys(&valkey("012", end)), Err(FileError::Version(12)));
    assert_eq!(keys(&valkey("081", end)), Err(FileError::Version(81)));
    assert_eq!(keys(&file("0080", end)), Err(FileError::Version(80)));
    // In Redis files, hashes with TTLs of fields have other form numbers.
    let unknown = keys(&valkey("080", b"\x18\x01k"));
    assert_eq!(unknown, Err(FileError::Kind { at: 9, kind: 24 }));
    let hash = b"\x16\x01h\x01\x01f\x01v\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
    let read = keys(&valkey("080", &[&hash[..], end].concat()));
    assert_eq!(read.unwrap(), ["0:h:None"]);
    let internal = keys(&file("0012", b"\x96\x01k"));
    assert_eq!(internal, Err(FileError::Kind { at: 9, kind: 0x96 }));
}

#[test]
fn a_claimed_length_allocates_no_memory() {
    // A string of 2 GiB, and a list of 2^64 elements.
    let text = file("0012", b"\0\x01k\x80\x7F\xFF\xFF\xFFabc");
    let list = file(
        "0012",
        b"\x01\x01k\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01a\x01b",
    );
    for bytes in [text, list] {
        assert_eq!(keys(&bytes), Err(FileError::Truncated));
    }
    let longer = file("0012", b"\0\x01k\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
    assert_eq!(keys(&longer), Err(FileError::Length(9)));
}
