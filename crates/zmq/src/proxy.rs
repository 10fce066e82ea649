//! A proxy: what comes in at one socket goes out at the other.

use crate::error::Error;
use crate::kind::SocketType;
use crate::message::Message;
use crate::outside::Inside;
use crate::poll::{PollItem, poll};
use crate::socket::{SendFlags, Socket};

/// Passes messages both ways between `frontend` and `backend`, and a copy of each to `capture`,
/// until the context is terminated. `control` takes `PAUSE`, `RESUME`, `TERMINATE` and, if it
/// can answer, `STATISTICS`; anything else changes nothing. A REP is always answered.
///
/// # Errors
/// [`Error::Terminated`] at its end; otherwise what a socket refused.
pub fn proxy(
    frontend: &Socket,
    backend: &Socket,
    capture: Option<&Socket>,
    control: Option<&Socket>,
) -> Result<(), Error> {
    Proxy::new(frontend, backend, capture, control).run()
}

/// A proxy, see [`proxy`]. Where a wait has ended it, it can go on.
#[derive(Debug)]
pub struct Proxy<'s> {
    sides: [&'s Socket; 2],
    capture: Option<&'s Socket>,
    control: Option<&'s Socket>,
    counts: [Counts; 2],
    is_paused: bool,
}

/// Frames and bytes of one side.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    received: [u64; 2],
    sent: [u64; 2],
}

impl<'s> Proxy<'s> {
    /// A proxy that has passed on nothing yet.
    pub fn new(
        frontend: &'s Socket,
        backend: &'s Socket,
        capture: Option<&'s Socket>,
        control: Option<&'s Socket>,
    ) -> Proxy<'s> {
        Proxy {
            sides: [frontend, backend],
            capture,
            control,
            counts: [Counts::default(); 2],
            is_paused: false,
        }
    }

    /// Passes messages on, as [`proxy`] does.
    ///
    /// # Errors
    /// As [`proxy`].
    pub fn run(&mut self) -> Result<(), Error> {
        let [frontend, backend] = self.sides;
        let control = self.control;
        let is_one = std::sync::Arc::ptr_eq(frontend.core(), backend.core());
        loop {
            let mut items = vec![PollItem::readable(frontend)];
            if !is_one {
                items.push(PollItem::readable(backend));
            }
            if self.is_paused {
                items.clear();
            }
            let sides = items.len();
            items.extend(control.map(PollItem::readable));
            poll(&mut items, -1)?;
            // A message that is passed on is not left in the middle.
            let _inside = Inside::new();
            let is_ready: Vec<bool> = items.iter().map(|item| item.ready.readable).collect();
            if control.is_some() && is_ready[sides] && !self.obey(control)? {
                return Ok(());
            }
            for (side, _) in is_ready[..sides]
                .iter()
                .enumerate()
                .filter(|(_, ready)| **ready)
            {
                self.forward(side, if is_one { side } else { 1 - side })?;
            }
        }
    }

    /// Passes on what is there, as far as the other side takes it at once.
    fn forward(&mut self, from: usize, to: usize) -> Result<(), Error> {
        for _ in 0..BURST_MESSAGES {
            // Nothing is taken in that cannot be passed on.
            let target = self.sides[to];
            // A REP behind both ends can send only what it has received.
            if from != to && !target.events_at_once(WRITABLE)?.writable {
                return Ok(());
            }
            loop {
                let mut frame = match self.sides[from].receive(true) {
                    Ok(frame) => frame,
                    Err(Error::Again) => return Ok(()),
                    Err(error) => return Err(error),
                };
                let more = frame.more();
                let bytes = frame.len() as u64;
                self.counts[from].received[0] += 1;
                self.counts[from].received[1] += bytes;
                if let Some(capture) = self.capture {
                    let mut copy = frame.share();
                    capture.send(
                        &mut copy,
                        SendFlags {
                            dont_wait: false,
                            more,
                        },
                    )?;
                }
                target.send(
                    &mut frame,
                    SendFlags {
                        dont_wait: false,
                        more,
                    },
                )?;
                self.counts[to].sent[0] += 1;
                self.counts[to].sent[1] += bytes;
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Follows a command. `false`: it was the last.
    fn obey(&mut self, control: Option<&Socket>) -> Result<bool, Error> {
        let Some(control) = control else {
            return Ok(true);
        };
        let command = control.receive(true)?;
        let mut rest = command.more();
        while rest {
            rest = control.receive(true)?.more();
        }
        match command.as_slice() {
            b"PAUSE" => self.is_paused = true,
            b"RESUME" => self.is_paused = false,
            b"TERMINATE" => {
                self.acknowledge(control)?;
                return Ok(false);
            }
            b"STATISTICS" => {
                self.tell_statistics(control)?;
                return Ok(true);
            }
            // As by libzmq: a word that is misspelt must not end what serves others.
            _ => {}
        }
        self.acknowledge(control)?;
        Ok(true)
    }

    /// A REP must answer; others are not asked for it.
    fn acknowledge(&self, control: &Socket) -> Result<(), Error> {
        if control.kind() == SocketType::Rep {
            control.send(&mut Message::new(), SendFlags::default())?;
        }
        Ok(())
    }

    /// Eight numbers: of the frontend frames and bytes received, then sent; of the backend.
    fn tell_statistics(&self, control: &Socket) -> Result<(), Error> {
        let numbers = self.counts.iter().flat_map(|counts| {
            let [received, received_bytes] = counts.received;
            let [sent, sent_bytes] = counts.sent;
            [received, received_bytes, sent, sent_bytes]
        });
        for (index, number) in numbers.enumerate() {
            let flags = SendFlags {
                dont_wait: false,
                more: index < 7,
            };
            control.send_bytes(&number.to_ne_bytes(), flags)?;
        }
        Ok(())
    }
}

const WRITABLE: crate::socket::Events = crate::socket::Events {
    readable: false,
    writable: true,
};
/// Messages passed on before the other direction has its turn.
const BURST_MESSAGES: usize = 1000;
