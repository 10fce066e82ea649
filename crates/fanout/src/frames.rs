//! Encodes a message for each protocol.

use std::sync::Arc;

use tidewire_lane::Outbox;
use tidewire_zmtp::{Connection, encode_frame, frame_header, websocket};

use crate::outlet::Outlet;
use crate::publication::{GONE, News, Origin};
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
    /// ZMTP over WebSocket: each frame in a message of its own.
    Zws,
    /// A web page: its messages are not written, but noted in the lane's table of rows.
    Rows,
}

impl Dialect {
    /// Returns whether the subscriber is a ZeroMQ peer.
    pub(crate) fn is_zeromq(self) -> bool {
        matches!(self, Dialect::Zmtp | Dialect::Zws)
    }
}

/// The encoded forms of the message being delivered; each is created when first needed.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    channel: Vec<u8>,
    prefix: Vec<u8>,
    /// The form of `prefix` for WebSocket.
    prefix_zws: Vec<u8>,
    pattern: Vec<u8>,
    pattern_text: Option<Arc<[u8]>>,
}

impl Frames {
    /// Forgets the last message.
    pub(crate) fn begin(&mut self) {
        self.channel.clear();
        self.prefix.clear();
        self.prefix_zws.clear();
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
            is_final: false,
        };
        let how = match outlet.dialect {
            Dialect::Zmtp | Dialect::Zws => How::Prefix,
            Dialect::Resp2 | Dialect::Resp3 | Dialect::Rows => How::Channel,
        };
        self.begin();
        self.write_to(out, outlet, &how, &mark);
    }

    /// Writes `news` to one subscriber, encrypted if its connection is.
    #[inline]
    pub(crate) fn write_to(
        &mut self,
        out: &mut Outbox,
        outlet: &Outlet,
        how: &How,
        news: &News<'_>,
    ) {
        debug_assert_ne!(outlet.dialect, Dialect::Rows, "rows are noted");
        if outlet.flags_gone
            && news.origin == Origin::Live
            && let Some(rest) = news.payload.strip_prefix(GONE)
            && rest.iter().all(|&byte| byte == b' ')
        {
            return write_flagged(out, outlet, news, rest.is_empty());
        }
        match &outlet.seal {
            None => self.write(out, outlet.dialect, how, news),
            Some(connection) => {
                let frames: [&[u8]; 2] = [news.name, news.payload];
                write_sealed(&mut connection.lock(), out, outlet.dialect, &frames);
            }
        }
    }

    fn write(&mut self, out: &mut Outbox, dialect: Dialect, how: &How, news: &News<'_>) {
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
            How::Prefix if dialect == Dialect::Zws => {
                if self.prefix_zws.is_empty() {
                    websocket::encode_frame(&mut self.prefix_zws, news.name, true);
                    websocket::encode_header(&mut self.prefix_zws, news.payload.len(), false);
                    if news.shared.is_none() {
                        self.prefix_zws.extend_from_slice(news.payload);
                    }
                }
                &self.prefix_zws
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
            if !dialect.is_zeromq() {
                out.buffer().extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Writes a message to a subscriber with an encrypted connection. Each message is encrypted
/// separately.
#[cold]
fn write_sealed(connection: &mut Connection, out: &mut Outbox, dialect: Dialect, frames: &[&[u8]]) {
    for (at, frame) in frames.iter().enumerate() {
        let more = at + 1 < frames.len();
        match dialect {
            Dialect::Zws => connection.encode_websocket_frame(out.buffer(), frame, more),
            _ => connection.encode_message_frame(out.buffer(), frame, more),
        }
    }
}

/// Writes a removal to a subscriber that knows it by its third frame; or a value that looks like
/// the payload of a removal, without the space that tells it apart for others.
#[cold]
fn write_flagged(out: &mut Outbox, outlet: &Outlet, news: &News<'_>, is_gone: bool) {
    debug_assert!(outlet.dialect.is_zeromq(), "others have no frames");
    let flagged: &[&[u8]] = &[news.name, b"", GONE_FLAG];
    let value: &[&[u8]] = &[
        news.name,
        news.payload.split_last().map_or(b"", |(_, rest)| rest),
    ];
    let frames = if is_gone { flagged } else { value };
    if let Some(connection) = &outlet.seal {
        return write_sealed(&mut connection.lock(), out, outlet.dialect, frames);
    }
    for (at, frame) in frames.iter().enumerate() {
        let more = at + 1 < frames.len();
        match outlet.dialect {
            Dialect::Zws => websocket::encode_frame(out.buffer(), frame, more),
            _ => encode_frame(out.buffer(), frame, more),
        }
    }
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

/// The third frame of a removal, behind the name and an empty payload.
const GONE_FLAG: &[u8] = b"gone";

#[cfg(test)]
mod tests {
    use tidewire_lane::ConnectionId;

    use super::*;

    fn written(dialect: Dialect, how: How) -> Vec<u8> {
        let news = News {
            name: b"md:A",
            payload: b"{}",
            shared: None,
            origin: Origin::Channel,
            version: 0,
            is_final: false,
        };
        let (mut out, mut frames) = (Outbox::default(), Frames::default());
        frames.begin();
        frames.write(&mut out, dialect, &how, &news);
        out.buffer().clone()
    }

    /// What a ZeroMQ subscriber to a live key is sent.
    fn live(flags_gone: bool, payload: &[u8]) -> Vec<u8> {
        live_in(Dialect::Zmtp, flags_gone, payload)
    }

    fn live_in(dialect: Dialect, flags_gone: bool, payload: &[u8]) -> Vec<u8> {
        let news = News {
            name: b"live:A",
            payload,
            shared: None,
            origin: Origin::Live,
            version: 1,
            is_final: false,
        };
        let (mut out, mut frames) = (Outbox::default(), Frames::default());
        let mut outlet = Outlet::new(ConnectionId::NONE, dialect);
        outlet.flags_gone = flags_gone;
        frames.begin();
        frames.write_to(&mut out, &outlet, &How::Prefix, &news);
        out.buffer().clone()
    }

    #[test]
    fn a_removal_has_a_frame_of_its_own_for_who_asks() {
        assert_eq!(live(false, GONE), b"\x01\x06live:A\x00\x0d{\"gone\":true}");
        assert_eq!(live(true, GONE), b"\x01\x06live:A\x01\x00\x00\x04gone");
        let over_websocket = live_in(Dialect::Zws, true, GONE);
        assert_eq!(
            over_websocket,
            b"\x82\x07\x01live:A\x82\x01\x01\x82\x05\x00gone"
        );
        let value = b"{\"gone\":true}  ";
        assert_eq!(live(false, value)[8..], [b"\x00\x0f", &value[..]].concat());
        assert_eq!(live(true, value)[8..], [b"\x00\x0e", &value[..14]].concat());
        for value in [&b""[..], b"gone", b"{\"gone\":true} x", b"{\"gone\":tru"] {
            assert_eq!(live(true, value), live(false, value));
        }
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
        assert_eq!(
            written(Dialect::Zws, How::Prefix),
            b"\x82\x05\x01md:A\x82\x03\x00{}"
        );
    }
}
