//! AUTH and what a client may do before it: there is one user, `default`, whose password is the
//! parameter `requirepass`.

use std::sync::atomic::Ordering;

use super::{Call, State};

impl State {
    pub(super) fn auth(&mut self, call: &mut Call<'_>) {
        let arguments = call.arguments;
        let right = match arguments.len() {
            2 if !call.hub.parameters.has_password.load(Ordering::Acquire) => {
                return self.refuse(call, NO_PASSWORD);
            }
            2 => self.authenticate(call, b"default", &arguments[1]),
            3 => self.authenticate(call, &arguments[1], &arguments[2]),
            _ => return self.refuse(call, "ERR syntax error"),
        };
        match right {
            true => self.reply(call.context, |reply| reply.ok()),
            false => self.refuse(call, WRONG_PASSWORD),
        }
    }

    /// Whether name and password are right; then the client may do everything.
    pub(super) fn authenticate(&mut self, call: &Call<'_>, user: &[u8], password: &[u8]) -> bool {
        let parameters = &call.hub.parameters;
        let open = !parameters.has_password.load(Ordering::Acquire);
        let right = user == b"default" && (open || parameters.is_password(password));
        if right {
            self.is_authenticated = true;
        } else {
            call.hub.wrong_passwords.fetch_add(1, Ordering::Relaxed);
        }
        right
    }

    /// Refuses a command of a client that has not given the password.
    #[cold]
    pub(super) fn refuse_unauthenticated(&mut self, call: &mut Call<'_>) {
        self.abort_transaction();
        call.note_rejected();
        self.refuse(call, "NOAUTH Authentication required.");
    }
}

/// Why a request that has only begun is too long for a client that has not given the password:
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
const HEADER_BYTES_MAX: usize = 32;

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
