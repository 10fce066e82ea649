//! Web pages, and programs that speak their protocol (docs/web-protocol.md): HTTP requests, and a
//! stream by WebSocket.

mod calls;
mod heard;
mod log;
mod logins;
mod metrics;
mod pages;
mod reply;
mod stream;
mod turn;
mod view;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidewire_fanout::Fanout;
use tidewire_lane::{CloseReason, ConnectionId, Context, Peer};
use tidewire_redis::{Identity, LaneParts, OtherClient, PageState, Proof, User, is_loopback};
use tidewire_web::http::{self, Read, Reply};
use tidewire_web::websocket::CloseCode;

use crate::hub::Hub;
use logins::{LoginMark, Logins, Token};
use metrics::MetricsPage;
pub use metrics::WebMail;
pub(crate) use metrics::WebNews;
use stream::Stream;

pub(crate) use turn::{LaneTurn, WebLane};

/// What the web sessions of all lanes share.
#[derive(Debug, Default)]
pub(crate) struct Web {
    logins: Logins,
    metrics: MetricsPage,
    pub(crate) counters: WebCounters,
}

/// Counters of the web port.
#[derive(Debug, Default)]
pub(crate) struct WebCounters {
    /// Open connections.
    pub(crate) connections: AtomicU64,
    /// Those of them that are streams.
    pub(crate) streams: AtomicU64,
    /// Subscriptions of the streams.
    pub(crate) subscriptions: AtomicU64,
    /// Topics that pages follow, summed over the lanes.
    pub(crate) topics: AtomicU64,
    /// HTTP requests answered.
    pub(crate) requests: AtomicU64,
    /// Messages with rows.
    pub(crate) batches: AtomicU64,
    /// Rows in them.
    pub(crate) rows: AtomicU64,
    /// Updates of which a page was told only a later one.
    pub(crate) conflated: AtomicU64,
    /// Commands of pages.
    pub(crate) calls: AtomicU64,
}

/// What a session needs of its lane.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub(crate) hub: &'a Arc<Hub>,
    pub(crate) lane: LaneParts<'a>,
    pub(crate) context: &'a mut Context,
    /// Connections that the session has opened, each with the session's own.
    pub(crate) opened: Vec<(ConnectionId, ConnectionId)>,
    /// Why commands are refused, if a script holds the lane: it has run for too long.
    pub(crate) busy: Option<&'static str>,
}

/// A client of the web port.
#[derive(Debug)]
pub(crate) struct WebSession {
    id: ConnectionId,
    identity: Identity,
    /// Where the client is; `None` for a Unix socket.
    address: Option<IpAddr>,
    is_secure: bool,
    /// When it last sent something, or its last whole HTTP request, monotonic ns.
    heard_ns: u64,
    /// Whether a PING waits for its answer.
    is_pinged: bool,
    /// Its unread output at the last sweep.
    unread_bytes: usize,
    /// The metrics page that it has asked for, once that is made.
    metrics: Option<Arc<str>>,
    /// The login that its stream was opened with.
    login: Option<LoginMark>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Http,
    Stream(Box<Stream>),
    /// Its last output is sent, and nothing more is read.
    Ending,
}

/// What became of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// So many bytes were used.
    Used(usize),
    /// More bytes are needed.
    Incomplete,
    /// Nothing more may be taken now.
    Waits,
    /// The connection ends.
    Ends,
}

impl WebSession {
    pub(crate) fn new(
        (id, client): (ConnectionId, Arc<OtherClient>),
        peer: &Peer,
        context: &Context,
    ) -> Self {
        Self {
            id,
            identity: Identity::new(client, "web", false),
            address: match peer {
                Peer::Tcp(address) => Some(address.ip()),
                Peer::Local => None,
            },
            is_secure: context.is_secure(id),
            heard_ns: context.now_ns(),
            is_pinged: false,
            unread_bytes: 0,
            metrics: None,
            login: None,
            stage: Stage::Http,
        }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    pub(crate) fn address(&self) -> &str {
        self.identity.address()
    }

    /// Takes input. Returns the number of bytes used.
    pub(crate) fn received(&mut self, around: &mut Around<'_>, input: &[u8]) -> usize {
        if matches!(self.stage, Stage::Stream(_)) {
            self.heard_ns = around.context.now_ns();
            self.is_pinged = false;
        }
        let mut consumed = 0;
        let mut has_subscribed = false;
        while consumed < input.len() {
            if around.context.out_bytes(self.id) > UNREAD_BYTES_MAX {
                // It asks and does not read: it is asked to read first.
                around.context.pause(self.id);
                break;
            }
            let rest = &input[consumed..];
            let taken = match &mut self.stage {
                Stage::Http => self.take_request(around, rest),
                Stage::Stream(stream) => {
                    let mut page = stream::Page {
                        id: self.id,
                        identity: &mut self.identity,
                        address: self.address,
                        login: &mut self.login,
                    };
                    stream.take(&mut page, around, rest, &mut has_subscribed)
                }
                Stage::Ending => return input.len(),
            };
            match taken {
                Taken::Used(count) => {
                    // A request that comes octet by octet has a limited time as a whole.
                    self.heard_ns = around.context.now_ns();
                    consumed += count;
                }
                Taken::Incomplete | Taken::Waits => break,
                Taken::Ends => {
                    self.end(around);
                    return input.len();
                }
            }
        }
        if has_subscribed {
            around.lane.fanout.pump(around.context, self.id);
        }
        debug_assert!(consumed <= input.len(), "a session uses what came");
        consumed
    }

    /// Sends what is written, and ends the connection.
    fn end(&mut self, around: &mut Around<'_>) {
        if let Stage::Stream(stream) = std::mem::replace(&mut self.stage, Stage::Ending) {
            stream.leave(self.id, around.hub, around.lane.fanout, around.context);
        }
        around
            .context
            .close_after_flush(self.id, CloseReason::Requested);
    }

    fn take_request(&mut self, around: &mut Around<'_>, input: &[u8]) -> Taken {
        let request = match http::read(input) {
            Read::Incomplete => return Taken::Incomplete,
            Read::Request(request) => request,
            Read::Refused(refusal) => {
                let text = refusal.status();
                if let Some(out) = around.context.out(self.id) {
                    out.buffer()
                        .extend_from_slice(&crate::refusals::http(text, text));
                }
                return Taken::Ends;
            }
        };
        pages::answer(self, around, &request)
    }

    /// The metrics page that it waits for is made.
    pub(crate) fn take_metrics(&mut self, context: &mut Context, metrics: Arc<str>) {
        self.metrics = Some(metrics);
        context.release(self.id);
    }

    /// Takes replies of the page's Redis session.
    pub(crate) fn replied(&mut self, context: &mut Context, input: &[u8]) -> usize {
        match &mut self.stage {
            Stage::Stream(stream) => stream.replied(self.id, context, input),
            Stage::Http | Stage::Ending => input.len(),
        }
    }

    /// The connection to the page's Redis session has ended.
    pub(crate) fn calls_ended(&mut self, context: &mut Context, near: ConnectionId) {
        if let Stage::Stream(stream) = &mut self.stage {
            stream.calls_ended(self.id, context, near);
        }
    }

    /// The client has read.
    pub(crate) fn drained(&mut self, context: &mut Context, fanout: &mut Fanout) {
        if let Stage::Stream(stream) = &mut self.stage {
            stream.drained(self.id, context, fanout);
        }
    }

    /// Handles a change of users: a stream whose user's rights have changed ends, and its page
    /// connects again.
    pub(crate) fn users_changed(&mut self, hub: &Hub, fanout: &mut Fanout, context: &mut Context) {
        if !self.identity.is_somebody() || !self.identity.look(&hub.server.access) {
            return;
        }
        if matches!(self.stage, Stage::Stream(_)) {
            self.end_for(hub, fanout, context, stream::RIGHTS_CHANGED);
        }
    }

    /// CLIENT KILL: ends the connection, and says so to a stream.
    pub(crate) fn kill(&mut self, hub: &Hub, fanout: &mut Fanout, context: &mut Context) {
        self.end_for(hub, fanout, context, stream::KILLED);
    }

    /// A login has ended: ends the stream that was opened with it.
    pub(crate) fn logged_out(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        context: &mut Context,
        login: Token,
    ) {
        if self.login.is_some_and(|own| own.token == login) {
            self.end_for(hub, fanout, context, stream::LOGGED_OUT);
        }
    }

    fn end_for(
        &mut self,
        hub: &Hub,
        fanout: &mut Fanout,
        context: &mut Context,
        why: (CloseCode, &str),
    ) {
        if let Stage::Stream(stream) = std::mem::replace(&mut self.stage, Stage::Ending) {
            stream.say_close(self.id, context, why);
            stream.leave(self.id, hub, fanout, context);
        }
        context.close_after_flush(self.id, CloseReason::Requested);
    }

    /// Notes the state of a stream for CLIENT LIST and the memory limit of clients, and ends what
    /// has lasted too long: silent clients, and logins at their time.
    pub(crate) fn sweep(&mut self, hub: &Hub, fanout: &mut Fanout, context: &mut Context) {
        if self
            .login
            .is_some_and(|login| context.now_ns() >= login.until_ns)
        {
            self.login = None;
            self.end_for(hub, fanout, context, stream::LOGGED_OUT);
        }
        let silent_ns = context.now_ns().saturating_sub(self.heard_ns);
        let active_unix_ns = context.unix_ns().saturating_sub(silent_ns);
        let pending_bytes = context.out_bytes(self.id) as u64;
        let state = match &self.stage {
            Stage::Stream(stream) => stream.state(self.id, &fanout.rows, context, active_unix_ns),
            // What the stream had is gone. What is written for it stays until it has read.
            Stage::Http | Stage::Ending => PageState {
                active_unix_ns,
                pending_bytes,
                memory_bytes: pending_bytes,
                ..PageState::default()
            },
        };
        self.identity.note_page(&hub.server, state);
        let unread_bytes = context.out_bytes(self.id);
        let before = std::mem::replace(&mut self.unread_bytes, unread_bytes);
        let is_silent = context.now_ns().saturating_sub(self.heard_ns) >= PING_NS;
        // One that is not read, because of its commands or its output, cannot be heard.
        let is_alive = || unread_bytes < before || (before == 0 && context.has_unread(self.id));
        if is_silent && matches!(self.stage, Stage::Stream(_)) && is_alive() {
            self.heard_ns = context.now_ns();
            self.is_pinged = false;
        }
        self.timeout(context);
    }

    /// Ends clients that say nothing.
    fn timeout(&mut self, context: &mut Context) {
        let silent_ns = context.now_ns().saturating_sub(self.heard_ns);
        match &self.stage {
            Stage::Stream(stream) if silent_ns >= PING_NS && !self.is_pinged => {
                self.is_pinged = true;
                stream.ping(self.id, context);
            }
            Stage::Stream(_) if silent_ns < PING_NS + PONG_NS => {}
            Stage::Http if silent_ns < HTTP_SILENCE_NS => {}
            Stage::Ending => {}
            Stage::Stream(_) | Stage::Http => context.close(self.id, CloseReason::Requested),
        }
    }

    /// The hub ends.
    pub(crate) fn stopping(&mut self, context: &mut Context) {
        if let Stage::Stream(stream) = &self.stage {
            stream.say_close(self.id, context, stream::STOPPING);
        }
    }

    /// The connection has ended.
    pub(crate) fn closed(self, hub: &Hub, fanout: &mut Fanout, context: &mut Context) {
        if let Stage::Stream(stream) = self.stage {
            stream.leave(self.id, hub, fanout, context);
        }
    }

    /// Returns whether the page has views, the log or names to let go, which are looked at in each
    /// turn.
    pub(crate) fn is_watching(&self) -> bool {
        matches!(&self.stage, Stage::Stream(stream) if stream.is_watching())
    }

    fn stream(&mut self) -> Option<&mut Stream> {
        match &mut self.stage {
            Stage::Stream(stream) => Some(stream),
            Stage::Http | Stage::Ending => None,
        }
    }

    /// Returns the user of a request: that of its cookie, its credentials or its certificate, or
    /// the user of clients without any. `Err` has the response to wrong credentials.
    fn user_of(
        &self,
        around: &Around<'_>,
        headers: http::Headers<'_>,
    ) -> Result<Option<Arc<User>>, Denied> {
        let (hub, context) = (around.hub, &*around.context);
        let now_ns = context.now_ns();
        if let Some(user) = pages::cookie(headers).and_then(|one| hub.web.logins.find(one, now_ns))
        {
            return Ok(Some(user));
        }
        if let Some((name, password)) = pages::credentials(headers) {
            return self.log_in(around, (&name, &password)).map(Some);
        }
        let server = &hub.server;
        let certified = server.user_of_certificate(context, self.id, self.address());
        if certified.is_none() && server.access.requires_password() {
            // Not an attempt to log in.
            return Ok(None);
        }
        let has_certificate = context.peer_names(self.id).is_some();
        let proof = Proof::Nothing { certified };
        let admitted = self.identity.admit(server, "web", &proof, has_certificate);
        Ok(admitted.ok())
    }

    fn log_in(
        &self,
        around: &Around<'_>,
        (name, password): (&[u8], &[u8]),
    ) -> Result<Arc<User>, Denied> {
        let has_certificate = around.context.peer_names(self.id).is_some();
        log_in(
            around,
            &self.identity,
            (self.address, has_certificate),
            (name, password),
        )
    }
}

/// Why a login fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denied {
    /// Name or password are wrong.
    Wrong,
    /// Too many attempts; wait so many seconds.
    Later(u64),
}

/// Returns the user with this name and password.
fn log_in(
    around: &Around<'_>,
    identity: &Identity,
    (address, has_certificate): (Option<IpAddr>, bool),
    (name, password): (&[u8], &[u8]),
) -> Result<Arc<User>, Denied> {
    let (hub, now_ns) = (around.hub, around.context.now_ns());
    let logins = &hub.web.logins;
    if let Some(seconds) = address.and_then(|address| logins.refuses(address, now_ns)) {
        return Err(Denied::Later(seconds));
    }
    let proof = Proof::Password { name, password };
    let admitted = identity.admit(&hub.server, "web", &proof, has_certificate);
    admitted.map_err(|_| {
        if let Some(address) = address {
            logins.note_failed(address, now_ns);
        }
        Denied::Wrong
    })
}

/// Returns whether a text is an address of this machine or its name.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(is_loopback)
}

/// Appends a response with the headers that every response has.
fn write_reply(reply: &Reply<'_>, has_body: bool, keeps_alive: bool, out: &mut Vec<u8>) {
    let headers = format!("{}{SECURITY}", reply.headers);
    let reply = Reply {
        headers: &headers,
        ..*reply
    };
    reply.write(has_body, keeps_alive, out);
}

/// Headers against scripts and frames of others.
const SECURITY: &str = "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; \
    base-uri 'none'; form-action 'self'\r\nX-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n";
/// Unread bytes of a client above which it gets no more, and nothing more is read from it.
const UNREAD_BYTES_MAX: usize = 1 << 20;
/// A stream that is silent for so long is sent a PING.
const PING_NS: u64 = 30_000_000_000;
/// And ends if nothing comes for so long then.
const PONG_NS: u64 = 30_000_000_000;
/// A connection without a stream that is silent for so long ends.
const HTTP_SILENCE_NS: u64 = 30_000_000_000;
