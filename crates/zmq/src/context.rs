//! The context: background threads and in-process endpoints that sockets share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use foldhash::HashMap;
use parking_lot::{Condvar, Mutex};
use tidewire_readiness as readiness;

use crate::core::Core;
use crate::error::Error;
use crate::event::Sources;
use crate::inproc::Inproc;
use crate::kind::SocketType;
use crate::options::Options;
use crate::reactor::Reactor;
use crate::socket::Socket;

/// What sockets share: background threads, and the names of in-process endpoints.
///
/// Cheap to clone. When the last clone and the last socket are gone, so are the threads.
#[derive(Debug, Clone)]
pub struct Context {
    inner: Arc<ContextInner>,
}

#[derive(Debug, Default)]
pub(crate) struct ContextInner {
    /// What `readiness::forks` said when it was made: a process forked off since has none of its
    /// threads.
    forks: AtomicU32,
    settings: Mutex<Settings>,
    is_terminated: AtomicBool,
    next_id: AtomicU64,
    sockets: Mutex<HashMap<u64, Arc<Core>>>,
    all_finished: Condvar,
    reactors: Mutex<Vec<Arc<Reactor>>>,
    pub(crate) inproc: Arc<Inproc>,
    pub(crate) sources: Sources,
}

#[derive(Debug)]
struct Settings {
    io_threads: i32,
    sockets_max: i32,
    message_bytes_max: i32,
    is_blocky: bool,
    ipv6: bool,
    thread_name_prefix: i32,
    scheduling_policy: i32,
    /// Those that background threads were asked to keep to.
    processors: Vec<i32>,
    zero_copy_receive: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            io_threads: 1,
            sockets_max: SOCKETS_MAX,
            message_bytes_max: i32::MAX,
            is_blocky: true,
            ipv6: false,
            thread_name_prefix: 0,
            scheduling_policy: -1,
            processors: Vec::new(),
            zero_copy_receive: true,
        }
    }
}

impl Context {
    /// A context with libzmq's defaults: one background thread, started with the first socket.
    pub fn new() -> Context {
        let inner: Arc<ContextInner> = Arc::default();
        inner.forks.store(readiness::forks(), Ordering::Relaxed);
        Context { inner }
    }

    pub(crate) fn of(inner: Arc<ContextInner>) -> Context {
        Context { inner }
    }

    /// A new socket.
    ///
    /// # Errors
    /// The context is terminated, or the limits of sockets or descriptors are reached.
    pub fn socket(&self, kind: SocketType) -> Result<Socket, Error> {
        let inner = &self.inner;
        if inner.is_terminated() || inner.is_forked() {
            return Err(Error::Terminated);
        }
        let sockets_max = inner.settings.lock().sockets_max;
        if inner.sockets.lock().len() >= sockets_max.max(0) as usize {
            return Err(Error::TooManyDescriptors);
        }
        let id = inner.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let reactor = inner.reactor(id)?;
        let core = Arc::new(Core::new(id, kind, Arc::clone(inner), reactor)?);
        core.reactor.add(&core);
        let known = inner.sockets.lock().insert(id, Arc::clone(&core));
        debug_assert!(known.is_none(), "a socket's number is given out once");
        Ok(Socket::of(core))
    }

    /// Sets an option by libzmq's number.
    ///
    /// # Errors
    /// There is no such option, or the value is out of its range.
    pub fn set(&self, option: i32, value: i32) -> Result<(), Error> {
        let mut settings = self.inner.settings.lock();
        match option {
            IO_THREADS if value >= 0 => settings.io_threads = value,
            MAX_SOCKETS if value >= 1 => settings.sockets_max = value.min(SOCKET_LIMIT_VALUE),
            MAX_MSGSZ if value >= 0 => settings.message_bytes_max = value,
            IPV6 if value >= 0 => settings.ipv6 = value != 0,
            BLOCKY if value >= 0 => settings.is_blocky = value != 0,
            THREAD_NAME_PREFIX if value >= 0 => settings.thread_name_prefix = value,
            ZERO_COPY_RECV if value >= 0 => settings.zero_copy_receive = value != 0,
            THREAD_SCHED_POLICY if value >= 0 => settings.scheduling_policy = value,
            THREAD_PRIORITY if value >= 0 => {}
            AFFINITY_CPU_ADD if value >= 0 => settings.processors.push(value),
            AFFINITY_CPU_REMOVE if value >= 0 => {
                let place = settings.processors.iter().position(|&known| known == value);
                settings
                    .processors
                    .remove(place.ok_or(Error::InvalidArgument)?);
            }
            _ => return Err(Error::InvalidArgument),
        }
        Ok(())
    }

    /// Reads an option by libzmq's number.
    ///
    /// # Errors
    /// There is no such option.
    pub fn get(&self, option: i32) -> Result<i32, Error> {
        let settings = self.inner.settings.lock();
        Ok(match option {
            IO_THREADS => settings.io_threads,
            MAX_SOCKETS => settings.sockets_max,
            SOCKET_LIMIT => SOCKET_LIMIT_VALUE,
            MAX_MSGSZ => settings.message_bytes_max,
            MSG_T_SIZE => 64,
            IPV6 => i32::from(settings.ipv6),
            BLOCKY => i32::from(settings.is_blocky),
            THREAD_NAME_PREFIX => settings.thread_name_prefix,
            ZERO_COPY_RECV => i32::from(settings.zero_copy_receive),
            THREAD_SCHED_POLICY => settings.scheduling_policy,
            _ => return Err(Error::InvalidArgument),
        })
    }

    /// Ends every wait on the context's sockets with [`Error::Terminated`], now and later. The
    /// sockets are still to be closed.
    pub fn shutdown(&self) {
        self.inner.is_terminated.store(true, Ordering::SeqCst);
        if self.inner.is_forked() {
            // The bells are the parent's too.
            return;
        }
        for core in self.inner.sockets.lock().values() {
            core.signal.raise();
        }
    }

    /// Shuts down, waits until every socket is closed and has sent what it lingers over, and
    /// ends the background threads.
    ///
    /// # Errors
    /// None so far.
    pub fn terminate(&self) -> Result<(), Error> {
        self.shutdown();
        if self.inner.is_forked() {
            self.inner.stop_reactors();
            return Ok(());
        }
        let mut sockets = self.inner.sockets.lock();
        while !sockets.is_empty() {
            self.inner.all_finished.wait(&mut sockets);
        }
        drop(sockets);
        self.inner.stop_reactors();
        Ok(())
    }
}

impl Default for Context {
    fn default() -> Context {
        Context::new()
    }
}

impl ContextInner {
    #[inline]
    pub(crate) fn is_terminated(&self) -> bool {
        self.is_terminated.load(Ordering::Acquire)
    }

    /// The options of a new socket of this type.
    pub(crate) fn options(&self, kind: SocketType) -> Options {
        let settings = self.settings.lock();
        Options {
            ipv6: settings.ipv6,
            // Subscriptions are all that a subscriber could linger for.
            linger_ms: match settings.is_blocky && !kind.is_subscriber() {
                true => -1,
                false => 0,
            },
            ..Options::default()
        }
    }

    pub(crate) fn socket_finished(&self, id: u64) {
        let mut sockets = match self.is_forked() {
            true => match self.sockets.try_lock() {
                Some(sockets) => sockets,
                None => return,
            },
            false => self.sockets.lock(),
        };
        let finished = sockets.remove(&id);
        debug_assert!(finished.is_some(), "a socket finishes once");
        if sockets.is_empty() {
            self.all_finished.notify_all();
        }
    }

    /// The background thread of the socket with this number.
    fn reactor(&self, id: u64) -> Result<Arc<Reactor>, Error> {
        let wanted = self.settings.lock().io_threads.max(1) as usize;
        let mut reactors = self.reactors.lock();
        while reactors.len() < wanted {
            let name = format!("ZMQbg/IO/{}", reactors.len());
            reactors.push(Reactor::start(name)?);
        }
        Ok(Arc::clone(&reactors[id as usize % wanted]))
    }

    /// Whether this process was forked off the one that made the context.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.forks.load(Ordering::Relaxed) != readiness::forks()
    }

    fn stop_reactors(&self) {
        if self.is_forked() {
            // The threads exist only in the parent: there is none to join, and a lock that one of
            // them held at the fork stays locked here.
            if let Some(mut reactors) = self.reactors.try_lock() {
                std::mem::forget(std::mem::take(&mut *reactors));
            }
            return;
        }
        for reactor in std::mem::take(&mut *self.reactors.lock()) {
            reactor.stop();
        }
    }
}

impl Drop for ContextInner {
    fn drop(&mut self) {
        self.stop_reactors();
    }
}

const IO_THREADS: i32 = 1;
const MAX_SOCKETS: i32 = 2;
const SOCKET_LIMIT: i32 = 3;
const THREAD_PRIORITY: i32 = 3;
const THREAD_SCHED_POLICY: i32 = 4;
const MAX_MSGSZ: i32 = 5;
const MSG_T_SIZE: i32 = 6;
const AFFINITY_CPU_ADD: i32 = 7;
const AFFINITY_CPU_REMOVE: i32 = 8;
const THREAD_NAME_PREFIX: i32 = 9;
const ZERO_COPY_RECV: i32 = 10;
const IPV6: i32 = 42;
const BLOCKY: i32 = 70;
const SOCKETS_MAX: i32 = 1023;
const SOCKET_LIMIT_VALUE: i32 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SendFlags, SocketType};

    /// Its background thread kept the sockets that it had just looked after, and they kept the
    /// thread's descriptors: 20,000 were used up after 5,000 contexts with a connection each.
    #[test]
    fn nothing_of_a_context_is_left_when_it_has_terminated() {
        for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "inproc://here"] {
            let context = Context::new();
            let [pull, push] =
                [SocketType::Pull, SocketType::Push].map(|kind| context.socket(kind).unwrap());
            pull.bind(endpoint).unwrap();
            let place = pull.core().lock().last_endpoint.clone();
            push.connect(&place).unwrap();
            // Enough of them in a row to be a burst.
            for _ in 0..100 {
                push.send_bytes(b"hello", SendFlags::default()).unwrap();
            }
            for _ in 0..100 {
                pull.receive(false).unwrap();
            }
            let cores = [&pull, &push].map(|socket| Arc::downgrade(socket.core()));
            let reactor = Arc::downgrade(&push.core().reactor);
            drop((pull, push));
            context.terminate().unwrap();
            let left = cores.map(|core| core.strong_count());
            assert_eq!((left, reactor.strong_count()), ([0, 0], 0), "{endpoint}");
        }
    }
}
