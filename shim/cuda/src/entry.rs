//! How calls come in.
//!
//! | file | for |
//! | --- | --- |
//! | `exports` | programs that are linked with libcuda, or found the address of an export |
//! | `lookup` | programs that look functions up by `dlsym` |
//! | `caller` | where a call of an export returns |
//! | `hints` | programs that say how urgent a stream is |
//! | `domain` | programs that say what the calls of a thread are |

pub(crate) mod caller;
mod domain;
mod exports;
mod hints;
mod lookup;
