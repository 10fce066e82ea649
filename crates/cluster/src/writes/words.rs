//! The words of a command, as a request has them: the number of the reply's protocol (2 or 3), and
//! each word with its length before it.

/// Returns the words of a command whose reply is to be in this protocol.
pub fn encode_words<'a>(protocol: u8, words: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = vec![protocol];
    for word in words {
        // What does not fit a request is not sent.
        bytes.extend_from_slice(&(word.len() as u32).to_le_bytes());
        bytes.extend_from_slice(word);
    }
    bytes
}

/// Returns the protocol of the reply, and the words; `None` if the bytes are none of them.
pub fn decode_words(bytes: &[u8]) -> Option<(u8, Vec<&[u8]>)> {
    let (&protocol, mut rest) = bytes.split_first()?;
    let mut words = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (word, behind) = behind.split_at_checked(length)?;
        words.push(word);
        rest = behind;
    }
    let is_known = matches!(protocol, 2 | 3);
    (is_known && !words.is_empty()).then_some((protocol, words))
}
