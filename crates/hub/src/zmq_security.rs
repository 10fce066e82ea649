//! Authentication of ZeroMQ peers.

use std::collections::HashMap;

use tidewire_zmtp::curve::{PublicKey, SecretKey};
use tidewire_zmtp::z85;

/// The security mechanism of the hub's ZeroMQ ports.
#[derive(Clone, Debug, Default)]
pub enum ZmqSecurity {
    /// No authentication: every peer is the user `default`, and is refused if that user needs a
    /// password.
    #[default]
    Null,
    /// Name and password of a user, in plain text.
    Plain,
    /// Public keys; all traffic is encrypted.
    Curve(CurvePorts),
}

/// The keys of ports that use CURVE.
#[derive(Clone, Debug)]
pub struct CurvePorts {
    /// The secret key of the ports. Clients get its public half.
    pub secret_key: SecretKey,
    /// The allowed clients: public key and user. `None` allows every client that knows the public
    /// key of the ports, as the user `default`.
    pub clients: Option<HashMap<PublicKey, Vec<u8>>>,
}

impl ZmqSecurity {
    /// Parses CURVE keys from the text of two files. The first has the secret key in Z85 on its
    /// first line. The second, if given, lists clients: each line has a public key in Z85 and a
    /// user. Lines that begin with `# ` are comments.
    ///
    /// # Errors
    /// A one-line text, with the line number for an error in the list.
    pub fn curve(secret_key: &str, clients: Option<&str>) -> Result<Self, String> {
        let line = secret_key.lines().next().unwrap_or_default().trim();
        let secret_key = z85::decode_key(line)
            .map_err(|_| "the first line is not a secret key of 40 characters in Z85".to_owned())?;
        let clients = clients.map(parse_clients).transpose()?;
        Ok(ZmqSecurity::Curve(CurvePorts {
            secret_key: SecretKey::new(secret_key),
            clients,
        }))
    }
}

fn parse_clients(text: &str) -> Result<HashMap<PublicKey, Vec<u8>>, String> {
    let mut clients = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_ascii_whitespace();
        let Some(word) = words.next().filter(|&word| word != "#") else {
            continue;
        };
        let key = z85::decode_key(word)
            .map_err(|_| format!("line {number}: '{word}' is not a public key in Z85"))?;
        // Without a user's name it would be `default`, who may do everything unless told otherwise.
        let (Some(user), None) = (words.next(), words.next()) else {
            return Err(format!("line {number}: a key and a user are expected"));
        };
        if clients.insert(key, user.into()).is_some() {
            return Err(format!("line {number}: the key appears twice"));
        }
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";
    const OTHER: &str = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";

    #[test]
    fn keys_and_users_are_read() {
        let clients = format!("# who may\n\n{KEY} feeder\n{OTHER} default\n");
        let Ok(ZmqSecurity::Curve(curve)) = ZmqSecurity::curve(KEY, Some(&clients)) else {
            panic!("it is readable");
        };
        let clients = curve.clients.unwrap();
        let user = |key: &str| &clients[&z85::decode_key(key).unwrap()][..];
        assert_eq!((user(KEY), user(OTHER)), (&b"feeder"[..], &b"default"[..]));
    }

    #[test]
    fn what_is_no_key_is_named_by_its_line() {
        let error = |secret: &str, clients: &str| {
            let read = ZmqSecurity::curve(secret, Some(clients));
            read.err().unwrap_or_default()
        };
        assert!(error("short", "").contains("not a secret key"));
        assert!(error(KEY, "\nshort user").starts_with("line 2: 'short'"));
        for line in ["", " a b"] {
            let error = error(KEY, &format!("{KEY}{line}"));
            assert_eq!(error, "line 1: a key and a user are expected");
        }
        assert!(error(KEY, &format!("{KEY} a\n{KEY} b")).starts_with("line 2"));
    }
}
