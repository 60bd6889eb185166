//! Lets programs see the report function of binaries that stand for applications with the shim in them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for binary in ["arbiter-peer", "bench-arbiter"] {
        println!("cargo::rustc-link-arg-bin={binary}=-Wl,--export-dynamic-symbol=xsched_arbiter_report");
    }
}
