//! SORT.

use super::Command;

pub(super) const SORT: &[Command] = &[];
