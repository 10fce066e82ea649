//! Commands on deadlines of hash fields.

use super::Command;

pub(super) const HASH_EXPIRY: &[Command] = &[];
