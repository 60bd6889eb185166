//! How calls come in.
//!
//! | file | for |
//! | --- | --- |
//! | `exports` | programs that are linked with libcuda, or found the address of an export |
//! | `lookup` | programs that look functions up by `dlsym` |
//! | `hints` | programs that say how urgent a stream is |

mod exports;
mod hints;
mod lookup;
