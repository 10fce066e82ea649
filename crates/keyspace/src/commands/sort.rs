//! SORT.
