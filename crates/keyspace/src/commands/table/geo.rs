//! Commands on places.

use super::Command;

pub(super) const GEO: &[Command] = &[];
