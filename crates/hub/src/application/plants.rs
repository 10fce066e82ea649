//! What a lane does for the plant whose tags are mounted.

use tidewire_keyspace::MountWriter;
use tidewire_lane::{ConnectionId, Context};
use tidewire_plant::{PlantLink, PlantMail};

use super::HubLane;
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

    pub(super) fn take_plant_mail(&mut self, context: &mut Context, mail: PlantMail) {
        match (mail, &mut self.plant) {
            (PlantMail::Asked, Some(link)) => link.take_asked(context),
            (PlantMail::Write(request), Some(link)) => link.write(context, *request),
            (PlantMail::Written(writer, result), _) => self.plant_written(context, writer, &result),
            (PlantMail::Asked | PlantMail::Write(_), None) => {
                debug_assert!(
                    false,
                    "mail for the plant has come to a lane without its link"
                );
            }
        }
    }

    /// A client's write to the plant has ended, unless somebody else has ended the wait.
    fn plant_written(
        &mut self,
        context: &mut Context,
        writer: MountWriter,
        result: &Result<(), String>,
    ) {
        let MountWriter { client, token, .. } = writer;
        let hub = self.hub.clone();
        let waits = |session: &mut RespSession| session.awaits_mount(token);
        let connection = self.waiting.connection(client);
        let session = connection.and_then(|id| self.resp_session(id));
        if session.is_some_and(waits)
            && hub.waiting.claim(client, &hub.keyspace).is_some()
            && let Some(session) = self.end_wait(client)
        {
            session.mount_written(&hub, context, result);
        }
    }
}
