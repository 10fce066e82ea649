//! A ZeroMQ peer that does what it is told, for tests by programs in other languages.
//!
//! It reads one command a line and answers each with one line: `ok` and what it gives, or `error`
//! and the number. Frames and values of options are hexadecimal; `-` is an empty one.
//!
//! ```text
//! open NAME TYPE             a socket, such as `open a DEALER`
//! option NAME NUMBER VALUE   libzmq's number, the value in the bytes that it has there
//! bind NAME ENDPOINT         gives the endpoint it is bound to
//! connect NAME ENDPOINT
//! join NAME GROUP            hexadecimal too
//! send NAME FRAME...         a message, whole
//! receive NAME               a message, whole
//! echo NAME COUNT            receives and sends back so many messages
//! close NAME
//! allow USERNAME PASSWORD    answers requests for authentication from now on
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, Write, stdin, stdout};
use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

fn main() -> std::io::Result<()> {
    let mut peer = Peer {
        context: Context::new(),
        sockets: BTreeMap::new(),
    };
    for line in stdin().lock().lines() {
        let answer = match peer.obey(&line?) {
            Ok(gives) => format!("ok{gives}"),
            Err(error) => format!("error {} {error}", error.errno()),
        };
        let mut out = stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

struct Peer {
    context: Context,
    sockets: BTreeMap<String, Socket>,
}

impl Peer {
    /// Does what a line says; gives what stands behind `ok`.
    fn obey(&mut self, line: &str) -> Result<String, Error> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [command, name, ref rest @ ..] = words[..] else {
            return Err(Error::InvalidArgument);
        };
        if command == "allow" {
            let password = rest.first().ok_or(Error::InvalidArgument)?;
            return allow(&self.context, name, password);
        }
        if command == "open" {
            let kind = rest.first().and_then(|kind| kind_of(kind));
            let socket = self.context.socket(kind.ok_or(Error::InvalidArgument)?)?;
            socket.set_option(RECEIVE_TIMEOUT, &PATIENCE_MS.to_ne_bytes())?;
            socket.set_option(SEND_TIMEOUT, &PATIENCE_MS.to_ne_bytes())?;
            socket.set_option(LINGER, &0_i32.to_ne_bytes())?;
            self.sockets.insert(name.to_owned(), socket);
            return Ok(String::new());
        }
        let socket = self.sockets.get(name).ok_or(Error::NotSocket)?;
        match (command, rest) {
            ("option", [number, value]) => {
                let number = number.parse().map_err(|_| Error::InvalidArgument)?;
                socket.set_option(number, &bytes_of(value)?)?;
            }
            ("bind", [endpoint]) => {
                socket.bind(endpoint)?;
                let mut bound = [0; 256];
                let size = socket.option(LAST_ENDPOINT, &mut bound)?;
                let bound = String::from_utf8_lossy(&bound[..size]);
                return Ok(format!(" {}", bound.trim_end_matches('\0')));
            }
            ("connect", [endpoint]) => socket.connect(endpoint)?,
            ("join", [group]) => socket.join(bytes_of(group)?)?,
            ("send", frames) => {
                let frames: Result<Vec<_>, _> =
                    frames.iter().map(|frame| bytes_of(frame)).collect();
                let messages = frames?.into_iter().map(Message::from_vec);
                send(socket, messages.collect())?;
            }
            ("receive", []) => return Ok(shown(&receive(socket)?)),
            ("echo", [count]) => {
                for _ in 0..count.parse().map_err(|_| Error::InvalidArgument)? {
                    send(socket, receive(socket)?)?;
                }
            }
            ("close", []) => {
                socket.close()?;
                self.sockets.remove(name);
            }
            _ => return Err(Error::InvalidArgument),
        }
        Ok(String::new())
    }
}

/// Answers requests for authentication in a thread: NULL and CURVE may come in, and PLAIN with this
/// name.
fn allow(context: &Context, username: &str, password: &str) -> Result<String, Error> {
    let socket = context.socket(SocketType::Rep)?;
    socket.bind("inproc://zeromq.zap.01")?;
    let credentials = [username.to_owned(), password.to_owned()];
    std::thread::spawn(move || {
        // Until the program ends.
        while let Ok(request) = receive(&socket) {
            let texts: Vec<_> = request
                .iter()
                .map(|frame| String::from_utf8_lossy(frame.as_slice()))
                .collect();
            let is_known = texts[5] != "PLAIN" || texts[6..] == credentials;
            let (code, text) = if is_known {
                ("200", "OK")
            } else {
                ("400", "who?")
            };
            let reply = ["1.0", &texts[1], code, text, "user", ""];
            let reply = reply.map(|frame| Message::from_slice(frame.as_bytes()));
            if send(&socket, reply.into()).is_err() {
                break;
            }
        }
    });
    Ok(String::new())
}

fn send(socket: &Socket, frames: Vec<Message>) -> Result<(), Error> {
    let last = frames.len().saturating_sub(1);
    for (index, mut frame) in frames.into_iter().enumerate() {
        let flags = SendFlags {
            dont_wait: false,
            more: index < last,
        };
        socket.send(&mut frame, flags)?;
    }
    Ok(())
}

fn receive(socket: &Socket) -> Result<Vec<Message>, Error> {
    let mut frames = vec![socket.receive(false)?];
    while frames.last().is_some_and(Message::more) {
        frames.push(socket.receive(false)?);
    }
    Ok(frames)
}

fn kind_of(name: &str) -> Option<SocketType> {
    let number = NAMES.iter().position(|known| *known == name)?;
    SocketType::from_number(number as i32)
}

fn bytes_of(word: &str) -> Result<Vec<u8>, Error> {
    if word == "-" {
        return Ok(Vec::new());
    }
    let byte = |at| {
        word.get(at..at + 2)
            .and_then(|two| u8::from_str_radix(two, 16).ok())
    };
    let bytes = (0..word.len()).step_by(2).map(byte);
    bytes.collect::<Option<_>>().ok_or(Error::InvalidArgument)
}

fn shown(frames: &[Message]) -> String {
    let mut text = String::new();
    for frame in frames {
        text.push(' ');
        for byte in frame.as_slice() {
            // Writing into a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        if frame.as_slice().is_empty() {
            text.push('-');
        }
    }
    text
}

/// By libzmq's numbers.
const NAMES: [&str; 19] = [
    "PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB",
    "STREAM", "SERVER", "CLIENT", "RADIO", "DISH", "GATHER", "SCATTER", "DGRAM",
];
const LINGER: i32 = 17;
const RECEIVE_TIMEOUT: i32 = 27;
const SEND_TIMEOUT: i32 = 28;
const LAST_ENDPOINT: i32 = 32;
/// What does not come in this time does not come.
const PATIENCE_MS: i32 = 10_000;
