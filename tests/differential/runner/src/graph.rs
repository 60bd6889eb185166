//! Graphs, built node by node.

use core::ffi::c_uint;
use core::ptr;

use xsched_differential::program::{CELL_WORDS, Node, Work};

use crate::arguments::Arguments;
use crate::copy;
use crate::hip::{self, Code, Dim3, Handle};
use crate::work::{self, HostWork};
use crate::world::World;

/// The executable graph, and the first return code other than success.
pub(crate) fn build(world: &World<'_>, nodes: &[Node]) -> (Handle, Code) {
    let mut graph = ptr::null_mut();
    // SAFETY: a local out-parameter.
    let code = unsafe { hip::hipGraphCreate(&raw mut graph, 0) };
    if code != hip::SUCCESS {
        return (ptr::null_mut(), code);
    }
    let mut added = Vec::new();
    for node in nodes {
        let after: Vec<Handle> = node.after.iter().map(|index| added[usize::from(*index)]).collect();
        let (handle, code) = add(world, graph, &after, &node.work);
        if code != hip::SUCCESS {
            return (ptr::null_mut(), code);
        }
        added.push(handle);
    }
    instantiate(graph)
}

/// Makes a graph executable; the graph itself is destroyed.
pub(crate) fn instantiate(graph: Handle) -> (Handle, Code) {
    let mut executable = ptr::null_mut();
    // SAFETY: a graph from HIP, and a local out-parameter.
    let (made, destroyed) = unsafe {
        let none = ptr::null_mut();
        let made = hip::hipGraphInstantiate(&raw mut executable, graph, none, ptr::null_mut(), 0);
        (made, hip::hipGraphDestroy(graph))
    };
    (executable, if made == hip::SUCCESS { destroyed } else { made })
}

fn add(world: &World<'_>, graph: Handle, after: &[Handle], work: &Work) -> (Handle, Code) {
    let mut node = ptr::null_mut();
    let (out, list, count) = (&raw mut node, after.as_ptr(), after.len());
    // SAFETY: a graph with its nodes, cells of existing buffers, and parameters that live until the call
    // returns.
    let code = unsafe {
        match *work {
            Work::Kernel { kernel, to, from, key, .. } => {
                let mut arguments = Arguments::new(kernel, world.cell(to).0, world.cell(from).0, key);
                let parameters = hip::KernelNode {
                    block: Dim3::x(CELL_WORDS as c_uint),
                    extra: ptr::null_mut(),
                    function: hip::diff_kernel(work::number(kernel)),
                    grid: Dim3::x(1),
                    arguments: arguments.list(),
                    lds_size: 0,
                };
                let code = hip::hipGraphAddKernelNode(out, graph, list, count, &raw const parameters);
                arguments.scribble();
                code
            }
            Work::Copy { to, from, .. } => {
                let kind = copy::direction(world.shape(to.0).memory, world.shape(from.0).memory);
                let ((to, size), (from, _)) = (world.cell(to), world.cell(from));
                hip::hipGraphAddMemcpyNode1D(out, graph, list, count, to, from, size, kind)
            }
            Work::Fill { to, value, .. } => {
                let (to, size) = world.cell(to);
                let parameters = hip::MemsetNode {
                    to,
                    element_size: 1,
                    height: 1,
                    pitch: size,
                    value: value.into(),
                    width: size,
                };
                hip::hipGraphAddMemsetNode(out, graph, list, count, &raw const parameters)
            }
            Work::Host { to, from, key, .. } => {
                let user = HostWork::leaked(world, to, from, key);
                let parameters = hip::HostNode { function: work::host_function, user };
                hip::hipGraphAddHostNode(out, graph, list, count, &raw const parameters)
            }
            // Programs that pass the order check have no such nodes.
            Work::WriteValue { .. } | Work::Move { .. } => hip::SUCCESS,
        }
    };
    (node, code)
}
