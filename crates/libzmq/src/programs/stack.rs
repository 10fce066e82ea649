//! Threads with small stacks.

use super::live;
use std::thread::Builder;

/// Calls that read from a connection, or closed one, had a buffer of 16 KiB on the stack.
#[test]
fn a_thread_with_a_small_stack_overran_it() {
    for endpoint in [
        c"tcp://127.0.0.1:*",
        c"ipc://*",
        c"shm://*",
        c"ws://127.0.0.1:*",
        c"inproc://small",
    ] {
        let builder = Builder::new().stack_size(STACK_BYTES);
        let thread = builder.spawn(move || live(endpoint)).unwrap();
        assert_eq!(thread.join().unwrap(), 0, "{endpoint:?}");
    }
}

/// Enough for this build, which optimises little, and less than the buffer and the rest took.
const STACK_BYTES: usize = 24 << 10;
