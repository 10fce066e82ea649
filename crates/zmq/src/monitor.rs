//! Events of a socket's life, told on a PAIR socket.

use crate::message::Message;
use crate::socket::Socket;
use crate::state::State;

/// What a monitor tells; the numbers are libzmq's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Event {
    Connected = 0x1,
    ConnectDelayed = 0x2,
    ConnectRetried = 0x4,
    Listening = 0x8,
    BindFailed = 0x10,
    Accepted = 0x20,
    AcceptFailed = 0x40,
    Closed = 0x80,
    Disconnected = 0x200,
    Stopped = 0x400,
    HandshakeFailedNoDetail = 0x800,
    HandshakeSucceeded = 0x1000,
    HandshakeFailedProtocol = 0x2000,
    HandshakeFailedAuth = 0x4000,
    /// Our own: above all that libzmq's masks for everything name.
    DropsBegin = crate::own_options::EVENT_DROPS_BEGIN,
}

/// Where a socket's events go.
#[derive(Debug)]
pub(crate) struct Monitor {
    pub(crate) socket: Socket,
    pub(crate) events: u64,
    pub(crate) version: u32,
}

impl State {
    /// Tells an event. A monitor that does not keep up misses it: the socket does not wait.
    pub(crate) fn report(&mut self, event: Event, value: u64, local: &str, remote: &str) {
        let Some(monitor) = &self.monitor else {
            return;
        };
        if monitor.events & event as u64 == 0 {
            return;
        }
        let frames = match monitor.version {
            1 => {
                let mut head = Vec::with_capacity(6);
                head.extend_from_slice(&(event as u16).to_ne_bytes());
                head.extend_from_slice(&(value as u32).to_ne_bytes());
                let address = if local.is_empty() { remote } else { local };
                vec![head, address.as_bytes().to_vec()]
            }
            _ => vec![
                (event as u64).to_ne_bytes().to_vec(),
                1_u64.to_ne_bytes().to_vec(),
                value.to_ne_bytes().to_vec(),
                local.as_bytes().to_vec(),
                remote.as_bytes().to_vec(),
            ],
        };
        let last = frames.len() - 1;
        for (index, frame) in frames.into_iter().enumerate() {
            let flags = crate::SendFlags {
                dont_wait: true,
                more: index < last,
            };
            if monitor
                .socket
                .send(&mut Message::from_vec(frame), flags)
                .is_err()
            {
                return;
            }
        }
    }

    /// Ends the monitor with a last event.
    pub(crate) fn stop_monitor(&mut self) {
        self.report(Event::Stopped, 0, "", "");
        if let Some(monitor) = self.monitor.take() {
            let _ = monitor.socket.close();
        }
    }
}
