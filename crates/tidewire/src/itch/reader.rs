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
    /// Returns the kind of a file that begins with these bytes, after decompression.
    pub(crate) fn of_bytes(head: &[u8]) -> Content {
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
    /// The stream that has ended before this message: this one is in its place.
    pub(crate) ended: Option<usize>,
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
        Self::new(place.clone(), input.map_err(failed)?)
    }

    /// Reads an input, which has been decompressed.
    pub(crate) fn new(place: String, input: Box<dyn Read>) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::usage(format!("cannot read {place}: {error}"));
        let mut bytes = Bytes::new(input);
        while bytes.rest().len() < HEAD_BYTES as usize && bytes.fill().map_err(failed)? {}
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
        let (mut stream, mut sequence, mut is_ended) = (0, 0, false);
        loop {
            let mut used = 0;
            while let Some((message, length)) = frame(&self.bytes.rest()[used..]) {
                let start = used;
                used += length;
                if message.is_empty() {
                    is_ended = sequence > 0;
                    continue;
                }
                let ended = is_ended.then_some(stream);
                if std::mem::take(&mut is_ended) {
                    (stream, sequence) = (stream + 1, 0);
                }
                if stream >= SESSIONS_MAX {
                    let text = format!("{}: more than {SESSIONS_MAX} sessions", self.place);
                    return Err(Failure::running(text));
                }
                let ahead = match sequence % AHEAD as u64 {
                    0 => &self.bytes.rest()[start..],
                    _ => &[],
                };
                sequence += 1;
                let item = Item {
                    stream,
                    ended,
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
            ended: None,
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
    list: Vec<Stream>,
}

struct Stream {
    session: SessionName,
    /// The destinations of its packets, which are its lines.
    destinations: Vec<SocketAddr>,
    receiver: Receiver,
    /// The stream of the same destination in whose place it comes, until it has ended that one.
    before: Option<usize>,
    /// Its first packet, while it may be a stray one.
    held: Option<(Side, Vec<u8>)>,
    /// It has said so, or another session is in its place. What comes late is left out then.
    has_end: bool,
    is_over: bool,
}

impl Stream {
    fn new(session: SessionName, before: Option<usize>) -> Self {
        let config = ReceiverConfig {
            // There is no server to ask, and the two lines may be captured far apart.
            requests: false,
            ..ReceiverConfig::default()
        };
        Self {
            session,
            destinations: Vec::new(),
            receiver: Receiver::new(config),
            before,
            held: None,
            has_end: false,
            is_over: false,
        }
    }

    /// Returns the line of a destination.
    fn side(&mut self, destination: SocketAddr) -> Side {
        if !self.destinations.contains(&destination) && self.destinations.len() < LINES_MAX {
            self.destinations.push(destination);
        }
        match self.destinations[0] == destination {
            true => Side::A,
            false => Side::B,
        }
    }

    fn receive(
        &mut self,
        side: Side,
        payload: &[u8],
        taker: &mut Taker<'_, impl FnMut(Item<'_>) -> Result<bool, Failure>>,
    ) {
        // The clock does not advance: a gap is given up only when the window is full or at the end.
        let receiver = &mut self.receiver;
        let _ = receiver.receive(side, payload, 1, taker);
        if receiver.counters().early_dropped > 0 || receiver.early_packets() > EARLY_PACKETS_MAX {
            receiver.give_up_first(taker);
        }
    }
}

impl Streams {
    /// Takes a datagram. Returns whether it is a packet of a stream.
    fn take(
        &mut self,
        destination: SocketAddr,
        payload: &[u8],
        taker: &mut Taker<'_, impl FnMut(Item<'_>) -> Result<bool, Failure>>,
    ) -> bool {
        let Some(header) = mold_header(payload) else {
            return false;
        };
        let list = &mut self.list;
        let known = list.iter().position(|one| one.session == header.session);
        let index = match known {
            Some(index) => index,
            None if list.len() >= SESSIONS_MAX => return false,
            None => {
                let is_here =
                    |one: &Stream| !one.is_over && one.destinations.contains(&destination);
                let before = list.iter().rposition(is_here);
                list.push(Stream::new(header.session, before));
                list.len() - 1
            }
        };
        let stream = &mut list[index];
        let side = stream.side(destination);
        if stream.is_over {
            return true;
        }
        stream.has_end |= header.count == Header::END_OF_SESSION;
        let is_bare = matches!(header.count, Header::HEARTBEAT | Header::END_OF_SESSION);
        if let Some(before) = stream.before.filter(|_| !is_bare) {
            let is_first = stream.held.is_none();
            if is_first && !self.list[before].has_end {
                // One packet may be a stray; two show that the session goes on.
                self.list[index].held = Some((side, payload.to_vec()));
                return true;
            }
            self.replace(before, index, taker);
        }
        taker.stream = index;
        self.list[index].receive(side, payload, taker);
        true
    }

    /// Ends a stream, in whose place another one has come.
    fn replace(
        &mut self,
        before: usize,
        index: usize,
        taker: &mut Taker<'_, impl FnMut(Item<'_>) -> Result<bool, Failure>>,
    ) {
        debug_assert!(
            before < index,
            "the later session is in the place of the other"
        );
        if !std::mem::replace(&mut self.list[before].is_over, true) {
            taker.stream = before;
            self.list[before].receiver.finish(taker);
            taker.ended = Some(before);
        }
        let stream = &mut self.list[index];
        stream.before = None;
        if let Some((side, payload)) = stream.held.take() {
            taker.stream = index;
            stream.receive(side, &payload, taker);
        }
    }

    fn finish(&mut self, taker: &mut Taker<'_, impl FnMut(Item<'_>) -> Result<bool, Failure>>) {
        for (index, stream) in self.list.iter_mut().enumerate() {
            taker.stream = index;
            if let Some((side, payload)) = stream.held.take() {
                stream.receive(side, &payload, taker);
            }
            if !stream.is_over {
                stream.receiver.finish(taker);
            }
        }
    }

    fn counters(&self) -> mold::Counters {
        let mut sum = mold::Counters::default();
        for counters in self.list.iter().map(|stream| stream.receiver.counters()) {
            sum.messages += counters.messages;
            sum.gaps += counters.gaps;
            sum.recovered += counters.recovered;
            sum.lost += counters.lost;
        }
        sum
    }
}

/// Returns the header of a datagram that is a valid MoldUDP64 packet to its last byte.
fn mold_header(payload: &[u8]) -> Option<Header> {
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
    (used == packet.body.len()).then_some(packet.header)
}

/// Passes messages on until one is refused.
struct Taker<'a, F> {
    each: &'a mut F,
    stream: usize,
    /// The stream that has ended before the next message.
    ended: Option<usize>,
    time_ns: u64,
    result: Result<bool, Failure>,
}

impl<F: FnMut(Item<'_>) -> Result<bool, Failure>> SequencedSink for Taker<'_, F> {
    fn message(&mut self, sequence: u64, message: &[u8]) {
        if matches!(self.result, Ok(true)) {
            self.result = (self.each)(Item {
                stream: self.stream,
                ended: self.ended.take(),
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
pub(crate) fn unpacked(mut input: impl Read + 'static) -> io::Result<Box<dyn Read>> {
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

/// Returns whether a path means standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Bytes by which the kind of a file is recognized.
pub(crate) const HEAD_BYTES: u64 = 16;
const CHUNK_BYTES: usize = 1 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Maximum number of streams followed in one capture.
const SESSIONS_MAX: usize = 64;
/// Maximum number of destinations of a session: two lines, and what they are copied to.
const LINES_MAX: usize = 8;
/// Maximum number of packets by which one line may lag behind the other.
const EARLY_PACKETS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a capture of IP packets, each a datagram with one MoldUDP64 message.
    fn recording(messages: u64) -> Vec<u8> {
        capture((1..=messages).map(|sequence| (b'N', sequence, Some(b'x'))))
    }

    /// Builds a capture of MoldUDP64 packets: the last letter of the session, the sequence, and the
    /// message; none is the end of the session.
    fn capture(packets: impl IntoIterator<Item = (u8, u64, Option<u8>)>) -> Vec<u8> {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        file.extend([0; 12]);
        file.extend(101_u32.to_le_bytes());
        for (session, sequence, message) in packets {
            let mut payload = b"SESSIO".to_vec();
            payload.extend([session, b' ', b' ', b' ']);
            payload.extend(sequence.to_be_bytes());
            match message {
                Some(message) => payload.extend([0, 1, 0, 1, message]),
                None => payload.extend([0xff, 0xff]),
            }
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

    fn reader(file: Vec<u8>, content: Content) -> Reader {
        Reader {
            place: "file".to_owned(),
            bytes: Bytes::new(Box::new(io::Cursor::new(file))),
            content,
            account: Account::default(),
        }
    }

    fn read(file: Vec<u8>, messages_max: usize) -> (usize, Result<(), Failure>) {
        let mut seen = 0;
        let result = reader(file, Content::Capture).read_all(|_| {
            seen += 1;
            Ok(seen < messages_max)
        });
        (seen, result)
    }

    /// Returns stream, ended stream and message of each item.
    fn items(file: Vec<u8>, content: Content) -> Vec<(usize, Option<usize>, u8)> {
        let mut seen = Vec::new();
        let result = reader(file, content).read_all(|item| {
            seen.push((item.stream, item.ended, item.message[0]));
            Ok(true)
        });
        assert!(result.is_ok());
        seen
    }

    /// The quotes of the first session stayed current in the second one.
    #[test]
    fn a_session_that_takes_the_place_of_another_ends_it() {
        let (a, b) = (b'A', b'B');
        let first = [(a, 1, Some(b'1')), (a, 2, Some(b'2'))];
        let second = [(b, 1, Some(b'3')), (b, 2, Some(b'4')), (b, 3, Some(b'5'))];
        let expected = [
            (0, None, b'1'),
            (0, None, b'2'),
            (1, Some(0), b'3'),
            (1, None, b'4'),
            (1, None, b'5'),
        ];
        let end = [(a, 3, None)];
        let late = [(a, 3, Some(b'9'))];
        for between in [&end[..], &[]] {
            let packets = first.iter().chain(between).chain(&second).chain(&late);
            let file = capture(packets.copied());
            assert_eq!(items(file, Content::Capture), expected);
        }
        // A stray packet ends nothing, and is the beginning of a session at most.
        let stray = [first[0], second[0], first[1], late[0]];
        let seen = items(capture(stray), Content::Capture);
        let expected = [(0, None, b'1'), (0, None, b'2'), (0, None, b'9')];
        assert_eq!((&seen[..3], seen.len()), (&expected[..], 4));
    }

    #[test]
    fn a_length_of_zero_ends_the_session_of_a_file() {
        let file = [0, 0, 0, 1, b'1', 0, 0, 0, 0, 0, 1, b'2', 0, 1, b'3', 0, 0];
        let expected = [(0, None, b'1'), (1, Some(0), b'2'), (1, None, b'3')];
        assert_eq!(items(file.to_vec(), Content::Itch), expected);
        let many = [0, 1, b'1', 0, 0].repeat(SESSIONS_MAX + 1);
        let mut reader = reader(many, Content::Itch);
        assert!(reader.read_all(|_| Ok(true)).is_err());
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
