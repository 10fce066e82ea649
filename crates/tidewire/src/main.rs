//! The `tidewire` program.
fn main() {}
