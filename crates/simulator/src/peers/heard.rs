//! What a subscriber may hear: live values never go back, and of a channel no message is missing.

use std::collections::BTreeMap;

use super::model::number;
use crate::peer::{Ledger, Verdict};

/// What a subscriber has heard over one connection.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    last: BTreeMap<Vec<u8>, u64>,
    /// At a replica messages of a channel may be missing.
    has_gaps: bool,
    /// The master has lost its last writes: what was shown of them may be taken back.
    goes_back: bool,
}

impl Heard {
    /// What is heard at a replica.
    pub(crate) fn at_replica() -> Self {
        Self {
            has_gaps: true,
            ..Self::default()
        }
    }

    /// The master has lost writes, if this is true.
    pub(crate) fn note_loss(&mut self, has_lost: bool) {
        self.goes_back |= has_lost && self.has_gaps;
    }

    /// A message of a topic or a channel.
    pub(crate) fn message(&mut self, topic: &[u8], payload: &[u8]) -> Verdict {
        if payload == GONE && self.goes_back {
            self.last.remove(topic);
            return Ok(());
        }
        let value = number(payload) as u64;
        let shown = (topic.escape_ascii(), payload.escape_ascii());
        if value == 0 {
            return Err(format!(
                "{} brings {}, which nobody has written",
                shown.0, shown.1
            ));
        }
        let before = self.last.insert(topic.to_vec(), value);
        let Some(before) = before else {
            return Ok(());
        };
        let is_channel = topic.starts_with(b"news:");
        let is_next = value == before + 1 || self.has_gaps && value > before;
        if is_channel && !is_next {
            return Err(format!("{} brings {value} after {before}", shown.0));
        }
        if value < before && !self.goes_back {
            return Err(format!("{} goes back from {before} to {value}", shown.0));
        }
        Ok(())
    }

    /// Compares the last live values with what they must be.
    pub(crate) fn check(&self, ledger: &Ledger) -> Verdict {
        for (topic, value) in &ledger.live {
            let heard = self.last.get(topic);
            if heard != Some(value) {
                let topic = topic.escape_ascii();
                return Err(format!(
                    "{topic} is {value}, and was last heard as {heard:?}"
                ));
            }
        }
        Ok(())
    }
}

/// What a subscriber of a live key hears when the key is gone.
const GONE: &[u8] = b"{\"gone\":true}";
