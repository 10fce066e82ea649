//! Admission of ZeroMQ peers: which are accepted, and as which user.

use std::sync::Arc;

use tidewire_redis::{Identity, Proof, User};
use tidewire_zmtp::curve::PublicKey;
use tidewire_zmtp::{Config, Credentials, Security};

use crate::hub::Hub;
use crate::zmq_security::ZmqSecurity;

/// Returns the user with these credentials; `None` refuses the peer. `certified` is the user of a
/// TLS certificate, if the peer `has_certificate` and that names one.
pub(super) fn admit(
    identity: &Identity,
    hub: &Hub,
    credentials: Credentials<'_>,
    (certified, has_certificate): (Option<Arc<User>>, bool),
) -> Option<Arc<User>> {
    if identity.is_refused {
        return None;
    }
    let is_curve = matches!(credentials, Credentials::Curve { .. });
    let proof = match credentials {
        Credentials::Null => Proof::Nothing { certified },
        Credentials::Plain { username, password } => Proof::Password {
            name: username,
            password,
        },
        Credentials::Curve { public_key } => of_key(hub, &public_key),
        _ => Proof::Key { name: None },
    };
    let admitted = identity.admit(&hub.server, "ZeroMQ", &proof, has_certificate || is_curve);
    admitted.ok()
}

/// Returns what a client's CURVE key proves. Without a list of clients it names no user.
fn of_key<'a>(hub: &'a Hub, public_key: &PublicKey) -> Proof<'a> {
    match &hub.config.zmq_security {
        ZmqSecurity::Curve(curve) => match &curve.clients {
            None => Proof::Nothing { certified: None },
            Some(clients) => Proof::Key {
                name: clients.get(public_key).map(|name| &name[..]),
            },
        },
        _ => Proof::Key { name: None },
    }
}

/// Sets the authentication that the hub's configuration requires of peers.
pub(super) fn secure(config: &mut Config, hub: &Hub, is_refused: bool) {
    match &hub.config.zmq_security {
        // Old peers cannot authenticate. They are asked only if they would be refused anyway.
        ZmqSecurity::Null => {
            config.authenticate_null = is_refused || hub.server.access.requires_password();
        }
        ZmqSecurity::Plain => config.security = Security::PlainServer,
        ZmqSecurity::Curve(curve) => {
            config.security = Security::CurveServer {
                secret_key: curve.secret_key.clone(),
            };
        }
    }
}
