//! Commands on sorted sets.

use super::Command;

pub(super) const SORTED_SETS: &[Command] = &[];
