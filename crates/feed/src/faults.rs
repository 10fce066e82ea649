//! Fault injection on a stream of packets.
