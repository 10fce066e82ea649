//! Users of other protocols: the same users as those of Redis clients.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tidewire_keyspace::lookup;
use tidewire_resp::ArgumentList;

use crate::access::denial_text;
use crate::access::{AccessControl, AclLogEntry, KeyRights, Origin, Reason, Rules, User, Verb};
use crate::other_clients::{OtherClient, PageState};
use crate::parameters::{ACLLOG_MAX_LEN, PROTECTED_MODE};
use crate::server::Server;
use tidewire_lane::unix_ms;

/// The user that a peer is, and what that user may do as far as has been seen.
#[derive(Debug)]
pub struct Identity {
    /// The peer as CLIENT KILL finds it.
    client: Arc<OtherClient>,
    /// The peer's protocol, for ACL LOG.
    protocol: &'static str,
    /// The peer's name for itself, for ACL LOG.
    label: String,
    /// From the end of the handshake on.
    user: Option<Arc<User>>,
    /// None once the user is deleted.
    rules: Option<Arc<Rules>>,
    /// The generation of users with which everything is allowed; 0: look closely.
    free_at: u64,
    /// Protected mode does not let it in.
    pub is_refused: bool,
}

impl Identity {
    /// The identity of a peer that has not authenticated yet.
    pub fn new(client: Arc<OtherClient>, protocol: &'static str, is_refused: bool) -> Self {
        Self {
            client,
            protocol,
            label: String::new(),
            is_refused,
            user: None,
            rules: None,
            free_at: 0,
        }
    }

    /// Where the peer is.
    pub fn address(&self) -> &str {
        self.client.address()
    }

    /// Shows the peer in CLIENT LIST as a web page with this name for itself.
    pub fn show_page(&self, server: &Server, name: &[u8]) {
        let (others, clients) = (&server.other_clients, &server.clients);
        others.show_page(clients, &self.client, name);
    }

    /// Notes the state of a web page, for CLIENT LIST and the memory limit of clients.
    pub fn note_page(&self, server: &Server, state: PageState) {
        server.other_clients.note_page(&self.client, state);
    }

    /// Notes the peer's name for itself. What CLIENT SETNAME does not accept is replaced.
    pub fn set_label(&mut self, label: &str) {
        let printable = |one: char| if one.is_ascii_graphic() { one } else { '_' };
        self.label = label.chars().map(printable).collect();
    }

    /// The name of its user; empty before it has one.
    pub fn user_name(&self) -> &[u8] {
        self.user.as_ref().map_or(b"", |user| user.name_bytes())
    }

    /// Its user, once it has authenticated and while that exists.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref().filter(|_| self.rules.is_some())
    }

    /// What its user may do to keys by the rules that it has looked at; `None` if it
    /// has no user.
    pub fn key_rights(&self, verb: Verb) -> Option<KeyRights> {
        KeyRights::new(self.rules.clone()?, verb)
    }

    /// Keeps for ACL LOG that its user may not do this to a key. `is_command` tells that the user
    /// may do it to none.
    pub fn note_denied(&self, server: &Server, object: &[u8], is_command: bool) {
        let reason = match is_command {
            true => Reason::Command,
            false => Reason::Key,
        };
        self.note(server, reason, object, self.user_name());
    }

    /// Makes it this user.
    pub fn become_user(&mut self, access: &AccessControl, user: Arc<User>) {
        *self.client.user.lock() = Some(user.clone());
        self.user = Some(user);
        self.look(access);
    }

    /// Takes the newest rules of its user; whether they are others than before.
    pub fn look(&mut self, access: &AccessControl) -> bool {
        // The next look sees any change from here on.
        let generation = access.generation();
        let rules = self.user.as_ref().and_then(|user| user.rules());
        let is_same = match (&self.rules, &rules) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        let is_free = rules.as_ref().is_some_and(|rules| rules.is_unlimited());
        self.rules = rules;
        debug_assert_ne!(generation, 0, "0 is the generation of nobody");
        self.free_at = if is_free { generation } else { 0 };
        !is_same
    }

    /// Whether it has authenticated as a user that still exists.
    pub fn is_somebody(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether everything is allowed, by the newest rules of all users.
    #[inline]
    pub fn is_free(&self, access: &AccessControl) -> bool {
        self.free_at == access.generation()
    }

    /// Whether it may do what this Redis command does; otherwise the text of the refusal, which
    /// is kept for ACL LOG.
    pub fn check(&mut self, server: &Server, words: &[&[u8]]) -> Result<(), String> {
        if self.is_free(&server.access) {
            return Ok(());
        }
        self.look(&server.access);
        let (Some(user), Some(rules)) = (&self.user, &self.rules) else {
            return Err("NOAUTH Authentication required.".to_owned());
        };
        let request = ArgumentList::from_slices(words);
        let Some(command) = words.first().and_then(|name| lookup(name)) else {
            return Ok(());
        };
        let Err(denial) = rules.check(command, request.as_arguments(), DATABASE) else {
            return Ok(());
        };
        debug_assert!(
            !rules.is_unlimited(),
            "who may do everything is denied nothing"
        );
        let object = words.get(denial.at).copied().unwrap_or_default();
        let text = denial_text(denial.reason, user, command);
        self.note(server, denial.reason, object, &user.name);
        Err(format!("NOPERM {text}"))
    }

    /// Whether it may read a key. A refusal is not logged.
    pub fn may_read(&mut self, server: &Server, key: &[u8]) -> bool {
        if self.is_free(&server.access) {
            return true;
        }
        self.look(&server.access);
        let request = ArgumentList::from_slices(&[b"GET", key]);
        let (Some(rules), Some(command)) = (&self.rules, lookup(b"get")) else {
            return false;
        };
        let request = request.as_arguments();
        rules.check(command, request, DATABASE).is_ok()
    }

    /// Whether it may listen to all that is published under names that begin so.
    pub fn may_listen(&mut self, server: &Server, prefix: &[u8]) -> bool {
        if self.is_free(&server.access) {
            return true;
        }
        self.look(&server.access);
        let (Some(user), Some(rules)) = (&self.user, &self.rules) else {
            return false;
        };
        let allows = rules.allows_prefix(prefix);
        if !allows {
            self.note(server, Reason::Channel, prefix, &user.name);
        }
        allows
    }

    /// Logs a failed login.
    pub fn note_failed_login(&self, server: &Server, protocol: &str, name: &[u8]) {
        tidewire_retry::note_failed_login(protocol, self.address(), name);
        self.note(server, Reason::Authentication, b"AUTH", name);
    }

    fn note(&self, server: &Server, reason: Reason, object: &[u8], user: &[u8]) {
        let (address, label, protocol) = (self.address(), &self.label, self.protocol);
        let client = format!("addr={address} name={label} lib-name={protocol}");
        note(server, (reason, object), user, client);
    }
}

/// Keeps a refusal for ACL LOG.
pub(crate) fn note(
    server: &Server,
    (reason, object): (Reason, &[u8]),
    user: &[u8],
    client: String,
) {
    let entry = AclLogEntry {
        reason,
        origin: Origin::Toplevel,
        object: object.to_vec(),
        user: user.into(),
        client,
        unix_ms: unix_ms(),
    };
    let entries_max = server.parameters.read(ACLLOG_MAX_LEN);
    let entries_max = usize::try_from(entries_max).unwrap_or(usize::MAX);
    server.access.note(entry, entries_max);
}

impl Server {
    /// Whether protected mode is on.
    pub fn is_protected(&self) -> bool {
        self.parameters.read(PROTECTED_MODE)
    }

    /// Whether a user may come in from elsewhere: not with any password under protected mode.
    pub fn is_open_to_strangers(&self, needs_no_password: bool, address: &str) -> bool {
        let is_local = address
            .parse::<SocketAddr>()
            .map_or(true, |address| is_loopback(address.ip()));
        is_local || !needs_no_password || !self.is_protected()
    }
}

/// Whether an address is of this machine alone, also one of IPv4 in IPv6's form.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Protocols without SELECT use the first database.
const DATABASE: usize = 0;
