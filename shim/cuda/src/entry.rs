//! How calls come in.
//!
//! | file | for |
//! | --- | --- |
//! | `exports` | programs that are linked with libcuda, or found the address of an export |
//! | `lookup` | programs that look functions up by `dlsym` |

mod exports;
mod lookup;
