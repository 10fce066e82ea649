//! The thread of a link.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ClientError, ConnectErrorKind, ConnectOptions, Server, ServerError};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{join, select};
use tidewire_retry::Seldom;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tracing::{debug, warn};

use crate::inbox::Inbox;
use crate::link::Command;
use crate::replies::{Replies, is_passed_on};
use crate::requests;
use crate::settings::{Credentials, Settings, StreamSettings};
use crate::streams;
use crate::{Answer, Event, Message, Storing};

/// Longest delay between two attempts to connect.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);
/// Messages of one subscription that wait in the client, before they reach the inbox.
const SUBSCRIPTION_MESSAGES: usize = 4_096;
/// Commands and publications that wait in the client.
const CLIENT_COMMANDS: usize = 256;
/// Longest wait for what was asked for before the end.
const FLUSH_MAX: Duration = Duration::from_millis(500);

/// Returns the options of the connection.
pub(crate) fn options(settings: &Settings) -> io::Result<ConnectOptions> {
    let mut options = ConnectOptions::new()
        .name(&settings.name)
        .retry_on_initial_connect()
        .max_reconnects(None)
        .subscription_capacity(SUBSCRIPTION_MESSAGES)
        .client_capacity(CLIENT_COMMANDS)
        .request_timeout(Some(settings.timeout))
        .custom_inbox_prefix(&settings.inbox)
        .ping_interval(Duration::from_secs(2))
        .reconnect_delay_callback(|attempts| {
            let delay = Duration::from_millis(50).saturating_mul(1 << attempts.min(6));
            delay.min(RECONNECT_DELAY_MAX)
        });
    if !settings.hears_itself {
        options = options.no_echo();
    }
    options = match &settings.credentials {
        Credentials::None => options,
        Credentials::File(path) => options.credentials(&std::fs::read_to_string(path)?)?,
        Credentials::Nkey(seed) => options.nkey(seed.clone()),
        Credentials::Password(user, password) => {
            options.user_and_password(user.clone(), password.clone())
        }
    };
    let tls = &settings.tls;
    if let Some(path) = &tls.authorities {
        File::open(path)?;
        options = options.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &tls.own {
        File::open(certificate)?;
        File::open(key)?;
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options.require_tls(tls.is_required))
}

/// Serves a link until it is dropped. What it was asked for before has [`FLUSH_MAX`] then: no
/// server may hold the end of the hub.
pub(crate) async fn run(
    settings: Settings,
    options: ConnectOptions,
    commands: UnboundedReceiver<Command>,
    (published, dropped): (Arc<AtomicUsize>, oneshot::Receiver<()>),
    inbox: Inbox,
) {
    let served = Box::pin(serve(settings, options, commands, published, inbox));
    let ended = Box::pin(async {
        let _ = dropped.await;
        tokio::time::sleep(FLUSH_MAX).await;
    });
    select(served, ended).await;
}

async fn serve(
    settings: Settings,
    options: ConnectOptions,
    mut commands: UnboundedReceiver<Command>,
    published: Arc<AtomicUsize>,
    inbox: Inbox,
) {
    let (told, failed) = (inbox.clone(), inbox.clone());
    let options = options
        .event_callback(move |event| {
            tell(&told, event);
            std::future::ready(())
        })
        // Called before each round of attempts; it chooses no server, but is told the reasons.
        .reconnect_to_server_callback(move |servers, _| {
            if let Some(reason) = why_none(&servers) {
                failed.put(Event::Disconnected { reason });
            }
            std::future::ready(None)
        });
    // It connects in the background, so an error is one of the addresses.
    let client = match options.connect(settings.servers.as_slice()).await {
        Ok(client) => client,
        Err(error) => {
            let reason = error.to_string();
            warn!(%reason, "no link to NATS can be made");
            inbox.put(Event::Disconnected { reason });
            return answer_all(commands, &inbox).await;
        }
    };
    let api = match &settings.domain {
        None => "$JS.API".to_owned(),
        Some(domain) => format!("$JS.{domain}.API"),
    };
    let context = jetstream::context::ContextBuilder::new()
        .api_prefix(api.clone())
        .timeout(settings.timeout)
        .build(client.clone());
    let replies = Replies::new(&settings.inbox);
    if let Err(error) = replies.hear_streams(&client).await {
        // The client has ended.
        warn!(%error, "acknowledgements of NATS cannot be heard");
    }
    let worker = Worker {
        client,
        context,
        replies,
        api,
        has_domain: settings.domain.is_some(),
        inbox,
        timeout: settings.timeout,
    };
    while let Some(command) = commands.recv().await {
        worker.perform(command, &published).await;
    }
    // What was published last, such as the end of a reign.
    let _ = worker.client.flush().await;
}

/// Answers requests of a link that cannot be made.
async fn answer_all(mut commands: UnboundedReceiver<Command>, inbox: &Inbox) {
    while let Some(command) = commands.recv().await {
        if let Some(tag) = command.tag() {
            let answer = Answer::Failed("no link".to_owned());
            inbox.put(Event::Answer { tag, answer });
        }
    }
}

fn tell(inbox: &Inbox, event: async_nats::Event) {
    match event {
        async_nats::Event::Connected => inbox.put(Event::Connected),
        async_nats::Event::Disconnected => inbox.put(Event::Disconnected {
            reason: "the connection ended".to_owned(),
        }),
        // It names the kind of the failure only: the servers' own reasons come with the next
        // attempt, except for a name that is not found.
        async_nats::Event::ClientError(ClientError::Other(kind))
            if kind == ConnectErrorKind::Dns.to_string() =>
        {
            let reason = "the name of a server is not found".to_owned();
            inbox.put(Event::Disconnected { reason });
        }
        async_nats::Event::ServerError(error) => {
            if let ServerError::Other(words) = &error
                && let Some(event) = denied(words)
            {
                inbox.put(event);
            }
            if let Some(left_out) = REFUSED.note_now() {
                warn!(%error, left_out, "a NATS server refuses something");
            }
        }
        async_nats::Event::SlowConsumer(_) => {
            debug!("messages of a subscription were dropped");
        }
        _ => {}
    }
}

/// Returns what the user may not do, if a server says that.
fn denied(words: &str) -> Option<Event> {
    let what = words.strip_prefix("Permissions Violation for ")?;
    let (what, subject) = what.strip_suffix('"')?.split_once(" to \"")?;
    let subject = subject.to_owned();
    match what {
        "Publish" => Some(Event::Denied { subject }),
        "Subscription" => Some(Event::NotHearing { subject }),
        _ => None,
    }
}

/// Returns why no server can be reached; `None` if one was not tried or could be reached last.
fn why_none(servers: &[Server]) -> Option<String> {
    let reasons = servers.iter().map(|server| {
        let error = server.last_error.as_ref()?;
        let (host, port) = (server.addr.host(), server.addr.port());
        // What TLS reads where a server answers in plain text.
        match error.contains("InvalidContentType") {
            true => Some(format!("{host}:{port}: the server does not speak TLS")),
            false => Some(format!("{host}:{port}: {error}")),
        }
    });
    let mut reasons = reasons.collect::<Option<Vec<String>>>()?;
    // The client tries them in any order.
    reasons.sort_unstable();
    reasons.truncate(REASONS_MAX);
    Some(reasons.join("; "))
}

/// Limits the lines about permissions that are missing: the request is repeated.
static REFUSED: Seldom = Seldom::new(5, 600);
/// The same about messages that someone has had a stream send.
static PASSED_ON: Seldom = Seldom::new(5, 600);
/// Servers that one line names.
const REASONS_MAX: usize = 3;

/// Performs commands.
#[derive(Clone)]
struct Worker {
    client: Client,
    context: Context,
    replies: Replies,
    /// Prefix of requests to JetStream, and whether it names a domain.
    api: String,
    has_domain: bool,
    inbox: Inbox,
    timeout: Duration,
}

impl Worker {
    /// Sends a command's request. Answers come from tasks, so that none waits for another.
    async fn perform(&self, command: Command, published: &AtomicUsize) {
        match command {
            Command::Subscribe(subject) => self.subscribe(subject).await,
            Command::Listen(pattern) => {
                if let Err(error) = self.replies.hear(&self.client, pattern).await {
                    warn!(%error, "replies cannot be heard");
                }
            }
            Command::Publish { subject, payload } => {
                let length = payload.len();
                // While the link is down, none waits: it would be old when it is back.
                if self.is_linked()
                    && let Err(error) = self.client.publish(subject, payload).await
                {
                    debug!(%error, "a publication was not sent");
                }
                published.fetch_sub(length, Ordering::AcqRel);
            }
            Command::Ask(tag, _) if !self.is_linked() => {
                let answer = Answer::NotHeard;
                self.inbox.put(Event::Answer { tag, answer });
            }
            Command::Ask(tag, asking) => {
                // Sent here, in order; only the reply is waited for elsewhere.
                match requests::begin_ask(&self.client, &self.replies, asking).await {
                    Ok((expected, limit)) => self.answer_with(tag, async move {
                        requests::replied(expected.wait(limit).await)
                    }),
                    Err(answer) => self.inbox.put(Event::Answer { tag, answer }),
                }
            }
            Command::Store(tag, _) | Command::StoreLease(tag, ..) if !self.is_linked() => {
                let answer = Answer::TimedOut;
                self.inbox.put(Event::Answer { tag, answer });
            }
            Command::Store(tag, storing) => {
                let storing = self.in_domain(storing);
                match requests::begin_store(&self.client, &self.replies, storing).await {
                    Ok(expected) => {
                        let limit = self.timeout;
                        self.answer_with(tag, async move {
                            requests::stored(expected.wait(limit).await)
                        });
                    }
                    Err(answer) => self.inbox.put(Event::Answer { tag, answer }),
                }
            }
            Command::StoreLease(tag, storing, bucket) => {
                self.store_lease(tag, storing, bucket).await;
            }
            Command::Make(tag, settings) => {
                let context = self.context.clone();
                self.answer(tag, async move { streams::make(&context, settings).await });
            }
            Command::Newest(tag, stream, subject) => {
                let context = self.context.clone();
                self.answer(tag, async move {
                    requests::newest(&context, &stream, subject).await
                });
            }
            Command::Count(tag, stream, subject) => {
                let context = self.context.clone();
                self.answer(tag, async move {
                    requests::count(&context, &stream, subject).await
                });
            }
            Command::Extent(tag, stream) => {
                let context = self.context.clone();
                self.answer(
                    tag,
                    async move { requests::extent(&context, &stream).await },
                );
            }
            Command::NewestOfEach(tag, stream, subjects) => {
                let request = requests::newest_of_each(&subjects);
                self.batch(tag, stream, request);
            }
            Command::Purge(tag, purging) => {
                let context = self.context.clone();
                self.answer(tag, async move { requests::purge(&context, purging).await });
            }
            Command::Fetch(tag, fetching) => {
                let request = requests::fetch(&fetching);
                self.batch(tag, fetching.stream, request);
            }
        }
    }

    /// Stores a lease, and looks at its bucket at the same time: entries that end too early, or
    /// never, are no leases.
    async fn store_lease(&self, tag: u64, storing: Storing, bucket: StreamSettings) {
        let storing = self.in_domain(storing);
        let begun = requests::begin_store(&self.client, &self.replies, storing).await;
        let (limit, context) = (self.timeout, self.context.clone());
        let expected = match begun {
            Ok(expected) => expected,
            Err(answer) => return self.inbox.put(Event::Answer { tag, answer }),
        };
        self.answer_with(tag, async move {
            let kept = tokio::time::timeout(limit * 2, streams::keep(&context, bucket));
            let (reply, kept) = join(expected.wait(limit), kept).await;
            match kept {
                Ok(None) => requests::stored(reply),
                Ok(Some(fault)) => fault,
                Err(_) => Answer::TimedOut,
            }
        });
    }

    /// Leaf nodes do not pass the subjects of buckets on: another domain has them under the prefix
    /// of its requests.
    fn in_domain(&self, mut storing: Storing) -> Storing {
        if self.has_domain && storing.subject.starts_with("$KV.") {
            storing.subject = format!("{}.{}", self.api, storing.subject);
        }
        storing
    }

    fn is_linked(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    fn batch(&self, tag: u64, stream: String, request: String) {
        let client = self.client.clone();
        let timeout = self.timeout;
        let subject = format!("{}.DIRECT.GET.{stream}", self.api);
        self.answer(tag, async move {
            requests::batch(&client, subject, request, timeout).await
        });
    }

    fn answer(&self, tag: u64, request: impl Future<Output = Answer> + Send + 'static) {
        // A request may wait for a link that is down; its timeout counts from now.
        let limit = self.timeout * 2;
        self.answer_with(tag, async move {
            let answer = tokio::time::timeout(limit, request).await;
            answer.unwrap_or(Answer::TimedOut)
        });
    }

    /// Gives the answer of a request when it comes.
    fn answer_with(&self, tag: u64, answer: impl Future<Output = Answer> + Send + 'static) {
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            let answer = answer.await;
            inbox.put(Event::Answer { tag, answer });
        });
    }

    async fn subscribe(&self, subject: String) {
        let mut subscription = match self.client.subscribe(subject).await {
            Ok(subscription) => subscription,
            Err(error) => return warn!(%error, "a subscription cannot be made"),
        };
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            while let Some(message) = subscription.next().await {
                let headers = message.headers.as_ref();
                let is_passed_on = headers.is_some_and(is_passed_on);
                if is_passed_on && let Some(left_out) = PASSED_ON.note_now() {
                    let subject = message.subject.as_str();
                    warn!(
                        subject,
                        left_out, "a message that a stream has sent is ignored"
                    );
                }
                let expected = headers
                    .and_then(|headers| headers.get(requests::EXPECTED_LAST_SEQUENCE))
                    .and_then(|value| value.as_str().parse().ok());
                inbox.put(Event::Message(Message {
                    subject: message.subject.into_string(),
                    reply: message.reply.map(|reply| reply.into_string()),
                    expected_last: expected,
                    // Who owns the subject may have to write again what it has replaced.
                    payload: match is_passed_on {
                        true => Bytes::new(),
                        false => message.payload,
                    },
                }));
            }
        });
    }
}
