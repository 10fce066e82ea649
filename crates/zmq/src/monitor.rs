//! Events of a socket's life, told on a PAIR socket.

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

/// The socket that a monitor's events are sent to.
pub(crate) trait EventSink: std::fmt::Debug + Send {
    /// Sends one event, frame by frame. A receiver that does not keep up misses it: the watched
    /// socket does not wait.
    fn send_event(&self, frames: Vec<Vec<u8>>);

    /// Closes the sink after the last event.
    fn end(&self);
}

/// Where a socket's events go.
#[derive(Debug)]
pub(crate) struct Monitor {
    sink: Box<dyn EventSink>,
    /// The events that are sent, a bit each.
    events: u64,
    version: u32,
}

impl Monitor {
    pub(crate) fn new(sink: Box<dyn EventSink>, events: u64, version: u32) -> Monitor {
        debug_assert!(matches!(version, 1 | 2), "monitors have two versions");
        Monitor {
            sink,
            events,
            version,
        }
    }

    /// Sends an event if the monitor asked for it.
    pub(crate) fn report(&self, event: Event, value: u64, local: &str, remote: &str) {
        debug_assert!(
            (event as u64).is_power_of_two(),
            "an event is one bit of the mask"
        );
        if self.events & event as u64 == 0 {
            return;
        }
        self.sink.send_event(match self.version {
            1 => {
                debug_assert!(
                    event as u64 <= u64::from(u16::MAX),
                    "version 1 has 16 bits of events"
                );
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
        });
    }

    /// Sends the last event and closes the sink.
    pub(crate) fn stop(self) {
        self.report(Event::Stopped, 0, "", "");
        self.sink.end();
    }
}
