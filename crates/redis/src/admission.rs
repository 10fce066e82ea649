//! Admission of peers of other protocols: which are let in, and as which user.

use std::sync::Arc;

use crate::access::{AccessControl, User};
use crate::identity::Identity;
use crate::server::Server;

/// What a peer shows at its login.
#[derive(Clone, Debug)]
pub enum Proof<'a> {
    /// Nothing, or a TLS certificate that names this user.
    Nothing {
        /// The user of the certificate.
        certified: Option<Arc<User>>,
    },
    /// A user's name and password.
    Password {
        /// The name of the user.
        name: &'a [u8],
        /// The password, as the peer has sent it.
        password: &'a [u8],
    },
    /// A key, which the protocol verifies. It stands for the user of this name, if for any.
    Key {
        /// The name of the user.
        name: Option<&'a [u8]>,
    },
}

/// Why a peer is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It must show credentials.
    Missing,
    /// There is no such user, the password is wrong, or the user is disabled.
    Wrong,
    /// Protected mode lets users without a password in from this machine only.
    Elsewhere,
}

impl Identity {
    /// Returns the user that the peer becomes by this proof. A refusal is logged, and kept for ACL
    /// LOG. `has_shown_key`: the peer has shown a certificate or a key, so protected mode lets it
    /// in from other machines.
    ///
    /// # Errors
    /// The peer is not let in.
    pub fn admit(
        &self,
        server: &Server,
        protocol: &str,
        proof: &Proof<'_>,
        has_shown_key: bool,
    ) -> Result<Arc<User>, NotAdmitted> {
        let admitted = user(&server.access, proof).and_then(|user| {
            // The user that a certificate names needs no password: the certificate is the proof.
            let needs_none = user.needs_no_password() && !has_shown_key;
            match server.is_open_to_strangers(needs_none, self.address()) {
                true => Ok(user),
                false => Err(NotAdmitted::Elsewhere),
            }
        });
        if admitted.is_err() {
            let name = match proof {
                Proof::Password { name, .. } | Proof::Key { name: Some(name) } => name,
                Proof::Key { name: None } | Proof::Nothing { .. } => DEFAULT,
            };
            self.note_failed_login(server, protocol, name);
        }
        admitted
    }
}

/// Returns the user of a proof, wherever the peer is.
fn user(access: &AccessControl, proof: &Proof<'_>) -> Result<Arc<User>, NotAdmitted> {
    match proof {
        Proof::Password { name, password } => access
            .authenticate(name, password)
            .ok_or(NotAdmitted::Wrong),
        Proof::Key { name } => {
            let user = name.and_then(|name| access.find(name));
            let user = user.filter(|user| user.is_enabled());
            user.ok_or(NotAdmitted::Wrong)
        }
        Proof::Nothing {
            certified: Some(user),
        } => match user.is_enabled() {
            true => Ok(user.clone()),
            false => Err(NotAdmitted::Missing),
        },
        Proof::Nothing { certified: None } => match access.requires_password() {
            true => Err(NotAdmitted::Missing),
            false => Ok(access.default_user().clone()),
        },
    }
}

/// The user of peers without a name.
pub const DEFAULT: &[u8] = b"default";
