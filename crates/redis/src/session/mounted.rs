//! SET of a mounted key: the client waits for the answer of the live source.

use tidewire_keyspace::{Command, MountWrite, MountWriter};
use tidewire_lane::Context;

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
        result: &Result<(), String>,
    ) {
        if let (Err(text), Some(command)) = (result, self.state.last_command) {
            server.note_failure(context.lane(), command, text);
        }
        self.state.note_waited(server);
        self.state.end_wait(context, |state, context| {
            state.reply(context, |reply| match result {
                Ok(()) => reply.ok(),
                Err(text) => reply.error(text),
            });
        });
    }
}

impl State {
    /// A command was refused because its key belongs to a live source, and the refusal stands
    /// behind `start`. A plain SET is given to the source in its place, if that takes writes; false
    /// if the refusal stands.
    #[cold]
    pub(super) fn write_to_mount(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
        start: usize,
    ) -> bool {
        if command.name != "set" || call.arguments.len() != 3 {
            return false;
        }
        let token = self.mount_writes + 1;
        let writer = MountWriter {
            lane: call.context.lane(),
            client: self.client.id,
            token,
        };
        let write = MountWrite {
            key: &call.arguments[1],
            value: &call.arguments[2],
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
