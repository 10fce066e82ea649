//! What a writer's keys have been, one state after the other: a replica shows one of them.

use super::model::Model;

/// States of a writer's keys at the master.
#[derive(Debug)]
pub(crate) struct History {
    states: Vec<Model>,
    /// Where the master's last life began.
    life: usize,
    /// What the master's present life has begun with is known.
    has_begun: bool,
    /// The replica has said that it has this place, and that its disk has this one.
    confirmed: usize,
    confirmed_on_disk: usize,
}

impl Default for History {
    fn default() -> Self {
        // Before anything is written, there is nothing.
        Self {
            states: vec![Model::default()],
            life: 0,
            has_begun: true,
            confirmed: 0,
            confirmed_on_disk: 0,
        }
    }
}

impl History {
    /// The master has begun another life with these keys.
    pub(super) fn begin(&mut self, keys: Model) {
        self.life = self.states.len();
        self.has_begun = true;
        self.states.push(keys);
    }

    /// A command has been sent that leads to these keys.
    pub(super) fn push(&mut self, keys: Model) {
        self.states.push(keys);
    }

    /// The place of the last state.
    pub(super) fn place(&self) -> usize {
        self.states.len() - 1
    }

    /// The replica has all that leads to a place, perhaps on its disk.
    pub(super) fn confirm(&mut self, place: usize, on_disk: bool) {
        self.confirmed = self.confirmed.max(place);
        if on_disk {
            self.confirmed_on_disk = self.confirmed_on_disk.max(place);
        }
    }

    /// The replica shows nothing before this place.
    pub(super) fn confirmed(&self) -> usize {
        self.confirmed
    }

    /// A life of the replica has ended, perhaps without writing all that it had.
    pub(crate) fn replica_ended(&mut self, was_asked: bool) {
        if !was_asked {
            self.confirmed = self.confirmed_on_disk;
        }
    }

    /// A life of the master has ended: what it has lost, the replica loses.
    pub(crate) fn master_ended(&mut self) {
        (self.confirmed, self.confirmed_on_disk) = (0, 0);
        self.has_begun = false;
    }

    /// Whether it is known what the master's present life has begun with. Until then a replica may
    /// show anything that the master has had.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The oldest state that is not before a place and is what a replica shows; its place.
    pub(super) fn find(&self, from: usize, shown: &Model) -> Option<usize> {
        let states = self.states.iter().enumerate().skip(from);
        let mut same = states.filter(|(_, state)| *state == shown);
        same.next().map(|(place, _)| place)
    }

    pub(super) fn last(&self) -> &Model {
        self.states.last().expect("there is one from the start")
    }

    /// How many states there are, and how many before the master's last life.
    pub(super) fn lengths(&self) -> (usize, usize) {
        (self.states.len(), self.life)
    }
}
