//! SoupBinTCP server, as an exchange runs it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags};
use tidewire_feed::faults::FaultPlan;
use tidewire_itch::sequenced::Store;
use tidewire_itch::soup::{Server, ServerConfig};
use tidewire_market::SoupInput;

use crate::failure::listen_text;

/// The listener and its clients.
pub(super) struct Servers {
    listener: TcpListener,
    config: ServerConfig,
    clients: Vec<Client>,
    /// Bytes after which a fault cuts a connection; 0 for never.
    cut_after_bytes: u64,
    pub(super) connections: u64,
}

struct Client {
    stream: TcpStream,
    server: Server,
    input: Vec<u8>,
    out: Vec<u8>,
    sent_bytes: u64,
    is_closing: bool,
}

impl Servers {
    pub(super) fn open(soup: &SoupInput, plan: FaultPlan) -> Result<Self, String> {
        let address = soup.address;
        let failed = |error: io::Error| listen_text(address, &error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let user = (soup.user.clone(), soup.password.clone());
        Ok(Self {
            listener,
            config: ServerConfig {
                user: (!soup.user.is_empty()).then_some(user),
            },
            clients: Vec::new(),
            // The fault is a share of packets, and a packet has about thirty bytes.
            cut_after_bytes: match plan.disconnect {
                share if share > 0.0 => (30.0 / share) as u64,
                _ => 0,
            },
            connections: 0,
        })
    }

    /// Returns the number of connected clients.
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Appends the descriptors to poll.
    pub(super) fn descriptors<'a>(&'a self, out: &mut Vec<PollFd<'a>>) {
        out.push(PollFd::from_borrowed_fd(
            self.listener.as_fd(),
            PollFlags::IN,
        ));
        for client in &self.clients {
            let flags = match client.out.is_empty() {
                true => PollFlags::IN,
                false => PollFlags::IN | PollFlags::OUT,
            };
            out.push(PollFd::from_borrowed_fd(client.stream.as_fd(), flags));
        }
    }

    /// When the next heartbeat is due.
    pub(super) fn deadline_ns(&self) -> u64 {
        let deadlines = self
            .clients
            .iter()
            .map(|client| client.server.deadline_ns());
        deadlines.min().unwrap_or(u64::MAX)
    }

    /// Returns whether every client was sent everything.
    pub(super) fn is_done(&self, store: &Store) -> bool {
        let next = store.next_sequence();
        self.clients
            .iter()
            .all(|client| client.out.is_empty() && client.server.next_sequence() == next)
    }

    /// Accepts new clients and serves all. Returns whether more can be sent immediately.
    pub(super) fn turn(&mut self, store: &Store, now_ns: u64) -> bool {
        while self.clients.len() < CLIENTS_MAX
            && let Ok((stream, _)) = self.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                let _ = stream.set_nodelay(true);
                self.connections += 1;
                self.clients.push(Client {
                    stream,
                    server: Server::new(self.config.clone(), now_ns),
                    input: Vec::new(),
                    out: Vec::new(),
                    sent_bytes: 0,
                    is_closing: false,
                });
            }
        }
        let mut more = false;
        let cut_after_bytes = self.cut_after_bytes;
        self.clients.retain_mut(|client| {
            let is_cut = cut_after_bytes > 0 && client.sent_bytes > cut_after_bytes;
            match client.turn(store, now_ns) {
                Ok(busy) if !is_cut => {
                    more |= busy;
                    true
                }
                _ => false,
            }
        });
        more
    }
}

impl Client {
    fn turn(&mut self, store: &Store, now_ns: u64) -> io::Result<bool> {
        let mut chunk = [0; 4_096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            match self.server.receive(&self.input, now_ns) {
                Ok(used) => drop(self.input.drain(..used)),
                Err(_) => {
                    self.is_closing = true;
                    break;
                }
            }
        }
        let mut more = false;
        if self.out.len() < OUT_BYTES {
            more = self.server.produce(store, now_ns, &mut self.out, OUT_BYTES);
        }
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(count) => {
                    self.sent_bytes += count as u64;
                    self.out.drain(..count);
                }
                // The kernel reports when there is room again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let is_over = self.is_closing || self.server.is_closing();
        if is_over || self.server.is_silent(now_ns) {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(more)
    }
}

const CLIENTS_MAX: usize = 1_000;
const OUT_BYTES: usize = 256 * 1024;
