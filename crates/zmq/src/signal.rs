//! How another thread tells a socket that something has come for it.

use crate::mail::Mail;
use crate::sync::{AtomicBool, AtomicU32, EventDescriptor, Mutex, Ordering, fence};

/// The bell of one socket: an event in its epoll, and what other threads have left for it.
#[derive(Debug)]
pub(crate) struct Signal {
    descriptor: EventDescriptor,
    /// Something has come.
    raised: AtomicBool,
    /// The event may be in the epoll.
    is_written: AtomicBool,
    /// The only listener is a thread that looks at `raised` without sleeping: the event need not be
    /// in the epoll. Set under the socket's lock; that thread answers the bell.
    is_awake: AtomicBool,
    /// The processor that the last ring came from, and 1; 0: none.
    rung_on: AtomicU32,
    /// Number of listeners: sleeping threads, and programs that poll the descriptor.
    listeners: AtomicU32,
    has_mail: AtomicBool,
    mail: Mutex<Vec<Mail>>,
}

impl Signal {
    pub(crate) fn new(descriptor: EventDescriptor) -> Signal {
        Signal {
            descriptor,
            raised: AtomicBool::new(false),
            is_written: AtomicBool::new(false),
            is_awake: AtomicBool::new(false),
            rung_on: AtomicU32::new(0),
            listeners: AtomicU32::new(0),
            has_mail: AtomicBool::new(false),
            mail: Mutex::new(Vec::new()),
        }
    }

    /// Rings for every listener.
    pub(crate) fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            // Against the fences in `listen` and `fall_asleep`: who sleeps from then on has seen
            // `raised`, or we see that it sleeps.
            fence(Ordering::SeqCst);
            // Before the write: who is woken may take this thread's processor from it.
            self.rung_on.store(processor(), Ordering::Relaxed);
            if !self.is_awake.load(Ordering::Relaxed) {
                self.write();
            }
        }
    }

    /// Whether the last ring came from the processor that this thread runs on: what it waits for
    /// cannot come while it stays awake.
    pub(crate) fn is_beside_ringer(&self) -> bool {
        self.rung_on.load(Ordering::Relaxed) == processor()
    }

    /// As `write` of a thread that is interrupted before its end.
    #[cfg(test)]
    pub(crate) fn write_unfinished(&self) {
        self.descriptor.write();
    }

    /// Puts the event into the epoll.
    pub(crate) fn write(&self) {
        self.descriptor.write();
        // After the write: who reads a mark finds the event to take out.
        self.is_written.store(true, Ordering::Release);
    }

    /// Rings if there is a listener. The data for the listener must have been stored before.
    #[inline]
    pub(crate) fn raise_for_listeners(&self) {
        // Against the fence in `listen`: one of the two sees the other's store.
        fence(Ordering::SeqCst);
        if self.listeners.load(Ordering::Relaxed) > 0 {
            self.raise();
        }
    }

    /// From here on `raise_for_listeners` rings. What came before must be looked for afterwards.
    pub(crate) fn listen(&self) {
        let before = self.listeners.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before < u32::MAX, "listeners are counted");
        self.fall_asleep();
    }

    /// The listener looks at `is_raised` without sleeping from now on. It is the caller, who holds
    /// the socket's lock. If there are others, nothing changes.
    pub(crate) fn stay_awake(&self) {
        if self.listeners.load(Ordering::Relaxed) == 1 {
            self.is_awake.store(true, Ordering::Relaxed);
        }
    }

    /// No thread looks without sleeping. One that did looks at `is_raised` once more before it
    /// sleeps, and answers the bell before it leaves.
    pub(crate) fn fall_asleep(&self) {
        self.is_awake.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn unlisten(&self) {
        let before = self.listeners.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "each unlisten follows a listen");
    }

    /// Whether a thread or a program waits for the bell.
    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0
    }

    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// The event was found in the epoll.
    pub(crate) fn was_found(&self) {
        self.is_written.store(true, Ordering::Relaxed);
    }

    /// Silences the bell. What rang before is to be looked at next.
    pub(crate) fn lower(&self) {
        if self.is_written.swap(false, Ordering::Acquire) {
            self.descriptor.read();
        }
        // After the read: a later `raise` writes again, and the stores before earlier ones are
        // visible. In the other order `raised` could be set while the descriptor is not readable.
        self.raised.swap(false, Ordering::SeqCst);
    }

    /// Leaves something for the socket's owner and rings.
    pub(crate) fn send(&self, mail: Mail) {
        self.mail.lock().push(mail);
        self.has_mail.store(true, Ordering::Release);
        self.raise();
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    pub(crate) fn take_mail(&self) -> Vec<Mail> {
        let mut mail = self.mail.lock();
        self.has_mail.store(false, Ordering::Release);
        std::mem::take(&mut mail)
    }
}

/// The processor that this thread runs on, and 1.
fn processor() -> u32 {
    rustix::thread::sched_getcpu() as u32 + 1
}

/// Every order in which sockets and a sleeper can meet: `cargo xtask test` runs it.
#[cfg(all(loom, test))]
mod model {
    use std::sync::Arc;

    use super::*;
    use crate::batch::Item;
    use crate::message::{Last, Message};
    use crate::pipe::{Hello, PipeEnd};
    use crate::slab::Slab;
    use crate::topic_queue::Limits;

    /// The order of `Core::drive`: listen, look once more, sleep, answer the bell.
    fn wait(signal: &Signal, has_some: impl FnOnce() -> bool) {
        signal.listen();
        if !has_some() && !signal.is_raised() {
            sleep(signal);
        }
        signal.unlisten();
        signal.lower();
    }

    /// The same by a thread that stays awake first: it begins under the socket's lock, and answers
    /// the bell if it was rung for it alone.
    fn wait_awake(signal: &Signal, has_some: impl FnOnce() -> bool) {
        signal.listen();
        if !has_some() && !signal.is_raised() {
            signal.stay_awake();
            if !signal.is_raised() {
                loom::thread::yield_now();
            }
            signal.fall_asleep();
            if !signal.is_raised() {
                sleep(signal);
            }
        }
        signal.unlisten();
        signal.lower();
    }

    fn sleep(signal: &Signal) {
        while !signal.descriptor.is_readable() {
            loom::thread::yield_now();
        }
        signal.was_found();
    }

    fn hello(high_water: usize) -> Hello {
        Hello {
            routing_id: Vec::new(),
            receive_high_water: high_water,
            send_high_water: high_water,
            conflates: false,
            topics_out: None,
            topics_in: None,
        }
    }

    /// A pipe with its two sockets' bells: the writer's first.
    fn pipe(high_water: usize) -> [(PipeEnd, Arc<Signal>); 2] {
        let bells = [0, 1].map(|_| Arc::new(Signal::new(EventDescriptor::of_model())));
        let (writer, reader) = PipeEnd::pair(bells[0].clone(), hello(high_water));
        reader.introduce(bells[1].clone(), hello(high_water));
        let [first, second] = bells;
        [(writer, first), (reader, second)]
    }

    fn write(end: &mut PipeEnd, byte: u8) {
        end.write(std::iter::empty::<Message>(), Last::Slice(&[byte]));
    }

    fn model(work: impl Fn() + Sync + Send + 'static) {
        // Exploring every order takes too long for a test that always runs.
        let mut orders = loom::model::Builder::new();
        orders.preemption_bound = Some(4);
        orders.check(work);
    }

    /// Reads two messages of another thread; `wait` is the wait for one.
    fn reads_two_messages(wait: fn(&Signal, &PipeEnd)) {
        model(move || {
            let [(mut writer, writers_bell), (mut reader, bell)] = pipe(0);
            let thread = loom::thread::spawn(move || {
                write(&mut writer, 1);
                write(&mut writer, 2);
                (writer, writers_bell)
            });
            let mut read = 0;
            while read < 2 {
                match reader.read_single(|_| ()) {
                    Some(_) => read += 1,
                    None => wait(&bell, &reader),
                }
            }
            thread.join().unwrap();
        });
    }

    /// Fills a pipe that another thread empties; `wait` is the wait for room.
    fn writes_on_with_room(wait: fn(&Signal)) {
        model(move || {
            let [(mut writer, bell), (mut reader, readers_bell)] = pipe(1);
            // As many as the two marks together.
            (0..2).for_each(|number| write(&mut writer, number));
            let thread = loom::thread::spawn(move || {
                while reader.read_single(|_| ()).is_some() {}
                (reader, readers_bell)
            });
            while !writer.can_write() {
                wait(&bell);
            }
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_reader_that_falls_asleep_is_woken_by_a_message() {
        reads_two_messages(|bell, reader| wait(bell, || reader.has_items()));
    }

    #[test]
    fn a_writer_that_waits_for_room_is_woken_by_the_reader() {
        writes_on_with_room(|bell| wait(bell, || false));
    }

    #[test]
    fn a_reader_that_falls_asleep_is_woken_by_the_newest_message_of_a_topic() {
        model(|| {
            let bells = [0, 1].map(|_| Arc::new(Signal::new(EventDescriptor::of_model())));
            let topics_in = Some(Limits {
                topics_max: 10,
                bytes_max: usize::MAX,
            });
            let hello = |topics_in| Hello {
                topics_in,
                ..hello(1)
            };
            let (mut writer, mut reader) = PipeEnd::pair(bells[0].clone(), hello(None));
            reader.introduce(bells[1].clone(), hello(topics_in));
            let thread = loom::thread::spawn(move || {
                for value in [1, 2] {
                    let mut topic = Message::from_slice(b"a");
                    topic.set_more(true);
                    writer.write([topic].into_iter(), Last::Slice(&[value]));
                }
                writer
            });
            let mut newest = 0;
            while newest < 2 {
                match reader.read() {
                    Some(Item::Frame(message)) if !message.more() => {
                        assert!(message[0] > newest, "nothing older follows");
                        newest = message[0];
                    }
                    Some(_) => {}
                    None => wait(&bells[1], || reader.has_items()),
                }
            }
            let writer = thread.join().unwrap();
            assert_eq!(writer.pending(), 0);
        });
    }

    #[test]
    fn a_reader_that_stays_awake_for_a_moment_is_woken_by_a_message() {
        reads_two_messages(|bell, reader| wait_awake(bell, || reader.has_items()));
    }

    #[test]
    fn a_writer_that_stays_awake_for_a_moment_is_woken_by_room() {
        writes_on_with_room(|bell| wait_awake(bell, || false));
    }

    /// The second one begins to wait while the first one is awake. Both have seen the bell, or the
    /// event wakes both.
    #[test]
    fn of_two_that_wait_both_hear_the_bell_though_one_is_awake() {
        model(|| {
            let bell = Arc::new(Signal::new(EventDescriptor::of_model()));
            bell.listen();
            bell.stay_awake();
            let second = loom::thread::spawn({
                let bell = bell.clone();
                move || {
                    bell.listen();
                    bell.is_raised()
                }
            });
            let sender = loom::thread::spawn({
                let bell = bell.clone();
                move || bell.raise()
            });
            bell.fall_asleep();
            let has_first_seen = bell.is_raised();
            if has_first_seen {
                // What `answer_bell` does while others wait.
                bell.write();
            }
            let has_second_seen = second.join().unwrap();
            sender.join().unwrap();
            let is_event_there = bell.descriptor.is_readable();
            assert!(
                is_event_there || (has_first_seen && has_second_seen),
                "one sleeps on"
            );
        });
    }

    /// Where none waits, the background thread is told by the event alone.
    #[test]
    fn after_one_that_was_awake_the_bell_rings_in_the_epoll() {
        model(|| {
            let bell = Arc::new(Signal::new(EventDescriptor::of_model()));
            let sender = loom::thread::spawn({
                let bell = bell.clone();
                move || bell.raise()
            });
            bell.listen();
            bell.stay_awake();
            bell.fall_asleep();
            bell.unlisten();
            let was_rung = bell.is_raised();
            if was_rung {
                bell.lower();
            }
            sender.join().unwrap();
            assert!(was_rung || bell.descriptor.is_readable(), "a ring is lost");
        });
    }

    #[test]
    fn mail_of_two_senders_is_found_after_the_bell() {
        model(|| {
            let bell = Arc::new(Signal::new(EventDescriptor::of_model()));
            let mut slab = Slab::new();
            let peer = slab.insert(());
            let senders = [0, 1].map(|_| {
                let bell = bell.clone();
                loom::thread::spawn(move || bell.send(Mail::Introduced { peer }))
            });
            let mut taken = 0;
            while taken < 2 {
                wait(&bell, || false);
                if bell.has_mail() {
                    taken += bell.take_mail().len();
                }
            }
            for sender in senders {
                sender.join().unwrap();
            }
        });
    }
}
