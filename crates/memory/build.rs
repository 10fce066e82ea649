//! Tells the crate which block sizes the allocator's C part is built with. The workspace's
//! `.cargo/config.toml` requests the finer ones, unless the user sets other compiler flags.

use std::env;

fn main() {
    println!("cargo::rerun-if-env-changed=CFLAGS");
    println!("cargo::rustc-check-cfg=cfg(fine_blocks)");
    let flags = env::var("CFLAGS").unwrap_or_default();
    if flags.split_whitespace().any(|flag| flag == FINE_BLOCKS) {
        println!("cargo::rustc-cfg=fine_blocks");
    }
}

const FINE_BLOCKS: &str = "-DMI_MAX_ALIGN_SIZE=8";
