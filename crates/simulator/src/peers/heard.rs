//! What a subscriber may hear: live values never go back, and of a channel no message is missing.

use std::collections::BTreeMap;

use super::model::number;
use super::{Ledger, Verdict};

/// What a subscriber has heard over one connection.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    last: BTreeMap<Vec<u8>, u64>,
}

impl Heard {
    /// A message of a topic or a channel.
    pub(crate) fn message(&mut self, topic: &[u8], payload: &[u8]) -> Verdict {
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
        if is_channel && value != before + 1 {
            return Err(format!("{} brings {value} after {before}", shown.0));
        }
        if value < before {
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
