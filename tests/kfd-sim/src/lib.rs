//! A kernel driver in user space, for AMD's own runtime: preloaded, it answers what `libhsa-runtime64` asks of `/dev/kfd` and
//! `/dev/dri/renderD128`. The GPU behind it is a gfx900, whose kernels `xsched-gcn3` executes in the process itself.
//!
//! It is a test device, outside the product: it shows what programs compute through AMD's runtime, and nothing about how long a
//! GPU takes. `DESIGN.md` says what it answers and what it leaves out.
//!
//! What is not answered fails by name, on the error stream and in the log (`log.rs`).

mod abi;
mod clock;
mod driver;
pub mod entry;
mod events;
mod log;
mod packet;
mod pm4;
mod queue;
mod render;
mod request;
mod space;
mod view;
