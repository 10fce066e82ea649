//! A hub that owns the source, or would.

use tidewire_cluster::owner::Times;
use tidewire_cluster::{
    Lease, LeaseAction, LeaseConfig, LeaseEvent, Owner, OwnerAction, OwnerConfig, OwnerState,
};
use tidewire_feed::server::Relay;

use super::source::{Own, Store};

/// A hub.
pub(crate) struct Hub {
    pub(crate) store: Store,
    pub(crate) lease: Lease,
    pub(crate) owner: Option<Owner>,
    /// What the bucket's entry says of this process.
    pub(crate) token: u64,
    pub(crate) stopped_until_ns: u64,
    pub(crate) dead_until_ns: u64,
    pub(crate) is_dead: bool,
    pub(crate) cut_until_ns: u64,
    pub(crate) is_cut: bool,
    pub(crate) reigns: u64,
    pub(crate) live_frames: u64,
    pub(crate) repeated: u64,
    pub(crate) log_losses: u64,
}

/// What a turn of a hub wants done.
#[derive(Default)]
pub(crate) struct Wants {
    pub(crate) lease: Vec<LeaseAction>,
    pub(crate) owner: Vec<OwnerAction>,
}

impl Hub {
    pub(crate) fn new(store: Store, token: u64, now_ns: u64) -> Hub {
        Hub {
            store,
            lease: Lease::new(LeaseConfig::default(), now_ns),
            owner: None,
            token,
            stopped_until_ns: 0,
            dead_until_ns: 0,
            is_dead: false,
            cut_until_ns: 0,
            is_cut: false,
            reigns: 0,
            live_frames: 0,
            repeated: 0,
            log_losses: 0,
        }
    }

    /// Does what is due. The lease comes first: whether this hub is the owner.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Wants {
        let mut wants = Wants::default();
        self.lease.handle_timeout(now_ns);
        wants
            .lease
            .extend(std::iter::from_fn(|| self.lease.next_action()));
        let filter = Own {
            offset: self.store.offset,
        };
        while let Some(event) = self.lease.next_event() {
            self.note_figures(now_ns);
            let relay = Relay::new(&self.store.journal, &filter);
            self.owner = match event {
                LeaseEvent::Acquired { epoch } => {
                    self.reigns += 1;
                    let config = OwnerConfig {
                        snapshot_interval_ns: 1_000_000_000,
                        ..OwnerConfig::of(epoch)
                    };
                    let mut owner = Owner::new(config, &relay, now_ns);
                    if self.is_cut {
                        owner.lost_connection();
                    }
                    Some(owner)
                }
                LeaseEvent::Lost => None,
            };
        }
        let relay = Relay::new(&self.store.journal, &filter);
        if let Some(owner) = &mut self.owner {
            let is_deposed = matches!(owner.state(), OwnerState::Deposed { .. });
            while owner.produce(&relay, now_ns, &mut wants.owner) {}
            let times = Times {
                now_ns,
                wall_ms: 1 + now_ns / 1_000_000,
            };
            let sources = (&relay, &self.store.board);
            owner.produce_snapshot(sources, times, 1_000, &mut wants.owner);
            assert!(!is_deposed || wants.owner.is_empty(), "it is no owner");
        }
        wants
    }

    /// Counts what a reign has done, at its end.
    pub(crate) fn note_figures(&mut self, now_ns: u64) {
        if let Some(owner) = &self.owner {
            let figures = owner.figures(now_ns);
            self.live_frames += figures.live_frames;
            self.repeated += figures.repeated;
            self.log_losses += figures.log_losses;
        }
    }
}
