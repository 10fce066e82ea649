//! Commands that wait for an element of a list.
