//! What a writer's keys have been, one state after the other: a replica shows one of them.

use super::model::Model;

/// States of a writer's keys at the master.
#[derive(Debug)]
pub(crate) struct History {
    states: Vec<Model>,
    /// Where the master's last life began.
    life: usize,
}

impl Default for History {
    fn default() -> Self {
        // Before anything is written, there is nothing.
        Self {
            states: vec![Model::default()],
            life: 0,
        }
    }
}

impl History {
    /// The master has begun another life with these keys.
    pub(super) fn begin(&mut self, keys: Model) {
        self.life = self.states.len();
        self.states.push(keys);
    }

    /// A command has been sent that leads to these keys.
    pub(super) fn push(&mut self, keys: Model) {
        self.states.push(keys);
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
