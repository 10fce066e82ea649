//! The head of a snapshot: which pages it has, and from where the log continues it.

use tidewire_feed::wire::{Control, Flags, PacketWriter, Passed, Venue};

use crate::frame::{
    FRAME_LENGTH_MAX, Frame, FrameError, FrameFlags, FrameHeader, HEADER_LENGTH, Packets, u32_at,
    u64_at,
};
use crate::path::Path;

/// Entries of the board on a page.
pub const PAGE_ENTRIES: usize = 128;
/// Maximum pages: those of 8,388,608 entries. A source with more needs several shards.
pub const PAGES_MAX: usize = 1 << 16;
/// Bytes of the fixed part of a head's body; one number for each page and the venues follow.
pub const HEAD_LENGTH: usize = 32;

const VENUE_PACKET_LENGTH: usize = tidewire_feed::wire::HEADER_LENGTH + Venue::LENGTH;

/// The body of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Every frame of the log up to this one was written before the snapshot's as-of.
    pub log_sequence: u64,
    /// When the snapshot was taken by the owner's clock, in milliseconds since the UNIX epoch; 0
    /// if unknown.
    pub taken_ms: u64,
    /// By number: one past the as-of of the page, or a later page in its place; 0 for no page.
    pub pages: Vec<u64>,
    /// The clusters that the source has come through. A hub of an earlier version writes none, and
    /// reads over them.
    pub path: Path,
    /// The venues that have a name.
    pub venues: Vec<Venue>,
}

impl Head {
    /// Encodes a frame with this body.
    pub fn encode(&self, header: FrameHeader) -> Vec<u8> {
        let mut frame = vec![0; HEADER_LENGTH];
        frame.extend_from_slice(&self.log_sequence.to_le_bytes());
        frame.extend_from_slice(&self.taken_ms.to_le_bytes());
        frame.extend_from_slice(&(self.pages.len() as u32).to_le_bytes());
        frame.extend_from_slice(&(PAGE_ENTRIES as u32).to_le_bytes());
        frame.extend_from_slice(&[0; 8]);
        for page in &self.pages {
            frame.extend_from_slice(&page.to_le_bytes());
        }
        for &cluster in self.path.clusters() {
            let passed = Control::Passed(Passed { cluster });
            PacketWriter::control(&mut frame, header.session, &passed);
        }
        // Names beyond the limit of a frame reach edges only as messages of the stream.
        let room = FRAME_LENGTH_MAX.saturating_sub(frame.len()) / VENUE_PACKET_LENGTH;
        for venue in self.venues.iter().take(room) {
            PacketWriter::control(&mut frame, header.session, &Control::Venue(*venue));
        }
        let flags = header.flags.with(FrameFlags::HEAD);
        FrameHeader { flags, ..header }.seal(&mut frame);
        frame
    }

    /// Returns the numbers of the pages that exist.
    pub fn page_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let numbered = (0..).zip(&self.pages);
        numbered.filter_map(|(number, &page)| (page > 0).then_some(number))
    }

    /// Decodes the body of a frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Head, FrameError> {
        if !frame.header.flags.contains(FrameFlags::HEAD) {
            return Err(FrameError::BadBody);
        }
        let (fixed, rest) = frame
            .body
            .split_first_chunk::<HEAD_LENGTH>()
            .ok_or(FrameError::BadBody)?;
        let count = u32_at(fixed, 16) as usize;
        // The frame's length bounds the count before anything is allocated.
        let length = count.checked_mul(8).ok_or(FrameError::BadBody)?;
        let (pages, packets) = rest.split_at_checked(length).ok_or(FrameError::BadBody)?;
        let (mut path, mut venues) = (Path::default(), Vec::new());
        for packet in Packets::of(packets) {
            let packet = packet.map_err(|_| FrameError::BadBody)?;
            if !packet.header.flags.contains(Flags::CONTROL) {
                return Err(FrameError::BadBody);
            }
            for control in packet.controls() {
                match control {
                    Ok(Control::Venue(venue)) => venues.push(venue),
                    Ok(Control::Passed(passed)) => {
                        path = path.with(passed.cluster).ok_or(FrameError::BadBody)?;
                    }
                    Ok(_) => {}
                    Err(_) => return Err(FrameError::BadBody),
                }
            }
        }
        let number = |bytes: &[u8]| {
            let mut field = [0; 8];
            field.copy_from_slice(bytes);
            u64::from_le_bytes(field)
        };
        Ok(Head {
            log_sequence: u64_at(fixed, 0),
            taken_ms: u64_at(fixed, 8),
            pages: pages.chunks_exact(8).map(number).collect(),
            path,
            venues,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::{ClusterText, ControlKind, MessageKind, VenueName};

    fn header() -> FrameHeader {
        FrameHeader {
            first: 900,
            epoch: 5,
            origin: 2,
            session: 7,
            ..FrameHeader::default()
        }
    }

    fn head() -> Head {
        let venue = |source, name| Venue {
            source,
            source_time_ns: 0,
            name: VenueName::new(name).unwrap(),
        };
        Head {
            log_sequence: 41,
            taken_ms: 1_700_000_000_000,
            pages: vec![901, 0, 950],
            path: Path::default(),
            venues: vec![venue(1, "XNAS"), venue(2, "XNYS")],
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let frame = head().encode(header());
        let frame = Frame::decode(&frame).unwrap();
        assert_eq!(frame.header.first, 900);
        assert_eq!(Head::decode(&frame), Ok(head()));
    }

    #[test]
    fn a_head_has_the_clusters_that_its_source_has_come_through() {
        let name = |text| ClusterText::new(text).unwrap();
        let path = Path::default().with(name("newyork"));
        let path = path.unwrap().with(name("london")).unwrap();
        let relayed = Head { path, ..head() };
        let bytes = relayed.encode(header());
        let frame = Frame::decode(&bytes).unwrap();
        assert_eq!(Head::decode(&frame), Ok(relayed));
        // To a hub of an earlier version they are controls of an unknown type and a known length.
        let kind = ControlKind::PASSED;
        assert_eq!(MessageKind(kind).encoded_length(), Passed::LENGTH);
        let mut long = bytes.clone();
        for _ in 0..6 {
            let passed = Control::Passed(Passed { cluster: name("x") });
            PacketWriter::control(&mut long, header().session, &passed);
        }
        frame.header.seal(&mut long);
        let long = Frame::decode(&long).unwrap();
        assert_eq!(Head::decode(&long), Err(FrameError::BadBody), "8 clusters");
    }

    #[test]
    fn a_head_cut_anywhere_is_refused() {
        let whole = head().encode(header());
        for length in HEADER_LENGTH..whole.len() {
            let mut cut = whole[..length].to_vec();
            Frame::decode(&whole).unwrap().header.seal(&mut cut);
            let frame = Frame::decode(&cut).unwrap();
            let expected = match length {
                // Behind the pages, and between the two venues, it is whole.
                88 => Ok(vec![]),
                160 => Ok(head().venues[..1].to_vec()),
                _ => Err(FrameError::BadBody),
            };
            assert_eq!(
                Head::decode(&frame).map(|head| head.venues),
                expected,
                "{length}"
            );
        }
    }

    #[test]
    fn the_largest_head_fits_a_frame() {
        let many = Head {
            pages: vec![1; PAGES_MAX],
            venues: vec![head().venues[0]; usize::from(u16::MAX)],
            ..head()
        };
        let frame = many.encode(header());
        let decoded = Head::decode(&Frame::decode(&frame).unwrap()).unwrap();
        assert_eq!(decoded.pages.len(), PAGES_MAX);
        assert!(decoded.venues.len() > 7_000);
    }

    #[test]
    fn a_count_of_pages_allocates_nothing() {
        let mut frame = head().encode(header());
        let header = Frame::decode(&frame).unwrap().header;
        frame[HEADER_LENGTH + 16..HEADER_LENGTH + 20].fill(0xff);
        header.seal(&mut frame);
        let frame = Frame::decode(&frame).unwrap();
        assert_eq!(Head::decode(&frame), Err(FrameError::BadBody));
    }
}
