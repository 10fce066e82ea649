//! A WebSocket server that sends each message back, for the conformance suite: the hub's own
//! request reader and message machine behind a blocking socket per client.
//!
//! ```text
//! cargo run -p tidewire-web --example echo -- 127.0.0.1:9001
//! ```

use std::io::{self, Read as _, Write};
use std::net::{TcpListener, TcpStream};

use tidewire_web::http::{self, Read};
use tidewire_web::websocket::{
    Message, Opcode, Receiver, accept_upgrade, write_close, write_message,
};

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:9001"))?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("a connection ends: {error}");
            }
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::new();
    if !upgrade(&mut stream, &mut input)? {
        return Ok(());
    }
    let mut receiver = Receiver::new(MESSAGE_BYTES_MAX);
    loop {
        let (mut at, mut output, mut is_over) = (0, Vec::new(), false);
        while !is_over {
            match receiver.receive(&input[at..]) {
                Ok(Some((count, message))) => {
                    at += count;
                    is_over = answer(message, &mut output);
                }
                Ok(None) => break,
                Err(code) => {
                    write_close(code, "", &mut output);
                    is_over = true;
                }
            }
        }
        input.drain(..at);
        stream.write_all(&output)?;
        if is_over || !read_more(&mut stream, &mut input)? {
            return stream.shutdown(std::net::Shutdown::Write);
        }
    }
}

/// Appends the answer to a message. Returns whether it was the last one.
fn answer(message: Message<'_>, output: &mut Vec<u8>) -> bool {
    let (opcode, payload) = match message {
        Message::Text(text) => (Opcode::Text, text),
        Message::Binary(bytes) => (Opcode::Binary, bytes),
        Message::Ping(payload) => (Opcode::Pong, payload),
        Message::Close(payload) => {
            write_message(Opcode::Close, payload, output);
            return true;
        }
        Message::Part | Message::Pong => return false,
    };
    write_message(opcode, payload, output);
    false
}

/// Answers the request for a WebSocket. Returns whether it was one.
fn upgrade(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        if let Read::Request(request) = http::read(input) {
            let Some((response, _)) = accept_upgrade(request.head, &[]) else {
                stream.write_all(http::BAD_REQUEST)?;
                return Ok(false);
            };
            let used = request.size_bytes;
            stream.write_all(response.as_bytes())?;
            input.drain(..used);
            return Ok(true);
        }
        if let Read::Refused(_) = http::read(input) {
            stream.write_all(http::BAD_REQUEST)?;
            return Ok(false);
        }
        if !read_more(stream, input)? {
            return Ok(false);
        }
    }
}

/// Reads once. Returns whether something came.
fn read_more(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<bool> {
    let start = input.len();
    input.resize(start + READ_BYTES, 0);
    let count = stream.read(&mut input[start..])?;
    input.truncate(start + count);
    Ok(count > 0)
}

const READ_BYTES: usize = 64 << 10;
/// The longest messages of the suite have 16 MiB.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
