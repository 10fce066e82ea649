//! A PUB socket on a blocking TCP listener: sends ticks to every subscriber, one thread per
//! subscriber.
//!
//! `cargo run -p tidewire-zmtp --example publish -- 127.0.0.1:5556`

use std::env;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tidewire_zmtp::{Config, Connection, Event, PrefixTable, SocketType, encode_frame};

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:5556".into());
    let listener = TcpListener::bind(address)?;
    println!("publishing on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept()?;
        thread::spawn(move || match serve(stream) {
            Ok(()) => println!("{peer} left"),
            Err(error) => println!("{peer}: {error}"),
        });
    }
}

fn serve(mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
    // A read waits for at most one tick. It rarely returns more than subscriptions.
    stream.set_read_timeout(Some(Duration::from_millis(10)))?;
    let start = Instant::now();
    let now_ns = || start.elapsed().as_nanos() as u64;
    let mut connection = Connection::new(Config::new(SocketType::Pub), now_ns());
    let mut wanted = PrefixTable::new();
    let mut buffer = Vec::new();
    let mut chunk = [0; 8192];
    for tick in 0_u64.. {
        let topic = format!("tick:{}", tick % 10);
        if connection.is_ready() && wanted.covers(topic.as_bytes()) {
            let out = connection.outgoing();
            encode_frame(out, topic.as_bytes(), true);
            encode_frame(out, tick.to_string().as_bytes(), false);
        }
        stream.write_all(connection.outgoing())?;
        connection.outgoing().clear();
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        let mut at = 0;
        loop {
            let step = connection.receive(&buffer[at..], now_ns())?;
            at += step.consumed;
            match step.event {
                Some(Event::Subscribe(prefix)) => drop(wanted.insert(prefix, ())),
                Some(Event::Cancel(prefix)) => drop(wanted.remove_pair(prefix, ())),
                Some(event) => println!("{event:?}"),
                None if step.consumed == 0 => break,
                None => {}
            }
        }
        buffer.drain(..at);
    }
    Ok(())
}
