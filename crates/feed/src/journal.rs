//! The stream's recent past: what retransmission is served from.
