//! DUMP and RESTORE.

use super::Command;

pub(super) const DUMP: &[Command] = &[];
