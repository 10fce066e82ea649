//! One event loop a core: readiness, timers, cross-lane mailboxes.
