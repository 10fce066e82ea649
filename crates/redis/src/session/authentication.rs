//! AUTH, and what a client may do as the user that it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_keyspace::{Command, Flags, lookup};
use tidewire_lane::{CloseReason, Context};
use tidewire_resp::Arguments;

use super::{Call, RespSession, State};
use crate::access::denial_text;
use crate::access::{AccessControl, AclLogEntry, Denial, Origin, Reason, Rules, User};
use crate::admission::DEFAULT;
use crate::parameters::ACLLOG_MAX_LEN;
use crate::server::Server;
use tidewire_fanout::Fanout;
use tidewire_fanout::Kind;
use tidewire_lane::unix_ms;
use tidewire_retry::note_failed_login;

/// The user that a client is, and what that user may do as far as the client has seen.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) user: Arc<User>,
    /// None once the user is deleted.
    rules: Option<Arc<Rules>>,
    is_authenticated: bool,
    /// It must give a password first.
    pub(super) is_stranger: bool,
    /// The generation of users that the rules are of; 0: none yet.
    seen: u64,
    /// The same if the user may do everything, else 0: every command is checked.
    free_in: u64,
}

impl Permit {
    /// The permit of a client that has not authenticated.
    pub(super) fn new(access: &AccessControl) -> Self {
        let mut permit = Permit {
            user: access.default_user().clone(),
            rules: None,
            is_authenticated: !access.requires_password(),
            is_stranger: false,
            seen: 0,
            free_in: 0,
        };
        permit.look(access);
        permit
    }

    /// In which generation of users everything is allowed; 0 for none.
    #[inline]
    pub(super) fn free_in(&self) -> u64 {
        self.free_in
    }

    /// Whether everything is, by the rules that a transaction or a script has begun with.
    #[inline]
    fn was_free(&self) -> bool {
        self.free_in != 0
    }

    /// Takes the newest rules of its user.
    fn look(&mut self, access: &AccessControl) {
        // The next look sees any change from here on.
        let generation = access.generation();
        if self.seen == generation {
            return;
        }
        self.rules = self.user.rules();
        self.is_stranger = !self.is_authenticated && access.requires_password();
        let rules = self.rules.as_ref().filter(|_| !self.is_stranger);
        let is_free = rules.is_some_and(|rules| rules.is_unlimited());
        self.free_in = if is_free { generation } else { 0 };
        self.seen = generation;
        self.assert_invariants();
    }

    fn assert_invariants(&self) {
        debug_assert!(
            self.free_in == 0 || self.free_in == self.seen,
            "everything is allowed in the generation that was looked at, and in no other"
        );
        debug_assert!(
            !(self.is_stranger && self.is_authenticated),
            "a client that has given its password is no stranger"
        );
        debug_assert!(
            self.free_in == 0 || self.rules.is_some() && !self.is_stranger,
            "strangers and deleted users are looked at closely"
        );
    }

    fn become_user(&mut self, access: &AccessControl, user: Arc<User>) {
        (self.user, self.is_authenticated, self.seen) = (user, true, 0);
        self.look(access);
        debug_assert!(!self.is_stranger, "a user that was proved is known");
    }
}

impl RespSession {
    /// Makes the client a user that it has proved to be otherwise than by a password.
    pub(crate) fn become_user(&mut self, server: &Server, user: Arc<User>) {
        self.state.become_user(server, user);
    }

    /// Checks the client after a change of users. The connection ends if its user is deleted, or
    /// may no longer use a channel it is subscribed to.
    pub(crate) fn users_changed(
        &mut self,
        server: &Server,
        fanout: &Fanout,
        context: &mut Context,
    ) {
        self.state.look_at_user(server, fanout, context);
    }
}

impl State {
    pub(super) fn auth(&mut self, call: &mut Call<'_>) {
        let arguments = call.arguments;
        let right = match arguments.len() {
            2 if call.server.access.default_needs_no_password() => {
                return self.refuse(call, NO_PASSWORD);
            }
            2 => self.authenticate(call, DEFAULT, &arguments[1]),
            3 => self.authenticate(call, &arguments[1], &arguments[2]),
            _ => return self.refuse(call, "ERR syntax error"),
        };
        match right {
            true => self.reply(call.context, |reply| reply.ok()),
            false => self.refuse(call, WRONG_PASSWORD),
        }
    }

    /// Whether name and password are right; then the client is that user.
    pub(super) fn authenticate(&mut self, call: &Call<'_>, name: &[u8], password: &[u8]) -> bool {
        let access = &call.server.access;
        match access.authenticate(name, password) {
            Some(user) => {
                self.become_user(call.server, user);
                true
            }
            None => {
                note_failed_login("Redis", &self.client.address, name);
                let object = call.arguments[0].to_vec();
                self.note_refusal(call, Reason::Authentication, self.origin(), object, name);
                false
            }
        }
    }

    fn become_user(&mut self, server: &Server, user: Arc<User>) {
        *self.client.user.lock() = user.clone();
        self.permit.become_user(&server.access, user);
    }

    /// Resets the client to one that has not authenticated.
    pub(super) fn forget_user(&mut self, server: &Server) {
        self.permit = Permit::new(&server.access);
        *self.client.user.lock() = self.permit.user.clone();
    }

    /// Whether the client has authenticated, as HELLO requires.
    pub(super) fn is_authenticated(&self) -> bool {
        self.permit.is_authenticated
    }

    /// Refuses a command that the client may not run; false then.
    #[cold]
    #[inline(never)]
    pub(super) fn may_run(&mut self, call: &mut Call<'_>, command: &'static Command) -> bool {
        if !self.look_at_user(call.server, call.fanout, call.context) {
            return false;
        }
        if self.permit.is_stranger && call.context.out_bytes(self.id) > STRANGER_OUTPUT_BYTES_MAX {
            // Strangers get no memory, not even for refusals that they do not read.
            call.server
                .post
                .counters
                .cut_off
                .fetch_add(1, Ordering::Relaxed);
            call.context.close(self.id, CloseReason::Requested);
            self.set_closing();
            return false;
        }
        let text = if self.permit.is_stranger && !command.has(Flags::NO_AUTH) {
            NO_AUTH.to_owned()
        } else {
            let origin = self.origin();
            match self.denial(
                call,
                command,
                (call.arguments, self.next_database()),
                origin,
            ) {
                Some(denial) => format!("NOPERM {}", self.denial_text(denial, command)),
                None if self.transaction.is_some() => return true,
                None => return self.may_sort(call, command),
            }
        };
        self.refuse_for_now(call, command, &text);
        false
    }

    /// Refuses a queued command that the client may run no more; false then. The rules are those
    /// that EXEC began with: what others change meanwhile would let a part of it happen.
    pub(super) fn may_still_run(&mut self, call: &mut Call<'_>, command: &'static Command) -> bool {
        if self.permit.was_free() {
            return true;
        }
        let request = (call.arguments, self.database);
        let Some(denial) = self.denial(call, command, request, Origin::Multi) else {
            return self.may_sort(call, command);
        };
        let reason = match denial.reason {
            Reason::Command => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Database => "no permission to access the database",
            _ => "no permission to access one of the channels used as arguments to the command",
        };
        let text = format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
             EXEC call. This command is no longer allowed for the following reason: {reason}"
        );
        self.refuse(call, &text);
        false
    }

    /// Applies a transaction's own changes of users to its remaining commands.
    pub(super) fn follow_own_change(&mut self, call: &mut Call<'_>, command: &Command) {
        let server = call.server;
        if !command.has(Flags::CHANGES_USERS) {
            return;
        }
        self.permit.look(&server.access);
        if self.permit.rules.is_none() {
            // The user has deleted itself: the rest runs as the default user.
            self.forget_user(server);
            server.clients.disconnect(self.client.id);
            call.context
                .close_after_flush(self.id, CloseReason::Requested);
            self.set_closing();
        }
    }

    fn may_sort(&mut self, call: &mut Call<'_>, command: &'static Command) -> bool {
        let refusal = self.sort_refusal(command, call.arguments, self.database);
        if let Some(text) = refusal {
            self.refuse(call, text);
        }
        refusal.is_none()
    }

    fn sort_refusal(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
    ) -> Option<&'static str> {
        let rules = self.permit.rules.as_ref()?;
        match command.name {
            "sort" | "sort_ro" => rules.sort_refusal(command, arguments, database),
            _ => None,
        }
    }

    /// Why a script of the client may not run a command in the script's database: the text of the
    /// error.
    pub(super) fn script_refusal(
        &mut self,
        call: &Call<'_>,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
    ) -> Option<String> {
        // By the rules that the script began with, as in a transaction.
        if self.permit.was_free() {
            return None;
        }
        match self.denial(call, command, (arguments, database), Origin::Script) {
            Some(denial) => {
                let text = self.denial_text(denial, command);
                Some(format!("ERR ACL failure in script: {text}"))
            }
            None => self
                .sort_refusal(command, arguments, database)
                .map(str::to_owned),
        }
    }

    /// Whether the client may read a key of database 0 that the arguments of a command only stand
    /// for; a refusal is kept for ACL LOG.
    pub(super) fn may_read_with(&self, call: &Call<'_>, command: &[u8], key: Vec<u8>) -> bool {
        let rules = self.permit.rules.as_ref().zip(lookup(command));
        let may = rules.is_none_or(|(rules, command)| rules.may_read_with(command, &key, 0));
        if !may {
            self.note_refusal(
                call,
                Reason::Key,
                self.origin(),
                key,
                &self.permit.user.name,
            );
        }
        may
    }

    /// Whether the client may run a command, for scripts that ask.
    pub(super) fn allows(
        &self,
        command: &'static Command,
        arguments: Arguments<'_>,
        database: usize,
    ) -> bool {
        let rules = self.permit.rules.as_ref();
        rules.is_some_and(|rules| rules.check(command, arguments, database).is_ok())
    }

    /// Takes the newest rules. False if the connection ends: its user is deleted, or may not
    /// listen any more to what it is subscribed to.
    fn look_at_user(&mut self, server: &Server, fanout: &Fanout, context: &mut Context) -> bool {
        debug_assert!(
            Arc::ptr_eq(&self.client.user.lock(), &self.permit.user),
            "CLIENT LIST shows the user whose rules hold"
        );
        let old = self.permit.rules.clone();
        self.permit.look(&server.access);
        let is_revoked = match (&old, &self.permit.rules) {
            (_, None) => true,
            (Some(old), Some(new)) if !Arc::ptr_eq(old, new) && self.client.is_subscriber() => {
                let [channels, shard_channels, patterns] =
                    [Kind::Channel, Kind::Shard, Kind::Pattern]
                        .map(|kind| fanout.names(self.id, kind));
                let channels = channels.iter().chain(&shard_channels).map(|name| &name[..]);
                new.revokes(old, channels, patterns.iter().map(|name| &name[..]))
            }
            _ => false,
        };
        if is_revoked {
            // No client sees it from now on, although the connection ends with the turn.
            server.clients.disconnect(self.client.id);
            context.close_after_flush(self.id, CloseReason::Requested);
            self.set_closing();
        }
        !is_revoked
    }

    /// Why the client may not run a command; noted for ACL LOG.
    fn denial(
        &self,
        call: &Call<'_>,
        command: &'static Command,
        (arguments, database): (Arguments<'_>, usize),
        origin: Origin,
    ) -> Option<Denial> {
        let denial = match &self.permit.rules {
            Some(rules) => rules.check(command, arguments, database).err()?,
            None => Denial {
                reason: Reason::Command,
                at: 0,
            },
        };
        debug_assert!(
            self.permit.free_in == 0,
            "a user who may do everything is denied nothing"
        );
        let object = match denial.reason {
            _ if denial.at == 0 => command.full_name.into(),
            _ => arguments[denial.at].to_vec(),
        };
        self.note_refusal(call, denial.reason, origin, object, &self.permit.user.name);
        Some(denial)
    }

    fn denial_text(&self, denial: Denial, command: &Command) -> String {
        denial_text(denial.reason, &self.permit.user, command)
    }

    fn note_refusal(
        &self,
        call: &Call<'_>,
        reason: Reason,
        origin: Origin,
        object: Vec<u8>,
        user: &[u8],
    ) {
        let entry = AclLogEntry {
            reason,
            origin,
            object,
            user: user.into(),
            client: self.describe(call, &self.client),
            unix_ms: unix_ms(),
        };
        let entries_max = call.server.parameters.read(ACLLOG_MAX_LEN);
        let entries_max = usize::try_from(entries_max).unwrap_or(usize::MAX);
        call.server.access.note(entry, entries_max);
    }

    fn origin(&self) -> Origin {
        match self.transaction {
            Some(_) => Origin::Multi,
            None => Origin::Toplevel,
        }
    }
}

/// Why a request that has only begun is too long for a client that has not given a password:
/// strangers get no memory.
pub(super) fn excess_of_stranger(input: &[u8]) -> Option<&'static str> {
    let mut rest = input;
    let count = header(b'*', &mut rest)?;
    if count > STRANGER_ARGUMENTS_MAX {
        return Some("unauthenticated multibulk length");
    }
    for _ in 0..count {
        let length = header(b'$', &mut rest)?;
        if length > STRANGER_ARGUMENT_BYTES_MAX {
            return Some("unauthenticated bulk length");
        }
        rest = rest.get(length as usize + 2..)?;
    }
    None
}

/// The number of a line that begins with `kind`, if the line is whole; `rest` is behind it then.
fn header(kind: u8, rest: &mut &[u8]) -> Option<i64> {
    let end = rest
        .iter()
        .take(HEADER_BYTES_MAX)
        .position(|&byte| byte == b'\n')?;
    let line = rest[..end].strip_suffix(b"\r")?;
    let number = tidewire_resp::number::parse_integer(line.strip_prefix(&[kind])?)?;
    *rest = &rest[end + 1..];
    (number >= 0).then_some(number)
}

const STRANGER_ARGUMENTS_MAX: i64 = 10;
const STRANGER_ARGUMENT_BYTES_MAX: i64 = 16_384;
/// Unsent replies of one turn may stand up to this, or what the socket's buffer does not take.
const STRANGER_OUTPUT_BYTES_MAX: usize = 64 << 10;
const HEADER_BYTES_MAX: usize = 32;

pub(super) const NO_AUTH: &str = "NOAUTH Authentication required.";
pub(super) const WRONG_PASSWORD: &str =
    "WRONGPASS invalid username-password pair or user is disabled.";
pub(super) const HELLO_WITHOUT: &str = "NOAUTH HELLO must be called with the client already \
                                        authenticated, otherwise the HELLO <proto> AUTH <user> \
                                        <pass> option can be used to authenticate the client and \
                                        select the RESP protocol version at the same time";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_limited_before_their_request_is_whole() {
        assert_eq!(
            excess_of_stranger(b"*100\r\n"),
            Some("unauthenticated multibulk length")
        );
        let long = b"*2\r\n$4\r\nAUTH\r\n$100000\r\n";
        assert_eq!(
            excess_of_stranger(long),
            Some("unauthenticated bulk length")
        );
        for fine in [
            &b"*3\r\n$4\r\nAU"[..],
            b"*10\r\n$16384\r\nx",
            b"PING",
            b"*1",
            b"",
        ] {
            assert_eq!(excess_of_stranger(fine), None);
        }
    }
}
