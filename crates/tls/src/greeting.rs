//! The first bytes of a connection, where one side speaks TLS and the other does not.

/// Returns whether a peer's first bytes begin a TLS connection.
pub fn is_greeting(first: &[u8]) -> bool {
    first.starts_with(&[HANDSHAKE]) && first.get(1).is_none_or(|major| *major == 3)
}

/// What a port without TLS says to a peer that speaks TLS: an alert that the version is not
/// supported.
pub const NO_TLS_HERE: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 70];

/// The first byte of a TLS connection: a record of a handshake.
const HANDSHAKE: u8 = 0x16;

#[cfg(test)]
mod tests {
    use super::is_greeting;

    #[test]
    fn a_greeting_is_told_from_clear_text_by_its_first_bytes() {
        assert!(is_greeting(&[0x16]) && is_greeting(&[0x16, 3, 1]));
        for text in [
            &b""[..],
            b"PING",
            b"GET / HTTP/1.1",
            &[0x16, 0x57],
            &[0xFF, 0],
        ] {
            assert!(!is_greeting(text), "{text:?}");
        }
    }
}
