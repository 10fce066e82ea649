//! The connection between a replica and its master: it lags, comes in pieces and breaks.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use crate::random::Random;

/// A connection, of which the simulator holds the middle.
#[derive(Debug)]
pub(crate) struct Wire {
    directions: [Direction; 2],
    is_open: bool,
}

/// Bytes from one end on their way to the other one.
#[derive(Debug)]
struct Direction {
    from: UnixStream,
    to: UnixStream,
    under_way: Vec<u8>,
    /// For so many steps at most so many bytes arrive.
    slow_steps: u64,
    slow_bytes: u64,
    has_ended: bool,
}

impl Wire {
    /// Between two sockets that do not block.
    pub(crate) fn new(one: UnixStream, other: UnixStream) -> std::io::Result<Self> {
        let back = (other.try_clone()?, one.try_clone()?);
        Ok(Self {
            directions: [Direction::new(one, other), Direction::new(back.0, back.1)],
            is_open: true,
        })
    }

    /// Moves some bytes on; whether the connection is open.
    pub(crate) fn step(&mut self, random: &mut Random, is_quiet: bool) -> bool {
        for direction in &mut self.directions {
            if !is_quiet && random.chance(5) {
                direction.slow_steps = random.between(1, SLOW_STEPS_MAX);
                direction.slow_bytes = *random.pick(&[0, 1, 20]);
            }
            let is_slow = !is_quiet && direction.slow_steps > 0;
            direction.slow_steps = direction.slow_steps.saturating_sub(1);
            if is_slow && random.chance(5) {
                return false;
            }
            let most = match is_quiet {
                true => UNDER_WAY_MAX,
                false if is_slow => random.between(0, direction.slow_bytes) as usize,
                false if random.chance(200) => random.between(0, 40) as usize,
                false => random.between(0, 20_000) as usize,
            };
            direction.receive();
            self.is_open &= direction.send(most);
        }
        self.is_open
    }
}

impl Direction {
    fn new(from: UnixStream, to: UnixStream) -> Self {
        Self {
            from,
            to,
            under_way: Vec::new(),
            slow_steps: 0,
            slow_bytes: 0,
            has_ended: false,
        }
    }

    fn receive(&mut self) {
        let mut piece = vec![0; PIECE_BYTES];
        while !self.has_ended && self.under_way.len() < UNDER_WAY_MAX {
            match self.from.read(&mut piece) {
                Ok(0) => self.has_ended = true,
                Ok(count) => self.under_way.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.has_ended = true,
            }
        }
    }

    /// False once all that is to come has come, or nobody takes it.
    fn send(&mut self, most: usize) -> bool {
        let count = self.under_way.len().min(most);
        if count > 0 {
            match self.to.write(&self.under_way[..count]) {
                Ok(count) => drop(self.under_way.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        !self.has_ended || !self.under_way.is_empty()
    }
}

const PIECE_BYTES: usize = 16 << 10;
const UNDER_WAY_MAX: usize = 256 << 10;
const SLOW_STEPS_MAX: u64 = 200;
