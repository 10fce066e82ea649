//! Commands on deadlines of hash fields.
