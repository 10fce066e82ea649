//! What one process does: one library, one subject, one size.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tidewire_zmq::SocketType;

use crate::Subject;
use crate::library::{AnyContext, AnySocket};

/// The result of a process, printed on its standard output.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct Found {
    /// Microseconds one way, or messages per second.
    pub(crate) value: f64,
    /// Microseconds of processor time a message, of the whole process.
    pub(crate) processor_us: f64,
}

/// Runs as a child of [`run`](crate::run): `LIBRARY SUBJECT TRANSPORT BYTES COUNT`.
///
/// # Errors
/// A text for people.
pub fn child(arguments: &[String]) -> Result<(), String> {
    let [library, subject, transport, bytes, count] = arguments else {
        return Err("LIBRARY SUBJECT TRANSPORT BYTES COUNT".to_owned());
    };
    let subject = Subject::named(subject).ok_or("unknown subject")?;
    let bytes: usize = bytes.parse().map_err(|_| "BYTES is a number")?;
    let count: u64 = count.parse().map_err(|_| "COUNT is a number")?;
    let endpoint = match transport.as_str() {
        "tcp" => "tcp://127.0.0.1:*",
        "ipc" => "ipc://*",
        _ => "inproc://measured",
    };
    let context = AnyContext::open(library)?;
    let work = Work {
        context: &context,
        endpoint,
        bytes,
        count,
    };
    let found = match subject {
        Subject::Latency => work.latency()?,
        Subject::RequestReply => work.request_reply()?,
        Subject::PushPull => work.throughput(SocketType::Push, SocketType::Pull)?,
        Subject::DealerRouter => work.throughput(SocketType::Dealer, SocketType::Router)?,
        Subject::RouterRouter => work.throughput(SocketType::Router, SocketType::Router)?,
        Subject::PubSub => work.throughput(SocketType::Xpub, SocketType::Sub)?,
        Subject::Pair => work.throughput(SocketType::Pair, SocketType::Pair)?,
        Subject::FanOut => work.fan_out()?,
    };
    println!(
        "{}",
        serde_json::to_string(&found).map_err(|error| error.to_string())?
    );
    Ok(())
}

struct Work<'w> {
    context: &'w AnyContext,
    endpoint: &'w str,
    bytes: usize,
    count: u64,
}

/// Time and processor time since a moment.
struct Clock {
    begin: Instant,
    processor: Duration,
}

impl Clock {
    fn start() -> Clock {
        Clock {
            begin: Instant::now(),
            processor: processor_time(),
        }
    }

    fn elapsed(&self) -> (f64, f64) {
        let wall = self.begin.elapsed().as_secs_f64();
        let processor = processor_time().saturating_sub(self.processor);
        (wall, processor.as_secs_f64())
    }

    fn latency(&self, round_trips: u64) -> Found {
        let (wall, processor) = self.elapsed();
        let ways = 2.0 * round_trips as f64;
        Found {
            value: wall * 1e6 / ways,
            processor_us: processor * 1e6 / ways,
        }
    }

    fn rate(&self, messages: u64) -> Found {
        let (wall, processor) = self.elapsed();
        Found {
            value: messages as f64 / wall,
            processor_us: processor * 1e6 / messages as f64,
        }
    }
}

fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

impl Work<'_> {
    /// The lockstep of the seed's harness: one thread drives both sockets.
    fn latency(&self) -> Result<Found, String> {
        let router = self.context.socket(SocketType::Router)?;
        let dealer = self.context.socket(SocketType::Dealer)?;
        dealer.set(ROUTING_ID, b"CLIENT")?;
        let place = router.bind(self.endpoint)?;
        dealer.connect(&place)?;
        let body = vec![b'x'; self.bytes];
        let mut id = [0; 256];
        let mut buffer = vec![0; self.bytes.max(1)];
        let mut round_trips = |count: u64| -> Result<(), String> {
            for _ in 0..count {
                dealer.send(&body, false)?;
                let length = router.receive(&mut id)?;
                let size = router.receive(&mut buffer)?;
                router.send(&id[..length], true)?;
                router.send(&buffer[..size], false)?;
                dealer.receive(&mut buffer)?;
            }
            Ok(())
        };
        if let AnySocket::Rust(_) = &router {
            return self.latency_in_rust(&dealer, &router);
        }
        round_trips(WARM_UP)?;
        let clock = Clock::start();
        round_trips(self.count)?;
        Ok(clock.latency(self.count))
    }

    /// Does the same with messages that are passed on rather than copied.
    fn latency_in_rust(&self, dealer: &AnySocket, router: &AnySocket) -> Result<Found, String> {
        let (AnySocket::Rust(dealer), AnySocket::Rust(router)) = (dealer, router) else {
            return Err("not the Rust library".to_owned());
        };
        let body = vec![b'x'; self.bytes];
        let last = tidewire_zmq::SendFlags::default();
        let more = tidewire_zmq::SendFlags { more: true, ..last };
        let round_trips = |count: u64| -> Result<(), tidewire_zmq::Error> {
            for _ in 0..count {
                dealer.send_bytes(&body, last)?;
                let mut id = router.receive(false)?;
                let mut message = router.receive(false)?;
                router.send(&mut id, more)?;
                router.send(&mut message, last)?;
                dealer.receive(false)?;
            }
            Ok(())
        };
        round_trips(WARM_UP).map_err(|error| error.to_string())?;
        let clock = Clock::start();
        round_trips(self.count).map_err(|error| error.to_string())?;
        Ok(clock.latency(self.count))
    }

    fn request_reply(&self) -> Result<Found, String> {
        let reply = self.context.socket(SocketType::Rep)?;
        let request = self.context.socket(SocketType::Req)?;
        let place = reply.bind(self.endpoint)?;
        request.connect(&place)?;
        let total = self.count + WARM_UP;
        let bytes = self.bytes;
        std::thread::scope(|scope| {
            let echo = scope.spawn(move || -> Result<(), String> {
                let mut buffer = vec![0; bytes.max(1)];
                for _ in 0..total {
                    let size = reply.receive(&mut buffer)?;
                    reply.send(&buffer[..size], false)?;
                }
                Ok(())
            });
            let body = vec![b'x'; bytes];
            let mut buffer = vec![0; bytes.max(1)];
            let mut clock = Clock::start();
            for round in 0..total {
                if round == WARM_UP {
                    clock = Clock::start();
                }
                request.send(&body, false)?;
                request.receive(&mut buffer)?;
            }
            let found = clock.latency(self.count);
            echo.join().map_err(|_| "the echo thread failed")??;
            Ok(found)
        })
    }

    /// Measures one sending and one receiving thread.
    fn throughput(&self, sends: SocketType, receives: SocketType) -> Result<Found, String> {
        let receiver = self.context.socket(receives)?;
        let sender = self.context.socket(sends)?;
        let is_addressed = sends == SocketType::Router;
        // No message may be lost, and both libraries wait under the same conditions.
        if sends == SocketType::Xpub {
            sender.set(XPUB_NODROP, &1_i32.to_ne_bytes())?;
            receiver.set(SUBSCRIBE, b"")?;
        }
        if is_addressed {
            sender.set(ROUTER_MANDATORY, &1_i32.to_ne_bytes())?;
            receiver.set(ROUTING_ID, b"SINK")?;
            sender.set(ROUTING_ID, b"SOURCE")?;
        }
        let place = sender.bind(self.endpoint)?;
        receiver.connect(&place)?;
        if sends == SocketType::Xpub {
            let mut subscription = [0; 16];
            sender.receive(&mut subscription)?;
        }
        if is_addressed {
            receiver.set(ROUTER_MANDATORY, &1_i32.to_ne_bytes())?;
            self.until_known(&receiver, &sender)?;
        }
        let (bytes, count) = (self.bytes, self.count);
        let frames = if receives == SocketType::Router { 2 } else { 1 };
        std::thread::scope(|scope| {
            let sink = scope.spawn(move || -> Result<(), String> {
                let mut buffer = vec![0; bytes.max(256)];
                for _ in 0..count * frames {
                    receiver.receive(&mut buffer)?;
                }
                Ok(())
            });
            let body = vec![b'x'; bytes];
            let clock = Clock::start();
            for _ in 0..count {
                if is_addressed {
                    sender.send(b"SINK", true)?;
                }
                sender.send(&body, false)?;
            }
            sink.join().map_err(|_| "the receiving thread failed")??;
            Ok(clock.rate(count))
        })
    }

    /// Two ROUTERs must know each other's names before one can send.
    fn until_known(&self, one: &AnySocket, other: &AnySocket) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            if one.send(b"SOURCE", true).is_ok() {
                one.send(b"hello", false)?;
                break;
            }
            if begin.elapsed() > Duration::from_secs(5) {
                return Err("the routers did not meet".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut buffer = [0; 256];
        other.receive(&mut buffer)?;
        other.receive(&mut buffer)?;
        Ok(())
    }

    /// Measures one publisher with 100 subscribers in one thread that reads them in turn.
    fn fan_out(&self) -> Result<Found, String> {
        let publisher = self.context.socket(SocketType::Xpub)?;
        publisher.set(XPUB_NODROP, &1_i32.to_ne_bytes())?;
        let place = publisher.bind(self.endpoint)?;
        let mut subscribers = Vec::new();
        for _ in 0..SUBSCRIBERS {
            let subscriber = self.context.socket(SocketType::Sub)?;
            subscriber.set(SUBSCRIBE, b"")?;
            subscriber.connect(&place)?;
            subscribers.push(subscriber);
        }
        publisher.set(XPUB_VERBOSE, &1_i32.to_ne_bytes())?;
        std::thread::sleep(Duration::from_millis(300));
        let (bytes, count) = (self.bytes, self.count);
        std::thread::scope(|scope| {
            let sink = scope.spawn(move || -> Result<(), String> {
                let mut buffer = vec![0; bytes.max(1)];
                let mut left = count;
                while left > 0 {
                    let batch = left.min(BATCH);
                    for subscriber in &subscribers {
                        for _ in 0..batch {
                            subscriber.receive(&mut buffer)?;
                        }
                    }
                    left -= batch;
                }
                Ok(())
            });
            let body = vec![b'x'; bytes];
            let clock = Clock::start();
            for _ in 0..count {
                publisher.send(&body, false)?;
            }
            sink.join().map_err(|_| "the receiving thread failed")??;
            Ok(clock.rate(count * SUBSCRIBERS))
        })
    }
}

const ROUTING_ID: i32 = 5;
const SUBSCRIBE: i32 = 6;
const ROUTER_MANDATORY: i32 = 33;
const XPUB_VERBOSE: i32 = 40;
const XPUB_NODROP: i32 = 69;
/// Round trips before those that count, as the seed's harness has it.
const WARM_UP: u64 = 1000;
const SUBSCRIBERS: u64 = 100;
/// Messages that the sink of a fan-out takes from one subscriber before it turns to the next.
const BATCH: u64 = 50;
