//! A peer's end of a connection, which reads and writes in pieces.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use tidewire_lane::Peer;

use crate::peer::Around;
use crate::random::Random;

/// A connection of a simulated peer.
#[derive(Debug)]
pub(crate) struct Link {
    socket: UnixStream,
    /// To be sent.
    pub(crate) outgoing: Vec<u8>,
    /// Received, and not consumed.
    pub(crate) incoming: Vec<u8>,
    /// Bytes of one call at most.
    piece_bytes: usize,
    is_open: bool,
}

impl Link {
    /// Connects to a lane that the seed chooses.
    pub(crate) fn open(around: &mut Around<'_>, port: u16) -> Self {
        let lane = around.random.place(around.lanes.count());
        let address = ([127, 0, 0, 1], around.random.between(1_024, 65_535) as u16);
        let peer = Peer::Tcp(address.into());
        let socket = around.lanes.connect(lane, port, peer);
        Self::over(socket.expect("a descriptor"), around.random)
    }

    pub(crate) fn over(socket: std::os::fd::OwnedFd, random: &mut Random) -> Self {
        let piece_bytes = match random.chance(300) {
            true => random.between(1, 64),
            false => 65_536,
        };
        Self {
            socket: UnixStream::from(socket),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            piece_bytes: piece_bytes as usize,
            is_open: true,
        }
    }

    /// Sends and receives a piece; whether the connection is open.
    pub(crate) fn step(&mut self, around: &mut Around<'_>) -> bool {
        let most = match around.is_quiet {
            true => 65_536,
            false => around.random.between(1, self.piece_bytes as u64) as usize,
        };
        self.send(most);
        self.receive(most, around.traffic);
        self.is_open
    }

    fn send(&mut self, most: usize) {
        let count = self.outgoing.len().min(most);
        if count == 0 || !self.is_open {
            return;
        }
        match self.socket.write(&self.outgoing[..count]) {
            Ok(count) => drop(self.outgoing.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_open = false,
        }
    }

    fn receive(&mut self, most: usize, traffic: &mut u64) {
        let mut piece = vec![0; most];
        match self.socket.read(&mut piece) {
            Ok(0) => self.is_open = false,
            Ok(count) => {
                for &byte in &piece[..count] {
                    *traffic = (*traffic ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
                }
                self.incoming.extend_from_slice(&piece[..count]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_open = false,
        }
    }
}
