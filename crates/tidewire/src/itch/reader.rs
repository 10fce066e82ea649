//! Reads ITCH from files: days as Nasdaq publishes them, and captures of MoldUDP64.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tidewire_feed::client::{Gap, Side};
use tidewire_itch::capture::{self, Decoder, NotUdp, Step, udp};
use tidewire_itch::mold::{self, Header, Receiver, ReceiverConfig, decode_packet};
use tidewire_itch::sequenced::{AHEAD, SequencedSink, SessionName};
use tidewire_itch::{Frames, frame, looks_like_file};

use crate::failure::Failure;
use crate::units::grouped;

/// The kind of a file, recognized by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Messages, each after its length.
    Itch,
    /// A network capture: pcap or pcapng.
    Capture,
    /// Anything else.
    Other,
}

impl Content {
    /// Returns the kind of a file. For a file that cannot be read it returns `Other`; opening the
    /// file reports the error.
    pub(crate) fn of(path: &Path) -> Content {
        if is_standard_input(path) {
            return Content::Itch;
        }
        let mut head = [0; 16];
        let mut length = 0;
        if let Ok(mut file) = File::open(path).and_then(unpacked) {
            while let Ok(count @ 1..) = file.read(&mut head[length..]) {
                length += count;
            }
        }
        Content::of_bytes(&head[..length])
    }

    fn of_bytes(head: &[u8]) -> Content {
        if looks_like_file(head) {
            Content::Itch
        } else if capture::looks_like_file(head) {
            Content::Capture
        } else {
            Content::Other
        }
    }
}

/// One message of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    /// The capture's stream; each stream has its own securities.
    pub(crate) stream: usize,
    pub(crate) sequence: u64,
    /// When it was captured, ns since the UNIX epoch; 0 in a file without times.
    pub(crate) time_ns: u64,
    pub(crate) message: &'a [u8],
    /// From time to time this message and those after it, each after its length, for
    /// [`Books::expect`](tidewire_itch::Books::expect). Empty otherwise.
    pub(crate) ahead: &'a [u8],
}

/// An open file of messages.
pub(crate) struct Reader {
    place: String,
    bytes: Bytes,
    content: Content,
    account: Account,
}

/// Counts of a capture's frames, packets and losses.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    frames: u64,
    others: u64,
    cut: u64,
    fragments: u64,
    /// Frames with an unknown link type, and the last such type.
    unknown_links: u64,
    unknown_link: u32,
    counters: mold::Counters,
    sessions: u64,
}

impl Reader {
    /// Opens a file, or standard input if the path is `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let place = path.display().to_string();
        let failed = |error: io::Error| Failure::usage(format!("cannot read {place}: {error}"));
        let input = match is_standard_input(path) {
            true => unpacked(io::stdin().lock()),
            false => File::open(path).and_then(unpacked),
        };
        let input = input.map_err(failed)?;
        let mut bytes = Bytes::new(input);
        while bytes.rest().len() < 16 && bytes.fill().map_err(failed)? {}
        let content = Content::of_bytes(bytes.rest());
        if content == Content::Other {
            let text = "neither an ITCH file nor a network capture (pcap, pcapng)";
            return Err(Failure::usage(format!("{place}: {text}")));
        }
        Ok(Self {
            place,
            bytes,
            content,
            account: Account::default(),
        })
    }

    /// Calls `each` for every message until it returns false.
    pub(crate) fn read_all(
        &mut self,
        mut each: impl FnMut(Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        match self.content {
            Content::Capture => self.read_capture(&mut each),
            _ => self.read_messages(&mut each),
        }
    }

    /// Returns the counts of a capture as lines of text.
    pub(crate) fn account(&self) -> Vec<String> {
        if self.content != Content::Capture {
            return Vec::new();
        }
        let Account {
            frames,
            others,
            cut,
            fragments,
            unknown_links,
            unknown_link,
            counters,
            sessions,
        } = &self.account;
        let mut lines = vec![
            format!(
                "frames     {}; not used: {} of other protocols, {cut} cut, {fragments} fragments",
                grouped(*frames),
                grouped(*others)
            ),
            format!(
                "sessions   {sessions}; {} messages, {} lost in {} gaps",
                grouped(counters.messages),
                grouped(counters.lost),
                grouped(counters.gaps)
            ),
        ];
        if *unknown_links > 0 {
            lines.push(format!(
                "links      {} frames are of link type {unknown_link}, which is not read: Ethernet, \
                 raw IP, loopback and Linux's \"any\" interface are",
                grouped(*unknown_links)
            ));
        }
        lines
    }

    fn read_messages(
        &mut self,
        each: &mut impl FnMut(Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut sequence = 0;
        loop {
            let mut used = 0;
            while let Some((message, length)) = frame(&self.bytes.rest()[used..]) {
                let start = used;
                used += length;
                if message.is_empty() {
                    // The session ends here; another may follow.
                    continue;
                }
                let ahead = match sequence % AHEAD as u64 {
                    0 => &self.bytes.rest()[start..],
                    _ => &[],
                };
                sequence += 1;
                let item = Item {
                    stream: 0,
                    sequence,
                    time_ns: 0,
                    message,
                    ahead,
                };
                if !each(item)? {
                    return Ok(());
                }
            }
            self.bytes.consume(used);
            if !self.fill()? {
                let finished = Frames::new(self.bytes.rest()).finish();
                return finished.map_err(|error| {
                    let message = sequence + 1;
                    Failure::running(format!("{}: message {message}: {error}", self.place))
                });
            }
        }
    }

    fn read_capture(
        &mut self,
        each: &mut impl FnMut(Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut decoder = Decoder::new();
        let mut streams = Streams::default();
        let mut taker = Taker {
            each,
            stream: 0,
            time_ns: 0,
            result: Ok(true),
        };
        loop {
            let step = decoder.next(self.bytes.rest()).map_err(|error| {
                let at = self.bytes.position;
                Failure::running(format!("{}: byte {at}: {error}", self.place))
            })?;
            let used = match step {
                Step::NeedMore => {
                    if self.fill()? {
                        continue;
                    }
                    break;
                }
                Step::Skip(used) => used,
                Step::Frame(frame, used) => {
                    self.account.frames += 1;
                    self.account.cut += u64::from(frame.is_cut);
                    taker.time_ns = frame.time_ns;
                    match udp(frame.link, frame.bytes) {
                        Ok(datagram) => {
                            let destination = datagram.destination;
                            let payload = datagram.payload;
                            let is_mold = streams.take(destination, payload, &mut taker);
                            self.account.others += u64::from(!is_mold);
                        }
                        Err(NotUdp::Fragment) => self.account.fragments += 1,
                        Err(NotUdp::UnknownLink(link)) => {
                            self.account.unknown_links += 1;
                            self.account.unknown_link = link.0;
                        }
                        Err(_) => self.account.others += 1,
                    }
                    used
                }
            };
            self.bytes.consume(used);
            if !matches!(taker.result, Ok(true)) {
                break;
            }
        }
        streams.finish(&mut taker);
        self.account.sessions = streams.list.len() as u64;
        self.account.counters = streams.counters();
        let is_whole_wanted = taker.result?;
        if !is_whole_wanted || self.bytes.rest().is_empty() {
            return Ok(());
        }
        let at = self.bytes.position;
        Err(Failure::running(format!(
            "{}: truncated at byte {at}",
            self.place
        )))
    }

    fn fill(&mut self) -> Result<bool, Failure> {
        let filled = self.bytes.fill();
        filled.map_err(|error| Failure::running(format!("cannot read {}: {error}", self.place)))
    }
}

/// The streams of a capture, by session. Each destination of a session is one of its lines.
#[derive(Default)]
struct Streams {
    list: Vec<(SessionName, SocketAddr, Receiver)>,
}

impl Streams {
    /// Takes a datagram. Returns whether it is a packet of a stream.
    fn take(
        &mut self,
        destination: SocketAddr,
        payload: &[u8],
        taker: &mut Taker<'_, impl FnMut(Item<'_>) -> Result<bool, Failure>>,
    ) -> bool {
        let Some(session) = mold_session(payload) else {
            return false;
        };
        let known = self.list.iter().position(|stream| stream.0 == session);
        let index = match known {
            Some(index) => index,
            None if self.list.len() >= SESSIONS_MAX => return false,
            None => {
                let config = ReceiverConfig {
                    // There is no server to ask, and the two lines may be captured far apart.
                    requests: false,
                    ..ReceiverConfig::default()
                };
                let receiver = Receiver::new(config);
                self.list.push((session, destination, receiver));
                self.list.len() - 1
            }
        };
        let (_, first, receiver) = &mut self.list[index];
        taker.stream = index;
        let side = if destination == *first {
            Side::A
        } else {
            Side::B
        };
        // The clock does not advance: a gap is given up only when the window is full or at the end.
        let _ = receiver.receive(side, payload, 1, taker);
        if receiver.counters().early_dropped > 0 || receiver.early_packets() > EARLY_PACKETS_MAX {
            receiver.give_up_first(taker);
        }
        true
    }

    fn finish(&mut self, taker: &mut Taker<'_, impl FnMut(Item<'_>) -> Result<bool, Failure>>) {
        for (index, (_, _, receiver)) in self.list.iter_mut().enumerate() {
            taker.stream = index;
            receiver.finish(taker);
        }
    }

    fn counters(&self) -> mold::Counters {
        let mut sum = mold::Counters::default();
        for counters in self.list.iter().map(|(_, _, receiver)| receiver.counters()) {
            sum.messages += counters.messages;
            sum.gaps += counters.gaps;
            sum.recovered += counters.recovered;
            sum.lost += counters.lost;
        }
        sum
    }
}

/// Returns the session of a datagram that is a valid MoldUDP64 packet to its last byte.
fn mold_session(payload: &[u8]) -> Option<SessionName> {
    let packet = decode_packet(payload).ok()?;
    let session = packet.header.session;
    let is_name = session
        .to_bytes()
        .iter()
        .all(|byte| (b' '..=b'~').contains(byte));
    let is_bare = matches!(
        packet.header.count,
        Header::HEARTBEAT | Header::END_OF_SESSION
    );
    if !is_name || is_bare && !packet.body.is_empty() {
        return None;
    }
    let mut used = 0;
    for message in packet.messages() {
        used += message.ok()?.len() + 2;
    }
    (used == packet.body.len()).then_some(session)
}

/// Passes messages on until one is refused.
struct Taker<'a, F> {
    each: &'a mut F,
    stream: usize,
    time_ns: u64,
    result: Result<bool, Failure>,
}

impl<F: FnMut(Item<'_>) -> Result<bool, Failure>> SequencedSink for Taker<'_, F> {
    fn message(&mut self, sequence: u64, message: &[u8]) {
        if matches!(self.result, Ok(true)) {
            self.result = (self.each)(Item {
                stream: self.stream,
                sequence,
                time_ns: self.time_ns,
                message,
                // A packet is too short for reading ahead to help.
                ahead: &[],
            });
        }
    }

    fn gap(&mut self, gap: Gap) {
        tracing::debug!(?gap, "in the recording");
    }
}

/// Bytes of a file, read in chunks.
struct Bytes {
    input: Box<dyn Read>,
    buffer: Vec<u8>,
    start: usize,
    /// Position of `start` in the file.
    position: u64,
}

impl Bytes {
    fn new(input: Box<dyn Read>) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            position: 0,
        }
    }

    /// Returns the bytes that were read and not consumed.
    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.position += count as u64;
    }

    /// Reads more bytes. Returns false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + CHUNK_BYTES, 0);
        let count = loop {
            match self.input.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(length + *count.as_ref().unwrap_or(&0));
        count.map(|count| count > 0)
    }
}

/// Decompresses gzip, which Nasdaq uses for whole days. Other input is read as it is.
fn unpacked(mut input: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let (mut magic, mut length) = ([0; 2], 0);
    while length < magic.len() {
        match input.read(&mut magic[length..])? {
            0 => break,
            count => length += count,
        }
    }
    let whole = io::Cursor::new(magic).take(length as u64).chain(input);
    match magic {
        GZIP_MAGIC => Ok(Box::new(MultiGzDecoder::new(whole))),
        _ => Ok(Box::new(whole)),
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

const CHUNK_BYTES: usize = 1 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Maximum number of streams followed in one capture.
const SESSIONS_MAX: usize = 64;
/// Maximum number of packets by which one line may lag behind the other.
const EARLY_PACKETS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a capture of IP packets, each a datagram with one MoldUDP64 message.
    fn recording(messages: u64) -> Vec<u8> {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        file.extend([0; 12]);
        file.extend(101_u32.to_le_bytes());
        for sequence in 1..=messages {
            let mut payload = b"SESSION   ".to_vec();
            payload.extend(sequence.to_be_bytes());
            payload.extend([0, 1, 0, 1, b'x']);
            let length = 28 + payload.len();
            let mut packet = vec![0x45, 0, 0, length as u8, 0, 0, 0, 0, 1, 17, 0, 0];
            packet.extend([10, 0, 0, 1, 239, 0, 0, 1, 1, 1, 2, 2]);
            packet.extend([0, length as u8 - 20, 0, 0]);
            packet.extend(payload);
            file.extend([0; 8]);
            file.extend([packet.len() as u32; 2].map(u32::to_le_bytes).concat());
            file.extend(packet);
        }
        file
    }

    fn read(file: Vec<u8>, messages_max: usize) -> (usize, Result<(), Failure>) {
        let mut reader = Reader {
            place: "file".to_owned(),
            bytes: Bytes::new(Box::new(io::Cursor::new(file))),
            content: Content::Capture,
            account: Account::default(),
        };
        let mut seen = 0;
        let result = reader.read_all(|_| {
            seen += 1;
            Ok(seen < messages_max)
        });
        (seen, result)
    }

    #[test]
    fn a_recording_that_is_not_read_to_its_end_is_not_called_cut() {
        assert!(matches!(read(recording(3), 9), (3, Ok(()))));
        assert!(matches!(read(recording(3), 2), (2, Ok(()))));
        let mut cut = recording(3);
        cut.pop();
        assert!(matches!(read(cut, 9), (2, Err(_))));
    }
}
