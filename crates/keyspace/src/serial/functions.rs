//! Libraries of functions in FUNCTION DUMP: each is its text after a marker byte.

use super::reader::Reader;
use super::writer::Output;
use super::{body, crc64, save, writer};

/// Serializes libraries with a footer.
pub fn dump_libraries<'a>(codes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for code in codes {
        payload.push(LIBRARY);
        writer::text(&mut Output::of_value(&mut payload), code);
    }
    payload.extend_from_slice(&save::VERSION_REDIS_7_0.to_le_bytes());
    let checksum = crc64::of(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Returns the texts of the libraries in a payload, or the error text.
pub fn read_libraries(payload: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let (body, _) =
        body(payload, false).map_err(|_| "ERR DUMP payload version or checksum are wrong")?;
    let mut reader = Reader::new(body);
    let mut codes = Vec::new();
    while let Ok(form) = reader.byte() {
        match form {
            LIBRARY => {
                let code = reader.text();
                codes.push(
                    code.map_err(|_| "ERR Failed loading library payload")?
                        .into_owned(),
                );
            }
            LIBRARY_BEFORE_RELEASE => return Err("ERR Pre-GA function format not supported"),
            _ => return Err("ERR given type is not a function"),
        }
    }
    Ok(codes)
}

pub(super) const LIBRARY: u8 = 245;
/// Marker byte of release candidates of Redis 7.0.
pub(super) const LIBRARY_BEFORE_RELEASE: u8 = 246;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_read_back_and_damaged_payloads_are_refused() {
        let long = b"#!lua name=b\n".repeat(100);
        let codes: [&[u8]; 2] = [b"#!lua name=a\n", &long];
        let payload = dump_libraries(codes.into_iter());
        assert_eq!(read_libraries(&payload).unwrap(), codes);
        assert_eq!(
            read_libraries(&dump_libraries([].into_iter())),
            Ok(Vec::new())
        );
        let broken = &payload[1..];
        let text = "ERR DUMP payload version or checksum are wrong";
        assert_eq!(read_libraries(broken), Err(text));
        assert_eq!(read_libraries(b""), Err(text));
    }
}
