//! Users of the native feed: the same as those of Redis clients.
//!
//! A user may read a symbol if it may GET `md:SYMBOL`, and publish it if it may SET that key.

use std::sync::Arc;

use tidewire_feed::server::{Names, Readable};
use tidewire_feed::wire::{Credentials, Login, RefusalReason, RefusalText, Refused, Role};
use tidewire_market::{FeedUser, Look, MARKET_PREFIX};
use tidewire_redis::{
    DEFAULT, Identity, KeyRights, NotAdmitted, OtherClient, Proof, Server, User, Verb,
};

/// The user of a connection to the feed's port.
#[derive(Debug)]
pub(crate) struct HubUser {
    server: Arc<Server>,
    identity: Identity,
    /// The user that the peer's certificate names.
    certified: Option<Arc<User>>,
    /// Whether it has shown a certificate, which lets it in from another machine.
    has_certificate: bool,
    /// What it does here, once it has logged in.
    verb: Verb,
    rights: Option<KeyRights>,
}

impl HubUser {
    pub(crate) fn new(
        server: Arc<Server>,
        client: Arc<OtherClient>,
        certified: Option<Arc<User>>,
        has_certificate: bool,
    ) -> Self {
        Self {
            server,
            identity: Identity::new(client, "feed", false),
            certified,
            has_certificate,
            verb: Verb::Read,
            rights: None,
        }
    }

    /// Returns the user of a login, or why it is refused.
    fn admit(&self, credentials: Option<&Credentials>) -> Result<Arc<User>, Refused> {
        let proof = match credentials {
            Some(given) => Proof::Password {
                name: name_of(given),
                password: given.password.as_bytes(),
            },
            None => Proof::Nothing {
                certified: self.certified.clone(),
            },
        };
        let (server, has_certificate) = (&self.server, self.has_certificate);
        let admitted = self
            .identity
            .admit(server, "native feed", &proof, has_certificate);
        admitted.map_err(|reason| match reason {
            NotAdmitted::Missing => refused(RefusalReason::WRONG_CREDENTIALS, MISSING),
            NotAdmitted::Wrong => refused(RefusalReason::WRONG_CREDENTIALS, WRONG),
            NotAdmitted::Elsewhere => refused(RefusalReason::DENIED, ELSEWHERE),
        })
    }

    /// The user of a client of the gateway, whose key stands for this user; and what it may read.
    pub(crate) fn of_gateway(
        server: Arc<Server>,
        client: Arc<OtherClient>,
        name: &str,
    ) -> Result<(Self, Readable), Refused> {
        let mut own = Self {
            identity: Identity::new(client.clone(), "databento", false),
            ..Self::new(server, client, None, false)
        };
        let proof = Proof::Key {
            name: Some(name.as_bytes()),
        };
        let admitted = own.identity.admit(&own.server, "Databento", &proof, true);
        let user = admitted.map_err(|_| refused(RefusalReason::WRONG_CREDENTIALS, NO_USER))?;
        own.identity.become_user(&own.server.access, user);
        let readable = own.begin()?;
        Ok((own, readable))
    }

    /// Finds what its user may do here. Returns what it may read, or a refusal if that is nothing.
    fn begin(&mut self) -> Result<Readable, Refused> {
        let rights = self.newest();
        let Some(rights) = rights.filter(|rights| !rights.allows_none(MARKET_PREFIX)) else {
            return Err(self.refuse_all());
        };
        let readable = readable(&rights, self.verb);
        self.rights = Some(rights);
        Ok(readable)
    }

    /// Refuses a user that may do nothing here.
    fn refuse_all(&self) -> Refused {
        let (command, text) = match self.verb {
            Verb::Read => ("get", READS_NOTHING),
            Verb::Write => ("set", PUBLISHES_NOTHING),
        };
        self.identity
            .note_denied(&self.server, command.as_bytes(), true);
        refused(RefusalReason::NOT_ALLOWED, text)
    }

    /// Returns what its user may do here by the newest rules.
    fn newest(&mut self) -> Option<KeyRights> {
        self.identity.look(&self.server.access);
        self.identity.key_rights(self.verb)
    }
}

impl FeedUser for HubUser {
    fn log_in(&mut self, login: &Login) -> Result<Readable, Refused> {
        self.identity.set_label(login.client_name.as_str());
        let user = self.admit(login.credentials.as_ref())?;
        self.identity.become_user(&self.server.access, user);
        self.verb = match login.role {
            Role::Publisher => Verb::Write,
            Role::Subscriber | Role::Recovery => Verb::Read,
        };
        self.begin()
    }

    fn name(&self) -> &[u8] {
        self.identity.user_name()
    }

    fn may_publish(&self, symbol: &str) -> bool {
        let rights = self.rights.as_ref().filter(|_| self.verb == Verb::Write);
        rights.is_some_and(|rights| {
            rights.allows_all(MARKET_PREFIX) || with_key(symbol, |key| rights.allows(key))
        })
    }

    fn note_refused(&self, symbol: &str) {
        with_key(symbol, |key| {
            self.identity.note_denied(&self.server, key, false);
            true
        });
    }

    fn look(&mut self) -> Look {
        let Some(before) = self.rights.take() else {
            return Look::Same;
        };
        let Some(now) = self.newest() else {
            return Look::Gone(refused(RefusalReason::NOT_ALLOWED, DELETED));
        };
        let whole = |rights: &KeyRights| rights.allows_all(MARKET_PREFIX);
        let look = match self.verb {
            _ if now.is_as(&before) => Look::Same,
            _ if now.allows_none(MARKET_PREFIX) => return Look::Gone(self.refuse_all()),
            Verb::Read if whole(&now) && whole(&before) => Look::Same,
            Verb::Read => Look::Reads(readable(&now, self.verb)),
            Verb::Write if now.includes(&before, MARKET_PREFIX) => Look::Same,
            Verb::Write => Look::PublishesLess,
        };
        self.rights = Some(now);
        look
    }
}

/// The topics that a user may read.
#[derive(Debug)]
struct ReadableTopics {
    rights: KeyRights,
    steps: u64,
}

impl Names for ReadableTopics {
    fn contains(&self, name: &str) -> bool {
        with_key(name, |key| self.rights.allows(key))
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Returns the topics that a reader is limited to; `None` for all.
fn readable(rights: &KeyRights, verb: Verb) -> Readable {
    if verb == Verb::Write || rights.allows_all(MARKET_PREFIX) {
        return None;
    }
    let steps = STEPS_A_PATTERN * rights.pattern_count() as u64;
    let rights = rights.clone();
    Some(Arc::new(ReadableTopics { rights, steps }))
}

/// Calls `f` with the key of a symbol's topic. A name that no topic can have is no key.
fn with_key(symbol: &str, f: impl FnOnce(&[u8]) -> bool) -> bool {
    let mut key = [0; KEY_BYTES_MAX];
    let length = MARKET_PREFIX.len() + symbol.len();
    let Some(room) = key.get_mut(..length) else {
        return false;
    };
    let (prefix, name) = room.split_at_mut(MARKET_PREFIX.len());
    prefix.copy_from_slice(MARKET_PREFIX);
    name.copy_from_slice(symbol.as_bytes());
    f(&key[..length])
}

fn name_of(credentials: &Credentials) -> &[u8] {
    let name = credentials.user.as_bytes();
    if name.is_empty() { DEFAULT } else { name }
}

fn refused(reason: RefusalReason, text: &str) -> Refused {
    let text = RefusalText::truncated(text);
    Refused { reason, text }
}

/// The prefix and the longest name, and some room.
const KEY_BYTES_MAX: usize = 128;
/// Steps of comparing a name with a pattern.
const STEPS_A_PATTERN: u64 = 16;
// Refusals have room for 72 bytes.
const WRONG: &str = "NotAllowed: wrong user or password, or the user is disabled";
const MISSING: &str = "NotAllowed: credentials are needed: log in with user and password";
const ELSEWHERE: &str = "NotAllowed: nopass users come from this machine only (protected mode)";
const READS_NOTHING: &str = "NotAllowed: the user reads nothing; allow +get %R~md:*";
const PUBLISHES_NOTHING: &str = "NotAllowed: the user publishes nothing; allow +set %W~md:*";
const NO_USER: &str = "NotAllowed: the user of --databento-user does not exist or is disabled";
const DELETED: &str = "NotAllowed: the user is deleted";
