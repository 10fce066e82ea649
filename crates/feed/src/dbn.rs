//! Databento binary encoding: reader.
