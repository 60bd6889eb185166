//! Links the library so that it is never unmapped: its threads, and the handlers that it registers, outlive a `dlclose`.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
