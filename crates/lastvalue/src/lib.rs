//! Last-value cache of seqlock slots, latency tracker.
