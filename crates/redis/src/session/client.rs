//! CLIENT.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, Context};

use super::{Call, ReplyMode, RespSession, State};
use crate::access::User;
use crate::attention::Obstacles;
use crate::clients::Client;
use crate::mail::RedisMail;
use crate::other_clients::{OtherClient, PageClient};
use crate::parameters::{ClientClass, TIMEOUT};
use crate::server::Server;

impl RespSession {
    /// Ends the connection if it has been idle for longer than `timeout`, or has left more unread
    /// than `client-output-buffer-limit` allows. Looked at a few times a second.
    pub(crate) fn sweep(&mut self, server: &Server, context: &mut Context) {
        if self.is_replica() {
            // A replica has its own limit on output and its own timeout.
            return;
        }
        let state = &mut self.state;
        let class = match state.client.is_subscriber() {
            true => ClientClass::Pubsub,
            false => ClientClass::Normal,
        };
        let limit = server.parameters.output_limit(class);
        let bytes = context.out_bytes(state.id);
        if state.over_limit.is_exceeded(limit, bytes, context.now_ns()) {
            state.tell_cut_off();
            server.post.counters.cut_off.fetch_add(1, Ordering::Relaxed);
            return context.close(state.id, CloseReason::Requested);
        }
        let idle_s_max = server.parameters.read(TIMEOUT);
        let active_ns = state.client.active_unix_ns.load(Ordering::Relaxed);
        let idle_s = context.unix_ns().saturating_sub(active_ns) / 1_000_000_000;
        let may_idle = class == ClientClass::Pubsub || state.is_stopped();
        if idle_s_max != 0 && idle_s > idle_s_max && !may_idle {
            let (client, address) = (state.client.id, &state.client.address);
            tracing::debug!(client, %address, idle_s, "idle for longer than timeout: it is ended");
            context.close(state.id, CloseReason::Requested);
        }
    }
}

impl State {
    pub(super) fn client_id(&mut self, call: &mut Call<'_>) {
        let id = self.client.id as i64;
        self.reply(call.context, |reply| reply.integer(id));
    }

    /// Refuses a subcommand of CLIENT that has more arguments than it takes.
    pub(super) fn refuse_subcommand(&mut self, call: &mut Call<'_>) {
        let part = String::from_utf8_lossy(&call.arguments[1]).replace(['\r', '\n'], " ");
        let part: String = part.chars().take(128).collect();
        let text = format!(
            "ERR unknown subcommand or wrong number of arguments for '{part}'. Try CLIENT HELP."
        );
        self.refuse(call, &text);
    }

    pub(super) fn client_get_name(&self, call: &mut Call<'_>) {
        let name = self.client.labels.lock().name.clone();
        self.reply(call.context, |reply| {
            if name.is_empty() {
                reply.null();
            } else {
                reply.bulk(name.as_bytes());
            }
        });
    }

    pub(super) fn client_set_name(&self, call: &mut Call<'_>) {
        match set_name(&self.client, &call.arguments[2]) {
            Ok(()) => self.reply(call.context, |reply| reply.ok()),
            Err(text) => self.refuse(call, text),
        }
    }

    pub(super) fn client_set_info(&self, call: &mut Call<'_>) {
        let option = &call.arguments[2];
        let Some(value) = printable(&call.arguments[3]) else {
            let name = String::from_utf8_lossy(option).to_lowercase();
            let text = format!("ERR {name} cannot contain spaces, newlines or special characters.");
            return self.refuse(call, &text);
        };
        let mut labels = self.client.labels.lock();
        if option.eq_ignore_ascii_case(b"LIB-NAME") {
            labels.library = value;
        } else if option.eq_ignore_ascii_case(b"LIB-VER") {
            labels.library_version = value;
        } else {
            let option = String::from_utf8_lossy(option).into_owned();
            let text = format!("ERR Unrecognized option '{option}'");
            return self.refuse(call, &text);
        }
        drop(labels);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn client_info(&self, call: &mut Call<'_>) {
        let text = self.describe(call, &self.client) + "\n";
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }

    pub(super) fn client_list(&self, call: &mut Call<'_>) {
        let listed = match listed(call) {
            Ok(listed) => listed,
            Err(text) => return self.refuse(call, &text),
        };
        let mut text = String::new();
        for one in listed {
            text += &match one {
                Listed::Client(client) => self.describe(call, &client),
                Listed::Page(client) => {
                    let page = client.page();
                    let describe = |page| client.describe_page(page, call.context.unix_ns());
                    page.map_or_else(String::new, describe)
                }
            };
            text.push('\n');
        }
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }

    pub(super) fn client_kill(&mut self, call: &mut Call<'_>) {
        let by_address = call.arguments.len() == 3;
        let filter = match by_address {
            true => Ok(Filter {
                address: Some(call.arguments[2].to_vec()),
                skips_me: false,
                ..Filter::default()
            }),
            false => Filter::read(call),
        };
        let filter = match filter {
            Ok(filter) => filter,
            Err(text) => return self.refuse(call, &text),
        };
        let (mut killed, mut own) = (0, false);
        for client in call.server.clients.list() {
            let is_me = client.id == self.client.id;
            if is_me && filter.skips_me || !filter.accepts(&client, call.context.unix_ns()) {
                continue;
            }
            killed += 1;
            tracing::debug!(client = client.id, by = self.client.id, "killed");
            if is_me {
                own = true;
            } else {
                call.server
                    .mail
                    .send(client.lane, RedisMail::Kill(client.connection));
                if client.is_replica.load(Ordering::Relaxed) {
                    let now_ms = call.now_ms();
                    call.server
                        .replication
                        .forget(call.server, client.id, now_ms);
                }
            }
        }
        killed += kill_others(call, &filter);
        let master = call.server.replication.master();
        if master.is_some_and(|master| master.reconnect(|address| filter.names_master(address))) {
            killed += 1;
        }
        if by_address && killed == 0 {
            return self.refuse(call, "ERR No such client");
        }
        self.reply(call.context, |reply| match by_address {
            true => reply.ok(),
            false => reply.integer(killed),
        });
        if own {
            call.context
                .close_after_flush(self.id, CloseReason::Requested);
            self.set_closing();
        }
    }

    pub(super) fn client_reply(&mut self, call: &mut Call<'_>) {
        let mode = &call.arguments[2];
        if mode.eq_ignore_ascii_case(b"ON") {
            self.set_reply_mode(ReplyMode::On);
            self.reply(call.context, |reply| reply.ok());
        } else if mode.eq_ignore_ascii_case(b"OFF") {
            self.set_reply_mode(ReplyMode::Off);
        } else if mode.eq_ignore_ascii_case(b"SKIP") {
            if self.reply_mode != ReplyMode::Off {
                self.set_reply_mode(ReplyMode::SkipNext);
            }
        } else {
            self.refuse(call, SYNTAX);
        }
    }

    /// CLIENT NO-EVICT and NO-TOUCH.
    pub(super) fn client_switch(&mut self, call: &mut Call<'_>) {
        let on = match &call.arguments[2] {
            mode if mode.eq_ignore_ascii_case(b"ON") => true,
            mode if mode.eq_ignore_ascii_case(b"OFF") => false,
            _ => return self.refuse(call, SYNTAX),
        };
        let switch = match call.arguments[1].eq_ignore_ascii_case(b"NO-EVICT") {
            true => &self.client.no_evict,
            false => {
                self.own.set(Obstacles::NO_TOUCH, on);
                &self.client.no_touch
            }
        };
        switch.store(on, Ordering::Relaxed);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn describe(&self, call: &Call<'_>, client: &Client) -> String {
        let blocked = call.server.waiting.contains(client.id);
        if client.id == self.client.id
            && let Some(command) = self.last_command
        {
            *client.last_command.lock() = command.full_name;
        }
        let forget_after_ns = call.server.reply_peak_ns.load(Ordering::Relaxed);
        client.describe(call.context.unix_ns(), blocked, forget_after_ns)
    }
}

pub(super) fn set_name(client: &Client, name: &[u8]) -> Result<(), &'static str> {
    client.labels.lock().name = check_name(name)?;
    Ok(())
}

pub(super) fn check_name(name: &[u8]) -> Result<String, &'static str> {
    printable(name).ok_or("ERR Client names cannot contain spaces, newlines or special characters.")
}

/// A label is of visible ASCII, so that CLIENT LIST stays one line per client.
fn printable(text: &[u8]) -> Option<String> {
    let visible = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    visible.then(|| String::from_utf8_lossy(text).into_owned())
}

/// What CLIENT LIST shows: a Redis client, or a web page.
#[derive(Clone, Debug)]
enum Listed {
    Client(Arc<Client>),
    Page(Arc<OtherClient>),
}

impl Listed {
    fn id(&self) -> u64 {
        match self {
            Listed::Client(client) => client.id,
            Listed::Page(client) => client.page().map_or(0, |page| page.id),
        }
    }

    fn is_of(&self, class: Class) -> bool {
        match self {
            Listed::Client(client) => class.accepts(client),
            Listed::Page(client) => client.page().is_some_and(|page| class.accepts_page(page)),
        }
    }
}

/// The clients that CLIENT LIST names.
fn listed(call: &Call<'_>) -> Result<Vec<Listed>, String> {
    let clients = call.server.clients.list().into_iter().map(Listed::Client);
    let pages = call.server.other_clients.pages();
    let mut clients: Vec<Listed> = clients.chain(pages.into_iter().map(Listed::Page)).collect();
    clients.sort_by_key(Listed::id);
    let arguments = call.arguments;
    let Some(option) = arguments.get(2) else {
        return Ok(clients);
    };
    if option.eq_ignore_ascii_case(b"TYPE") && arguments.len() == 4 {
        let class = Class::read(&arguments[3])?;
        clients.retain(|client| client.is_of(class));
        return Ok(clients);
    }
    if !option.eq_ignore_ascii_case(b"ID") || arguments.len() < 4 {
        return Err(SYNTAX.to_owned());
    }
    let mut found = Vec::new();
    for text in arguments.tail(3) {
        let id = tidewire_resp::number::parse_integer(text).ok_or("ERR Invalid client ID")?;
        let named = clients
            .iter()
            .find(|client| Ok(client.id()) == u64::try_from(id));
        found.extend(named.cloned());
    }
    Ok(found)
}

/// Ends the clients of other protocols that a filter names. Returns how many these are.
fn kill_others(call: &Call<'_>, filter: &Filter) -> i64 {
    let mut killed = 0;
    for client in call.server.other_clients.list() {
        if filter.accepts_other(&client, call.context.unix_ns()) {
            killed += 1;
            tracing::debug!(address = client.address(), "killed");
            let kill = RedisMail::Kill(client.connection);
            call.server.mail.send(client.lane, kill);
        }
    }
    killed
}

/// The clients that CLIENT KILL ends.
#[derive(Debug)]
struct Filter {
    id: Option<u64>,
    address: Option<Vec<u8>>,
    local_address: Option<Vec<u8>>,
    user: Option<Arc<User>>,
    class: Option<Class>,
    age_s_min: u64,
    skips_me: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            id: None,
            address: None,
            local_address: None,
            user: None,
            class: None,
            age_s_min: 0,
            skips_me: true,
        }
    }
}

impl Filter {
    fn read(call: &Call<'_>) -> Result<Self, String> {
        let mut filter = Self::default();
        let words: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let (pairs, []) = words.as_chunks::<2>() else {
            return Err(SYNTAX.to_owned());
        };
        for [option, value] in pairs {
            let number = || tidewire_resp::number::parse_integer(value);
            match option.to_ascii_uppercase().as_slice() {
                b"ID" => {
                    let id = number().and_then(|id| u64::try_from(id).ok());
                    let id = id.filter(|&id| id > 0);
                    filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
                }
                b"ADDR" => filter.address = Some(value.to_vec()),
                b"LADDR" => filter.local_address = Some(value.to_vec()),
                b"USER" => {
                    let user = call.server.access.find(value);
                    filter.user = Some(user.ok_or_else(|| {
                        let name = String::from_utf8_lossy(value).replace(['\r', '\n'], " ");
                        format!("ERR No such user '{name}'")
                    })?);
                }
                b"TYPE" => filter.class = Some(Class::read(value)?),
                b"MAXAGE" => match number() {
                    Some(seconds @ 1..) => filter.age_s_min = seconds as u64,
                    Some(_) => return Err("ERR maxage should be greater than 0".to_owned()),
                    None => {
                        return Err("ERR maxage is not an integer or out of range".to_owned());
                    }
                },
                b"SKIPME" if value.eq_ignore_ascii_case(b"yes") => filter.skips_me = true,
                b"SKIPME" if value.eq_ignore_ascii_case(b"no") => filter.skips_me = false,
                _ => return Err(SYNTAX.to_owned()),
            }
        }
        Ok(filter)
    }

    /// Whether it is about the connection to this server's master, which is none of the clients.
    fn names_master(&self, address: &str) -> bool {
        let wanted = self.address.as_deref();
        let is_address = wanted.is_none_or(|wanted| wanted == address.as_bytes());
        let is_class = self.class.is_none_or(|class| class == Class::Master);
        let names_it = self.address.is_some() || self.class.is_some();
        let others = self.id.is_some() || self.local_address.is_some() || self.user.is_some();
        names_it && is_address && is_class && !others
    }

    fn accepts(&self, client: &Client, now_unix_ns: u64) -> bool {
        self.id.is_none_or(|id| id == client.id)
            && self.is_at(&client.address, &client.local_address)
            && self.is_user(Some(&client.user.lock()))
            && self.class.is_none_or(|class| class.accepts(client))
            && self.is_old(client.connected_unix_ns, now_unix_ns)
    }

    /// Whether it may be about clients of other protocols: it names an address or a user, and
    /// nothing that they do not have.
    fn names_others(&self) -> bool {
        let names_any = self.address.is_some() || self.local_address.is_some();
        (names_any || self.user.is_some()) && self.id.is_none() && self.class.is_none()
    }

    fn accepts_other(&self, client: &OtherClient, now_unix_ns: u64) -> bool {
        let is_meant = match client.page() {
            // It has a number and a class, as a Redis client does.
            Some(page) => {
                self.id.is_none_or(|id| id == page.id)
                    && self.class.is_none_or(|class| class.accepts_page(page))
            }
            None => self.names_others(),
        };
        is_meant
            && self.is_at(&client.address, &client.local_address)
            && self.is_user(client.user.lock().as_ref())
            && self.is_old(client.connected_unix_ns, now_unix_ns)
    }

    fn is_at(&self, address: &str, local_address: &str) -> bool {
        let is = |wanted: &Option<Vec<u8>>, own: &str| {
            let wanted = wanted.as_ref();
            wanted.is_none_or(|wanted| wanted == own.as_bytes())
        };
        is(&self.address, address) && is(&self.local_address, local_address)
    }

    fn is_user(&self, own: Option<&Arc<User>>) -> bool {
        let wanted = self.user.as_ref();
        wanted.is_none_or(|wanted| own.is_some_and(|own| Arc::ptr_eq(wanted, own)))
    }

    fn is_old(&self, connected_unix_ns: u64, now_unix_ns: u64) -> bool {
        let age_s = now_unix_ns.saturating_sub(connected_unix_ns) / 1_000_000_000;
        age_s >= self.age_s_min
    }
}

/// TYPE of CLIENT LIST and CLIENT KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Normal,
    Pubsub,
    Replica,
    /// The connection to a master is none of the clients.
    Master,
}

impl Class {
    fn accepts_page(self, page: &PageClient) -> bool {
        match self {
            Class::Normal => !page.is_subscriber(),
            Class::Pubsub => page.is_subscriber(),
            Class::Replica | Class::Master => false,
        }
    }

    fn read(text: &[u8]) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Class::Normal),
            b"pubsub" => Ok(Class::Pubsub),
            b"replica" | b"slave" => Ok(Class::Replica),
            b"master" => Ok(Class::Master),
            _ => {
                let text = String::from_utf8_lossy(text).replace(['\r', '\n'], " ");
                Err(format!("ERR Unknown client type '{text}'"))
            }
        }
    }

    fn accepts(self, client: &Client) -> bool {
        let is_replica = client.is_replica.load(Ordering::Relaxed);
        match self {
            Class::Normal => !is_replica && !client.is_subscriber(),
            Class::Pubsub => !is_replica && client.is_subscriber(),
            Class::Replica => is_replica,
            Class::Master => false,
        }
    }
}

const SYNTAX: &str = "ERR syntax error";

pub(super) const CLIENT_HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port> | <option> <value> ...",
    "    Kill connections: ID, ADDR, LADDR, TYPE, USER, MAXAGE, SKIPME.",
    "LIST [options ...]",
    "    Return information about client connections: TYPE, ID.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO <option> <value>",
    "    Set LIB-NAME or LIB-VER of the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "HELP",
    "    Print this help.",
];
