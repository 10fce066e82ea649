//! Programs that are linked to libzmq ask the loader for this name.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzmq.so.5");
    println!("cargo:rerun-if-changed=build.rs");
}
