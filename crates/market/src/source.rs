//! Native feeds that the hub reads over one or two connections.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Instant;

use tidewire_feed::client::{BackOff, Client, ClientConfig, Connector, Side, Step};
use tidewire_feed::server::Steps;
use tidewire_feed::wire::ClientName;
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tracing::{debug, info, warn};

use crate::ingest::Ingest;
use crate::inputs::FeedSource;
use crate::market::Market;
use tidewire_fanout::{Dispatch, Publication};
use tidewire_retry::LinkLog;

/// A native feed that the hub reads, over all its connections.
#[derive(Debug)]
pub struct Source {
    number: usize,
    /// The tag of its connections in the application.
    port: u16,
    source: FeedSource,
    client: Client,
    ingest: Ingest,
    /// One per side.
    inputs: Vec<SourceInput>,
    /// Whether the server has answered on at least one side.
    is_standing: bool,
    market: Arc<Market>,
}

#[derive(Debug)]
struct SourceInput {
    connector: Connector,
    connection: Option<ConnectionId>,
    log: LinkLog,
    /// Why this side closes its connection.
    reason: Option<String>,
}

impl Source {
    /// Creates the source with this number. Its connections have the tag `port` in the application.
    pub fn new(market: Arc<Market>, number: usize, source: FeedSource, port: u16) -> Self {
        let name = ClientName::truncated("tidewire");
        let mut client = Client::new(ClientConfig {
            name,
            credentials: source.credentials,
            ..ClientConfig::default()
        });
        // One pattern is far below every limit.
        let _ = client.subscribe("*");
        let writer = market.next_source_number();
        let seed = tidewire_lane::unix_ns() ^ writer << 1;
        let input = |side| SourceInput {
            connector: Connector::new(side, BackOff::default(), seed ^ side as u64),
            connection: None,
            log: LinkLog::default(),
            reason: None,
        };
        let ingest = Ingest::new(market.clone(), writer as u32, &source.to_string());
        let sides = if source.b.is_some() { 2 } else { 1 };
        Self {
            number,
            port,
            client,
            source,
            ingest,
            inputs: Side::ALL.into_iter().take(sides).map(input).collect(),
            is_standing: false,
            market,
        }
    }

    /// Returns its number among the configured sources.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns whether the connection belongs to this source.
    pub fn has(&self, id: ConnectionId) -> bool {
        self.inputs.iter().any(|input| input.connection == Some(id))
    }

    /// Publishes the latencies recorded so far.
    pub fn publish_latency(&mut self) {
        self.ingest.publish_latency();
    }

    /// Handles a new connection.
    pub fn connected(&mut self, context: &mut Context, id: ConnectionId) {
        let now_ns = context.now_ns();
        if let Some(index) = self.index(id) {
            let input = &mut self.inputs[index];
            input.connector.connected(&mut self.client, now_ns);
            self.flush(context);
        }
    }

    /// Handles received bytes. Returns how many were used, and the publication.
    pub fn received(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> (usize, Dispatch) {
        let Some(index) = self.index(id) else {
            return (input.len(), (Publication::default(), 0));
        };
        let mut batch = self.ingest.begin(tidewire_lane::unix_ns());
        let connector = &mut self.inputs[index].connector;
        let now_ns = context.now_ns();
        let result = connector.received(&mut self.client, input, now_ns, &mut batch);
        let news = batch.finish();
        self.flush(context);
        // Bytes that end the connection may have brought the answer and values before.
        self.note_answer(index);
        match result {
            Ok(consumed) => (consumed, news),
            Err(error) => {
                self.inputs[index].reason = Some(error.to_string());
                context.close(id, CloseReason::Requested);
                (input.len(), news)
            }
        }
    }

    /// Handles the end of a connection. Returns the publication.
    pub fn closed(&mut self, context: &Context, id: ConnectionId, reason: CloseReason) -> Dispatch {
        let nothing = (Publication::default(), 0);
        let Some(index) = self.index(id) else {
            return nothing;
        };
        let input = &mut self.inputs[index];
        debug_assert_eq!(input.connection, Some(id), "it was found by its connection");
        input.connection = None;
        let refusal = match input.connector.ended(&mut self.client, context.now_ns()) {
            true => self.client.refusal(input.connector.side()).copied(),
            false => None,
        };
        let had_answered = input.log.has_answered();
        let failure = || {
            let own = context.failure().map(str::to_owned);
            own.or_else(|| refusal.map(|refused| refused.to_string()))
                .unwrap_or_else(|| reason.text())
        };
        let why = input.reason.take().unwrap_or_else(failure);
        let due = match refusal {
            Some(refused) => input.log.ends_because(Instant::now(), refused.reason.0),
            None => input.log.ends(Instant::now()),
        };
        if let Some((times, lasts)) = due
            && reason != CloseReason::Stopping
        {
            let (side, seconds) = (input.connector.side(), lasts.as_secs());
            let text = match had_answered {
                true => "disconnected; reconnecting",
                false => "cannot connect; retrying",
            };
            warn!(source = %self.source, ?side, reason = %why, attempts = times, seconds, "{text}");
        }
        // While the other input is connected, no message is missing.
        if !had_answered || self.inputs.iter().any(|input| input.log.has_answered()) {
            return nothing;
        }
        self.set_standing(false);
        if reason == CloseReason::Stopping {
            return nothing;
        }
        self.ingest.lose(context.unix_ns())
    }

    /// Notes that the server has accepted the login on a side. A connection alone is no answer: the
    /// machine of a server that hangs still accepts it.
    fn note_answer(&mut self, index: usize) {
        let input = &mut self.inputs[index];
        let side = input.connector.side();
        if input.log.has_answered() || !self.client.is_accepted(side) {
            return;
        }
        if input.log.answers(Instant::now()) {
            info!(source = %self.source, ?side, "connected");
        }
        if !self.is_standing {
            self.set_standing(true);
        }
    }

    /// Notes whether the server answers, for readiness checks.
    fn set_standing(&mut self, on: bool) {
        debug_assert!(!self.inputs.is_empty(), "a source has a side at least");
        self.is_standing = on;
        let mut standing = self.market.ingest.standing.lock();
        match on {
            true => standing.insert(self.number),
            false => standing.remove(&self.number),
        };
    }

    /// Returns whether [`Source::sweep`] has something to do.
    pub fn is_sweeping(&self) -> bool {
        self.ingest.is_sweeping()
    }

    /// Goes on with what an event of the source does to all its topics, as far as `steps` goes.
    /// Returns the publication.
    pub fn sweep(&mut self, context: &Context, steps: &mut Steps) -> Dispatch {
        self.ingest.sweep(steps, context.unix_ns())
    }

    /// Connects if it is time, and handles the protocol's timeouts.
    pub fn turn(&mut self, context: &mut Context) -> Dispatch {
        let now_ns = context.now_ns();
        for index in 0..self.inputs.len() {
            let SourceInput {
                connector,
                connection,
                ..
            } = &self.inputs[index];
            match (connector.step(&self.client, now_ns), *connection) {
                (Step::Connect, None) => self.connect(context, index),
                (Step::GiveUp, Some(id)) => {
                    context.close(id, CloseReason::ConnectFailed(ErrorKind::TimedOut));
                }
                // On an overloaded lane, received bytes may still be unread.
                (Step::Silent, Some(id)) if !context.has_unread(id) => {
                    self.inputs[index].reason = Some("no data from the server".to_owned());
                    context.close(id, CloseReason::Requested);
                }
                _ => {}
            }
        }
        if self.client.deadline_ns() > now_ns {
            return (Publication::default(), 0);
        }
        let mut batch = self.ingest.begin(context.unix_ns());
        self.client.handle_timeout(now_ns, &mut batch);
        let news = batch.finish();
        self.flush(context);
        news
    }

    /// Returns when [`Source::turn`] has something to do, monotonic ns.
    pub fn deadline_ns(&self) -> u64 {
        let deadlines = self.inputs.iter();
        let deadlines = deadlines.map(|input| input.connector.deadline_ns(&self.client));
        deadlines.min().unwrap_or(u64::MAX)
    }

    fn index(&self, id: ConnectionId) -> Option<usize> {
        let mut inputs = self.inputs.iter();
        inputs.position(|input| input.connection == Some(id))
    }

    fn connect(&mut self, context: &mut Context, index: usize) {
        let SourceInput {
            connector,
            connection,
            ..
        } = &mut self.inputs[index];
        let address = match connector.side() {
            Side::A => self.source.a,
            Side::B => self.source.b.unwrap_or(self.source.a),
        };
        connector.connecting(context.now_ns());
        let host = self.source.tls_hosts[connector.side().index()].as_deref();
        let connected = match (host, self.market.config.connector.current()) {
            (None, _) => context.connect(address, self.port),
            (Some(host), Some(client)) => context.connect_secure(address, self.port, &client, host),
            (Some(_), None) => Err(std::io::Error::other("no TLS settings are loaded")),
        };
        match connected {
            Ok(id) => {
                debug_assert!(connection.is_none(), "a side has one connection");
                *connection = Some(id);
            }
            Err(error) => {
                debug!(source = %self.source, %error, "cannot connect");
                connector.ended(&mut self.client, context.now_ns());
            }
        }
    }

    fn flush(&mut self, context: &mut Context) {
        for input in &self.inputs {
            let side = input.connector.side();
            if self.client.has_outgoing(side)
                && let Some(id) = input.connection
                && let Some(out) = context.out(id)
            {
                self.client.drain_outgoing(side, out.buffer());
            }
        }
    }
}
