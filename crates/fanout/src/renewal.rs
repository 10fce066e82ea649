//! Many topics that changed at once, owed to a lane's subscribers in portions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_lane::{CloseReason, ConnectionId, Context};

use crate::fanout::Fanout;
use crate::pending::PendingTopic;
use crate::post::Renewal;

/// The progress of a lane with such topics.
#[derive(Debug, Default)]
pub(crate) struct Renewing {
    names: Option<Arc<Vec<Box<[u8]>>>>,
    position: usize,
    /// Whether values are owed that wait for the end of loading.
    pub(crate) is_held: bool,
}

impl Fanout {
    /// Owes subscribers the topics that changed all at once, up to the maximum of a turn. Returns
    /// whether there is more to do.
    pub fn renew(&mut self, context: &mut Context) -> bool {
        let is_idle = self.renewing.names.is_none() && !self.renewing.is_held;
        if is_idle && !self.post.is_renewed(self.lane) {
            return false;
        }
        if self.keys.is_filling() {
            return true;
        }
        if std::mem::take(&mut self.renewing.is_held) {
            self.pump_everyone(context);
        }
        let (mut owed, mut budget) = (Vec::new(), RENEWED_A_TURN);
        while budget > 0 {
            let Some(names) = self.next_names(context) else {
                break;
            };
            debug_assert!(self.renewing.names.is_none(), "one list of names at a time");
            debug_assert!(
                self.renewing.position <= names.len(),
                "the list is not another one"
            );
            let first = self.renewing.position;
            let mut done = first;
            while done < names.len() && budget > 0 {
                let mut targets = std::mem::take(&mut self.targets);
                targets.clear();
                self.listeners.collect(&names[done], &mut targets);
                budget = budget.saturating_sub(1 + targets.len());
                if !targets.is_empty() {
                    let topic = PendingTopic::Live(Arc::from(&*names[done]));
                    self.owe(&targets, &topic, &mut owed);
                }
                self.targets = targets;
                done += 1;
            }
            self.renewing.position = done;
            debug_assert!(
                done > first || names.is_empty(),
                "each round looks at a name"
            );
            self.renewing.names = (done < names.len()).then_some(names);
        }
        self.pump_all(context, owed);
        self.renewing.names.is_some() || self.post.is_renewed(self.lane)
    }

    fn next_names(&mut self, context: &mut Context) -> Option<Arc<Vec<Box<[u8]>>>> {
        if let Some(names) = self.renewing.names.take() {
            return Some(names);
        }
        self.renewing.position = 0;
        match self.post.take_renewal(self.lane)? {
            Renewal::Names(names) => Some(names),
            Renewal::Lost => {
                self.cut_off_all(context);
                Some(Arc::default())
            }
        }
    }

    fn pump_everyone(&mut self, context: &mut Context) {
        let outlets = self.outlets.iter().flatten();
        let waiting: Vec<ConnectionId> = outlets
            .filter(|outlet| !outlet.pending.is_empty())
            .map(|outlet| outlet.connection)
            .collect();
        waiting
            .into_iter()
            .for_each(|connection| self.pump(context, connection));
    }

    /// Disconnects all subscribers, because the deleted keys are no longer known.
    fn cut_off_all(&mut self, context: &mut Context) {
        tracing::warn!(
            lane = self.lane,
            "too many removals for a slow lane: its subscribers are disconnected"
        );
        let outlets = self.outlets.iter().flatten();
        let listening = outlets.filter(|outlet| outlet.hears_live_keys());
        for outlet in listening {
            let counter = &self.post.counters.cut_off;
            counter.fetch_add(1, Ordering::Relaxed);
            context.close(outlet.connection, CloseReason::Requested);
        }
    }
}

/// Maximum topics checked, and values owed, in one turn.
const RENEWED_A_TURN: usize = 4_096;
