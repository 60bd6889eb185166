//! A graph as text for Graphviz.

use core::ffi::{CStr, c_char};
use core::fmt::Write as _;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use super::object::{Graph, address, resolve};
use crate::abi::{hipError_t, hipGraph_t};
use crate::boundary;
use crate::error::HipError;
use crate::operation::Operation;

/// `hipGraphDebugDotPrint`: prints types and names, whatever the flags are.
pub(crate) unsafe extern "C" fn debug_dot_print(
    graph: hipGraph_t,
    path: *const c_char,
    _flags: u32,
) -> hipError_t {
    boundary::call(|| {
        let graph = resolve(graph)?;
        if path.is_null() {
            return Err(HipError::InvalidValue);
        }
        // SAFETY: the caller passes a terminated string.
        let path = unsafe { CStr::from_ptr(path) };
        fs::write(OsStr::from_bytes(path.to_bytes()), text(&graph)).map_err(|_| HipError::OperatingSystem)
    })
}

fn text(graph: &Graph) -> String {
    let mut text = String::from("digraph graph_0 {\n");
    let state = graph.lock();
    for node in &state.nodes {
        let label = match node.operation() {
            Operation::Kernel(launch) => launch.name().to_owned(),
            other => format!("type {}", other.node_type()),
        };
        writeln!(text, "  \"{:#x}\" [label=\"{label}\"];", address(node))
            .expect("writing to a string cannot fail");
    }
    for (from, to) in &state.edges {
        writeln!(text, "  \"{:#x}\" -> \"{:#x}\";", address(from), address(to))
            .expect("writing to a string cannot fail");
    }
    text.push_str("}\n");
    text
}
