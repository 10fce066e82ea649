//! Sending side of a native feed, one session a client.
