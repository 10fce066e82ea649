//! Who a ZeroMQ peer is, and what it may do: users are the same as those of Redis clients.

use std::sync::Arc;

use tidewire_keyspace::lookup;
use tidewire_resp::ArgumentList;
use tidewire_zmtp::{Config, Credentials, Security};

use crate::access::{AccessControl, Entry, Origin, Reason, Rules, User};
use crate::hub::Hub;
use crate::session::resp::{NO_KEY, no_command_text};
use crate::zmq_security::ZmqSecurity;
use tidewire_lane::unix_ms;
use tidewire_retry::note_failed_login;

/// The user that a peer is, and what that user may do as far as has been seen.
#[derive(Debug)]
pub(super) struct Identity {
    /// Where the peer is, for the log.
    address: String,
    /// From the end of the handshake on.
    user: Option<Arc<User>>,
    /// None once the user is deleted.
    rules: Option<Arc<Rules>>,
    /// The generation of users with which everything is allowed; 0: look closely.
    free_at: u64,
    /// Protected mode does not let it in.
    is_refused: bool,
}

impl Identity {
    pub(super) fn new(address: String, is_refused: bool) -> Self {
        Self {
            address,
            is_refused,
            user: None,
            rules: None,
            free_at: 0,
        }
    }

    /// Where the peer is.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// It is this user from now on.
    pub(super) fn become_user(&mut self, access: &AccessControl, user: Arc<User>) {
        self.user = Some(user);
        self.look(access);
    }

    /// Takes the newest rules of its user; whether they are others than before.
    pub(super) fn look(&mut self, access: &AccessControl) -> bool {
        // What changes from here on will be seen by the next look.
        let generation = access.generation();
        let rules = self.user.as_ref().and_then(|user| user.rules());
        let is_same = match (&self.rules, &rules) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        let is_free = rules.as_ref().is_some_and(|rules| rules.is_unlimited());
        self.rules = rules;
        self.free_at = if is_free { generation } else { 0 };
        !is_same
    }

    /// Whether it has proved to be somebody who still exists.
    pub(super) fn is_somebody(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether everything is allowed, by the newest rules of all users.
    #[inline]
    pub(super) fn is_free(&self, access: &AccessControl) -> bool {
        self.free_at == access.generation()
    }

    /// Whether it may do what this Redis command does; otherwise the text of the refusal, which
    /// is kept for ACL LOG.
    pub(super) fn check(&mut self, hub: &Hub, words: &[&[u8]]) -> Result<(), String> {
        if self.is_free(&hub.access) {
            return Ok(());
        }
        self.look(&hub.access);
        let (Some(user), Some(rules)) = (&self.user, &self.rules) else {
            return Err("NOAUTH Authentication required.".to_owned());
        };
        let request = ArgumentList::from_slices(words);
        let Some(command) = words.first().and_then(|name| lookup(name)) else {
            return Ok(());
        };
        let Err(denial) = rules.check(command, request.as_arguments()) else {
            return Ok(());
        };
        let object = words.get(denial.at).copied().unwrap_or_default();
        let text = match denial.reason {
            Reason::Command => no_command_text(user, command),
            Reason::Key => NO_KEY.to_owned(),
            _ => "No permissions to access a channel".to_owned(),
        };
        note(hub, denial.reason, object, &user.name, &self.address);
        Err(format!("NOPERM {text}"))
    }

    /// Whether it may read a key; nobody is told if not.
    pub(super) fn may_read(&mut self, hub: &Hub, key: &[u8]) -> bool {
        if self.is_free(&hub.access) {
            return true;
        }
        self.look(&hub.access);
        let request = ArgumentList::from_slices(&[b"GET", key]);
        let (Some(rules), Some(command)) = (&self.rules, lookup(b"get")) else {
            return false;
        };
        rules.check(command, request.as_arguments()).is_ok()
    }

    /// Whether it may listen to all that is published under names that begin so.
    pub(super) fn may_listen(&mut self, hub: &Hub, prefix: &[u8]) -> bool {
        if self.is_free(&hub.access) {
            return true;
        }
        self.look(&hub.access);
        let (Some(user), Some(rules)) = (&self.user, &self.rules) else {
            return false;
        };
        let allows = rules.allows_prefix(prefix);
        if !allows {
            note(hub, Reason::Channel, prefix, &user.name, &self.address);
        }
        allows
    }

    /// Which user shows these credentials; None lets nobody in.
    pub(super) fn admit(&self, hub: &Hub, credentials: Credentials<'_>) -> Option<Arc<User>> {
        let access = &hub.access;
        if self.is_refused {
            return None;
        }
        let admitted = match credentials {
            Credentials::Null => stranger(access),
            Credentials::Plain { username, password } => access.authenticate(username, password),
            Credentials::Curve { public_key } => match &hub.config.zmq_security {
                ZmqSecurity::Curve(curve) => match &curve.clients {
                    None => stranger(access),
                    Some(clients) => {
                        let user = clients.get(&public_key);
                        let user = user.and_then(|name| access.find(name));
                        user.filter(|user| user.rules().is_some_and(|rules| rules.is_enabled))
                    }
                },
                _ => None,
            },
            _ => None,
        };
        let admitted = admitted.filter(|user| {
            let is_plain = matches!(credentials, Credentials::Plain { .. });
            let needs_none = user.rules().is_some_and(|rules| rules.needs_no_password);
            hub.is_open_to_strangers(is_plain && needs_none, &self.address)
        });
        if admitted.is_none() {
            let name: &[u8] = match credentials {
                Credentials::Plain { username, .. } => username,
                _ => b"default",
            };
            note_failed_login("ZeroMQ", &self.address, name);
            note(hub, Reason::Authentication, b"AUTH", name, &self.address);
        }
        admitted
    }
}

/// The user of those who do not say who they are, unless that one needs a password.
fn stranger(access: &AccessControl) -> Option<Arc<User>> {
    (!access.requires_password()).then(|| access.default_user().clone())
}

fn note(hub: &Hub, reason: Reason, object: &[u8], user: &[u8], address: &str) {
    let entry = Entry {
        reason,
        origin: Origin::Toplevel,
        object: object.to_vec(),
        user: user.into(),
        client: format!("addr={address} lib-name=zeromq"),
        unix_ms: unix_ms(),
    };
    let entries_max = hub.parameters.number("acllog-max-len");
    let entries_max = usize::try_from(entries_max).unwrap_or(usize::MAX);
    hub.access.note(entry, entries_max);
}

/// Asks peers for what the hub's configuration wants of them.
pub(super) fn secure(config: &mut Config, hub: &Hub, is_refused: bool) {
    match &hub.config.zmq_security {
        // Asked only where the answer is no: so old peers, which cannot be asked, are let in.
        ZmqSecurity::Null => {
            config.authenticate_null = is_refused || hub.access.requires_password();
        }
        ZmqSecurity::Plain => config.security = Security::PlainServer,
        ZmqSecurity::Curve(curve) => {
            config.security = Security::CurveServer {
                secret_key: curve.secret_key.clone(),
            };
        }
    }
}
