//! Requests between two processes through shared memory.
//!
//! ```text
//! cargo run --release -p tidewire-zmq --example shared_memory -- serve &
//! cargo run --release -p tidewire-zmq --example shared_memory -- ask 100000
//! ```

use std::time::Instant;

use tidewire_zmq::{Context, Error, Rep, Req};

const ENDPOINT: &str = "shm:///tmp/tidewire-example";

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let context = Context::new();
    match arguments.next().as_deref() {
        Some("serve") => serve(&context),
        Some("ask") => {
            let count = arguments.next().and_then(|count| count.parse().ok());
            ask(&context, count.unwrap_or(100_000))
        }
        _ => {
            eprintln!("usage: shared_memory serve | shared_memory ask [COUNT]");
            Err(Error::InvalidArgument)
        }
    }
}

/// Sends each request back.
fn serve(context: &Context) -> Result<(), Error> {
    let mut reply = Rep::bind(context, ENDPOINT)?;
    loop {
        let request = reply.receive()?;
        reply.send(request)?;
    }
}

fn ask(context: &Context, count: u32) -> Result<(), Error> {
    let mut request = Req::connect(context, ENDPOINT)?;
    let begin = Instant::now();
    for round in 0..count {
        request.send(&round.to_le_bytes()[..])?;
        request.receive()?;
    }
    let micros = begin.elapsed().as_secs_f64() * 1e6 / f64::from(count.max(1));
    println!("{count} requests, {micros:.2} µs each");
    Ok(())
}
