//! Commands: frames with a length-prefixed name and data.

use crate::error::{CommandName, Error};
use crate::frame::command_header;

/// A command's name and data, borrowed from its frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command<'b> {
    pub(crate) name: &'b [u8],
    pub(crate) data: &'b [u8],
}

impl<'b> Command<'b> {
    /// Splits the body of a command frame into name and data.
    pub(crate) fn parse(body: &'b [u8]) -> Result<Command<'b>, Error> {
        let malformed = Error::MalformedCommand(CommandName::Unnamed);
        let (&length, rest) = body.split_first().ok_or(malformed)?;
        if length == 0 {
            return Err(malformed);
        }
        let (name, data) = rest
            .split_at_checked(usize::from(length))
            .ok_or(malformed)?;
        Ok(Command { name, data })
    }

    /// Returns the reason in an ERROR command's data.
    pub(crate) fn error_reason(&self) -> Result<&'b [u8], Error> {
        let malformed = Error::MalformedCommand(CommandName::Error);
        let (&length, rest) = self.data.split_first().ok_or(malformed)?;
        rest.get(..usize::from(length)).ok_or(malformed)
    }
}

/// Appends a command whose data are the parts, one after another.
pub(crate) fn encode_command(out: &mut Vec<u8>, name: &[u8], parts: &[&[u8]]) {
    let data: usize = parts.iter().map(|part| part.len()).sum();
    let header = command_header(1 + name.len() + data);
    out.extend_from_slice(header.as_bytes());
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends an ERROR command; a reason over 255 bytes is cut.
pub(crate) fn encode_error(out: &mut Vec<u8>, reason: &str) {
    let reason = &reason.as_bytes()[..reason.len().min(255)];
    encode_command(out, ERROR, &[&[reason.len() as u8], reason]);
}

pub(crate) const READY: &[u8] = b"READY";
pub(crate) const ERROR: &[u8] = b"ERROR";
pub(crate) const HELLO: &[u8] = b"HELLO";
pub(crate) const WELCOME: &[u8] = b"WELCOME";
pub(crate) const INITIATE: &[u8] = b"INITIATE";
pub(crate) const SUBSCRIBE: &[u8] = b"SUBSCRIBE";
pub(crate) const CANCEL: &[u8] = b"CANCEL";
pub(crate) const JOIN: &[u8] = b"JOIN";
pub(crate) const LEAVE: &[u8] = b"LEAVE";
pub(crate) const PING: &[u8] = b"PING";
pub(crate) const PONG: &[u8] = b"PONG";

/// Maximum context of a PING; a longer one is cut, as libzmq does.
pub(crate) const PING_CONTEXT_BYTES_MAX: usize = 16;
/// Maximum name of a RADIO's group, in bytes.
pub(crate) const GROUP_BYTES_MAX: u64 = 255;
