//! Admission of ZeroMQ peers: which are accepted, and as which user.

use std::sync::Arc;

use tidewire_redis::{AccessControl, Identity, User};
use tidewire_zmtp::{Config, Credentials, Security};

use crate::hub::Hub;
use crate::zmq_security::ZmqSecurity;

/// Returns the user with these credentials; `None` refuses the peer. `certified` is the user of a
/// TLS certificate, for a peer that has no other credentials.
pub(super) fn admit(
    identity: &Identity,
    hub: &Hub,
    credentials: Credentials<'_>,
    certified: Option<Arc<User>>,
) -> Option<Arc<User>> {
    let access = &hub.server.access;
    if identity.is_refused {
        return None;
    }
    let admitted = match credentials {
        Credentials::Null => certified.or_else(|| stranger(access)),
        Credentials::Plain { username, password } => access.authenticate(username, password),
        Credentials::Curve { public_key } => match &hub.config.zmq_security {
            ZmqSecurity::Curve(curve) => match &curve.clients {
                None => stranger(access),
                Some(clients) => {
                    let user = clients.get(&public_key);
                    let user = user.and_then(|name| access.find(name));
                    user.filter(|user| user.is_enabled())
                }
            },
            _ => None,
        },
        _ => None,
    };
    let admitted = admitted.filter(|user| {
        let is_plain = matches!(credentials, Credentials::Plain { .. });
        let needs_none = user.needs_no_password();
        hub.server
            .is_open_to_strangers(is_plain && needs_none, identity.address())
    });
    if admitted.is_none() {
        let name: &[u8] = match credentials {
            Credentials::Plain { username, .. } => username,
            _ => b"default",
        };
        identity.note_failed_login(&hub.server, "ZeroMQ", name);
    }
    admitted
}

/// Returns the user of peers without credentials, unless that user needs a password.
fn stranger(access: &AccessControl) -> Option<Arc<User>> {
    (!access.requires_password()).then(|| access.default_user().clone())
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
