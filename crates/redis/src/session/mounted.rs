//! Writes to mounted keys: the client waits for the answer of the live source.

use std::borrow::Cow;

use tidewire_fanout::WriteEnd;
use tidewire_keyspace::{Command, MountChange, MountWrite, MountWriter};
use tidewire_lane::Context;
use tidewire_resp::{ArgumentList, Arguments};

use super::blocking::{Stop, TimeoutReply};
use super::{Call, RespSession, State};
use crate::server::Server;
use crate::waiting::Block;

impl RespSession {
    /// Whether the client waits for the end of this write.
    pub(crate) fn awaits_mount(&self, token: u64) -> bool {
        let Stop::Waiting(TimeoutReply::MountWrite { token: awaited, .. }) = self.state.stop else {
            return false;
        };
        awaited == token
    }

    /// The end of the write that the client waits for.
    pub(crate) fn mount_written(
        &mut self,
        server: &Server,
        context: &mut Context,
        result: &WriteEnd,
    ) {
        if let (Some(text), Some(command)) = (failure(result), self.state.last_command) {
            server.note_failure(context.lane(), command, &text);
        }
        self.state.note_waited(server);
        self.state.end_wait(context, |state, context| {
            state.reply(context, |reply| match result {
                Ok(None) => reply.ok(),
                // In the client's own protocol, and exactly one reply: who carried it has looked.
                Ok(Some(bytes)) => reply.raw(bytes),
                Err(text) => reply.error(text),
            });
        });
    }
}

impl State {
    /// A command was refused because its key belongs to a live source, and the refusal stands
    /// behind `start`. A command on this key alone is given to the source in its place, if that
    /// takes it; false if the refusal stands.
    #[cold]
    pub(super) fn write_to_mount(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
        start: usize,
    ) -> bool {
        let arguments = call.arguments;
        let Some(key) = command.key_elsewhere(arguments) else {
            return false;
        };
        let words;
        let change = match command.name == "set" && arguments.len() == 3 {
            true => MountChange::Value(&arguments[2]),
            false => {
                words = renamed(command, arguments);
                MountChange::Command {
                    words: words.as_arguments(),
                    protocol: self.protocol,
                }
            }
        };
        let token = self.mount_writes + 1;
        let writer = MountWriter {
            lane: call.context.lane(),
            client: self.client.id,
            token,
        };
        let write = MountWrite {
            key: &arguments[key],
            change,
            writer,
            user: self.permit.user.name_bytes(),
            address: &self.client.address,
        };
        let keyspace = &call.server.keyspace;
        let Some(unblocked) = keyspace.write_mounted(self.database, &write) else {
            return false;
        };
        if let Some(out) = call.context.out(self.id) {
            out.buffer().truncate(start);
        }
        self.mount_writes = token;
        // The source answers every write, and in time: the wait needs no deadline of its own. Its
        // answer is mail to this lane, and so is taken after the wait has begun.
        let reply = TimeoutReply::MountWrite { token, unblocked };
        self.begin_wait(call, Block::Time, None, reply);
        true
    }
}

/// Returns the words of a request, its command's name as the table has it: another server may know
/// it by another one.
fn renamed(command: &Command, arguments: Arguments<'_>) -> ArgumentList {
    let mut words = ArgumentList::new();
    let names = command.full_name.split('|');
    let count = names.clone().count();
    names.for_each(|name| words.push(name.as_bytes()));
    arguments
        .tail(count)
        .iter()
        .for_each(|word| words.push(word));
    words
}

/// Returns the error that a client gets.
fn failure(result: &WriteEnd) -> Option<Cow<'_, str>> {
    match result {
        Ok(None) => None,
        Ok(Some(reply)) => {
            let text = reply.strip_prefix(b"-")?;
            Some(String::from_utf8_lossy(text.trim_ascii_end()))
        }
        Err(text) => Some(text.into()),
    }
}
