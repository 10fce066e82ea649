//! The stream of a page: requests in, rows and replies out (docs/web-protocol.md).

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use tidewire_fanout::{Fanout, Kind};
use tidewire_lane::{ConnectionId, Context};
use tidewire_redis::{Identity, PageState, earlier};
use tidewire_rows::json::write_text;
use tidewire_rows::request::{Flaw, Log as LogRequest, Request, View as ViewRequest, parse};
use tidewire_rows::{SUBSCRIPTIONS_MAX, Selection, TOPICS_MAX, Table, msgpack};
use tidewire_web::websocket::{CloseCode, Message, Opcode, Receiver, write_close, write_message};

use super::calls::Calls;
use super::heard::{Heard, names_of};
use super::log::Log;
use super::logins::LoginMark;
use super::reply::{split_error, write_error};
use super::view::{Step, View};
use super::{Around, Denied, Taken, log_in};
use crate::hub::Hub;
use crate::log_lines::LogLines;

/// The subprotocols: JSON, which is also meant by a client that names none, and MessagePack.
pub(super) const PROTOCOLS: [&str; 2] = ["tidewire.json.1", "tidewire.msgpack.1"];
/// The rights of the user have changed.
pub(super) const RIGHTS_CHANGED: (CloseCode, &str) = (
    CloseCode::Policy,
    "the rights of the user have changed: connect again",
);
/// CLIENT KILL.
pub(super) const KILLED: (CloseCode, &str) = (
    CloseCode::Killed,
    "an administrator has ended the connection",
);
/// The login of the page has ended.
pub(super) const LOGGED_OUT: (CloseCode, &str) =
    (CloseCode::LoggedOut, "the login has ended: log in again");
/// The hub ends.
pub(super) const STOPPING: (CloseCode, &str) = (CloseCode::GoingAway, "the hub is stopping");

/// A page's stream.
#[derive(Debug)]
pub(super) struct Stream {
    receiver: Receiver,
    is_packed: bool,
    calls: Calls,
    /// Whether the page is not read because it has too many commands under way.
    is_held: bool,
    /// The channels and patterns of its subscriptions.
    heard: Heard,
    /// Numbers of the subscriptions.
    numbers: Vec<u64>,
    /// Subscriptions whose batch waits until the page has read.
    stalled: Vec<u64>,
    /// Those of the subscriptions that are views.
    views: Vec<View>,
    /// The log lines that it follows.
    log: Option<Log>,
}

/// Whose stream it is.
#[derive(Debug)]
pub(super) struct Page<'s> {
    pub(super) id: ConnectionId,
    pub(super) identity: &'s mut Identity,
    pub(super) address: Option<IpAddr>,
    /// The login that the stream was opened with.
    pub(super) login: &'s mut Option<LoginMark>,
}

impl Stream {
    /// Begins behind the response to the upgrade.
    pub(super) fn begin(
        id: ConnectionId,
        identity: &Identity,
        around: &mut Around<'_>,
        is_packed: bool,
    ) -> Self {
        let web = &around.hub.web;
        web.counters.streams.fetch_add(1, Ordering::Relaxed);
        let stream = Self {
            receiver: Receiver::new(MESSAGE_BYTES_MAX),
            is_packed,
            calls: Calls::default(),
            is_held: false,
            heard: Heard::default(),
            numbers: Vec::new(),
            stalled: Vec::new(),
            views: Vec::new(),
            log: None,
        };
        let mut json = br#"{"hello":1,"server":"Tidewire "#.to_vec();
        json.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
        json.extend_from_slice(b"\",\"run\":");
        write_text(&mut json, web.logins.run.as_bytes());
        json.extend_from_slice(b",\"user\":");
        match identity.user() {
            Some(user) => write_text(&mut json, user.name_bytes()),
            None => json.extend_from_slice(b"null"),
        }
        let limits = format!(
            ",\"limits\":{{\"message_bytes\":{MESSAGE_BYTES_MAX},\
             \"subscriptions\":{SUBSCRIPTIONS_MAX},\"topics\":{TOPICS_MAX}}}}}"
        );
        json.extend_from_slice(limits.as_bytes());
        send(id, around.context, is_packed, &json);
        stream
    }

    /// Takes the next frame of the input.
    pub(super) fn take(
        &mut self,
        page: &mut Page<'_>,
        around: &mut Around<'_>,
        input: &[u8],
        has_subscribed: &mut bool,
    ) -> Taken {
        if self.calls.is_full() && around.busy.is_none() {
            self.is_held = true;
            around.context.hold(page.id);
            return Taken::Waits;
        }
        let (count, message) = match self.receiver.receive(input) {
            Ok(Some(taken)) => taken,
            Ok(None) => return Taken::Incomplete,
            Err(code) => {
                self.say_close(page.id, around.context, (code, ""));
                return Taken::Ends;
            }
        };
        let request = match (message, self.is_packed) {
            (Message::Text(text), false) => parse(text),
            (Message::Binary(packed), true) => {
                let mut text = Vec::new();
                match msgpack::decode(packed, &mut text) {
                    Ok(()) => parse(&text),
                    Err(_) => Err(NOT_MESSAGEPACK),
                }
            }
            (Message::Text(_) | Message::Binary(_), _) => {
                let reason = (CloseCode::Unsupported, "not the type of message agreed on");
                self.say_close(page.id, around.context, reason);
                return Taken::Ends;
            }
            (Message::Ping(payload), _) => {
                if let Some(out) = around.context.out(page.id) {
                    write_message(Opcode::Pong, payload, out.buffer());
                }
                return Taken::Used(count);
            }
            (Message::Part | Message::Pong, _) => return Taken::Used(count),
            (Message::Close(payload), _) => {
                if let Some(out) = around.context.out(page.id) {
                    write_message(Opcode::Close, payload, out.buffer());
                }
                return Taken::Ends;
            }
        };
        match request {
            Ok((number, request)) => {
                self.serve(page, around, (number, request), has_subscribed);
            }
            Err(flaw) => self.refuse(page.id, around.context, flaw.number, ("SYNTAX", flaw.text)),
        }
        Taken::Used(count)
    }

    fn serve(
        &mut self,
        page: &mut Page<'_>,
        around: &mut Around<'_>,
        (number, request): (u64, Request),
        has_subscribed: &mut bool,
    ) {
        let id = page.id;
        if !page.identity.is_somebody() && !matches!(request, Request::Login { .. }) {
            let text = "Authentication required.";
            return self.refuse(id, around.context, number, ("NOAUTH", text));
        }
        if let Some(busy) = around.busy
            && matches!(request, Request::Subscribe { .. } | Request::View(_))
        {
            // Their first values would have to wait for the script.
            return self.refuse_as(id, around.context, number, busy);
        }
        match request {
            Request::Subscribe {
                topics,
                fields,
                hz,
                is_short,
            } => {
                let topics: Vec<&[u8]> = topics.iter().map(|topic| &topic[..]).collect();
                let selection = Selection::new(topics, fields.as_deref(), hz).short(is_short);
                self.subscribe(page, around, (number, selection), false);
                *has_subscribed = true;
            }
            Request::View(request) => {
                self.view(page, around, number, request);
                *has_subscribed = true;
            }
            Request::Next => {
                if let Some(view) = self.views.iter_mut().find(|view| view.number == number) {
                    return view.next();
                }
                if let Some(log) = self.log.as_mut().filter(|log| log.number == number) {
                    return log.next();
                }
                let place = (id.index(), number);
                if !around.lane.fanout.rows.next(place) {
                    let text = "no such subscription";
                    self.refuse(id, around.context, number, ("ERR", text));
                }
            }
            Request::End => {
                self.end_subscription(id, around.lane.fanout, around.hub, number);
                self.log.take_if(|log| log.number == number);
                self.done(id, around.context, number);
            }
            Request::Do(command) => self.call(page, around, number, &command),
            Request::Set { topic, value } => {
                self.call(page, around, number, &[b"SET".to_vec(), topic, value]);
            }
            Request::Publish { topic, value } => {
                self.call(page, around, number, &[b"PUBLISH".to_vec(), topic, value]);
            }
            Request::Login { user, password } => {
                self.log_in(page, around, number, (&user, &password));
            }
            Request::Log(request) => self.follow_log(page, around, number, &request),
        }
    }

    /// Runs a command. While a script holds the lane, the page's Redis session may wait for it, and
    /// so the answer comes from here: an error, but for the two commands that end the script.
    fn call(
        &mut self,
        page: &mut Page<'_>,
        around: &mut Around<'_>,
        number: u64,
        command: &[Vec<u8>],
    ) {
        let counters = &around.hub.web.counters;
        counters.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(busy) = around.busy {
            return match killing(command) {
                Some((words, is_function)) => {
                    let server = &around.hub.server;
                    let may = page.identity.check(server, words);
                    let killed = may
                        .and_then(|()| server.kill_script(is_function).map_err(ToOwned::to_owned));
                    match killed {
                        Ok(()) => self.done(page.id, around.context, number),
                        Err(text) => self.refuse_as(page.id, around.context, number, &text),
                    }
                }
                None => self.refuse_as(page.id, around.context, number, busy),
            };
        }
        let whose = (page.id, &*page.identity);
        if let Err((code, text)) = self.calls.send(around, whose, number, command) {
            self.refuse(page.id, around.context, number, (code, &text));
        }
    }

    fn view(
        &mut self,
        page: &mut Page<'_>,
        around: &mut Around<'_>,
        number: u64,
        request: ViewRequest,
    ) {
        let topics: Vec<&[u8]> = request.topics.iter().map(|topic| &topic[..]).collect();
        let selection = Selection::new(topics, request.fields.as_deref(), request.hz);
        let selection = selection.short(request.is_short);
        let interval_ns = selection.interval_ns();
        let mut views = self.views.iter_mut();
        if let Some(view) = views.find(|view| view.number == number && view.has_topics_of(&request))
        {
            return view.move_to(request, interval_ns);
        }
        if self.subscribe(page, around, (number, selection), true) {
            self.views.push(View::new(number, request, interval_ns));
        }
    }

    /// Begins to tell the page of log lines. They tell of other users and their keys, so the right
    /// is that of MONITOR.
    fn follow_log(
        &mut self,
        page: &mut Page<'_>,
        around: &mut Around<'_>,
        number: u64,
        request: &LogRequest,
    ) {
        if let Err(text) = page.identity.check(&around.hub.server, &[b"monitor"]) {
            return self.refuse_as(page.id, around.context, number, &text);
        }
        match Log::new(number, request, &around.hub.config.web.log_lines) {
            Ok(log) => {
                self.end_subscription(page.id, around.lane.fanout, around.hub, number);
                self.log = Some(log);
            }
            Err(text) => self.refuse(page.id, around.context, number, ("SYNTAX", text)),
        }
    }

    /// Begins a subscription or a view. Returns whether that was possible.
    fn subscribe(
        &mut self,
        page: &mut Page<'_>,
        around: &mut Around<'_>,
        (number, selection): (u64, Selection),
        is_view: bool,
    ) -> bool {
        let id = page.id;
        let server = &around.hub.server;
        let names = names_of(&selection);
        for (kind, name) in &names {
            let command: &[u8] = match kind {
                Kind::Pattern => b"psubscribe",
                _ => b"subscribe",
            };
            if let Err(text) = page.identity.check(server, &[command, name]) {
                self.refuse_as(id, around.context, number, &text);
                return false;
            }
        }
        self.end_subscription(id, around.lane.fanout, around.hub, number);
        self.log.take_if(|log| log.number == number);
        let fanout = &mut *around.lane.fanout;
        let begun = match is_view {
            true => fanout.rows.subscribe_view(id.index(), number, selection),
            false => fanout.rows.subscribe(id.index(), number, selection),
        };
        if begun.is_err() {
            let text = "the stream has its maximum of subscriptions";
            self.refuse(id, around.context, number, ("LIMIT", text));
            return false;
        }
        self.numbers.push(number);
        let counter = &around.hub.web.counters.subscriptions;
        counter.fetch_add(1, Ordering::Relaxed);
        if self.heard.add(id, fanout, &names).is_err() {
            fanout.rows.unsubscribe((id.index(), number));
            self.numbers.retain(|other| *other != number);
            counter.fetch_sub(1, Ordering::Relaxed);
            let text = "the server has its maximum of subscriptions";
            self.refuse(id, around.context, number, ("LIMIT", text));
            return false;
        }
        true
    }

    fn end_subscription(&mut self, id: ConnectionId, fanout: &mut Fanout, hub: &Hub, number: u64) {
        let place = (id.index(), number);
        let Some(selection) = fanout.rows.unsubscribe(place) else {
            return;
        };
        self.heard.end(id, fanout, selection);
        self.numbers.retain(|other| *other != number);
        self.views.retain(|view| view.number != number);
        let counter = &hub.web.counters.subscriptions;
        let before = counter.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a subscription that ends was counted");
    }

    fn log_in(
        &mut self,
        page: &mut Page<'_>,
        around: &mut Around<'_>,
        number: u64,
        (user, password): (&[u8], &[u8]),
    ) {
        let id = page.id;
        let has_certificate = around.context.peer_names(id).is_some();
        let whence = (page.address, has_certificate);
        match log_in(around, page.identity, whence, (user, password)) {
            Ok(user) => {
                // What the page had belongs to the user that it was.
                *page.login = None;
                self.log = None;
                for number in self.numbers.clone() {
                    self.end_subscription(id, around.lane.fanout, around.hub, number);
                }
                let is_packed = self.is_packed;
                let ended = ("UNKNOWN", "the page has logged in as another user");
                let mut out = |context: &mut Context, json: &[u8]| {
                    send(id, context, is_packed, json);
                };
                self.calls.end(around.context, ended, &mut out);
                page.identity.become_user(&around.hub.server.access, user);
                self.done(id, around.context, number);
            }
            Err(Denied::Wrong) => {
                let text = "invalid username-password pair or user is disabled.";
                self.refuse(id, around.context, number, ("WRONGPASS", text));
            }
            Err(Denied::Later(seconds)) => {
                let text = format!("too many failed logins: try again in {seconds} s");
                self.refuse(id, around.context, number, ("LIMIT", &text));
            }
        }
    }

    fn done(&self, id: ConnectionId, context: &mut Context, number: u64) {
        let json = format!("{{\"done\":{number},\"reply\":\"OK\"}}");
        send(id, context, self.is_packed, json.as_bytes());
    }

    fn refuse(
        &self,
        id: ConnectionId,
        context: &mut Context,
        number: u64,
        (code, text): (&str, &str),
    ) {
        let mut json = Vec::new();
        write_error(number, code.as_bytes(), text.as_bytes(), &mut json);
        send(id, context, self.is_packed, &json);
    }

    /// Refuses with the text of a Redis error.
    fn refuse_as(&self, id: ConnectionId, context: &mut Context, number: u64, text: &str) {
        let (code, text) = split_error(text.as_bytes());
        let (code, text) = (String::from_utf8_lossy(code), String::from_utf8_lossy(text));
        self.refuse(id, context, number, (&code, &text));
    }

    /// Returns the state of the page, as CLIENT LIST shows it.
    pub(super) fn state(
        &self,
        id: ConnectionId,
        rows: &Table,
        context: &Context,
        active_unix_ns: u64,
    ) -> PageState {
        let (conflated, behind) = rows.behind(id.index());
        let pending_bytes = context.out_bytes(id) as u64;
        let views: usize = self.views.iter().map(View::memory_bytes).sum();
        let names = self.heard.len() * NAME_BYTES;
        let own = rows.page_bytes(id.index()) + views + names + STREAM_BYTES;
        PageState {
            active_unix_ns,
            channels: (self.heard.len() as u32).saturating_sub(self.heard.patterns()),
            patterns: self.heard.patterns(),
            pending_bytes,
            memory_bytes: own as u64 + pending_bytes,
            behind: behind as u64,
            conflated,
        }
    }

    /// Returns whether there is something to do although nothing comes: views, the log, or names
    /// of subscriptions that have ended.
    pub(super) fn is_watching(&self) -> bool {
        !self.views.is_empty() || self.log.is_some() || self.heard.has_ended()
    }

    /// Lets names of subscriptions go that have ended. Returns when there is more to do.
    pub(super) fn step_ended(
        &mut self,
        id: ConnectionId,
        fanout: &mut Fanout,
        now_ns: u64,
    ) -> Option<u64> {
        self.heard.step(id, fanout).then_some(now_ns)
    }

    /// Writes the log lines that are due. Returns when there is more to do, and whether a message
    /// was written.
    pub(super) fn step_log(
        &mut self,
        id: ConnectionId,
        lines: &LogLines,
        context: &mut Context,
        json: &mut Vec<u8>,
    ) -> (Option<u64>, bool) {
        let Some(log) = &mut self.log else {
            return (None, false);
        };
        if context.out_bytes(id) > super::UNREAD_BYTES_MAX {
            context.watch_drain(id);
            return (None, false);
        }
        json.clear();
        match log.step(lines, context.now_ns(), json) {
            Step::Until(at_ns) => (at_ns, false),
            Step::Busy => (Some(context.now_ns()), false),
            Step::Written(_) => {
                send(id, context, self.is_packed, json);
                (None, true)
            }
        }
    }

    /// Does a part of the work for each view. `json` is room for a page. Returns when there is more
    /// to do, and how many pages and rows were written.
    pub(super) fn step_views(
        &mut self,
        id: ConnectionId,
        rows: &mut Table,
        context: &mut Context,
        json: &mut Vec<u8>,
    ) -> (Option<u64>, u64, u64) {
        let now_ns = context.now_ns();
        let (mut again_ns, mut pages, mut written) = (None, 0, 0);
        for view in &mut self.views {
            if context.out_bytes(id) > super::UNREAD_BYTES_MAX {
                context.watch_drain(id);
                break;
            }
            json.clear();
            match view.step(id.index(), rows, now_ns, json) {
                Step::Until(at_ns) => again_ns = earlier(again_ns, at_ns),
                Step::Busy => again_ns = Some(now_ns),
                Step::Written(count) => {
                    pages += 1;
                    written += count as u64;
                    send(id, context, self.is_packed, json);
                }
            }
        }
        (again_ns, pages, written)
    }

    /// Sends a message.
    pub(super) fn send(&self, id: ConnectionId, context: &mut Context, json: &[u8]) {
        send(id, context, self.is_packed, json);
    }

    /// Takes replies of the page's Redis session. Returns the number of bytes used.
    pub(super) fn replied(
        &mut self,
        id: ConnectionId,
        context: &mut Context,
        input: &[u8],
    ) -> usize {
        let is_packed = self.is_packed;
        let mut out = |context: &mut Context, json: &[u8]| send(id, context, is_packed, json);
        let consumed = self.calls.receive(context, id, input, &mut out);
        self.read_again(id, context);
        consumed
    }

    pub(super) fn calls_ended(
        &mut self,
        id: ConnectionId,
        context: &mut Context,
        near: ConnectionId,
    ) {
        let is_packed = self.is_packed;
        let mut out = |context: &mut Context, json: &[u8]| send(id, context, is_packed, json);
        self.calls.ended(context, near, &mut out);
        self.read_again(id, context);
    }

    /// Reads the page again if it was not read because of its commands.
    fn read_again(&mut self, id: ConnectionId, context: &mut Context) {
        if self.is_held && !self.calls.is_full() {
            self.is_held = false;
            context.release(id);
        }
    }

    /// The page has read.
    pub(super) fn drained(&mut self, id: ConnectionId, context: &mut Context, fanout: &mut Fanout) {
        for number in std::mem::take(&mut self.stalled) {
            fanout.rows.wake((id.index(), number));
        }
        self.calls.drained(context);
    }

    /// Notes that a batch waits until the page has read.
    pub(super) fn stall(&mut self, number: u64) {
        if !self.stalled.contains(&number) {
            self.stalled.push(number);
        }
    }

    pub(super) fn ping(&self, id: ConnectionId, context: &mut Context) {
        if let Some(out) = context.out(id) {
            write_message(Opcode::Ping, b"", out.buffer());
        }
    }

    /// Says why the stream ends.
    pub(super) fn say_close(
        &self,
        id: ConnectionId,
        context: &mut Context,
        (code, reason): (CloseCode, &str),
    ) {
        if let Some(out) = context.out(id) {
            write_close(code, reason, out.buffer());
        }
    }

    /// Ends all that the stream has.
    pub(super) fn leave(
        mut self: Box<Self>,
        id: ConnectionId,
        hub: &Hub,
        fanout: &mut Fanout,
        context: &mut Context,
    ) {
        fanout.rows.leave(id.index());
        fanout.depart(id);
        self.calls.end(context, ("UNKNOWN", ""), &mut |_, _| {});
        let counters = &hub.web.counters;
        let subscriptions = self.numbers.len() as u64;
        counters
            .subscriptions
            .fetch_sub(subscriptions, Ordering::Relaxed);
        let before = counters.streams.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a stream that ends was counted");
    }
}

/// Returns the words of a command that ends a script, and whether it ends a function.
fn killing(command: &[Vec<u8>]) -> Option<(&'static [&'static [u8]], bool)> {
    let [name, action] = command else {
        return None;
    };
    let is = |word: &[u8], known: &str| word.eq_ignore_ascii_case(known.as_bytes());
    match is(action, "kill") {
        true if is(name, "script") => Some((&[b"script", b"kill"], false)),
        true if is(name, "function") => Some((&[b"function", b"kill"], true)),
        _ => None,
    }
}

fn send(id: ConnectionId, context: &mut Context, is_packed: bool, json: &[u8]) {
    let Some(out) = context.out(id) else {
        return;
    };
    if !is_packed {
        return write_message(Opcode::Text, json, out.buffer());
    }
    let mut packed = Vec::with_capacity(json.len());
    let is_json = msgpack::encode(json, &mut packed).is_ok();
    debug_assert!(is_json, "messages are JSON: {}", json.escape_ascii());
    write_message(Opcode::Binary, &packed, out.buffer());
}

const NOT_MESSAGEPACK: Flaw = Flaw {
    number: 0,
    text: "a message is one map in MessagePack",
};
/// About what a stream takes beside its topics, and what each of the names and patterns that it
/// follows takes in fan-out.
const STREAM_BYTES: usize = 4 << 10;
const NAME_BYTES: usize = 330;
/// Longest message of a page.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
