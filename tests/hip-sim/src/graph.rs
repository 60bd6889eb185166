//! Graphs: operations and their dependencies, built by hand or by capture, and launched as a whole.
//!
//! The handles of a graph and its nodes are valid until the graph is destroyed. A launch runs an
//! `executable`: a copy of the graph that `plan` has laid out in lanes.

mod dot;
mod executable;
mod nodes;
mod object;
mod parameters;
mod plan;
mod topology;
mod user_object;

pub(crate) use dot::debug_dot_print;
pub(crate) use executable::{
    destroy as exec_destroy, flags as exec_flags, instantiate, instantiate_with_flags,
    instantiate_with_params, is_enabled, launch, launch_spt, set_enabled, update, upload,
};
pub(crate) use nodes::{
    add_batch, add_child, add_empty, add_event_record, add_event_wait, add_host, add_kernel, add_mem_alloc,
    add_mem_free, add_mem_free_driver, add_memcpy, add_memcpy_1d, add_memcpy_driver, add_memcpy_from_symbol,
    add_memcpy_to_symbol, add_memset, add_memset_driver, add_node,
};
pub(crate) use object::{
    Graph, GraphMemory, Node, create_registered, destroy_registered, handle, node_handle, owns_memory,
    resolve, resolve_nodes,
};
pub(crate) use parameters::*;
pub(crate) use topology::{
    add_dependencies, child_graph, clone, create, dependencies, dependents, destroy, destroy_node, edges,
    find_in_clone, node_type, nodes, remove_dependencies, roots,
};
pub(crate) use user_object::{
    create as create_user_object, release as release_user_object,
    release_from_graph as release_user_object_from_graph, retain as retain_user_object,
    retain_by_graph as retain_user_object_by_graph,
};

#[cfg(test)]
mod tests;
