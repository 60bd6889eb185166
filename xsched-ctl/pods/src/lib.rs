//! To which pod of Kubernetes a process belongs, and what the pod asks for by its annotations.
//!
//! ```text
//!   /proc/PID/cgroup --> ContainerId --+
//!                                      +--> Pods: names, and what the annotations ask for
//!   CRI socket: ListContainers, -------+
//!               ListPodSandbox
//! ```
//!
//! No credentials of the API server are needed: the container runtime of the node knows the annotations, and the kernel says in
//! which container a process is. [DESIGN.md](../DESIGN.md) says why this source.
//!
//! | module | responsible for |
//! | --- | --- |
//! | `cgroup` | the container in the path of a cgroup |
//! | `annotations` | what a pod asks for |
//! | `messages`, `grpc` | the part of the CRI that is used, and one call |
//! | `runtime` | asking the container runtime |

mod annotations;
mod cgroup;
mod grpc;
mod messages;
mod runtime;

pub use annotations::Asked;
pub use cgroup::ContainerId;
pub use grpc::CallError;
pub use runtime::{Container, Pods, SOCKETS, list};
