//! Writes to topics of other hubs: what lanes and the thread that shares topics tell each other.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidewire_keyspace::MountWriter;
use tidewire_resp::{ArgumentList, Protocol};

/// The end of a write: the reply of its command as the client gets it, `None` for a plain `OK`; or
/// the error.
pub type WriteEnd = Result<Option<Box<[u8]>>, String>;

/// What a write does to its topic.
#[derive(Clone, Debug)]
pub enum WriteAction {
    /// Sets this value, as by SET with nothing else.
    Value(Box<[u8]>),
    /// Runs a command on this topic alone.
    Command {
        /// Its words.
        words: ArgumentList,
        /// What its reply looks like.
        protocol: Protocol,
    },
}

impl WriteAction {
    /// Returns the bytes of its value or its words.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Value(value) => value.len(),
            Self::Command { words, .. } => words.memory_bytes(),
        }
    }
}

/// A client's write to a topic of another hub.
#[derive(Clone, Debug)]
pub struct AskedWrite {
    /// The client that waits; `None` for a message of a pusher.
    pub writer: Option<MountWriter>,
    /// The hub that has the topic.
    pub hub: Box<str>,
    /// The topic.
    pub name: Box<[u8]>,
    /// What is done to it.
    pub action: WriteAction,
    /// Name of the client's user.
    pub user: Box<[u8]>,
    /// Address of the client.
    pub address: Box<str>,
}

/// The end of another hub's write to a topic of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedWrite {
    /// Number of the request.
    pub number: u64,
    /// What its client gets.
    pub result: WriteEnd,
}

/// Writes between hubs, on their way between lanes and the thread that shares topics. No lane waits
/// for that thread.
#[derive(Default)]
pub struct HubWrites {
    asked: Mutex<Asked>,
    ended: Mutex<Vec<EndedWrite>>,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// What became of them.
    pub counters: WriteCounters,
}

#[derive(Debug, Default)]
struct Asked {
    writes: Vec<AskedWrite>,
    bytes: usize,
    /// Clients that have stopped waiting, and were told that the end is unknown.
    unblocked: Vec<MountWriter>,
}

/// Counters of writes since the start.
#[derive(Debug, Default)]
pub struct WriteCounters {
    /// Writes of this hub's clients to topics of other hubs.
    pub asked: Outcomes,
    /// Those that wait for an answer.
    pub asked_waiting: AtomicU64,
    /// Their bytes.
    pub asked_bytes: AtomicU64,
    /// Writes of other hubs' clients to topics of this one.
    pub taken: Outcomes,
    /// Those that have not ended.
    pub taken_waiting: AtomicU64,
    /// Requests of other hubs that came again, or late.
    pub repeated: AtomicU64,
    /// Requests of other hubs that could not be read.
    pub unreadable: AtomicU64,
    /// Lines that the audit stream has.
    pub audited: AtomicU64,
    /// Lines that it does not have.
    pub unaudited: AtomicU64,
}

/// What became of writes.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Done.
    pub done: AtomicU64,
    /// Nothing was written.
    pub refused: AtomicU64,
    /// The value may have been written, or not.
    pub unknown: AtomicU64,
}

impl HubWrites {
    /// Sets what is called when something is told. It must not wait.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(waker));
    }

    /// Passes a client's write on; returns false if there is no room.
    pub fn ask(&self, write: AskedWrite) -> bool {
        let bytes = write.name.len() + write.action.bytes();
        let mut asked = self.asked.lock();
        if asked.writes.len() >= ASKED_MAX || asked.bytes + bytes > ASKED_BYTES_MAX {
            return false;
        }
        asked.bytes += bytes;
        asked.writes.push(write);
        drop(asked);
        self.wake();
        true
    }

    /// Returns whether a message of a pusher has room. It leaves some for clients, and waits at the
    /// pusher's connection meanwhile.
    pub fn has_room_for_push(&self) -> bool {
        let waiting = self.counters.asked_waiting.load(Ordering::Relaxed);
        let bytes = self.counters.asked_bytes.load(Ordering::Relaxed);
        let asked = self.asked.lock();
        let (writes, bytes) = (
            asked.writes.len() as u64 + waiting,
            asked.bytes as u64 + bytes,
        );
        writes < PUSHED_MAX && bytes < ASKED_BYTES_MAX as u64 / 2
    }

    /// Tells of the end of another hub's write.
    pub fn end(&self, number: u64, result: WriteEnd) {
        // At most one entry for each request that was taken, and these are limited.
        self.ended.lock().push(EndedWrite { number, result });
        self.wake();
    }

    /// Returns the writes since the last call.
    pub fn take_asked(&self) -> Vec<AskedWrite> {
        let mut asked = self.asked.lock();
        asked.bytes = 0;
        std::mem::take(&mut asked.writes)
    }

    /// Notes that a client has stopped waiting for the end of its write.
    pub fn note_unblocked(&self, writer: MountWriter) {
        let mut asked = self.asked.lock();
        // A client that has stopped waits for its next write, so each write is here at most once.
        if asked.unblocked.len() < UNBLOCKED_MAX {
            asked.unblocked.push(writer);
        }
    }

    /// Returns whether the client of a write that has ended had stopped waiting; the answer is true
    /// once.
    pub fn take_unblocked(&self, writer: MountWriter) -> bool {
        let mut asked = self.asked.lock();
        let mut unblocked = asked.unblocked.iter();
        let place = unblocked.position(|&unblocked| unblocked == writer);
        place
            .map(|place| asked.unblocked.swap_remove(place))
            .is_some()
    }

    /// Forgets who has stopped waiting, unless writes wait to be taken: no other one is on its way.
    pub fn forget_unblocked(&self) {
        let mut asked = self.asked.lock();
        if asked.writes.is_empty() {
            asked.unblocked.clear();
        }
    }

    /// Returns the ends since the last call.
    pub fn take_ended(&self) -> Vec<EndedWrite> {
        std::mem::take(&mut *self.ended.lock())
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }
}

impl fmt::Debug for HubWrites {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HubWrites")
    }
}

impl Outcomes {
    /// Returns the three numbers: done, refused, unknown.
    pub fn get(&self) -> [u64; 3] {
        [&self.done, &self.refused, &self.unknown].map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Maximum writes that wait for the thread.
const ASKED_MAX: usize = 4_096;
/// With so many writes on their way, messages of pushers wait.
const PUSHED_MAX: u64 = 1_024;
/// Maximum bytes of their names and values.
const ASKED_BYTES_MAX: usize = 32 << 20;
/// Maximum clients that have stopped waiting: those of all writes on their way.
const UNBLOCKED_MAX: usize = 2 * ASKED_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn write(bytes: usize) -> AskedWrite {
        AskedWrite {
            writer: Some(MountWriter {
                lane: 0,
                client: 1,
                token: 1,
            }),
            hub: "a".into(),
            name: b"live:x".as_slice().into(),
            action: WriteAction::Value(vec![0; bytes].into()),
            user: b"default".as_slice().into(),
            address: "127.0.0.1:1".into(),
        }
    }

    #[test]
    fn a_client_that_stopped_waiting_is_known_until_its_write_has_ended() {
        let writes = HubWrites::default();
        let [one, two] = [1, 2].map(|client| MountWriter {
            lane: 0,
            client,
            token: 1,
        });
        writes.note_unblocked(one);
        assert!(!writes.take_unblocked(two));
        assert!(writes.take_unblocked(one) && !writes.take_unblocked(one));
        writes.note_unblocked(two);
        assert!(writes.ask(write(1)));
        writes.forget_unblocked();
        writes.take_asked();
        assert!(writes.take_unblocked(two), "its write was not taken yet");
        writes.note_unblocked(two);
        writes.forget_unblocked();
        assert!(!writes.take_unblocked(two));
    }

    #[test]
    fn the_thread_is_woken_and_takes_all() {
        let writes = HubWrites::default();
        let woken = Arc::new(AtomicU64::new(0));
        let counter = woken.clone();
        writes.set_waker(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert!(writes.ask(write(1)));
        writes.end(7, Ok(None));
        assert_eq!(woken.load(Ordering::Relaxed), 2);
        assert_eq!(writes.take_asked().len(), 1);
        let end = EndedWrite {
            number: 7,
            result: Ok(None),
        };
        assert_eq!(writes.take_ended(), [end]);
        assert!(writes.take_asked().is_empty() && writes.take_ended().is_empty());
    }

    #[test]
    fn writes_that_wait_are_limited_by_number_and_bytes() {
        let writes = HubWrites::default();
        assert!(writes.ask(write(ASKED_BYTES_MAX / 2)));
        assert!(!writes.ask(write(ASKED_BYTES_MAX / 2)));
        for _ in 1..ASKED_MAX {
            assert!(writes.ask(write(1)));
        }
        assert!(!writes.ask(write(1)));
        writes.take_asked();
        assert!(writes.ask(write(1)));
    }

    #[test]
    fn pushers_wait_while_clients_still_have_room() {
        let writes = HubWrites::default();
        writes
            .counters
            .asked_waiting
            .store(PUSHED_MAX - 1, Ordering::Relaxed);
        assert!(writes.has_room_for_push());
        assert!(writes.ask(write(1)));
        assert!(!writes.has_room_for_push() && writes.ask(write(1)));
        writes.take_asked();
        assert!(writes.has_room_for_push());
        writes
            .counters
            .asked_bytes
            .store(ASKED_BYTES_MAX as u64 / 2, Ordering::Relaxed);
        assert!(!writes.has_room_for_push() && writes.ask(write(1)));
    }
}
