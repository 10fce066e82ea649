//! Commands that count distinct things.

use super::Command;

pub(super) const HYPERLOGLOG: &[Command] = &[];
