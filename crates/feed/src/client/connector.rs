//! When a client connects, gives up, and reconnects.

use tidewire_retry::BackOff;

use super::{Client, ReceiveError, Side, Sink};

/// The next step for one side's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until [`Connector::deadline_ns`].
    Wait,
    /// Begin a connection, then call [`Connector::connecting`]; if that is impossible, call
    /// [`Connector::ended`].
    Connect,
    /// The connection attempt timed out: close it, then call [`Connector::ended`].
    GiveUp,
    /// The server is silent: unless unread bytes are waiting, close the connection and call
    /// [`Connector::ended`].
    Silent,
}

/// The connection of one [`Side`] of a [`Client`]: backoff with jitter, login, resumption.
///
/// ```text
///          ┌──────────── ended ◀──────────────┐
///   waiting ─ Connect ▶ connecting ─ connected ▶ standing: received, Client::drain_outgoing
/// ```
#[derive(Debug)]
pub struct Connector {
    side: Side,
    back_off: BackOff,
    state: ConnectorState,
    /// Connections that failed, or ended too soon, since one that lasted.
    failures: u32,
    /// When the present connection counts as one that lasts.
    lasts_from_ns: u64,
    /// Number of established connections.
    connections: u64,
    random: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectorState {
    Waiting { until_ns: u64 },
    Connecting { until_ns: u64 },
    Standing,
}

impl Connector {
    /// Creates a connector that connects at once. Clients with different seeds do not reconnect
    /// in step after an outage of their server.
    pub fn new(side: Side, back_off: BackOff, seed: u64) -> Connector {
        Connector {
            side,
            back_off,
            state: ConnectorState::Waiting { until_ns: 0 },
            failures: 0,
            lasts_from_ns: u64::MAX,
            connections: 0,
            random: seed,
        }
    }

    /// Returns the step to take now.
    pub fn step(&self, client: &Client, now_ns: u64) -> Step {
        match self.state {
            ConnectorState::Waiting { until_ns } if now_ns >= until_ns => Step::Connect,
            ConnectorState::Connecting { until_ns } if now_ns >= until_ns => Step::GiveUp,
            ConnectorState::Standing if client.is_silent(self.side, now_ns) => Step::Silent,
            _ => Step::Wait,
        }
    }

    /// Notes that a connection attempt has begun.
    pub fn connecting(&mut self, now_ns: u64) {
        let until_ns = now_ns.saturating_add(self.back_off.connect_ns_max);
        self.state = ConnectorState::Connecting { until_ns };
    }

    /// Notes that the connection is established: the client logs in and resumes the stream.
    pub fn connected(&mut self, client: &mut Client, now_ns: u64) {
        self.state = ConnectorState::Standing;
        self.lasts_from_ns = now_ns.saturating_add(self.back_off.delay_ns_max);
        self.connections += 1;
        client.connected(self.side, now_ns);
    }

    /// Receives bytes as [`Client::receive`] does.
    pub fn received<S: Sink>(
        &mut self,
        client: &mut Client,
        input: &[u8],
        now_ns: u64,
        sink: &mut S,
    ) -> Result<usize, ReceiveError> {
        let before = client.counters().messages;
        let used = client.receive(self.side, input, now_ns, sink)?;
        // Only new messages, or a packet after a while, prove that a feed answers, of a server that
        // has accepted the login. A wrong port is retried with backoff, and so is a server that
        // refuses the login, or that ends each connection soon after its answer or its snapshot.
        let is_long = used > 0 && now_ns >= self.lasts_from_ns;
        let has_more = client.counters().messages > before;
        if client.is_accepted(self.side) && (is_long || has_more) {
            self.failures = 0;
        }
        Ok(used)
    }

    /// Notes that the connection ended or failed. Returns whether it had been established.
    pub fn ended(&mut self, client: &mut Client, now_ns: u64) -> bool {
        let stood = self.is_standing();
        client.disconnected(self.side);
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let delay_ns = self.back_off.delay_ns(self.failures, self.random);
        let until_ns = now_ns.saturating_add(delay_ns);
        self.state = ConnectorState::Waiting { until_ns };
        self.failures = self.failures.saturating_add(1);
        stood
    }

    /// Returns when to call [`Connector::step`] even if nothing happens.
    pub fn deadline_ns(&self, client: &Client) -> u64 {
        match self.state {
            ConnectorState::Waiting { until_ns } | ConnectorState::Connecting { until_ns } => {
                until_ns
            }
            ConnectorState::Standing => client.deadline_ns(),
        }
    }

    /// Returns the side.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns whether the connection is established.
    pub fn is_standing(&self) -> bool {
        self.state == ConnectorState::Standing
    }

    /// Returns the number of established connections, the current one included.
    pub fn connections(&self) -> u64 {
        self.connections
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ClientConfig, NullSink};
    use crate::wire::{Control, LoginAccepted, PacketWriter, RefusalReason, RefusalText, Refused};

    #[test]
    fn who_is_gone_is_asked_soon_and_then_ever_less_up_to_every_two_seconds() {
        let back_off = BackOff {
            delay_ns_first: 10_000_000,
            ..BackOff::default()
        };
        for random in [1, 1_000_000_007, u64::MAX] {
            let delays = [0, 1, 5, 16, u32::MAX].map(|n| back_off.delay_ns(n, random));
            let ranges_ms = [5..=10, 10..=20, 160..=320, 1_000..=2_000, 1_000..=2_000];
            for (delay_ns, range_ms) in delays.iter().zip(ranges_ms) {
                assert!(range_ms.contains(&(delay_ns / 1_000_000)), "{delay_ns}");
            }
        }
    }

    #[test]
    fn connections_are_tried_soon_at_first_and_ever_more_seldom_with_jitter() {
        let mut client = Client::new(ClientConfig::default());
        let mut one = Connector::new(Side::A, BackOff::default(), 1);
        let mut other = Connector::new(Side::A, BackOff::default(), 2);
        let (mut delays_ns, mut now_ns) = (Vec::new(), 1);
        for _ in 0..20 {
            assert_eq!(one.step(&client, now_ns), Step::Connect);
            one.connecting(now_ns);
            assert_eq!(one.step(&client, now_ns), Step::Wait);
            assert!(!one.ended(&mut client, now_ns));
            other.ended(&mut client, now_ns);
            assert_ne!(one.deadline_ns(&client), other.deadline_ns(&client));
            delays_ns.push(one.deadline_ns(&client) - now_ns);
            now_ns = one.deadline_ns(&client);
        }
        assert!(delays_ns[0] <= BackOff::default().delay_ns_first);
        let max_ns = BackOff::default().delay_ns_max;
        assert!(delays_ns[19] >= max_ns / 2 && delays_ns[19] <= max_ns);
    }

    #[test]
    fn a_connection_that_does_not_come_about_or_falls_silent_is_given_up() {
        let mut client = Client::new(ClientConfig::default());
        let mut connector = Connector::new(Side::A, BackOff::default(), 1);
        connector.connecting(0);
        let late_ns = connector.deadline_ns(&client);
        assert_eq!(connector.step(&client, late_ns), Step::GiveUp);
        connector.ended(&mut client, late_ns);
        connector.connecting(late_ns);
        connector.connected(&mut client, late_ns);
        assert_eq!(connector.step(&client, late_ns), Step::Wait);
        let silent_ns = late_ns + 3_000_000_000;
        assert_eq!(connector.step(&client, silent_ns), Step::Silent);
        assert!(connector.ended(&mut client, silent_ns), "it had stood");
    }

    #[test]
    fn only_a_server_that_answers_for_a_while_ends_the_back_off() {
        let mut client = Client::new(ClientConfig::default());
        let mut connector = Connector::new(Side::A, BackOff::default(), 1);
        for _ in 0..12 {
            connector.connecting(0);
            connector.connected(&mut client, 0);
            connector.ended(&mut client, 0);
        }
        assert!(connector.deadline_ns(&client) > 1_000_000_000);
        connector.connected(&mut client, 0);
        let lasts_ns = BackOff::default().delay_ns_max;
        let mut bytes = Vec::new();
        let refused = Refused {
            reason: RefusalReason::WRONG_CREDENTIALS,
            ..Refused::default()
        };
        PacketWriter::control(&mut bytes, 1, &Control::Refused(refused));
        let used = connector.received(&mut client, &bytes, 0, &mut NullSink);
        assert_eq!(used, Ok(bytes.len()));
        connector.ended(&mut client, 0);
        assert!(connector.deadline_ns(&client) > 1_000_000_000, "refused");
        connector.connected(&mut client, 0);
        bytes.clear();
        let accepted = LoginAccepted {
            session: 1,
            heartbeat_interval_ms: 1_000,
            ..LoginAccepted::default()
        };
        PacketWriter::control(&mut bytes, 1, &Control::LoginAccepted(accepted));
        let used = connector.received(&mut client, &bytes, lasts_ns - 1, &mut NullSink);
        assert_eq!(used, Ok(bytes.len()));
        connector.ended(&mut client, 0);
        assert!(connector.deadline_ns(&client) > 1_000_000_000);
        connector.connected(&mut client, 0);
        let used = connector.received(&mut client, &bytes, lasts_ns, &mut NullSink);
        assert_eq!(used, Ok(bytes.len()));
        connector.ended(&mut client, 0);
        assert!(connector.deadline_ns(&client) <= BackOff::default().delay_ns_first);
    }

    /// A hub connected 400 times a second to a server that refused it.
    #[test]
    fn a_server_that_refuses_each_login_is_asked_ever_more_seldom() {
        let mut client = Client::new(ClientConfig::default());
        let mut connector = Connector::new(Side::A, BackOff::default(), 1);
        let mut bytes = Vec::new();
        let refused = Refused {
            reason: RefusalReason::DENIED,
            text: RefusalText::truncated("no peers\nfrom afar"),
        };
        PacketWriter::control(&mut bytes, 0, &Control::Refused(refused));
        let (mut now_ns, mut attempts) = (0, 0);
        while now_ns < 60_000_000_000 {
            assert_eq!(connector.step(&client, now_ns), Step::Connect);
            connector.connecting(now_ns);
            connector.connected(&mut client, now_ns);
            assert_eq!(client.refusal(Side::A), None, "of this connection");
            let used = connector.received(&mut client, &bytes, now_ns, &mut NullSink);
            assert_eq!(used, Ok(bytes.len()));
            connector.ended(&mut client, now_ns);
            let text = client.refusal(Side::A).map(ToString::to_string);
            let expected = "the server refused: no peers\\nfrom afar (reason 10)";
            assert_eq!(text.as_deref(), Some(expected));
            (now_ns, attempts) = (connector.deadline_ns(&client), attempts + 1);
        }
        assert!(attempts < 80, "{attempts} connections in a minute");
    }
}
