//! The lane's part of the connection to the mounted plant.

use tidewire_lane::{ConnectionId, Context};
use tidewire_plant::{PlantLink, PlantMail};

use super::HubLane;

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
            (PlantMail::Written(writer, result), _) => {
                let result = result.map(|()| None);
                self.redis.mount_written(context, writer, &result);
            }
            (PlantMail::Asked | PlantMail::Write(_), None) => {
                debug_assert!(
                    false,
                    "message for the plant on a lane without its connection"
                );
            }
        }
    }
}
