//! CLIENT.

use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, Context};

use super::client_filter::{Filter, Listed, SYNTAX};
use super::{Call, ReplyMode, RespSession, State};
use crate::attention::Obstacles;
use crate::clients::Client;
use crate::mail::RedisMail;
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
        let filter = match Filter::of_list(call) {
            Ok(filter) => filter,
            Err(text) => return self.refuse(call, &text),
        };
        let now_unix_ns = call.context.unix_ns();
        let mut text = String::new();
        for one in filter.candidates(call) {
            text += &match one {
                Listed::Client(client) if self.is_chosen(call, &filter, &client) => {
                    self.describe(call, &client)
                }
                Listed::Page(client) if filter.accepts_other(&client, now_unix_ns) => {
                    let page = client.page();
                    let describe = |page| client.describe_page(page, now_unix_ns);
                    page.map_or_else(String::new, describe)
                }
                _ => continue,
            };
            text.push('\n');
        }
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }

    pub(super) fn client_kill(&mut self, call: &mut Call<'_>) {
        let by_address = call.arguments.len() == 3;
        let filter = match by_address {
            true => Ok(Filter::of_address(&call.arguments[2])),
            false => Filter::of_kill(call),
        };
        let filter = match filter {
            Ok(filter) => filter,
            Err(text) => return self.refuse(call, &text),
        };
        let (mut killed, mut own) = (0, false);
        for client in call.server.clients.list() {
            let is_me = client.id == self.client.id;
            if !self.is_chosen(call, &filter, &client) {
                continue;
            }
            killed += 1;
            tracing::debug!(client = client.id, by = self.client.id, "killed");
            if is_me {
                own = true;
            } else {
                // No client sees it from now on, although its lane ends the connection later.
                call.server.clients.disconnect(client.id);
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

    /// Whether a filter of this client's is about a client.
    fn is_chosen(&self, call: &Call<'_>, filter: &Filter, client: &Client) -> bool {
        let is_skipped = client.id == self.client.id && filter.skips_me;
        let is_blocked = || call.server.waiting.contains(client.id);
        !is_skipped && filter.accepts(client, is_blocked(), call.context.unix_ns())
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

    /// CLIENT CAPA of Valkey: what the client can do. Unknown words are ignored.
    pub(super) fn client_capa(&mut self, call: &mut Call<'_>) {
        let mut words = call.arguments.tail(2).iter();
        if words.any(|word| word.eq_ignore_ascii_case(b"redirect")) {
            self.client.redirects.store(true, Ordering::Relaxed);
        }
        self.reply(call.context, |reply| reply.ok());
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
        let is_valkey = call.server.follows_valkey();
        client.describe(call.context.unix_ns(), blocked, forget_after_ns, is_valkey)
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
