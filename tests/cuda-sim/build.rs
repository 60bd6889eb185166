//! Gives the library the genuine one's SONAME.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Threads of the runtime may be running in it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
