//! Lets programs see the functions of binaries that stand for applications with the shim in them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (binary, functions) in [
        ("arbiter-peer", &["xsched_arbiter_report"][..]),
        ("bench-arbiter", &["xsched_arbiter_report"]),
        ("bench-origin", &["xsched_arbiter_report", "xsched_classify"]),
        ("origin-peer", &["xsched_arbiter_report", "xsched_classify"]),
    ] {
        for function in functions {
            println!("cargo::rustc-link-arg-bin={binary}=-Wl,--export-dynamic-symbol={function}");
        }
    }
}
