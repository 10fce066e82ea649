//! Threads that take the steps of TLS handshakes whose signatures are slow: a signature with an RSA
//! key takes longer than a lane may wait.
//!
//! The session goes to such a thread together with what was received, and comes back to its lane by
//! a signal. Threads are started with the first such step, and are shared by all lanes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};
use tidewire_tls::{Error, Session};
use tracing::warn;

use crate::connection::ConnectionId;
use crate::mailbox::{Bell, Signal};

/// A step of a handshake to be taken.
pub(crate) struct Step {
    /// Of the connection's lane.
    pub(crate) bell: Arc<Bell>,
    pub(crate) id: ConnectionId,
    pub(crate) session: Session,
    pub(crate) ciphertext: Vec<u8>,
}

/// A step that was taken.
#[derive(Debug)]
pub(crate) struct Shaken {
    pub(crate) id: ConnectionId,
    pub(crate) session: Session,
    /// What the peer has sent behind the handshake.
    pub(crate) text: Vec<u8>,
    pub(crate) result: Result<(), Error>,
}

impl Step {
    /// Lets a helper take the step. Takes it at once if there is none.
    pub(crate) fn post(self) {
        if !has_threads() {
            return self.take();
        }
        QUEUE.lock().push_back(self);
        POSTED.notify_one();
    }

    fn take(mut self) {
        let mut text = Vec::new();
        let mut take = |part: &[u8]| text.extend_from_slice(part);
        let result = self
            .session
            .receive_in_place(&mut self.ciphertext, &mut take);
        self.bell.signal(Signal::Shaken(Box::new(Shaken {
            id: self.id,
            session: self.session,
            text,
            result,
        })));
    }
}

/// Starts the threads, the first time. Returns whether there are any; without one, lanes sign by
/// themselves.
fn has_threads() -> bool {
    static HAS_THREADS: OnceLock<bool> = OnceLock::new();
    *HAS_THREADS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (cores / 2).clamp(1, THREADS_MAX);
        let started = (0..count).filter(|number| {
            let thread = std::thread::Builder::new().name(format!("handshake-{number}"));
            let thread = thread.spawn(run);
            if let Err(error) = &thread {
                warn!(%error, "cannot start a thread for TLS handshakes");
            }
            thread.is_ok()
        });
        started.count() > 0
    })
}

fn run() {
    loop {
        let mut queue = QUEUE.lock();
        let step = loop {
            match queue.pop_front() {
                Some(step) => break step,
                None => POSTED.wait(&mut queue),
            }
        };
        drop(queue);
        step.take();
    }
}

/// Steps to be taken. Each connection has one at most.
static QUEUE: Mutex<VecDeque<Step>> = Mutex::new(VecDeque::new());
static POSTED: Condvar = Condvar::new();
const THREADS_MAX: usize = 4;
