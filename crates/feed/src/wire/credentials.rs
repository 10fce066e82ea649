//! Who a client is: a user of the server, and that user's password.

use std::fmt;

use super::bytes::{array_at, put};
use super::{MessageError, Text, TextError};

/// A user's name; empty for the server's default user.
pub type UserName = Text<48>;

/// A password, or a token in its place. It is not shown, and does not appear in logs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Password(Text<112>);

impl Password {
    /// Creates a password of at most 112 bytes, without zero bytes.
    pub fn new(text: &str) -> Result<Password, TextError> {
        Text::new(text).map(Password)
    }

    /// Returns the password's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(..)")
    }
}

/// A user's name and password: 160 bytes at the end of a [`Login`](super::Login).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: UserName,
    /// The password.
    pub password: Password,
}

impl Credentials {
    /// Bytes on the wire.
    pub const LENGTH: usize = 160;

    pub(super) fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Result<Credentials, MessageError> {
        let bad = |_: TextError| MessageError::BadText;
        Ok(Credentials {
            user: Text::from_padded(array_at(bytes, 0)).map_err(bad)?,
            password: Password(Text::from_padded(array_at(bytes, 48)).map_err(bad)?),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        put(&mut bytes, 0, self.user.to_padded());
        put(&mut bytes, 48, self.password.0.to_padded());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientName, Control, ControlKind, Login, Role};
    use super::*;

    fn login() -> Login {
        Login {
            role: Role::Publisher,
            session: 7,
            next_sequence: 3,
            client_name: ClientName::truncated("feeder one"),
            credentials: Some(Credentials {
                user: UserName::new("feeder").unwrap(),
                password: Password::new("secret").unwrap(),
            }),
            ..Login::default()
        }
    }

    #[test]
    fn a_login_with_credentials_has_the_fields_of_one_without_and_then_the_user() {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        Control::Login(login()).encode(&mut with);
        let plain = Login {
            credentials: None,
            ..login()
        };
        Control::Login(plain).encode(&mut without);
        assert_eq!((with.len(), without.len()), (240, 80));
        assert_eq!(
            (with[0], with[1..80].to_vec()),
            (0xf8, without[1..].to_vec())
        );
        assert_eq!(
            (&with[80..86], &with[128..134]),
            (&b"feeder"[..], &b"secret"[..])
        );
        for bytes in [&with, &without] {
            let (control, rest) = Control::decode(bytes).unwrap();
            let mut again = Vec::new();
            control.encode(&mut again);
            assert!(rest.is_empty() && again == **bytes);
        }
    }

    #[test]
    fn a_truncated_login_and_a_name_that_is_no_text_are_errors() {
        let mut bytes = Vec::new();
        Control::Login(login()).encode(&mut bytes);
        for length in 1..bytes.len() {
            assert_eq!(
                Control::decode(&bytes[..length]),
                Err(MessageError::Truncated),
                "{length}"
            );
        }
        for (at, byte) in [(80, 0xff), (127, b'x'), (128, 0xff), (239, b'x')] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert_eq!(Control::decode(&wrong), Err(MessageError::BadText), "{at}");
        }
        bytes[0] = ControlKind::LOGIN;
        assert!(Control::decode(&bytes).is_ok_and(|(_, rest)| rest.len() == 160));
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", Control::Login(login()));
        assert!(
            shown.contains("feeder") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn names_and_passwords_have_their_limits() {
        assert!(Password::new(&"x".repeat(112)).is_ok());
        let too_long = Password::new(&"x".repeat(113)).unwrap_err();
        assert!(too_long.to_string().contains("up to 112 bytes"));
        assert_eq!(Password::new("a\0b"), Err(TextError::NotText));
    }
}
