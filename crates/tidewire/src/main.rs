//! The `tidewire` program.

/// Small replies and entries are made and dropped all the time; mimalloc serves them without a
/// lock and gives memory back; what is held is counted.
#[global_allocator]
static ALLOCATOR: tidewire_memory::Allocator = tidewire_memory::Allocator;

fn main() {
    tidewire::main();
}
