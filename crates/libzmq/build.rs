//! Sets the name under which programs linked to libzmq load the library.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzmq.so.5");
    println!("cargo:rerun-if-changed=build.rs");
}
