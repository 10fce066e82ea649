//! Commands about the connection itself.

use tidewire_lane::CloseReason;
use tidewire_resp::{Protocol, Writer};

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Call, ReplyMode, State};
use crate::clients::Client;
use crate::hub::Mail;
use crate::session::resp::parameters::REDIS_VERSION;

impl State {
    pub(super) fn ping(&self, call: &mut Call<'_>) {
        if call.arguments.len() > 2 {
            let text = "ERR wrong number of arguments for 'ping' command";
            return self.refuse(call, text);
        }
        let message = call.arguments.get(1);
        if self.subscriber_mode(call) {
            return self.reply(call.context, |reply| {
                reply.array(2);
                reply.bulk(b"pong");
                reply.bulk(message.unwrap_or_default());
            });
        }
        self.reply(call.context, |reply| match message {
            Some(message) => reply.bulk(message),
            None => reply.simple("PONG"),
        });
    }

    pub(super) fn echo(&self, call: &mut Call<'_>) {
        let message = &call.arguments[1];
        self.reply(call.context, |reply| reply.bulk(message));
    }

    pub(super) fn hello(&mut self, call: &mut Call<'_>) {
        let mut protocol = self.protocol;
        if let Some(version) = call.arguments.get(1) {
            protocol = match version {
                b"2" => Protocol::Resp2,
                b"3" => Protocol::Resp3,
                other if other.iter().all(u8::is_ascii_digit) => {
                    let text = "NOPROTO unsupported protocol version";
                    return self.refuse(call, text);
                }
                _ => {
                    let text = "ERR Protocol version is not an integer or out of range";
                    return self.refuse(call, text);
                }
            };
        }
        let mut name = None;
        let mut index = 2;
        while let Some(option) = call.arguments.get(index) {
            let left = call.arguments.len() - index - 1;
            if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
                name = Some(call.arguments[index + 1].to_vec());
                index += 2;
            } else if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
                return self.refuse(call, NO_PASSWORD);
            } else {
                let option = String::from_utf8_lossy(option).into_owned();
                let text = format!("ERR Syntax error in HELLO option '{option}'");
                return self.refuse(call, &text);
            }
        }
        if let Some(name) = name
            && let Err(text) = set_name(&self.client, &name)
        {
            return self.refuse(call, text);
        }
        self.set_protocol(call, protocol);
        let id = self.client.id as i64;
        self.reply(call.context, |reply| write_hello(reply, protocol, id));
    }

    pub(super) fn auth(&self, call: &mut Call<'_>) {
        self.refuse(call, NO_PASSWORD);
    }

    pub(super) fn select(&mut self, call: &mut Call<'_>) {
        let number = tidewire_resp::number::parse_integer(&call.arguments[1]);
        match number.map(usize::try_from) {
            None => {
                let text = "ERR value is not an integer or out of range";
                self.refuse(call, text);
            }
            Some(Ok(number)) if number < tidewire_keyspace::DATABASES => {
                self.database = number;
                self.client.database.store(number as u32, Ordering::Relaxed);
                self.reply(call.context, |reply| reply.ok());
            }
            Some(_) => {
                self.refuse(call, "ERR DB index is out of range");
            }
        }
    }

    pub(super) fn quit(&mut self, call: &mut Call<'_>) {
        self.reply(call.context, |reply| reply.ok());
        call.context
            .close_after_flush(self.id, CloseReason::Requested);
        self.closing = true;
    }

    pub(super) fn reset(&mut self, call: &mut Call<'_>) {
        call.fanout.remove(self.id);
        self.count_subscriptions(call);
        self.database = 0;
        self.client.database.store(0, Ordering::Relaxed);
        self.client.labels.lock().name.clear();
        self.reply_mode = ReplyMode::On;
        self.set_protocol(call, Protocol::Resp2);
        self.reply(call.context, |reply| reply.simple("RESET"));
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
        *self.client.last_command.lock() = "client|info";
        let text = self.client.describe(call.context.unix_ns()) + "\n";
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }

    pub(super) fn client_list(&self, call: &mut Call<'_>) {
        let clients = match selected(call) {
            Ok(clients) => clients,
            Err(text) => return self.refuse(call, &text),
        };
        *self.client.last_command.lock() = "client|list";
        let now_unix_ns = call.context.unix_ns();
        let mut text = String::new();
        for client in clients {
            text += &client.describe(now_unix_ns);
            text.push('\n');
        }
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }

    pub(super) fn client_kill(&mut self, call: &mut Call<'_>) {
        let by_address = call.arguments.len() == 3;
        let clients = match selected(call) {
            Ok(clients) => clients,
            Err(text) => return self.refuse(call, &text),
        };
        if by_address && clients.is_empty() {
            return self.refuse(call, "ERR No such client");
        }
        let skip_me = !by_address && !skips_me_off(call);
        let mut killed = 0;
        let mut own = false;
        for client in clients {
            if client.id == self.client.id {
                if !skip_me {
                    killed += 1;
                    own = true;
                }
                continue;
            }
            killed += 1;
            call.hub.mailboxes()[client.lane].send(Mail::Kill(client.connection));
        }
        self.reply(call.context, |reply| match by_address {
            true => reply.ok(),
            false => reply.integer(killed),
        });
        if own {
            call.context
                .close_after_flush(self.id, CloseReason::Requested);
            self.closing = true;
        }
    }

    pub(super) fn client_reply(&mut self, call: &mut Call<'_>) {
        let mode = &call.arguments[2];
        if mode.eq_ignore_ascii_case(b"ON") {
            self.reply_mode = ReplyMode::On;
            self.reply(call.context, |reply| reply.ok());
        } else if mode.eq_ignore_ascii_case(b"OFF") {
            self.reply_mode = ReplyMode::Off;
        } else if mode.eq_ignore_ascii_case(b"SKIP") {
            if self.reply_mode != ReplyMode::Off {
                self.reply_mode = ReplyMode::SkipNext;
            }
        } else {
            self.refuse(call, "ERR syntax error");
        }
    }

    /// CLIENT NO-EVICT and NO-TOUCH: nothing is evicted and no access times are kept for which
    /// they would matter, so both only check their argument.
    pub(super) fn client_switch(&self, call: &mut Call<'_>) {
        let mode = &call.arguments[2];
        if mode.eq_ignore_ascii_case(b"ON") || mode.eq_ignore_ascii_case(b"OFF") {
            self.reply(call.context, |reply| reply.ok());
        } else {
            self.refuse(call, "ERR syntax error");
        }
    }

    fn set_protocol(&mut self, call: &mut Call<'_>, protocol: Protocol) {
        self.protocol = protocol;
        let version = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.client.protocol.store(version, Ordering::Relaxed);
        call.fanout.set_dialect(self.id, self.dialect());
    }
}

fn write_hello(reply: &mut Writer<'_>, protocol: Protocol, id: i64) {
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

fn set_name(client: &Client, name: &[u8]) -> Result<(), &'static str> {
    let name = printable(name)
        .ok_or("ERR Client names cannot contain spaces, newlines or special characters.")?;
    client.labels.lock().name = name;
    Ok(())
}

/// A label is of visible ASCII, so that CLIENT LIST stays one line a client.
fn printable(text: &[u8]) -> Option<String> {
    let visible = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    visible.then(|| String::from_utf8_lossy(text).into_owned())
}

/// The clients that CLIENT LIST or CLIENT KILL names.
fn selected(call: &Call<'_>) -> Result<Vec<Arc<Client>>, String> {
    let mut clients = call.hub.clients.list();
    let arguments = call.arguments;
    let kill = arguments[1].eq_ignore_ascii_case(b"KILL");
    if kill && arguments.len() == 3 {
        clients.retain(|client| client.address.as_bytes() == &arguments[2]);
        return Ok(clients);
    }
    let mut index = 2;
    while let Some(option) = arguments.get(index) {
        let Some(value) = arguments.get(index + 1) else {
            return Err(SYNTAX.to_owned());
        };
        let text = String::from_utf8_lossy(value).to_lowercase();
        index += 2;
        match option.to_ascii_uppercase().as_slice() {
            b"ID" => {
                let mut ids = Vec::new();
                ids.push(parse_id(value)?);
                while let Some(more) = arguments.get(index).filter(|_| !kill) {
                    let Ok(id) = parse_id(more) else { break };
                    ids.push(id);
                    index += 1;
                }
                clients.retain(|client| ids.contains(&client.id));
            }
            b"ADDR" => clients.retain(|client| client.address == text),
            b"LADDR" => clients.retain(|client| client.local_address == text),
            b"USER" => clients.retain(|_| text == "default"),
            b"SKIPME" if kill => {}
            b"TYPE" => match text.as_str() {
                "normal" => clients.retain(|client| !client.is_subscriber()),
                "pubsub" => clients.retain(|client| client.is_subscriber()),
                "master" | "replica" | "slave" => clients.clear(),
                _ => return Err(format!("ERR Unknown client type '{text}'")),
            },
            b"MAXAGE" if kill => {
                let age_s: u64 = text.parse().map_err(|_| NOT_INTEGER.to_owned())?;
                let now_ns = call.context.unix_ns();
                let old = |client: &Arc<Client>| {
                    now_ns.saturating_sub(client.connected_unix_ns) / 1_000_000_000 >= age_s
                };
                clients.retain(old);
            }
            _ => return Err(SYNTAX.to_owned()),
        }
    }
    Ok(clients)
}

fn parse_id(text: &[u8]) -> Result<u64, String> {
    tidewire_resp::number::parse_integer(text)
        .and_then(|id| u64::try_from(id).ok())
        .filter(|&id| id > 0)
        .ok_or_else(|| "ERR client-id should be greater than 0".to_owned())
}

fn skips_me_off(call: &Call<'_>) -> bool {
    let arguments: Vec<&[u8]> = call.arguments.iter().collect();
    arguments
        .windows(2)
        .any(|pair| pair[0].eq_ignore_ascii_case(b"SKIPME") && pair[1].eq_ignore_ascii_case(b"no"))
}

const SYNTAX: &str = "ERR syntax error";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";

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
