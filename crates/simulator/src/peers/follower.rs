//! A client of the replica that looks at the keys of one writer, all at once.

use tidewire_resp::Value;

use super::history::History;
use super::model::Model;
use super::resp_link::RespLink;
use super::writer::{ask_for_all, found, is_refusal};
use crate::peer::{Around, PeerOfHub, Verdict};
use crate::plan::{End, Plan};

/// See the [module](self).
pub(crate) struct Follower {
    number: usize,
    link: RespLink,
    is_asking: bool,
    /// The place in the writer's history of what was shown last: nothing older may be shown.
    floor: usize,
    /// What the replica had confirmed before it was asked: nothing older may be shown.
    confirmed: usize,
    masters_ended: u64,
    shown: Option<Model>,
    /// Whether what was shown last is what the master has.
    is_level: bool,
}

impl Follower {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            link: RespLink::default(),
            is_asking: false,
            floor: 0,
            confirmed: 0,
            masters_ended: 0,
            shown: None,
            is_level: false,
        }
    }

    fn compare(&mut self, shown: Model, history: &History) -> Verdict {
        let from = match history.has_begun() {
            true => self.floor.max(self.confirmed),
            false => 0,
        };
        let Some(place) = history.find(from, &shown) else {
            let (states, life) = history.lengths();
            return Err(format!(
                "the replica shows what the master has not had since state {from} of {states} \
                 (its last life began at {life}, {} was confirmed, the same was state {:?}): {}",
                self.confirmed,
                history.find(0, &shown),
                shown.difference(history.last())
            ));
        };
        if history.has_begun() {
            self.floor = place;
        }
        self.shown = Some(shown);
        Ok(())
    }
}

impl PeerOfHub for Follower {
    fn name(&self) -> String {
        format!("reader of writer {} at the replica", self.number)
    }

    fn step(&mut self, around: &mut Around<'_>) -> Verdict {
        self.link.step(around)?;
        if !self.link.is_open() {
            self.link.connect(around);
            self.is_asking = false;
        }
        let ended = around.ledger.masters_ended;
        if std::mem::replace(&mut self.masters_ended, ended) != ended {
            // What the next master has lost, the replica loses.
            (self.floor, self.confirmed) = (0, 0);
        }
        let history = around.ledger.histories.entry(self.number).or_default();
        while let Some(reply) = self.link.reply() {
            match reply {
                Value::Simple(_) => {}
                // The keys are being loaded.
                Value::Error(text) if is_refusal(&text) => {
                    self.link.close();
                    self.is_asking = false;
                    self.shown = None;
                    return Ok(());
                }
                Value::Array(shown) => {
                    self.is_asking = false;
                    self.compare(found(self.number, &shown), history)?;
                }
                other => return Err(format!("a look is answered with {other:?}")),
            }
        }
        self.is_level = self.shown.as_ref() == Some(history.last());
        let begins = around.is_quiet || around.random.chance(50);
        if !self.is_asking && begins {
            self.is_asking = true;
            self.confirmed = history.confirmed();
            ask_for_all(&mut self.link, self.number);
        }
        Ok(())
    }

    /// What was shown need not have been on the replica's disk.
    fn process_ended(&mut self, _plan: &Plan, _end: End) {
        self.link.close();
        (self.floor, self.confirmed, self.shown, self.is_asking) = (0, 0, None, false);
    }

    fn is_settled(&self) -> bool {
        self.is_level
    }

    fn check(&mut self, _around: &mut Around<'_>) -> Verdict {
        match self.is_level {
            true => Ok(()),
            false => Err("the replica's keys are not the master's".to_owned()),
        }
    }
}
