//! Commands on streams.

use super::Command;

pub(super) const STREAMS: &[Command] = &[];
