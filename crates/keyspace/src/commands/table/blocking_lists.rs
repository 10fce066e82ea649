//! Commands that wait for an element of a list.

use super::Command;

pub(super) const BLOCKING_LISTS: &[Command] = &[];
