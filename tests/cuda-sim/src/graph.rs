//! Graphs, as programs make them by capturing streams.

use core::ffi::c_char;

use crate::context::enter;
use crate::export::exports;
use crate::hip;
use crate::result::{Handle, of_hip};

exports! {
    @10000 cuGraphCreate(graph: *mut Handle, flags: u32) { enter()?; of_hip(hip::hipGraphCreate(graph, flags)) }
    @10000 cuGraphDestroy(graph: Handle) { of_hip(hip::hipGraphDestroy(graph)) }
    @10000 cuGraphAddEmptyNode(node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize) {
        of_hip(hip::hipGraphAddEmptyNode(node, graph, dependencies, count))
    }
    @10000 cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        of_hip(hip::hipGraphGetNodes(graph, nodes, count))
    }
    @11000 cuGraphInstantiate_v2(
        executable: *mut Handle, graph: Handle, _node: *mut Handle, _log: *mut c_char, _len: usize,
    ) {
        enter()?;
        of_hip(hip::hipGraphInstantiateWithFlags(executable, graph, 0))
    }
    @11040 cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) {
        enter()?;
        of_hip(hip::hipGraphInstantiateWithFlags(executable, graph, flags))
    }
    @10000 [stream: cuGraphLaunch_ptsz] cuGraphLaunch(executable: Handle, stream: Handle) {
        enter()?;
        of_hip(hip::hipGraphLaunch(executable, stream))
    }
    @11010 [stream: cuGraphUpload_ptsz] cuGraphUpload(executable: Handle, stream: Handle) {
        enter()?;
        of_hip(hip::hipGraphUpload(executable, stream))
    }
    @10000 cuGraphExecDestroy(executable: Handle) { of_hip(hip::hipGraphExecDestroy(executable)) }
}
