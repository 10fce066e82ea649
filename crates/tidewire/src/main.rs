//! The `tidewire` program.

/// mimalloc under a counter of allocated bytes. Small replies and entries are allocated and freed
/// all the time; mimalloc serves them without a lock and returns memory to the system.
#[global_allocator]
static ALLOCATOR: tidewire_memory::Allocator = tidewire_memory::Allocator;

fn main() {
    tidewire::main();
}
