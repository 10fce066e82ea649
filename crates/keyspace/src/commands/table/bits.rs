//! Commands on bits.

use super::Command;

pub(super) const BITS: &[Command] = &[];
