//! Unwind tables: translates ELF files into rows with which a BPF program can walk a stack.
//!
//! GPU libraries have no frame pointers, so only `.eh_frame` shows the callers. This crate translates it into the rows of
//! [`xsched_abi::unwind`], once for each file: in the background ([`Builder`]), with a cache on disk for later runs
//! ([`Cache`]). Tests compare tables with other unwinders by walks over copied stacks ([`walk()`]), with the steps of those in the kernel.
//!
//! ```no_run
//! use std::os::fd::AsFd as _;
//! use xsched_unwind::{Builder, Cache, Need};
//!
//! let mut builder = Builder::new(Cache::from_environment())?;
//! builder.request("libc", std::fs::File::open("/usr/lib/x86_64-linux-gnu/libc.so.6")?.into(), Need::Waiting);
//! // Later, when `builder.as_fd()` polls as readable:
//! for built in builder.completed() {
//!     match built.result {
//!         Ok(table) => println!("{}: {} rows", built.key, table.rows().len()),
//!         Err(why) => println!("{}: {why}", built.key),
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod assemble;
mod builder;
mod cache;
mod elf;
mod error;
mod frames;
mod image;
mod rule;
mod table;
mod vdso;
mod walk;

pub use builder::{Builder, Built, Need};
pub use cache::Cache;
pub use error::Error;
pub use image::Image;
pub use table::{Table, TableId};
pub use vdso::vdso;
pub use walk::{End, Frame, Snapshot, Walk, walk};
