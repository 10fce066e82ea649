//! NULL: each peer sends READY.

use super::{Progress, refused_or_unexpected};
use crate::command::{Command, READY, encode_command};
use crate::connection::Credentials;
use crate::error::Error;

/// `READY` both ways, in any order.
#[derive(Debug, Clone)]
pub(crate) struct Null {
    /// Whether the driver must accept the peer before we send READY.
    authenticate: bool,
}

impl Null {
    pub(super) fn new(authenticate: bool) -> Null {
        Null { authenticate }
    }

    pub(super) fn start(&mut self, own: &[u8], out: &mut Vec<u8>) -> Progress<'static> {
        if self.authenticate {
            return Progress::Authenticate(Credentials::Null);
        }
        encode_command(out, READY, &[own]);
        Progress::Continue
    }

    pub(super) fn answer(&mut self, own: &[u8], out: &mut Vec<u8>) {
        encode_command(out, READY, &[own]);
    }

    pub(super) fn receive<'b>(&mut self, command: Command<'b>) -> Result<Progress<'b>, Error> {
        if command.name == READY {
            return Ok(Progress::Metadata(command.data.into()));
        }
        refused_or_unexpected(command)
    }
}
