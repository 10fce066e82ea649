//! Fan-out: the hub's cost of delivering a message to one more client, at 1 to 1,000 clients, and
//! the effect of a client that reads nothing on the others.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use serde::Serialize;
use serde_json::json;
use tidewire_feed::client::{Client, ClientConfig, Side};
use tidewire_feed::wire::{Flags, HEADER_LENGTH, Header, PacketWriter};

use super::end_to_end::Info;
use super::failed;
use super::processor_time::Cores;
use super::report::Table;
use super::scenario::Bench;
use super::servers::{HubAddresses, ServerProcess, free_addresses};
use tidewire::failure::Failure;
use tidewire::units::grouped;

/// Measures, prints, and stores the raw run.
pub(crate) fn run(bench: &Bench<'_>) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for face in [Face::Feed, Face::Redis] {
        for clients in CLIENTS {
            for deaf in [false, true] {
                let rate = RATE_MAX.min(DELIVERIES_MAX / clients as u64);
                let row = measure(bench, face, clients, rate, deaf);
                rows.push(row.map_err(failed("fan-out"))?);
                eprint!(".");
            }
        }
    }
    let mut sustained = Vec::new();
    for rate in SUSTAINED_RATES {
        let row = measure(bench, Face::Feed, SUSTAINED_CLIENTS, rate, false);
        sustained.push(row.map_err(failed("sustained"))?);
        eprint!(".");
    }
    println!("\nFan-out: everything that the source says, to each client\n");
    let table = table(&rows);
    print!("{}", table.text());
    println!("\nMore than that: what a client gets, and what snapshots stand for\n");
    let sustained_table = self::table(&sustained);
    print!("{}", sustained_table.text());
    let run = json!({"cores": bench.cores, "rows": rows, "sustained": sustained});
    bench.keep("fanout", run, &[&table, &sustained_table])
}

/// The kind of subscription to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Face {
    /// The native feed, `*`.
    Feed,
    /// Redis, `PSUBSCRIBE md:*`.
    Redis,
}

#[derive(Debug, Serialize)]
struct FanoutRow {
    face: Face,
    clients: usize,
    /// Messages per second of the source.
    rate: u64,
    /// Whether another client subscribes and reads nothing.
    deaf: bool,
    /// Messages per second that each reading client received.
    delivered_a_second: f64,
    /// Share of the hub's messages that each reading client received: 1 is all.
    share: f64,
    /// Messages that the hub replaced by newer ones.
    conflated: u64,
    /// The hub's processor time per delivered message.
    processor_ns: f64,
    /// The hub's share of one processor.
    busy: f64,
}

fn table(rows: &[FanoutRow]) -> Table {
    Table::of(
        rows,
        &[
            ("face", &|row| format!("{:?}", row.face)),
            ("clients", &|row| row.clients.to_string()),
            ("messages/s of the source", &|row| row.rate.to_string()),
            ("and one that reads nothing", &|row| {
                if row.deaf { "yes" } else { "" }.to_owned()
            }),
            ("messages/s a client", &|row| {
                format!("{:.0}", row.delivered_a_second)
            }),
            ("of all", &|row| format!("{:.1} %", row.share * 100.0)),
            ("conflated", &|row| grouped(row.conflated)),
            ("hub CPU ns a delivery", &|row| {
                format!("{:.0}", row.processor_ns)
            }),
            ("hub busy", &|row| format!("{:.0} %", row.busy * 100.0)),
        ],
    )
}

fn measure(
    bench: &Bench<'_>,
    face: Face,
    clients: usize,
    rate: u64,
    deaf: bool,
) -> io::Result<FanoutRow> {
    let (duration, cores) = (bench.duration(), bench.cores);
    let [exchange_address] = free_addresses()?;
    let _exchange = ServerProcess::exchange(exchange_address, rate, SYMBOLS, cores)?;
    let addresses = HubAddresses::free()?;
    let source = ["--source".to_owned(), exchange_address.to_string()];
    let hub = ServerProcess::hub(&addresses, &source, cores)?;
    std::thread::sleep(SETTLE_TIME);
    let readers = Readers::start(face, &addresses, clients, deaf, cores)?;
    // Snapshots are sent, and the socket buffers of the client that reads nothing are full by
    // now.
    std::thread::sleep(SETTLE_TIME * 2);
    let clock = hub.clock();
    let info = || Info::ask_for(addresses.resp, "everything");
    let (before, before_time) = (info()?, clock.read()?);
    let delivered_before = readers.messages.load(Ordering::Relaxed);
    std::thread::sleep(duration);
    let delivered = readers.messages.load(Ordering::Relaxed) - delivered_before;
    let (after, used) = (info()?, clock.read()?.since(before_time));
    let gained = |name: &str| Ok::<_, io::Error>(after.number(name)? - before.number(name)?);
    let applied = gained("feed_applied_messages")?;
    let each = delivered as f64 / clients as f64;
    let row = FanoutRow {
        face,
        clients,
        rate,
        deaf,
        delivered_a_second: each / duration.as_secs_f64(),
        share: each / applied.max(1) as f64,
        conflated: gained("conflated_messages")? + gained("feed_conflated_messages")?,
        processor_ns: used.used_ns as f64 / delivered.max(1) as f64,
        busy: used.used_ns as f64 / duration.as_nanos() as f64,
    };
    readers.finish()?;
    Ok(row)
}

/// Clients that read everything, on one thread.
struct Readers {
    messages: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Readers {
    fn start(
        face: Face,
        addresses: &HubAddresses,
        clients: usize,
        deaf: bool,
        cores: Cores,
    ) -> io::Result<Self> {
        let mut readers = Vec::with_capacity(clients);
        for number in 0..clients + usize::from(deaf) {
            let stream = subscribed(face, addresses)?;
            stream.set_nonblocking(true)?;
            readers.push(Reader {
                stream,
                reads: number < clients,
                rest: Vec::new(),
            });
        }
        let (messages, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, told) = (messages.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            let _core = cores.enter_load()?;
            read_all(face, &mut readers, &counted, &told)
        });
        Ok(Self {
            messages,
            over,
            thread,
        })
    }

    fn finish(self) -> io::Result<()> {
        self.over.store(true, Ordering::Relaxed);
        let failed = |_| io::Error::other("the readers have failed");
        self.thread.join().map_err(failed)?
    }
}

struct Reader {
    stream: TcpStream,
    /// Whether it reads, or only stays connected.
    reads: bool,
    /// The beginning of a packet, or of a line.
    rest: Vec<u8>,
}

fn read_all(
    face: Face,
    readers: &mut [Reader],
    messages: &AtomicU64,
    over: &AtomicBool,
) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (number, reader) in readers.iter().enumerate().filter(|(_, one)| one.reads) {
        let data = EventData::new_u64(number as u64);
        epoll::add(&epoll, reader.stream.as_fd(), data, EventFlags::IN)?;
    }
    let mut events = [epoll::Event {
        flags: EventFlags::empty(),
        data: EventData::new_u64(0),
    }; 256];
    let mut chunk = vec![0; 256 << 10];
    let wait = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    let mut alive = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if face == Face::Feed && alive.elapsed() >= HEARTBEAT_INTERVAL {
            alive = Instant::now();
            say_alive(readers)?;
        }
        let ready = match epoll::wait(&epoll, &mut events, Some(&wait)) {
            Err(rustix::io::Errno::INTR) => 0,
            count => count?,
        };
        for event in &events[..ready] {
            let reader = &mut readers[event.data.u64() as usize];
            match reader.stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let gained = reader.count(face, &chunk[..count]);
                    messages.fetch_add(gained, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Sends heartbeats, because a hub disconnects feed clients that are silent for three seconds.
fn say_alive(readers: &mut [Reader]) -> io::Result<()> {
    let mut heartbeat = Vec::new();
    PacketWriter::bare(&mut heartbeat, 0, Flags::HEARTBEAT, 0);
    let mut said = readers.iter_mut();
    said.try_for_each(|reader| reader.stream.write_all(&heartbeat))
}

impl Reader {
    /// Returns the number of messages completed by these bytes.
    fn count(&mut self, face: Face, bytes: &[u8]) -> u64 {
        self.rest.extend_from_slice(bytes);
        let (used, messages) = match face {
            Face::Feed => count_packets(&self.rest),
            Face::Redis => count_updates(&self.rest),
        };
        self.rest.drain(..used);
        messages
    }
}

/// Bytes of whole packets, and the messages of the live stream in them.
fn count_packets(bytes: &[u8]) -> (usize, u64) {
    let (mut used, mut messages) = (0, 0);
    while let Some(head) = bytes[used..].first_chunk::<HEADER_LENGTH>()
        && let Ok(header) = Header::from_bytes(head)
        && bytes.len() - used >= header.packet_length()
    {
        used += header.packet_length();
        if header.flags == Flags::NONE {
            messages += u64::from(header.message_count);
        }
    }
    (used, messages)
}

/// Bytes that need not be looked at again, and the updates in them: each has its own `"seq":`.
fn count_updates(bytes: &[u8]) -> (usize, u64) {
    let (mut used, mut messages) = (0, 0);
    while let Some(place) = find_update(&bytes[used..]) {
        used += place + UPDATE.len();
        messages += 1;
    }
    (
        bytes.len().saturating_sub(UPDATE.len() - 1).max(used),
        messages,
    )
}

fn find_update(bytes: &[u8]) -> Option<usize> {
    // The letter is rare in an update: most windows are never compared.
    let mut from = 0;
    while let Some(place) = bytes[from..].iter().position(|&byte| byte == UPDATE[0]) {
        if bytes[from + place..].starts_with(UPDATE) {
            return Some(from + place);
        }
        from += place + 1;
    }
    None
}

/// Creates a client that is subscribed to everything.
fn subscribed(face: Face, addresses: &HubAddresses) -> io::Result<TcpStream> {
    let (address, hello): (SocketAddr, Vec<u8>) = match face {
        Face::Feed => {
            let mut client = Client::new(ClientConfig::default());
            client.subscribe("*").map_err(io::Error::other)?;
            client.connected(Side::A, 0);
            let mut hello = Vec::new();
            client.drain_outgoing(Side::A, &mut hello);
            (addresses.feed, hello)
        }
        Face::Redis => (
            addresses.resp,
            b"*2\r\n$10\r\nPSUBSCRIBE\r\n$4\r\nmd:*\r\n".to_vec(),
        ),
    };
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(&hello)?;
    Ok(stream)
}

/// Occurs once in each update, and nowhere else in it.
const UPDATE: &[u8] = b"\"seq\":";
const CLIENTS: [usize; 5] = [1, 10, 100, 500, 1_000];
const RATE_MAX: u64 = 1_000;
/// Total deliveries per second that one core manages. A hub that cannot keep up conflates, and
/// the measurement would then measure something else.
const DELIVERIES_MAX: u64 = 50_000;
/// Rates of the native feed to a hundred clients: with single delivery, and with conflation.
const SUSTAINED_RATES: [u64; 2] = [100_000, 1_000_000];
const SUSTAINED_CLIENTS: usize = 100;
const SYMBOLS: u64 = 100;
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
const SETTLE_TIME: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_feed::wire::{Message, Trade};

    #[test]
    fn messages_are_counted_wherever_the_input_is_cut() {
        let mut packets = Vec::new();
        for first in [1, 4] {
            let mut writer = PacketWriter::new(&mut packets, 1, Flags::NONE, first, 1_472);
            (0..3).for_each(|_| writer.push(&Message::Trade(Trade::default())));
            writer.finish();
        }
        PacketWriter::bare(&mut packets, 1, Flags::HEARTBEAT, 7);
        let updates = br#"{"seq":1,"symbol":"S"},{"seq":2}"#;
        for (face, bytes, expected) in [(Face::Feed, &packets[..], 6), (Face::Redis, updates, 2)] {
            for cut in 0..bytes.len() {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let mut reader = Reader {
                    stream: TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
                    reads: true,
                    rest: Vec::new(),
                };
                let counted = reader.count(face, &bytes[..cut]) + reader.count(face, &bytes[cut..]);
                assert_eq!(counted, expected, "{face:?} cut at {cut}");
            }
        }
    }
}
