//! What a lane does for the plant whose tags are mounted.

use tidewire_lane::{ConnectionId, Context};

use super::HubLane;
use crate::plant::link::PlantLink;
use crate::session::resp::RespSession;

impl HubLane {
    pub(super) fn turn_plant(&mut self, context: &mut Context) -> Option<u64> {
        let news = self.plant.as_mut()?.turn(context);
        self.distribute(context, news);
        self.plant.as_ref().map(PlantLink::deadline_ns)
    }

    pub(super) fn plant_received(
        &mut self,
        context: &mut Context,
        id: ConnectionId,
        input: &[u8],
    ) -> usize {
        let Some(link) = &mut self.plant else {
            return input.len();
        };
        let (consumed, news) = link.received(context, id, input);
        self.distribute(context, news);
        consumed
    }

    /// A client's write to the plant has ended, unless somebody else has ended the wait.
    pub(super) fn plant_written(
        &mut self,
        context: &mut Context,
        client: u64,
        token: u64,
        result: &Result<(), String>,
    ) {
        let hub = self.hub.clone();
        let waits = |session: &mut RespSession| session.awaits_plant(token);
        let connection = self.waiting.connection(client);
        let session = connection.and_then(|id| self.resp_session(id));
        if session.is_some_and(waits)
            && hub.waiting.claim(client, &hub.keyspace).is_some()
            && let Some(session) = self.end_wait(client)
        {
            session.plant_written(&hub, context, result);
        }
    }
}
