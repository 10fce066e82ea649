//! The context: background threads and in-process endpoints that sockets share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;
use tidewire_readiness::{self as readiness, Scheduling};

use crate::background::BackgroundThread;
use crate::core::Core;
use crate::error::Error;
use crate::event::Sources;
use crate::inproc::Inproc;
use crate::kind::SocketType;
use crate::option_table::{put_int, until_zero};
use crate::options::Options;
use crate::reactor::Reactor;
use crate::rooms;
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
    /// How often the last socket has finished: `terminate` waits for a change of it.
    all_finished: AtomicU32,
    reactors: Mutex<Vec<Arc<Reactor>>>,
    /// Set by the first socket.
    resolver: OnceLock<Arc<BackgroundThread>>,
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
    /// What the names of background threads begin with.
    thread_name_prefix: Vec<u8>,
    /// How background threads are scheduled.
    scheduling: Scheduling,
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
            thread_name_prefix: Vec::new(),
            scheduling: Scheduling::default(),
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
        let core = inner.new_core(id, kind, &reactor)?;
        reactor.add(&core);
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
            MAX_SOCKETS if value >= 1 => settings.sockets_max = value,
            MAX_MSGSZ if value >= 0 => settings.message_bytes_max = value,
            IPV6 if value >= 0 => settings.ipv6 = value != 0,
            BLOCKY if value >= 0 => settings.is_blocky = value != 0,
            THREAD_NAME_PREFIX => settings.thread_name_prefix = value.to_string().into_bytes(),
            ZERO_COPY_RECV if value >= 0 => settings.zero_copy_receive = value != 0,
            THREAD_SCHED_POLICY if value >= 0 => settings.scheduling.policy = Some(value),
            THREAD_PRIORITY if value >= 0 => settings.scheduling.priority = Some(value),
            AFFINITY_CPU_ADD if value >= 0 => settings.scheduling.processors.push(value),
            AFFINITY_CPU_REMOVE if value >= 0 => {
                let processors = &mut settings.scheduling.processors;
                let place = processors.iter().position(|&known| known == value);
                processors.remove(place.ok_or(Error::InvalidArgument)?);
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
            THREAD_NAME_PREFIX => leading_number(&settings.thread_name_prefix),
            ZERO_COPY_RECV => i32::from(settings.zero_copy_receive),
            THREAD_SCHED_POLICY => settings.scheduling.policy.unwrap_or(-1),
            _ => return Err(Error::InvalidArgument),
        })
    }

    /// Sets an option by libzmq's number, in its encoding: an `int` of this machine, or, for the
    /// prefix of the names of background threads, up to 16 bytes of text. Threads that run
    /// already keep their names.
    ///
    /// # Errors
    /// There is no such option, or the value is out of its range.
    pub fn set_option(&self, option: i32, value: &[u8]) -> Result<(), Error> {
        if let Ok(number) = value.try_into() {
            return self.set(option, i32::from_ne_bytes(number));
        }
        if option != THREAD_NAME_PREFIX || !(1..=PREFIX_BYTES_MAX).contains(&value.len()) {
            return Err(Error::InvalidArgument);
        }
        self.inner.settings.lock().thread_name_prefix = value.to_vec();
        Ok(())
    }

    /// Reads an option by libzmq's number into `out`, as it is set; returns the bytes written.
    ///
    /// # Errors
    /// There is no such option, or `out` is too short.
    pub fn option(&self, option: i32, out: &mut [u8]) -> Result<usize, Error> {
        if out.len() == size_of::<i32>() {
            return put_int(out, self.get(option)?);
        }
        let settings = self.inner.settings.lock();
        let prefix = &settings.thread_name_prefix;
        if option != THREAD_NAME_PREFIX || out.len() < prefix.len() {
            return Err(Error::InvalidArgument);
        }
        out[..prefix.len()].copy_from_slice(prefix);
        Ok(prefix.len())
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
        self.inner.inproc.forget_unbound();
    }

    /// Shuts down, waits until every socket is closed and has sent what it lingers over, and
    /// ends the background threads.
    ///
    /// # Errors
    /// [`Error::Interrupted`]: a signal handler has run while it waited. Call it again.
    pub fn terminate(&self) -> Result<(), Error> {
        self.shutdown();
        while !self.terminate_within(LONG_TIME)? {}
        Ok(())
    }

    /// Goes on with the end of a context that is shut down, for a limited time. Returns whether it
    /// has ended.
    ///
    /// # Errors
    /// As [`terminate`](Self::terminate).
    #[doc(hidden)]
    pub fn terminate_within(&self, limit: Duration) -> Result<bool, Error> {
        debug_assert!(self.inner.is_terminated(), "it is shut down");
        if self.inner.is_forked() {
            self.inner.stop_reactors();
            return Ok(true);
        }
        if !self.inner.wait_for_sockets(limit)? {
            return Ok(false);
        }
        // A call that was under way at the shutdown may have connected.
        self.inner.inproc.forget_unbound();
        self.inner.stop_reactors();
        self.inner.sources.let_go();
        rooms::let_go();
        Ok(true)
    }
}

impl Default for Context {
    fn default() -> Context {
        Context::new()
    }
}

impl ContextInner {
    /// Not within a caller, whose frame would have several times the room of a socket's state also
    /// while it starts a thread: the program's stack may be small.
    #[inline(never)]
    fn new_core(
        self: &Arc<Self>,
        id: u64,
        kind: SocketType,
        reactor: &Arc<Reactor>,
    ) -> Result<Arc<Core>, Error> {
        let core = Core::new(id, kind, Arc::clone(self), reactor)?;
        Ok(Arc::new(core))
    }

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

    /// The socket with this number, if it is not finished.
    pub(crate) fn core(&self, id: u64) -> Option<Arc<Core>> {
        self.sockets.lock().get(&id).cloned()
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
            self.all_finished.fetch_add(1, Ordering::Release);
            let woken = futex::wake(&self.all_finished, futex::Flags::PRIVATE, i32::MAX as u32);
            debug_assert!(woken.is_ok(), "it is a word of this process: {woken:?}");
        }
    }

    /// Waits until every socket has finished, for a limited time. Returns whether they have. A
    /// condition variable would go on waiting when a signal handler has run.
    fn wait_for_sockets(&self, limit: Duration) -> Result<bool, Error> {
        let end = Instant::now() + limit;
        loop {
            let seen = self.all_finished.load(Ordering::Acquire);
            if self.sockets.lock().is_empty() {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let time = Timespec::try_from(left).unwrap_or_default();
            // Without a time the kernel would go on waiting after a handler with SA_RESTART.
            let flags = futex::Flags::PRIVATE;
            let waited = futex::wait(&self.all_finished, flags, seen, Some(&time));
            if waited == Err(Errno::INTR) {
                return Err(Error::Interrupted);
            }
            // Otherwise something has changed, or the time is over.
        }
    }

    /// The background thread of the socket with this number.
    fn reactor(&self, id: u64) -> Result<Arc<Reactor>, Error> {
        let wanted = self.settings.lock().io_threads.max(1) as usize;
        let mut reactors = self.reactors.lock();
        while reactors.len() < wanted {
            let role = format!("ZMQbg/IO/{}", reactors.len());
            reactors.push(Reactor::start(&self.background_thread(&role))?);
        }
        Ok(Arc::clone(&reactors[id as usize % wanted]))
    }

    /// The thread with this role, as the settings are now.
    fn background_thread(&self, role: &str) -> BackgroundThread {
        let settings = self.settings.lock();
        BackgroundThread::new(&settings.thread_name_prefix, role, &settings.scheduling)
    }

    /// The threads that look up names for a new socket.
    pub(crate) fn resolver_thread(&self) -> Arc<BackgroundThread> {
        let new = || Arc::new(self.background_thread("zmq-resolve"));
        Arc::clone(self.resolver.get_or_init(new))
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

/// The number at the beginning of a text, as C's `atoi` reads it; 0 if there is none.
fn leading_number(text: &[u8]) -> i32 {
    let text = until_zero(text).trim_ascii_start();
    let sign = text.iter().take(1).filter(|sign| b"+-".contains(sign));
    let signs = sign.count();
    let digits = text[signs..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let number = std::str::from_utf8(&text[..signs + digits.count()]);
    number
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// One wait of a thread that waits without a limit.
const LONG_TIME: Duration = Duration::from_secs(1 << 30);
/// As libzmq has it: the system's limit.
const PREFIX_BYTES_MAX: usize = 16;
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

    #[test]
    fn background_threads_have_the_names_that_were_asked_for() {
        let named = |context: &Context| {
            let _socket = context.socket(SocketType::Pair).unwrap();
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let names = tasks.flatten().filter_map(|task| {
                // A thread that has just ended has none.
                std::fs::read_to_string(task.path().join("comm")).ok()
            });
            names.collect::<Vec<_>>()
        };
        let cases: [(&[u8], &str); 4] = [
            (&1234_i32.to_ne_bytes(), "1234/ZMQbg/IO/0\n"),
            (b"feed!", "feed!/ZMQbg/IO/\n"),
            (b"MyPrefix9012345\0", "MyPrefix9012345\n"),
            (b"abc\0def", "abc/ZMQbg/IO/0\n"),
        ];
        for (prefix, expected) in cases {
            let context = Context::new();
            context.set_option(THREAD_NAME_PREFIX, prefix).unwrap();
            // A new thread gives itself its name.
            while !named(&context).iter().any(|name| name == expected) {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn the_prefix_of_thread_names_is_a_number_or_a_text() {
        let context = Context::new();
        let mut out = [7; 16];
        assert_eq!(context.option(THREAD_NAME_PREFIX, &mut out), Ok(0));
        for refused in [&b""[..], &[b'x'; 17]] {
            let result = context.set_option(THREAD_NAME_PREFIX, refused);
            assert_eq!(result, Err(Error::InvalidArgument));
        }
        context.set_option(THREAD_NAME_PREFIX, b"-12 days").unwrap();
        assert_eq!(context.get(THREAD_NAME_PREFIX), Ok(-12));
        assert_eq!(context.option(THREAD_NAME_PREFIX, &mut out), Ok(8));
        assert_eq!(&out[..8], b"-12 days");
        let short = context.option(THREAD_NAME_PREFIX, &mut out[..7]);
        assert_eq!(short, Err(Error::InvalidArgument));
        context.set(THREAD_NAME_PREFIX, -5).unwrap();
        let mut number = [0; 4];
        assert_eq!(context.option(THREAD_NAME_PREFIX, &mut number), Ok(4));
        assert_eq!(i32::from_ne_bytes(number), -5);
        for (option, value) in [(IO_THREADS, &b"12345"[..]), (MAX_SOCKETS, b"12")] {
            let result = context.set_option(option, value);
            assert_eq!(result, Err(Error::InvalidArgument), "option {option}");
        }
        context.set(MAX_SOCKETS, 100_000).unwrap();
        assert_eq!(context.get(MAX_SOCKETS), Ok(100_000));
        assert_eq!(
            [&b""[..], b"x", b"-", b" +7x"].map(leading_number),
            [0, 0, 0, 7]
        );
    }

    /// Its background thread kept the sockets that it had just looked after, and they kept the
    /// thread's descriptors: 20,000 were used up after 5,000 contexts with a connection each.
    #[test]
    fn nothing_of_a_context_is_left_when_it_has_terminated() {
        for endpoint in ["tcp://127.0.0.1:*", "ipc://*", "shm://*", "inproc://here"] {
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
            let reactor = push.core().reactor.clone();
            drop((pull, push));
            context.terminate().unwrap();
            let left = cores.map(|core| core.strong_count());
            assert_eq!((left, reactor.strong_count()), ([0, 0], 0), "{endpoint}");
        }
    }
}
