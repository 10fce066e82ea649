//! Commands on streams.
