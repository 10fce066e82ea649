//! Makes a replica a master and a replica again.

use tidewire_resp::Value;

use super::resp_link::RespLink;
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, MASTER_PORT, Plan};

/// See the [module](self). Nobody writes to the replica meanwhile.
#[derive(Default)]
pub(crate) struct Operator {
    link: RespLink,
    is_asking: bool,
    /// What the replica was told last: to follow nobody.
    is_alone: bool,
    /// The port of the master that it is told: each leads to the same.
    port: u16,
}

impl PeerOfHub for Operator {
    fn name(&self) -> String {
        "operator of the replica".to_owned()
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        self.link.step(around)?;
        if !self.link.is_open() {
            self.link.connect(around);
            // Whether what was asked for was done is not known: it is asked for again.
            self.is_alone |= std::mem::take(&mut self.is_asking);
        }
        while let Some(reply) = self.link.reply() {
            self.is_asking = false;
            match reply {
                Value::Simple(_) => {}
                // Its keys are just being replaced, or loaded: later again.
                Value::Error(_) => self.is_alone = true,
                other => return Err(format!("REPLICAOF is answered with {other:?}")),
            }
        }
        if self.is_asking {
            return Ok(());
        }
        let kind = around.random.below(10_000);
        let follows = match around.is_quiet {
            true => self.is_alone,
            false => self.is_alone && kind < 200 || kind < 5,
        };
        if follows {
            self.port = (self.port + 1) % 4;
            let port = (MASTER_PORT + self.port).to_string();
            self.link.send(&["REPLICAOF", "127.0.0.1", &port]);
            (self.is_alone, self.is_asking) = (false, true);
        } else if !around.is_quiet && (5..15).contains(&kind) {
            self.link.send(&["REPLICAOF", "NO", "ONE"]);
            (self.is_alone, self.is_asking) = (true, true);
        }
        Ok(())
    }

    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link.close();
        // The next process follows as its configuration says.
        (self.is_alone, self.is_asking) = (false, false);
    }

    fn is_settled(&self) -> bool {
        !self.is_alone && !self.is_asking
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        Ok(())
    }
}
