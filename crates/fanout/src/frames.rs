//! Encodes a message for each protocol.

use std::sync::Arc;

use tidewire_lane::Outbox;
use tidewire_zmtp::{Connection, encode_frame, frame_header};

use crate::outlet::Outlet;
use crate::publication::{News, Origin};
use crate::topic::SNAPSHOT_CHANNEL;

/// The kind of subscription by which a subscriber gets a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    Channel,
    Shard,
    Pattern(Arc<[u8]>),
    Prefix,
}

/// The protocol in which a subscriber's messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// RESP2: an array.
    Resp2,
    /// RESP3: a push.
    Resp3,
    /// ZMTP: frames.
    Zmtp,
}

/// The encoded forms of the message being delivered; each is created when first needed.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    channel: Vec<u8>,
    prefix: Vec<u8>,
    pattern: Vec<u8>,
    pattern_text: Option<Arc<[u8]>>,
}

impl Frames {
    /// Forgets the last message.
    pub(crate) fn begin(&mut self) {
        self.channel.clear();
        self.prefix.clear();
        self.pattern_text = None;
    }

    /// Tells a subscriber that the next message of this topic is its current value.
    #[cold]
    pub(crate) fn mark_snapshot(&mut self, out: &mut Outbox, outlet: &Outlet, topic: &[u8]) {
        let mark = News {
            name: SNAPSHOT_CHANNEL,
            payload: topic,
            shared: None,
            origin: Origin::Channel,
            version: 0,
        };
        let how = match outlet.dialect {
            Dialect::Zmtp => How::Prefix,
            Dialect::Resp2 | Dialect::Resp3 => How::Channel,
        };
        self.begin();
        match &outlet.seal {
            None => self.write(out, outlet.dialect, &how, &mark),
            Some(connection) => write_sealed(&mut connection.lock(), out, &mark),
        }
    }

    /// Writes `news` to one subscriber.
    pub(crate) fn write(&mut self, out: &mut Outbox, dialect: Dialect, how: &How, news: &News<'_>) {
        let head = match how {
            // A message goes to channels or to shard channels, never to both.
            How::Shard => {
                if self.channel.is_empty() {
                    write_channel_head(&mut self.channel, "smessage", news);
                    write_resp_body(&mut self.channel, news);
                }
                &self.channel
            }
            How::Channel => {
                if self.channel.is_empty() {
                    write_channel_head(&mut self.channel, "message", news);
                    write_resp_body(&mut self.channel, news);
                }
                &self.channel
            }
            How::Pattern(text) => {
                if self
                    .pattern_text
                    .as_ref()
                    .is_none_or(|other| !Arc::ptr_eq(other, text))
                {
                    self.pattern.clear();
                    write_pattern_head(&mut self.pattern, text, news);
                    write_resp_body(&mut self.pattern, news);
                    self.pattern_text = Some(text.clone());
                }
                &self.pattern
            }
            How::Prefix => {
                if self.prefix.is_empty() {
                    encode_frame(&mut self.prefix, news.name, true);
                    let header = frame_header(news.payload.len(), false);
                    self.prefix.extend_from_slice(header.as_bytes());
                    if news.shared.is_none() {
                        self.prefix.extend_from_slice(news.payload);
                    }
                }
                &self.prefix
            }
        };
        let start = out.buffer().len();
        out.buffer().extend_from_slice(head);
        if dialect == Dialect::Resp3 {
            // The only difference between a RESP3 push and a RESP2 array.
            out.buffer()[start] = b'>';
        }
        if let Some(shared) = news.shared {
            out.push_shared(shared);
            if dialect != Dialect::Zmtp {
                out.buffer().extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Writes `news` to a subscriber with an encrypted connection. Each message is encrypted
/// separately.
#[cold]
pub(crate) fn write_sealed(connection: &mut Connection, out: &mut Outbox, news: &News<'_>) {
    connection.encode_message_frame(out.buffer(), news.name, true);
    connection.encode_message_frame(out.buffer(), news.payload, false);
}

fn write_channel_head(out: &mut Vec<u8>, word: &str, news: &News<'_>) {
    out.extend_from_slice(b"*3\r\n");
    write_bulk(out, word.as_bytes());
    write_bulk(out, news.name);
}

fn write_pattern_head(out: &mut Vec<u8>, pattern: &[u8], news: &News<'_>) {
    out.extend_from_slice(b"*4\r\n$8\r\npmessage\r\n");
    write_bulk(out, pattern);
    write_bulk(out, news.name);
}

/// Appends the payload as a bulk string; for a shared payload only the length, because the body
/// follows by reference.
fn write_resp_body(out: &mut Vec<u8>, news: &News<'_>) {
    if news.shared.is_none() {
        write_bulk(out, news.payload);
        return;
    }
    out.push(b'$');
    write_unsigned(out, news.payload.len() as u64);
    out.extend_from_slice(b"\r\n");
}

fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dialect: Dialect, how: How) -> Vec<u8> {
        let news = News {
            name: b"md:A",
            payload: b"{}",
            shared: None,
            origin: Origin::Channel,
            version: 0,
        };
        let (mut out, mut frames) = (Outbox::default(), Frames::default());
        frames.begin();
        frames.write(&mut out, dialect, &how, &news);
        out.buffer().clone()
    }

    #[test]
    fn each_protocol_gets_the_message_in_its_own_words() {
        let channel = b"*3\r\n$7\r\nmessage\r\n$4\r\nmd:A\r\n$2\r\n{}\r\n";
        assert_eq!(written(Dialect::Resp2, How::Channel), channel);
        let shard = b">3\r\n$8\r\nsmessage\r\n$4\r\nmd:A\r\n$2\r\n{}\r\n";
        assert_eq!(written(Dialect::Resp3, How::Shard), shard);
        let pattern = b">4\r\n$8\r\npmessage\r\n$4\r\nmd:*\r\n$4\r\nmd:A\r\n$2\r\n{}\r\n";
        assert_eq!(
            written(Dialect::Resp3, How::Pattern(b"md:*"[..].into())),
            pattern
        );
        assert_eq!(
            written(Dialect::Zmtp, How::Prefix),
            b"\x01\x04md:A\x00\x02{}"
        );
    }
}
