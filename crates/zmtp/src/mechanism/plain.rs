//! PLAIN (RFC 24): HELLO with user name and password, WELCOME, INITIATE, READY.

use super::{Progress, expect_empty, refused_or_unexpected};
use crate::command::{Command, ERROR, HELLO, INITIATE, READY, WELCOME, encode_command};
use crate::connection::Credentials;
use crate::error::{CommandName, Error};

/// The side that sends its credentials.
#[derive(Debug, Clone)]
pub(crate) struct PlainClient {
    /// HELLO's data: user name and password, each after its length.
    hello: Vec<u8>,
    expects: ClientExpects,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientExpects {
    Welcome,
    Ready,
}

impl PlainClient {
    pub(super) fn new(username: &[u8], password: &[u8]) -> PlainClient {
        let mut hello = Vec::with_capacity(2 + username.len() + password.len());
        for part in [username, password] {
            let part = &part[..part.len().min(255)];
            hello.push(part.len() as u8);
            hello.extend_from_slice(part);
        }
        PlainClient {
            hello,
            expects: ClientExpects::Welcome,
        }
    }

    pub(super) fn start(&mut self, out: &mut Vec<u8>) -> Progress<'static> {
        encode_command(out, HELLO, &[&self.hello]);
        // The password is kept no longer than needed.
        self.hello = Vec::new();
        Progress::Continue
    }

    pub(super) fn receive<'b>(
        &mut self,
        body: &'b [u8],
        own: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Error> {
        let command = match body.strip_prefix(LIBZMQ_ERROR) {
            Some(data) => Command { name: ERROR, data },
            None => Command::parse(body)?,
        };
        match (self.expects, command.name) {
            (ClientExpects::Welcome, WELCOME) => {
                expect_empty(command, CommandName::Welcome)?;
                self.expects = ClientExpects::Ready;
                encode_command(out, INITIATE, &[own]);
                Ok(Progress::Continue)
            }
            (ClientExpects::Ready, READY) => Ok(Progress::Metadata(command.data.into())),
            _ => refused_or_unexpected(command),
        }
    }
}

/// The side that checks them.
#[derive(Debug, Clone)]
pub(crate) struct PlainServer {
    expects: ServerExpects,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerExpects {
    Hello,
    Initiate,
}

impl PlainServer {
    pub(super) fn new() -> PlainServer {
        PlainServer {
            expects: ServerExpects::Hello,
        }
    }

    pub(super) fn receive<'b>(&mut self, command: Command<'b>) -> Result<Progress<'b>, Error> {
        match (self.expects, command.name) {
            (ServerExpects::Hello, HELLO) => {
                let credentials = parse_hello(command.data);
                credentials
                    .map(Progress::Authenticate)
                    .ok_or(Error::MalformedCommand(CommandName::Hello))
            }
            (ServerExpects::Initiate, INITIATE) => Ok(Progress::Metadata(command.data.into())),
            _ => refused_or_unexpected(command),
        }
    }

    pub(super) fn answer(&mut self, out: &mut Vec<u8>) {
        self.expects = ServerExpects::Initiate;
        encode_command(out, WELCOME, &[]);
    }
}

/// Decodes user name and password, with nothing after them.
fn parse_hello(data: &[u8]) -> Option<Credentials<'_>> {
    let (&length, rest) = data.split_first()?;
    let (username, rest) = rest.split_at_checked(usize::from(length))?;
    let (&length, password) = rest.split_first()?;
    (password.len() == usize::from(length)).then_some(Credentials::Plain { username, password })
}

/// ERROR as libzmq's PLAIN server sends it, up to 4.3.6 at least: its C source has it as
/// `"\x05ERROR"`, where the escape takes the E for a digit and becomes one octet, 0x5E.
const LIBZMQ_ERROR: &[u8] = b"\x5eRROR";
