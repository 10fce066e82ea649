//! The limit on open files and sockets, and how many clients fit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidewire_redis::ids::MAXCLIENTS;
use tracing::warn;

use crate::config::Config;
use crate::failure::Failure;

/// The limit on open files and what follows for `maxclients`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Maximum number of open files, after the soft limit was raised.
    pub(crate) limit: u64,
    /// The requested `maxclients`.
    pub(crate) asked: u64,
    /// The highest possible `maxclients`.
    pub(crate) clients: u64,
}

impl Descriptors {
    /// Raises the soft limit on open files to the hard limit, and fits `maxclients` into it.
    ///
    /// # Errors
    /// The limit is too low for even one client.
    pub(crate) fn fit(config: &Config) -> Result<Self, Failure> {
        let limit = raise();
        let redis = &config.hub.redis;
        let asked = redis.given(MAXCLIENTS).and_then(|text| text.parse().ok());
        let asked = asked.unwrap_or(redis.clients_max as u64);
        let reserved = reserved(config);
        if limit <= reserved {
            return Err(Failure::usage(format!(
                "Your current 'ulimit -n' of {limit} is not enough for the server to start. \
                 Please increase your open file limit to at least {}.",
                reserved + 1
            )));
        }
        Ok(Self {
            limit,
            asked,
            clients: limit - reserved,
        })
    }

    /// Logs that `maxclients` was lowered, if it was.
    pub(crate) fn tell(&self) {
        if self.clients < self.asked {
            warn!(
                "You requested maxclients of {}. Current maximum open files is {}. maxclients has \
                 been reduced to {} to compensate for low ulimit. If you need higher maxclients \
                 increase 'ulimit -n'.",
                self.asked, self.limit, self.clients
            );
        }
    }
}

/// Returns the first descriptor number that connections may not use; saving files needs some.
pub(crate) fn for_connections() -> u64 {
    raise().saturating_sub(FILES)
}

/// Raises the soft limit on open files as far as the system allows, and returns it.
fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (Some(soft), hard) = (current, maximum) else {
        return u64::MAX;
    };
    if hard.is_some_and(|hard| hard <= soft) {
        return soft;
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => hard.unwrap_or(u64::MAX),
        Err(error) => {
            warn!(soft, ?hard, %error, "cannot raise the limit on open files");
            soft
        }
    }
}

/// Returns the number of descriptors that the process itself needs: listeners, each lane's epoll,
/// mailbox and ring, files being saved, connections to sources, and admin connections.
fn reserved(config: &Config) -> u64 {
    let links = config.hub.market.sources.len() * 2 + config.hub.market.inputs.len() * 8;
    (OWN + PER_LANE * config.hub.redis.lanes + links) as u64
}

const OWN: usize = 64;
/// Files that are open briefly: snapshots, log rewrites, files that INFO reads.
const FILES: u64 = 24;
const PER_LANE: usize = 8;
