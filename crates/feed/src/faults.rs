//! Fault injection into a stream of packets, between `produce` and the socket.
//!
//! Only packets of the data stream are affected (live and retransmitted messages, snapshots,
//! heartbeats), never controls, so a connection can always be made.

use std::fmt;
use std::str::FromStr;

use crate::wire::{Flags, HEADER_LENGTH, Header};

/// Maximum packets held back for reordering at once.
pub const HELD_PACKETS_MAX: usize = 16;
/// Longest stall [`FaultPlan`] accepts: ten seconds.
pub const STALL_NS_MAX: u64 = 10_000_000_000;

/// The probability of each fault, as a share of data packets in 0..=1.
///
/// Parsed from text such as `gaps=1%,duplicate=0.5%,reorder=1%,corrupt=0.1%,corrupt-header=0.01%,
/// fragment=5%,stall=0.01%,stall-duration=50ms,disconnect=0.001%`. Unnamed faults do not happen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultPlan {
    /// The packet is not sent.
    pub gaps: f64,
    /// The packet is lost on the way. Same effect as `gaps`, under the usual name for networks.
    pub loss: f64,
    /// The packet is sent twice.
    pub duplicate: f64,
    /// The packet is sent after the next one or later.
    pub reorder: f64,
    /// One byte of the body is changed.
    pub corrupt: f64,
    /// One byte of the header is changed: on a byte stream the framing may be lost.
    pub corrupt_header: f64,
    /// The packet is written in two pieces.
    pub fragment: f64,
    /// Nothing is written for `stall_ns` after the packet.
    pub stall: f64,
    /// Length of a stall in nanoseconds.
    pub stall_ns: u64,
    /// The connection is closed after the packet.
    pub disconnect: f64,
}

impl Default for FaultPlan {
    fn default() -> Self {
        FaultPlan {
            gaps: 0.0,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            corrupt_header: 0.0,
            fragment: 0.0,
            stall: 0.0,
            stall_ns: 50_000_000,
            disconnect: 0.0,
        }
    }
}

/// Why text is not a fault plan: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultPlanError {
    /// A part without `=`.
    #[error("'{0}': expected name=share, for example gaps=1%")]
    NoValue(String),
    /// An unknown fault name.
    #[error(
        "unknown fault '{0}': expected gaps, loss, duplicate, reorder, corrupt, corrupt-header, \
         fragment, stall, stall-duration, disconnect"
    )]
    UnknownFault(String),
    /// Not a share of 0 % to 100 %.
    #[error("'{0}' is not a share: expected 0% to 100%, or 0 to 1")]
    BadShare(String),
    /// Not a duration up to [`STALL_NS_MAX`].
    #[error("'{0}' is not a duration up to 10s: expected for example 50ms")]
    BadDuration(String),
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<FaultPlan, FaultPlanError> {
        let mut plan = FaultPlan::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| FaultPlanError::NoValue(part.to_owned()))?;
            let share = match name.trim() {
                "gaps" => &mut plan.gaps,
                "loss" => &mut plan.loss,
                "duplicate" => &mut plan.duplicate,
                "reorder" => &mut plan.reorder,
                "corrupt" => &mut plan.corrupt,
                "corrupt-header" => &mut plan.corrupt_header,
                "fragment" => &mut plan.fragment,
                "stall" => &mut plan.stall,
                "disconnect" => &mut plan.disconnect,
                "stall-duration" => {
                    plan.stall_ns = duration_ns(value.trim())?;
                    continue;
                }
                other => return Err(FaultPlanError::UnknownFault(other.to_owned())),
            };
            *share = parse_share(value.trim())?;
        }
        Ok(plan)
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = [
            ("gaps", self.gaps),
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
            ("corrupt-header", self.corrupt_header),
            ("fragment", self.fragment),
            ("stall", self.stall),
            ("disconnect", self.disconnect),
        ];
        for (name, share) in shares.into_iter().filter(|(_, share)| *share > 0.0) {
            write!(formatter, "{name}={}%,", share * 100.0)?;
        }
        write!(formatter, "stall-duration={}ms", self.stall_ns / 1_000_000)
    }
}

fn parse_share(text: &str) -> Result<f64, FaultPlanError> {
    let bad = || FaultPlanError::BadShare(text.to_owned());
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map_err(|_| bad())? / scale;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(bad())
    }
}

fn duration_ns(text: &str) -> Result<u64, FaultPlanError> {
    let bad = || FaultPlanError::BadDuration(text.to_owned());
    let units = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    let (number, unit_ns) = units
        .iter()
        .find_map(|(unit, unit_ns)| Some((text.strip_suffix(unit)?, *unit_ns)))
        .ok_or_else(bad)?;
    let number = number.trim().parse::<u64>().map_err(|_| bad())?;
    number
        .checked_mul(unit_ns)
        .filter(|&ns| ns <= STALL_NS_MAX)
        .ok_or_else(bad)
}

/// Counts of injected faults; every field only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Data packets processed.
    pub packets: u64,
    /// Packets not sent.
    pub gaps: u64,
    /// Messages in these packets.
    pub gap_messages: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets sent twice.
    pub duplicated: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Packets with a changed byte in the body.
    pub corrupted: u64,
    /// Packets with a changed byte in the header.
    pub headers_corrupted: u64,
    /// Packets written in two pieces.
    pub fragmented: u64,
    /// Stalls.
    pub stalls: u64,
    /// Disconnects.
    pub disconnects: u64,
}

/// A pause of the writer at an offset of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Write everything so far first: a write boundary.
    Flush,
    /// Write nothing more for this many nanoseconds.
    Stall {
        /// Nanoseconds.
        duration_ns: u64,
    },
    /// Close the connection.
    Disconnect,
}

/// A seeded source of faults for one connection.
#[derive(Clone, Debug)]
pub struct FaultInjector {
    plan: FaultPlan,
    random: u64,
    /// Packets to send after later ones: (packets still to pass, bytes).
    held: Vec<(u8, Vec<u8>)>,
    counters: FaultCounters,
    quiet: bool,
}

impl FaultInjector {
    /// Creates an injector. Equal plans and seeds do the same to the same packets.
    pub fn new(plan: FaultPlan, seed: u64) -> FaultInjector {
        FaultInjector {
            quiet: plan
                == FaultPlan {
                    stall_ns: plan.stall_ns,
                    ..FaultPlan::default()
                },
            plan,
            random: seed,
            held: Vec::new(),
            counters: FaultCounters::default(),
        }
    }

    /// Moves the whole packets of `packets` to the end of `out`, with faults. Adds the pauses
    /// with their offsets in `out` (ascending) to `pauses`. `packets` is empty afterwards.
    pub fn apply(
        &mut self,
        packets: &mut Vec<u8>,
        out: &mut Vec<u8>,
        pauses: &mut Vec<(usize, Pause)>,
    ) {
        if self.quiet {
            out.append(packets);
            return;
        }
        let mut rest = packets.as_slice();
        while let Some(head) = rest.first_chunk::<HEADER_LENGTH>() {
            let Ok(header) = Header::from_bytes(head) else {
                break;
            };
            let length = header.packet_length().min(rest.len());
            let (packet, after) = rest.split_at(length);
            rest = after;
            if header.flags.contains(Flags::CONTROL) {
                out.extend_from_slice(packet);
            } else {
                self.data_packet(&header, packet, out, pauses);
            }
        }
        // Bytes that are not a packet pass unchanged.
        out.extend_from_slice(rest);
        packets.clear();
    }

    /// Passes a datagram of any protocol to `send`: once, twice, never, or together with a
    /// datagram held back before. A datagram that would be corrupted is dropped, because its
    /// receiver would discard it for its checksum anyway.
    pub fn datagram(&mut self, datagram: &[u8], mut send: impl FnMut(&[u8])) {
        self.counters.packets += 1;
        let plan = self.plan;
        if self.happens(plan.gaps) {
            self.counters.gaps += 1;
        } else if self.happens(plan.loss) {
            self.counters.lost += 1;
        } else if self.happens(plan.corrupt) || self.happens(plan.corrupt_header) {
            self.counters.corrupted += 1;
        } else if self.held.len() < HELD_PACKETS_MAX && self.happens(plan.reorder) {
            self.counters.reordered += 1;
            let passes = 1 + (self.next_random() % 4) as u8;
            self.held.push((passes, datagram.to_vec()));
            return;
        } else {
            send(datagram);
            if self.happens(plan.duplicate) {
                self.counters.duplicated += 1;
                send(datagram);
            }
        }
        self.held.retain_mut(|(passes, held)| {
            *passes -= 1;
            if *passes == 0 {
                send(held);
            }
            *passes > 0
        });
    }

    /// Drops held packets, as a new connection does.
    pub fn reset(&mut self) {
        self.held.clear();
    }

    /// Returns the counters.
    pub fn counters(&self) -> &FaultCounters {
        &self.counters
    }

    /// Returns the plan.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    fn data_packet(
        &mut self,
        header: &Header,
        packet: &[u8],
        out: &mut Vec<u8>,
        pauses: &mut Vec<(usize, Pause)>,
    ) {
        self.counters.packets += 1;
        if self.happens(self.plan.gaps) {
            self.counters.gaps += 1;
            self.counters.gap_messages += u64::from(header.message_count);
        } else if self.happens(self.plan.loss) {
            self.counters.lost += 1;
        } else if self.held.len() < HELD_PACKETS_MAX && self.happens(self.plan.reorder) {
            self.counters.reordered += 1;
            let passes = 1 + (self.next_random() % 4) as u8;
            self.held.push((passes, packet.to_vec()));
            return;
        } else {
            self.send(packet, out, pauses);
            if self.happens(self.plan.duplicate) {
                self.counters.duplicated += 1;
                out.extend_from_slice(packet);
            }
        }
        self.release(out);
        if self.happens(self.plan.stall) {
            self.counters.stalls += 1;
            pauses.push((
                out.len(),
                Pause::Stall {
                    duration_ns: self.plan.stall_ns,
                },
            ));
        }
        if self.happens(self.plan.disconnect) {
            self.counters.disconnects += 1;
            pauses.push((out.len(), Pause::Disconnect));
        }
    }

    fn send(&mut self, packet: &[u8], out: &mut Vec<u8>, pauses: &mut Vec<(usize, Pause)>) {
        let start = out.len();
        out.extend_from_slice(packet);
        if packet.len() > HEADER_LENGTH && self.happens(self.plan.corrupt) {
            self.counters.corrupted += 1;
            self.change_byte(&mut out[start + HEADER_LENGTH..]);
        }
        if self.happens(self.plan.corrupt_header) {
            self.counters.headers_corrupted += 1;
            self.change_byte(&mut out[start..start + HEADER_LENGTH]);
        }
        if self.happens(self.plan.fragment) {
            self.counters.fragmented += 1;
            let at = 1 + self.next_random() as usize % (packet.len() - 1);
            pauses.push((start + at, Pause::Flush));
        }
    }

    /// Sends held packets that enough others have passed.
    fn release(&mut self, out: &mut Vec<u8>) {
        self.held.retain_mut(|(passes, packet)| {
            *passes -= 1;
            if *passes == 0 {
                out.extend_from_slice(packet);
            }
            *passes > 0
        });
    }

    fn change_byte(&mut self, bytes: &mut [u8]) {
        let index = self.next_random() as usize % bytes.len();
        bytes[index] ^= 1 << (self.next_random() % 8);
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && ((self.next_random() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    /// Returns the next number of SplitMix64: small, seeded, and good enough to choose packets.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, PacketWriter, Trade};

    #[test]
    fn a_plan_is_read_from_text() {
        let plan: FaultPlan = "gaps=1%, duplicate=0.005,stall-duration=20ms"
            .parse()
            .unwrap();
        assert_eq!(
            (plan.gaps, plan.duplicate, plan.stall_ns),
            (0.01, 0.005, 20_000_000)
        );
        assert_eq!(plan.to_string().parse(), Ok(plan));
        assert_eq!("".parse(), Ok(FaultPlan::default()));
    }

    #[test]
    fn a_wrong_plan_says_what_is_wrong() {
        let error = |text: &str| text.parse::<FaultPlan>().unwrap_err();
        assert_eq!(error("gaps"), FaultPlanError::NoValue("gaps".into()));
        assert_eq!(
            error("lost=1%"),
            FaultPlanError::UnknownFault("lost".into())
        );
        assert_eq!(error("gaps=101%"), FaultPlanError::BadShare("101%".into()));
        assert_eq!(error("gaps=NaN"), FaultPlanError::BadShare("NaN".into()));
        assert_eq!(
            error("stall-duration=1h"),
            FaultPlanError::BadDuration("1h".into())
        );
        assert_eq!(
            error("stall-duration=11s"),
            FaultPlanError::BadDuration("11s".into())
        );
    }

    #[test]
    fn datagrams_are_lost_repeated_and_held_back_as_often_as_asked() {
        let plan: FaultPlan = "loss=10%,gaps=5%,duplicate=10%,reorder=10%,corrupt=5%"
            .parse()
            .unwrap();
        let mut injector = FaultInjector::new(plan, 1);
        let mut seen = Vec::new();
        for number in 0..10_000_u32 {
            injector.datagram(&number.to_le_bytes(), |datagram| {
                seen.push(u32::from_le_bytes(datagram.try_into().unwrap()));
            });
        }
        let counters = *injector.counters();
        let gone = counters.lost + counters.gaps + counters.corrupted;
        assert!((800..1_200).contains(&counters.lost), "{counters:?}");
        assert!((600..900).contains(&counters.duplicated), "{counters:?}");
        let waiting = injector.held.len() as u64;
        assert_eq!(
            seen.len() as u64,
            10_000 - gone - waiting + counters.duplicated
        );
        assert!(seen.windows(2).filter(|pair| pair[0] > pair[1]).count() > 500);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len() as u64, 10_000 - gone - waiting);
    }

    #[test]
    fn faults_happen_as_often_as_asked_and_never_to_controls() {
        let plan: FaultPlan = "gaps=10%,duplicate=10%,corrupt=10%".parse().unwrap();
        let mut injector = FaultInjector::new(plan, 1);
        let (mut out, mut pauses) = (Vec::new(), Vec::new());
        for sequence in 1..=10_000 {
            let mut packets = Vec::new();
            let mut writer = PacketWriter::new(&mut packets, 1, Flags::NONE, sequence, 1_472);
            writer.push(&Message::Trade(Trade::default()));
            writer.finish();
            injector.apply(&mut packets, &mut out, &mut pauses);
            assert!(packets.is_empty());
        }
        let counters = injector.counters();
        assert_eq!(counters.packets, 10_000);
        assert!((800..1_200).contains(&counters.gaps), "{counters:?}");
        assert!((700..1_100).contains(&counters.duplicated), "{counters:?}");
        assert!((700..1_100).contains(&counters.corrupted), "{counters:?}");

        let all: FaultPlan = "gaps=100%,disconnect=100%".parse().unwrap();
        let mut login = Vec::new();
        PacketWriter::control(&mut login, 0, &crate::wire::Control::Unknown(0x1f));
        let (expected, mut out) = (login.clone(), Vec::new());
        FaultInjector::new(all, 1).apply(&mut login, &mut out, &mut pauses);
        assert_eq!(out, expected);
    }
}
