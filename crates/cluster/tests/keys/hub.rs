//! A hub: its log is its keys.

use tidewire_cluster::keys::{KeysConfig, KeysEvent, KeysMember, KeysRole};

use crate::nats::Nats;

/// Bytes of one write: its number.
pub(crate) const WRITE_BYTES: usize = 8;

#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) member: KeysMember,
    /// All bytes of the log, from offset 0. They stand for the keys.
    pub(crate) log: Vec<u8>,
    /// Tells this process from those before at the same place.
    pub(crate) process: u64,
    /// Writes whose clients wait: the offset behind each, and its number.
    pub(crate) waiting: Vec<(u64, u64)>,
    /// Reads whose clients wait: until when the log must be durable, and how many writes had been
    /// acknowledged when each began, all of which the answer has.
    pub(crate) stopped_until: u64,
    pub(crate) deposed: u64,
    pub(crate) reigns: u64,
    /// Whether the last events let clients in.
    pub(crate) serves: bool,
    /// Whether the stream may become one that cannot be gone on with.
    pub(crate) may_fail: bool,
    /// The message that it lacks, which other hubs are to be told.
    pub(crate) complains_of: Option<u64>,
}

impl Hub {
    /// Starts a hub with the keys of the newest snapshot.
    pub(crate) fn new(process: u64, now_ms: u64, nats: &Nats) -> Hub {
        let (position, log) = nats.snapshot.clone().unwrap_or_default();
        Hub {
            member: KeysMember::new(config(process), position, now_ms * 1_000_000),
            log,
            process,
            waiting: Vec::new(),
            stopped_until: 0,
            deposed: 0,
            reigns: 0,
            serves: false,
            may_fail: false,
            complains_of: None,
        }
    }

    /// Stores the keys again, once it has the lease.
    pub(crate) fn begin_rebuilding(&mut self, now_ns: u64) {
        let (config, position) = (config(self.process), self.member.position());
        self.member = KeysMember::rebuild(config, position, now_ns);
    }

    /// Takes the member's events.
    pub(crate) fn follow(&mut self, now_ns: u64, nats: &Nats) {
        while let Some(event) = self.member.next_event() {
            match event {
                KeysEvent::Apply { bytes, end } => {
                    self.log.extend_from_slice(&bytes);
                    assert_eq!(self.log.len() as u64, end, "bytes continue the log");
                }
                KeysEvent::Own { bytes, end } => {
                    let from = end as usize - bytes.len();
                    if self.log.get(from..end as usize) != Some(&bytes[..]) {
                        self.member.diverges();
                    }
                }
                KeysEvent::Reign { .. } | KeysEvent::PassedOver(_) => {}
                KeysEvent::Serving { offset, .. } => {
                    assert_eq!(self.log.len() as u64, offset, "all is applied");
                    self.reigns += 1;
                    self.serves = true;
                }
                KeysEvent::Resumed => self.serves = true,
                KeysEvent::Deposed => {
                    // Clients that wait are told that their writes may have taken effect.
                    self.waiting.clear();
                    self.deposed += 1;
                    self.serves = false;
                    let (position, log) = nats.snapshot.clone().unwrap_or_default();
                    self.log = log;
                    self.member.restart(position, now_ns);
                }
                KeysEvent::Lacking => {
                    self.complains_of = Some(self.member.needed_message());
                    // What it has is kept until something newer is there.
                    if let Some((position, log)) = nats.snapshot.clone()
                        && position.sequence > self.member.position().sequence
                    {
                        if self.is_primary() {
                            self.member.note_reign_of_snapshot(position.epoch, now_ns);
                            continue;
                        }
                        self.log = log;
                        let config = config(self.process);
                        self.member = KeysMember::new(config, position, now_ns);
                    }
                }
                KeysEvent::Failed(_) if self.may_fail => self.serves = false,
                KeysEvent::Failed(fault) => panic!("{fault}"),
            }
        }
    }

    /// Whether it may answer as the primary at this time.
    pub(crate) fn may_serve(&self, now_ns: u64) -> bool {
        self.serves && now_ns < self.member.serves_until_ns(now_ns)
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.member.figures().role == KeysRole::Primary
    }
}

fn config(process: u64) -> KeysConfig {
    let mut seed = [0; 12];
    seed[..8].copy_from_slice(&process.to_le_bytes());
    KeysConfig {
        // Groups of several messages.
        body_bytes_max: 3 * WRITE_BYTES,
        ..KeysConfig::of(seed)
    }
}
