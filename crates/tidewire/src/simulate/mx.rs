//! `simulate mx`: a scripted plant over TCP.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tidewire_mx::plant::{LinkId, Plant, PlantConfig};

use crate::failure::{Failure, cannot_listen};
use crate::options::SimulateMxOptions;
use crate::stop::Stop;
use crate::units::grouped;

/// Runs a plant until it is told to stop or its time is over.
pub(crate) fn run(options: &SimulateMxOptions) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let listener = TcpListener::bind(&options.listen)
        .map_err(|error| cannot_listen("--listen", &options.listen, &error))?;
    let mut server = Server::new(listener, plant_config(options))
        .map_err(|error| Failure::running(format!("cannot serve: {error}")))?;
    let tags = server.plant.tags();
    if let Some(path) = &options.names {
        let names: Vec<_> = tags.all_names().collect();
        std::fs::write(path, names.join("\n") + "\n")
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
    }
    println!(
        "plant: {} tags such as {} on {}, seed {}",
        grouped(tags.len() as u64),
        tags.all_names().take(3).collect::<Vec<_>>().join(", "),
        server.address(),
        options.seed
    );
    server
        .serve(&stop, options.duration)
        .map_err(|error| Failure::running(format!("the plant failed: {error}")))?;
    let counters = server.plant.counters();
    println!(
        "updates: {}; writes: {} taken, {} refused, {} completions lost; links dropped: {}",
        grouped(counters.updates),
        grouped(counters.writes_taken),
        grouped(counters.writes_refused),
        grouped(counters.completions_lost),
        grouped(counters.links_dropped)
    );
    Ok(())
}

fn plant_config(options: &SimulateMxOptions) -> PlantConfig {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let (least, most) = options.first_change;
    PlantConfig {
        tags: options.tags as usize,
        seed: options.seed,
        first_change_ns: (least.as_nanos() as u64, most.as_nanos() as u64),
        interval_ns: options.interval.as_nanos() as u64,
        faults: options.fault.unwrap_or_default(),
        bulk_arrays: options.bulk_arrays,
        unix_ns_at_zero: since.map_or(0, |since| since.as_nanos() as u64),
    }
}

/// The plant and its clients, served by one thread, which wakes up for sockets and for the plant's
/// next event.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    plant: Plant,
    clients: BTreeMap<LinkId, Client>,
    begin: Instant,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    /// The beginning of an incomplete message.
    unread: Vec<u8>,
    /// Number of the plant's outgoing bytes that have been sent.
    sent: usize,
}

impl Server {
    /// Creates a plant that accepts clients on `listener`.
    pub fn new(listener: TcpListener, config: PlantConfig) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            plant: Plant::new(config),
            clients: BTreeMap::new(),
            begin: Instant::now(),
        })
    }

    pub fn plant(&self) -> &Plant {
        &self.plant
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.map_or_else(|_| "?".to_owned(), |address| address.to_string())
    }

    /// Serves until it is told to stop or its time is over. Messages produced by then are still
    /// sent.
    pub fn serve(&mut self, stop: &Stop, duration: Option<Duration>) -> std::io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let is_time = |begin: Instant| duration.is_some_and(|end| begin.elapsed() >= end);
        while !stop.is_asked() && !is_time(self.begin) && !crate::output::is_gone() {
            let (accept, ready) = self.wait()?;
            if accept {
                self.accept()?;
            }
            for id in ready {
                self.read(id, &mut buffer);
            }
            let now_ns = self.now_ns();
            self.plant.handle_timeout(now_ns);
            self.flush();
        }
        self.finish();
        Ok(())
    }

    /// Sends the rest as far as the clients read it, and waits until they have read it. Closing a
    /// socket with unread input would discard sent data.
    fn finish(&mut self) {
        let begin = Instant::now();
        for (id, mut client) in std::mem::take(&mut self.clients) {
            if begin.elapsed() > FINISH_TIMEOUT {
                return;
            }
            let Some(outgoing) = self.plant.outgoing(id) else {
                continue;
            };
            let stream = &mut client.stream;
            let ended = stream
                .set_nonblocking(false)
                .and_then(|()| stream.set_write_timeout(Some(FINISH_TIMEOUT)))
                .and_then(|()| stream.set_read_timeout(Some(FINISH_TIMEOUT)))
                .and_then(|()| stream.write_all(&outgoing[client.sent..]))
                .and_then(|()| stream.shutdown(Shutdown::Write));
            let mut buffer = [0; 4_096];
            while ended.is_ok()
                && begin.elapsed() < FINISH_TIMEOUT
                && stream.read(&mut buffer).is_ok_and(|count| count > 0)
            {}
        }
    }

    /// Waits for a socket or for the plant's next event. Returns whether to accept, and which
    /// clients to read.
    fn wait(&mut self) -> std::io::Result<(bool, Vec<LinkId>)> {
        let wait_ns = self.plant.deadline_ns().saturating_sub(self.now_ns());
        let wait = Duration::from_nanos(wait_ns).min(STOP_INTERVAL);
        let timeout = Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        };
        let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for (id, client) in &self.clients {
            let mut flags = PollFlags::IN;
            if self
                .plant
                .outgoing(*id)
                .is_some_and(|out| client.sent < out.len())
            {
                flags |= PollFlags::OUT;
            }
            polled.push(PollFd::new(&client.stream, flags));
        }
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready =
            |polled: &PollFd<'_>| !polled.revents().difference(PollFlags::OUT).is_empty();
        let accept = is_ready(&polled[0]);
        let clients = self.clients.keys().zip(&polled[1..]);
        let ready = clients.filter(|(_, polled)| is_ready(polled));
        Ok((accept, ready.map(|(id, _)| *id).collect()))
    }

    fn accept(&mut self) -> std::io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let client = Client {
                        stream,
                        unread: Vec::new(),
                        sent: 0,
                    };
                    if self.clients.len() < CLIENTS_MAX {
                        self.clients.insert(self.plant.connected(), client);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client disconnected before it was accepted, or there is no free descriptor.
                // The next wait tries again.
                Err(_) => return Ok(()),
            }
        }
    }

    fn read(&mut self, id: LinkId, buffer: &mut [u8]) {
        let now_ns = self.now_ns();
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let alive = match client.stream.read(buffer) {
            Ok(0) => false,
            Ok(count) => {
                client.unread.extend_from_slice(&buffer[..count]);
                match self.plant.receive(id, &client.unread, now_ns) {
                    Ok(taken) => {
                        client.unread.drain(..taken);
                        true
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a client was disconnected");
                        false
                    }
                }
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        if !alive {
            self.close(id);
        }
    }

    fn flush(&mut self) {
        let mut gone = Vec::new();
        for (id, client) in &mut self.clients {
            let Some(outgoing) = self.plant.outgoing(*id) else {
                continue;
            };
            let mut alive = true;
            while client.sent < outgoing.len() {
                match client.stream.write(&outgoing[client.sent..]) {
                    Ok(count) => client.sent += count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        alive = error.kind() == ErrorKind::WouldBlock;
                        break;
                    }
                }
            }
            if client.sent == outgoing.len() || client.sent > COMPACT_BYTES {
                outgoing.drain(..client.sent);
                client.sent = 0;
            }
            if !alive || self.plant.wants_close(*id) {
                gone.push(*id);
            }
        }
        for id in gone {
            self.close(id);
        }
    }

    fn close(&mut self, id: LinkId) {
        self.clients.remove(&id);
        self.plant.disconnected(id);
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}

/// Maximum time that clients have to read the rest.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which signals are checked.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 1 << 16;
/// Sent bytes are removed from the buffer above this size, or when everything has been sent.
const COMPACT_BYTES: usize = 1 << 20;
const CLIENTS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_mx::session::{AdviseMode, Event, Session, SessionConfig, WriteOptions};
    use tidewire_mx::status::{Accepted, StatusError};
    use tidewire_mx::value::Value;

    struct Connection {
        session: Session,
        stream: TcpStream,
        unread: Vec<u8>,
        begin: Instant,
        heard: Vec<String>,
    }

    impl Connection {
        /// Sends, receives, and notes events until `over` returns true.
        fn run(&mut self, over: impl Fn(&[String]) -> bool) {
            let mut buffer = [0; 4_096];
            let end = Instant::now() + Duration::from_secs(30);
            while !over(&self.heard) {
                assert!(Instant::now() < end, "{:?}", self.heard);
                let outgoing = std::mem::take(self.session.outgoing());
                self.stream.write_all(&outgoing).unwrap();
                let count = match self.stream.read(&mut buffer) {
                    Ok(count) => count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                    Err(error) => panic!("{error}"),
                };
                self.unread.extend_from_slice(&buffer[..count]);
                let now_ns = self.begin.elapsed().as_nanos() as u64;
                let heard = &mut self.heard;
                let mut note = |event: Event<'_>| heard.push(text(&event));
                let taken = self
                    .session
                    .receive(&self.unread, now_ns, &mut note)
                    .unwrap();
                self.unread.drain(..taken);
                self.session.handle_timeout(now_ns, &mut note);
            }
        }
    }

    fn text(event: &Event<'_>) -> String {
        match event {
            Event::Update { record, .. } => format!("{:?} {}", record.value, record.quality),
            Event::WriteEnded { result, .. } => match result {
                Ok(Accepted::Plainly) => "written".to_owned(),
                Ok(Accepted::WithWarning(detail)) => format!("warning {detail}"),
                Err(failure) => failure.to_string(),
            },
            Event::ItemRefused { error, .. } => match error {
                StatusError::Configuration(_) => "no such item".to_owned(),
                error => error.to_string(),
            },
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_client_reads_and_writes_a_plant_over_tcp() {
        let config = PlantConfig {
            first_change_ns: (1_000_000, 5_000_000),
            interval_ns: 20_000_000,
            ..PlantConfig::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = Server::new(listener, config).unwrap();
        let stream = TcpStream::connect(server.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        let stop = Stop::default();
        let told = stop.clone();
        let thread = std::thread::spawn(move || server.serve(&told, None));

        let mut session = Session::new(SessionConfig::default());
        session.connected(0);
        let setpoint = session.add_item("Tank1.Setpoint", 0).unwrap();
        session.advise(setpoint, AdviseMode::User, 0);
        let fault = session.add_item("Faults.OperationalError", 0).unwrap();
        session.add_item("Tank1.Nothing", 0).unwrap();
        let mut connection = Connection {
            session,
            stream,
            unread: Vec::new(),
            begin: Instant::now(),
            heard: Vec::new(),
        };
        connection.run(|heard| {
            let has = |part: &str| heard.iter().any(|text| text.contains(part));
            has("Float64") && has("no such item")
        });
        let options = WriteOptions::default();
        let session = &mut connection.session;
        session
            .write(setpoint, Value::Float64(21.5), options, 0)
            .unwrap();
        session.write(fault, Value::Int32(1), options, 0).unwrap();
        connection.run(|heard| {
            let has = |part: &str| heard.iter().any(|text| text.contains(part));
            has("written") && has("refused: OperationalError") && has("Float64(21.5) 192 (good)")
        });
        stop.ask();
        thread.join().unwrap().unwrap();
    }
}
