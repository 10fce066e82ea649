//! The metrics page for clients of the web port. It is made on a thread: it looks at all keys'
//! shards, which a lane may not wait for.

use std::sync::Arc;

use parking_lot::Mutex;
use tidewire_lane::{ConnectionId, MailSender};
use tracing::warn;

use super::logins::Token;
use crate::hub::{Hub, Mail};

/// A message to a lane about its web sessions.
#[derive(Debug)]
pub struct WebMail(pub(crate) WebNews);

#[derive(Debug)]
pub(crate) enum WebNews {
    /// The metrics page that a session waits for.
    Metrics(ConnectionId, Arc<str>),
    /// A login has ended.
    LoggedOut(Token),
}

/// Ends the streams of a login, on all lanes.
pub(super) fn tell_logged_out(hub: &Hub, login: Token) {
    let sender: MailSender<WebMail> = MailSender::new::<Mail>(hub.mailboxes().clone());
    for lane in 0..hub.mailboxes().len() {
        sender.send(lane, WebMail(WebNews::LoggedOut(login)));
    }
}

/// The sessions that wait for the page.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A lane, and a connection of it.
    waiting: Vec<(usize, ConnectionId)>,
    /// Whether a thread makes the page.
    is_made: bool,
}

impl MetricsPage {
    /// Has the page made for a session. Those that ask meanwhile get the next one, so there is one
    /// thread at most.
    pub(super) fn ask(hub: &Arc<Hub>, session: (usize, ConnectionId)) {
        let mut state = hub.web.metrics.state.lock();
        state.waiting.push(session);
        if std::mem::replace(&mut state.is_made, true) {
            return;
        }
        drop(state);
        let own = hub.clone();
        let thread = std::thread::Builder::new().name("web-metrics".to_owned());
        if let Err(error) = thread.spawn(move || make(&own)) {
            warn!(%error, "the metrics page cannot be made");
            let mut state = hub.web.metrics.state.lock();
            state.is_made = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            send(hub, waiting, &Arc::from(""));
        }
    }
}

fn make(hub: &Arc<Hub>) {
    loop {
        let waiting = {
            let mut state = hub.web.metrics.state.lock();
            state.is_made = !state.waiting.is_empty();
            std::mem::take(&mut state.waiting)
        };
        if waiting.is_empty() {
            return;
        }
        let page = Arc::from(crate::counters::metrics(hub));
        send(hub, waiting, &page);
    }
}

fn send(hub: &Hub, waiting: Vec<(usize, ConnectionId)>, page: &Arc<str>) {
    let sender: MailSender<WebMail> = MailSender::new::<Mail>(hub.mailboxes().clone());
    for (lane, id) in waiting {
        sender.send(lane, WebMail(WebNews::Metrics(id, page.clone())));
    }
}
