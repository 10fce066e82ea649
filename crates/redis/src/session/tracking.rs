//! CLIENT TRACKING and its kin, and what it tells the client.

use std::sync::atomic::Ordering;

use tidewire_keyspace::Command;
use tidewire_lane::{CloseReason, ConnectionId, Context};
use tidewire_resp::number::parse_integer;

use super::blocking::NOT_INTEGER;
use super::{Call, RespSession, State};
use crate::attention::Obstacles;
use crate::parameters::ClientClass;
use crate::server::Server;
use crate::tracked_clients::{BCAST, BROKEN, CACHING, Invalid, NOLOOP, ON, OPTIN, OPTOUT};
use crate::tracking::Acting;

/// The options of CLIENT TRACKING ON.
#[derive(Debug, Default)]
struct Options<'a> {
    flags: u32,
    redirect: u64,
    prefixes: Vec<&'a [u8]>,
}

impl RespSession {
    /// The client must not use what it has read, or what another client has that redirects to it.
    pub(crate) fn invalid(
        &mut self,
        server: &Server,
        context: &mut Context,
        connection: ConnectionId,
        is_redirected: bool,
        invalid: &Invalid,
    ) {
        if self.state.id == connection && !self.state.is_deaf(server, context) {
            self.state.write_invalid(context, is_redirected, invalid);
        }
    }

    /// Shows a command to a client that listens to all of them.
    pub(crate) fn show(
        &mut self,
        server: &Server,
        context: &mut Context,
        connection: ConnectionId,
        line: &[u8],
    ) {
        if self.state.id == connection
            && !self.state.is_deaf(server, context)
            && let Some(out) = context.out(connection)
        {
            out.buffer().extend_from_slice(line);
        }
    }
}

impl State {
    /// Cuts off a client that does not read its push messages. Returns whether it did.
    fn is_deaf(&self, server: &Server, context: &mut Context) -> bool {
        let limit = server
            .parameters
            .output_limit(ClientClass::Pubsub)
            .hard_bytes;
        if context.is_ending(self.id) {
            return true;
        }
        if limit == 0 || context.out_bytes(self.id) as u64 <= limit {
            return false;
        }
        self.tell_cut_off();
        server.post.counters.cut_off.fetch_add(1, Ordering::Relaxed);
        context.close(self.id, CloseReason::Requested);
        true
    }

    fn write_invalid(&self, context: &mut Context, is_redirected: bool, invalid: &Invalid) {
        let takes_messages = is_redirected && self.client.is_subscriber();
        if let Some(out) = context.out(self.id) {
            invalid.write(out.buffer(), self.protocol, takes_messages);
        }
    }

    /// Executes a command while clients track keys: what it reads and changes is this client's.
    pub(super) fn run_tracked(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
        obstacles: Obstacles,
    ) {
        let acting = Acting::begin(&self.client);
        self.pass(call, command, obstacles);
        let invalid = acting.end();
        let own = &self.client.tracking;
        let is_client = command.full_name.starts_with("client|");
        if own.has(CACHING) && !is_client && self.transaction.is_none() {
            own.clear(CACHING);
        }
        for invalid in invalid {
            if own.redirect() > 0 {
                call.server.tell_invalid(&self.client, invalid);
            } else {
                self.write_invalid(call.context, false, &invalid);
            }
        }
    }

    /// The client tracks nothing any more.
    pub(super) fn stop_tracking(&self, server: &Server) {
        server.stop_tracking(&self.client);
    }

    pub(super) fn client_tracking(&mut self, call: &mut Call<'_>) {
        let options = match self.tracking_options(call) {
            Ok(options) => options,
            Err(text) => return self.refuse(call, &text),
        };
        let (server, mode) = (call.server, &call.arguments[2]);
        if mode.eq_ignore_ascii_case(b"OFF") {
            server.stop_tracking(&self.client);
        } else if !mode.eq_ignore_ascii_case(b"ON") {
            return self.refuse(call, SYNTAX);
        } else if let Err(text) = self.check_tracking(&options) {
            return self.refuse(call, &text);
        } else {
            let Options {
                flags,
                redirect,
                prefixes,
            } = options;
            server.begin_tracking(&self.client, flags, redirect, &prefixes);
        }
        self.reply(call.context, |reply| reply.ok());
    }

    fn tracking_options<'a>(&self, call: &Call<'a>) -> Result<Options<'a>, String> {
        let mut options = Options::default();
        let mut words = call.arguments.tail(3).iter();
        while let Some(word) = words.next() {
            let flag = match word.to_ascii_uppercase().as_slice() {
                b"BCAST" => BCAST,
                b"OPTIN" => OPTIN,
                b"OPTOUT" => OPTOUT,
                b"NOLOOP" => NOLOOP,
                b"PREFIX" => {
                    options.prefixes.push(words.next().ok_or(SYNTAX)?);
                    continue;
                }
                b"REDIRECT" => {
                    let id = words.next().ok_or(SYNTAX)?;
                    if options.redirect != 0 {
                        return Err(ONE_REDIRECT.to_owned());
                    }
                    let id = parse_integer(id).ok_or(NOT_INTEGER)?;
                    let client = u64::try_from(id).ok();
                    let client = client.and_then(|id| call.server.clients.find(id));
                    options.redirect = client.ok_or(NO_SUCH_CLIENT)?.id;
                    continue;
                }
                _ => return Err(SYNTAX.to_owned()),
            };
            options.flags |= flag;
        }
        Ok(options)
    }

    /// Whether options go together, and with what is on already.
    fn check_tracking(&self, options: &Options<'_>) -> Result<(), String> {
        let own = &self.client.tracking;
        let wants = |flag: u32| options.flags & flag != 0;
        let text = if !wants(BCAST) && !options.prefixes.is_empty() {
            "ERR PREFIX option requires BCAST mode to be enabled"
        } else if own.has(ON) && own.has(BCAST) != wants(BCAST) {
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, \
             and then re-enabling it with a different mode."
        } else if wants(BCAST) && wants(OPTIN | OPTOUT) {
            "ERR OPTIN and OPTOUT are not compatible with BCAST"
        } else if wants(OPTIN) && wants(OPTOUT) {
            "ERR You can't specify both OPTIN mode and OPTOUT mode"
        } else if wants(OPTIN) && own.has(OPTOUT) || wants(OPTOUT) && own.has(OPTIN) {
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, \
             and then re-enabling it with a different mode."
        } else {
            return self.check_prefixes(options);
        };
        Err(text.to_owned())
    }

    /// Prefixes of one client must not overlap: it would hear of a key twice.
    fn check_prefixes(&self, options: &Options<'_>) -> Result<(), String> {
        let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(['\r', '\n'], " ");
        for (number, prefix) in options.prefixes.iter().enumerate() {
            let known = self.client.tracking.overlapping(prefix);
            let later = &options.prefixes[number + 1..];
            let (which, other) = match known {
                Some(known) => ("an existing prefix", text(&known)),
                None => match later.iter().find(|other| overlap(other, prefix)) {
                    Some(other) => ("another provided prefix", text(other)),
                    None => continue,
                },
            };
            return Err(format!(
                "ERR Prefix '{}' overlaps with {which} '{other}'. Prefixes for a single client \
                 must not overlap.",
                text(prefix)
            ));
        }
        Ok(())
    }

    pub(super) fn client_caching(&mut self, call: &mut Call<'_>) {
        let own = &self.client.tracking;
        if !own.has(ON) {
            let text = "ERR CLIENT CACHING can be called only when the client is in tracking mode \
                        with OPTIN or OPTOUT mode enabled";
            return self.refuse(call, text);
        }
        let answer = &call.arguments[2];
        let (mode, text) = if answer.eq_ignore_ascii_case(b"YES") {
            (OPTIN, CACHING_YES)
        } else if answer.eq_ignore_ascii_case(b"NO") {
            (OPTOUT, CACHING_NO)
        } else {
            return self.refuse(call, SYNTAX);
        };
        if !own.has(mode) {
            return self.refuse(call, text);
        }
        own.set(CACHING);
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn client_get_redirect(&self, call: &mut Call<'_>) {
        let redirect = self.client.tracking.redirect();
        self.reply(call.context, |reply| reply.integer(redirect));
    }

    pub(super) fn client_tracking_info(&self, call: &mut Call<'_>) {
        let own = &self.client.tracking;
        let mut flags = vec![if own.has(ON) { "on" } else { "off" }];
        for (flag, word, caching) in [
            (BCAST, "bcast", ""),
            (OPTIN, "optin", "caching-yes"),
            (OPTOUT, "optout", "caching-no"),
            (NOLOOP, "noloop", ""),
            (BROKEN, "broken_redirect", ""),
        ] {
            if own.has(flag) {
                flags.push(word);
                flags.extend((own.has(CACHING) && !caching.is_empty()).then_some(caching));
            }
        }
        let prefixes = own.prefixes();
        self.reply(call.context, |reply| {
            reply.map(3);
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
            reply.bulk(b"redirect");
            reply.integer(own.redirect());
            reply.bulk(b"prefixes");
            reply.array(prefixes.len());
            prefixes.iter().for_each(|prefix| reply.bulk(prefix));
        });
    }

    /// MONITOR.
    pub(super) fn monitor(&mut self, call: &mut Call<'_>) {
        if self.is_executing {
            let text = "ERR MONITOR isn't allowed for DENY BLOCKING client";
            return self.refuse(call, text);
        }
        let (server, lane) = (call.server, call.context.lane());
        self.client.monitors.store(true, Ordering::Relaxed);
        self.reply(call.context, |reply| reply.ok());
        server
            .monitors
            .add(&server.attention, self.client.id, lane, self.id);
    }

    pub(super) fn stop_monitoring(&self, server: &Server) {
        if self.client.monitors.swap(false, Ordering::Relaxed) {
            server.monitors.remove(&server.attention, self.client.id);
        }
    }
}

const SYNTAX: &str = "ERR syntax error";
const ONE_REDIRECT: &str = "ERR A client can only redirect to a single other client";
const NO_SUCH_CLIENT: &str = "ERR The client ID you want redirect to does not exist";
const CACHING_YES: &str =
    "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
const CACHING_NO: &str =
    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
