//! Commands about the connection itself.

use std::sync::atomic::Ordering;

use tidewire_lane::CloseReason;
use tidewire_resp::{Protocol, Writer};

use super::client::set_name;
use super::{Call, ReplyMode, RespSession, State};
use crate::attention::Obstacles;
use crate::tracked_clients::ON;
use crate::{REDIS_VERSION, VALKEY_VERSION};

impl RespSession {
    /// The client speaks RESP3 from the beginning.
    pub(crate) fn speak_resp3(&mut self) {
        self.state.protocol = Protocol::Resp3;
        self.state.client.protocol.store(3, Ordering::Relaxed);
    }
}

impl State {
    pub(super) fn ping(&self, call: &mut Call<'_>) {
        if call.arguments.len() > 2 {
            let text = "ERR wrong number of arguments for 'ping' command";
            return self.refuse(call, text);
        }
        let message = call.arguments.get(1);
        if self.subscriber_mode() {
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
        let protocol = match call.arguments.get(1) {
            None => self.protocol,
            Some(version) => match tidewire_resp::number::parse_integer(version) {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => return self.refuse(call, "NOPROTO unsupported protocol version"),
                None => {
                    let text = "ERR Protocol version is not an integer or out of range";
                    return self.refuse(call, text);
                }
            },
        };
        let (mut name, mut credentials) = (None, None);
        let mut index = 2;
        while let Some(option) = call.arguments.get(index) {
            let left = call.arguments.len() - index - 1;
            if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
                name = Some(call.arguments[index + 1].to_vec());
                index += 2;
            } else if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
                credentials = Some((index + 1, index + 2));
                index += 3;
            } else {
                let option = String::from_utf8_lossy(option).into_owned();
                let text = format!("ERR Syntax error in HELLO option '{option}'");
                return self.refuse(call, &text);
            }
        }
        if let Some(name) = &name
            && let Err(text) = super::client::check_name(name)
        {
            return self.refuse(call, text);
        }
        if let Some((user, password)) = credentials
            && !self.authenticate(call, &call.arguments[user], &call.arguments[password])
        {
            return self.refuse(call, super::authentication::WRONG_PASSWORD);
        }
        if !self.is_authenticated() {
            return self.refuse(call, super::authentication::HELLO_WITHOUT);
        }
        if let Some(name) = name {
            let _ = set_name(&self.client, &name);
        }
        self.set_protocol(call, protocol);
        let id = self.client.id as i64;
        let role = match call.server.replication.master() {
            Some(_) => "replica",
            None => "master",
        };
        let product = match call.server.follows_valkey() {
            true => ("valkey", VALKEY_VERSION),
            false => ("redis", REDIS_VERSION),
        };
        self.reply(call.context, |reply| {
            write_hello(reply, product, protocol, id, role);
        });
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
        // Before the reply: a client that sees the reply, on any lane, finds this one gone.
        call.server.clients.disconnect(self.client.id);
        self.reply(call.context, |reply| reply.ok());
        call.context
            .close_after_flush(self.id, CloseReason::Requested);
        self.set_closing();
    }

    pub(super) fn reset(&mut self, call: &mut Call<'_>) {
        self.drop_transaction(call.server);
        call.fanout.remove(self.id);
        self.count_subscriptions(call);
        self.forget_user(call.server);
        self.client.no_evict.store(false, Ordering::Relaxed);
        self.client.no_touch.store(false, Ordering::Relaxed);
        self.stop_tracking(call.server);
        self.stop_monitoring(call.server);
        self.own.set(Obstacles::NO_TOUCH, false);
        self.database = 0;
        self.client.database.store(0, Ordering::Relaxed);
        self.client.labels.lock().name.clear();
        self.set_reply_mode(ReplyMode::On);
        self.set_protocol(call, Protocol::Resp2);
        debug_assert!(
            !self.own.has(
                Obstacles::TRANSACTION
                    | Obstacles::SUBSCRIBER
                    | Obstacles::NO_TOUCH
                    | Obstacles::MUTED
            ),
            "RESET ends every mode of the connection"
        );
        debug_assert!(
            !self.client.tracking.has(ON) && !self.client.monitors.load(Ordering::Relaxed),
            "RESET ends CLIENT TRACKING and MONITOR"
        );
        self.reply(call.context, |reply| reply.simple("RESET"));
    }

    fn set_protocol(&mut self, call: &mut Call<'_>, protocol: Protocol) {
        self.protocol = protocol;
        let version = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.client.protocol.store(version, Ordering::Relaxed);
        call.fanout.set_dialect(self.id, self.dialect());
    }
}

fn write_hello(
    reply: &mut Writer<'_>,
    (name, version): (&str, &str),
    protocol: Protocol,
    id: i64,
    role: &str,
) {
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(name.as_bytes());
    reply.bulk(b"version");
    reply.bulk(version.as_bytes());
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(role.as_bytes());
    reply.bulk(b"modules");
    reply.array(0);
}
