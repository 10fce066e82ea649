//! A small exchange over real sockets, for tests of the client.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidewire_feed::client::NullSink;
use tidewire_feed::journal::Journal;
use tidewire_feed::server::{EmptyBoard, Session, SessionConfig};
use tidewire_feed::wire::{Message, Trade};

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) journal: Arc<Mutex<Journal>>,
    /// Connections are cut after this many bytes; 0 for never.
    pub(crate) cut_after_bytes: Arc<AtomicU64>,
    pub(crate) connections: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(journal: Arc<Mutex<Journal>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = Server {
            address: listener.local_addr().unwrap(),
            journal: journal.clone(),
            cut_after_bytes: Arc::default(),
            connections: Arc::default(),
            stopped: Arc::default(),
            thread: None,
        };
        let (stopped, cut) = (server.stopped.clone(), server.cut_after_bytes.clone());
        let connections = server.connections.clone();
        listener.set_nonblocking(true).unwrap();
        server.thread = Some(std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                connections.fetch_add(1, Ordering::Relaxed);
                serve(stream, &journal, &stopped, cut.load(Ordering::Relaxed));
            }
        }));
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Serves one connection until it is cut, possibly in the middle of a packet.
fn serve(mut stream: TcpStream, journal: &Mutex<Journal>, stopped: &AtomicBool, cut: u64) {
    let started = Instant::now();
    let mut session = Session::new(SessionConfig::default(), 0);
    stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    let (mut input, mut chunk, mut sent) = (Vec::new(), [0; 4096], 0);
    while !stopped.load(Ordering::Relaxed) {
        match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => input.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        let now_ns = started.elapsed().as_nanos() as u64;
        let used = session.receive(&input, now_ns, &mut NullSink).unwrap();
        input.drain(..used);
        let mut out = Vec::new();
        let journal = journal.lock().unwrap();
        session.produce(&journal, &EmptyBoard, now_ns, &mut out, 64 << 10);
        drop(journal);
        let left = match cut {
            0 => usize::MAX,
            cut => (cut - sent) as usize,
        };
        let part = out.len().min(left);
        if stream.write_all(&out[..part]).is_err() || part == left {
            return;
        }
        sent += part as u64;
    }
}

/// Returns the message with this sequence.
pub(crate) fn message(sequence: u64) -> Message {
    Message::Trade(Trade {
        symbol: (sequence % 10) as u32,
        price: sequence as i64,
        size: 1,
        ..Trade::default()
    })
}
