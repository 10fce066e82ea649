//! Commands on places.
