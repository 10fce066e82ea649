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
    /// Draft: the lengths of a peer's queues, both ways.
    PipesStats = 0x1_0000,
    /// Our own: above all that libzmq's masks for everything name.
    DropsBegin = crate::own_options::EVENT_DROPS_BEGIN,
}

/// The two ends of a connection, as endpoints are written; one that is not there is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) local: String,
    pub(crate) remote: String,
    /// This socket connected.
    pub(crate) is_ours: bool,
}

impl Ends {
    pub(crate) fn bound(name: &str) -> Ends {
        Ends {
            local: name.to_owned(),
            ..Ends::default()
        }
    }

    pub(crate) fn connecting(name: &str) -> Ends {
        Ends {
            remote: name.to_owned(),
            is_ours: true,
            ..Ends::default()
        }
    }

    /// The end that version 1 of the events names: where this socket is bound or connects to.
    fn name(&self) -> &str {
        match self.is_ours {
            true => &self.remote,
            false => &self.local,
        }
    }
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
    pub(crate) fn report(&self, event: Event, values: &[u64], ends: &Ends) {
        debug_assert!(
            (event as u64).is_power_of_two(),
            "an event is one bit of the mask"
        );
        if !self.wants(event) {
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
                let value = values.first().copied().unwrap_or_default();
                head.extend_from_slice(&(value as u32).to_ne_bytes());
                vec![head, ends.name().as_bytes().to_vec()]
            }
            _ => {
                let numbers = [event as u64, values.len() as u64];
                let numbers = numbers.iter().chain(values);
                let mut frames: Vec<_> =
                    numbers.map(|number| number.to_ne_bytes().into()).collect();
                frames.extend([&ends.local, &ends.remote].map(|end| end.as_bytes().to_vec()));
                frames
            }
        });
    }

    /// Whether it asked for this event.
    pub(crate) fn wants(&self, event: Event) -> bool {
        self.events & event as u64 != 0
    }

    /// Sends the last event and closes the sink.
    pub(crate) fn stop(self) {
        self.report(Event::Stopped, &[0], &Ends::default());
        self.sink.end();
    }
}
