//! Topics, mounts, subscriptions, fan-out and one session type a protocol.
