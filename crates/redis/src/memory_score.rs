//! `oom-score-adj`: the order in which the kernel kills processes when memory is short.
//!
//! The score at the start is the base: `relative` adds to it, `absolute` replaces it,
//! and `no` gives it back. A master and a replica have values of their own.

use std::fs;
use std::io;

use crate::parameters::{OOM_SCORE_ADJ, OOM_SCORE_ADJ_VALUES};
use crate::server::Server;

impl Server {
    /// Adjusts the process as the parameters and this server's part say.
    ///
    /// # Errors
    /// The system does not allow it: to be ended later than now needs a right.
    pub(crate) fn adjust_memory_score(&self) -> io::Result<()> {
        let mut base = self.memory_score.base.lock();
        let mode = self.parameters.read(OOM_SCORE_ADJ);
        if mode == "no" {
            return match base.take() {
                Some(old) => fs::write(PLACE, old.to_string()),
                None => Ok(()),
            };
        }
        let old = match *base {
            Some(old) => old,
            None => fs::read_to_string(PLACE)?.trim().parse().unwrap_or(0),
        };
        let values = self.parameters.read(OOM_SCORE_ADJ_VALUES);
        let is_replica = self.replication.master().is_some();
        let score = score(mode, &values, is_replica, old);
        fs::write(PLACE, score.to_string())?;
        *base = Some(old);
        Ok(())
    }

    /// Does the same, and logs an error.
    pub(crate) fn follow_memory_score(&self) {
        if let Err(error) = self.adjust_memory_score() {
            tracing::warn!(%error, "oom-score-adj cannot be set");
        }
    }
}

fn score(mode: &str, values: &str, is_replica: bool, base: i32) -> i32 {
    let mut values = values.split_ascii_whitespace();
    let value = values.nth(usize::from(is_replica));
    let value = value.and_then(|text| text.parse().ok()).unwrap_or(0);
    let value: i32 = match mode {
        "absolute" => value,
        _ => value + base,
    };
    value.clamp(-1_000, 1_000)
}

const PLACE: &str = "/proc/self/oom_score_adj";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_the_part_s_own_relative_or_absolute_within_the_system_s_bounds() {
        assert_eq!(score("yes", "10 20 30", false, 3), 13);
        assert_eq!(score("yes", "10 20 30", true, 3), 23);
        assert_eq!(score("absolute", "10 20 30", true, 3), 20);
        assert_eq!(score("yes", "2000 -2000 0", false, 3), 1_000);
        assert_eq!(score("yes", "2000 -2000 0", true, 3), -1_000);
    }
}
