//! SET of a plant tag: the client waits for the plant's own answer.

use tidewire_keyspace::{Command, CommandError};
use tidewire_lane::Context;

use super::blocking::{Stop, TimeoutReply};
use super::{Call, RespSession, State};
use crate::hub::Hub;
use crate::plant::writing::Requester;
use crate::plant::{WRITE_ERROR, WriteRequest, name_of};
use crate::waiting::Block;

/// What the keyspace says of a write to a tag: a plain SET goes to the plant then. So no command
/// pays for the question.
pub(super) const PLANT_REFUSAL: CommandError = CommandError::Mounted(WRITE_ERROR);

pub(super) const UNBLOCKED: &str = "UNKNOWN the client was unblocked before the completion came: \
                                    the plant may have taken the value, or not";

impl RespSession {
    /// Whether the client waits for the end of this write.
    pub(crate) fn awaits_plant(&self, token: u64) -> bool {
        let Stop::Waiting(TimeoutReply::PlantWrite(awaited)) = self.state.stop else {
            return false;
        };
        awaited == token
    }

    /// The end of the write that the client waits for.
    pub(crate) fn plant_written(
        &mut self,
        hub: &Hub,
        context: &mut Context,
        result: &Result<(), String>,
    ) {
        if let (Err(text), Some(command)) = (result, self.state.last_command) {
            hub.note_failure(context.lane(), command, text);
        }
        self.state.note_waited(hub);
        self.state.end_wait(context, |state, context| {
            state.reply(context, |reply| match result {
                Ok(()) => reply.ok(),
                Err(text) => reply.error(text),
            });
        });
    }
}

impl State {
    /// A command was refused because its key is a plant tag, and the refusal stands behind `start`.
    /// A plain SET is taken to the plant in its place; false if the refusal stands.
    #[cold]
    pub(super) fn write_to_plant(
        &mut self,
        call: &mut Call<'_>,
        command: &'static Command,
        start: usize,
    ) -> bool {
        let Some(plant) = &call.hub.plant else {
            return false;
        };
        if command.name != "set" || call.arguments.len() != 3 {
            return false;
        }
        let Some(name) = name_of(&call.arguments[1]) else {
            return false;
        };
        let text = &call.arguments[2];
        if text.len() > VALUE_BYTES_MAX {
            return false;
        }
        if let Some(out) = call.context.out(self.id) {
            out.buffer().truncate(start);
        }
        self.plant_writes += 1;
        let token = self.plant_writes;
        let request = WriteRequest {
            requester: Requester {
                lane: call.context.lane(),
                client: self.client.id,
                token,
            },
            name: name.into(),
            text: text.to_vec(),
        };
        // The link answers every write, and in time: the wait needs no deadline of its own.
        self.begin_wait(call, Block::Time, None, TimeoutReply::PlantWrite(token));
        plant.write(request);
        true
    }
}

/// Longest text of a value; longer than any message that could carry it.
const VALUE_BYTES_MAX: usize = 64 << 20;
