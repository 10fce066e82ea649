//! A PULL socket on a blocking TCP listener: prints what any ZeroMQ PUSH sends to it.
//!
//! `cargo run -p tidewire-zmtp --example pull -- 127.0.0.1:5555`

use std::env;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use tidewire_zmtp::{Config, Connection, Event, SocketType};

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:5555".into());
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    // One peer after the other: a real socket has a driver for each.
    loop {
        let (stream, peer) = listener.accept()?;
        match serve(stream) {
            Ok(()) => println!("{peer} left"),
            Err(error) => println!("{peer}: {error}"),
        }
    }
}

fn serve(mut stream: TcpStream) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let now_ns = || start.elapsed().as_nanos() as u64;
    let mut connection = Connection::new(Config::new(SocketType::Pull), now_ns());
    let mut buffer = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        stream.write_all(connection.outgoing())?;
        connection.outgoing().clear();
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        buffer.extend_from_slice(&chunk[..count]);
        let mut at = 0;
        loop {
            let step = connection.receive(&buffer[at..], now_ns());
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    // An ERROR command may be waiting to tell the peer.
                    stream.write_all(connection.outgoing())?;
                    return Err(error.into());
                }
            };
            at += step.consumed;
            match step.event {
                Some(Event::Frame { body, more }) => {
                    let end = if more { " |" } else { "" };
                    println!("{}{end}", String::from_utf8_lossy(body));
                }
                Some(event) => println!("{event:?}"),
                None if step.consumed == 0 => break,
                None => {}
            }
        }
        buffer.drain(..at);
    }
}
