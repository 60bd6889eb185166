//! Rules on the call chain of a HIP call.
//!
//! So far they say one thing: whose a call is. Its *origin* is the first library on the chain that is not *transparent*;
//! the HIP runtime and the libraries through which it is reached are. The rules that give verdicts (schedule, pass
//! through, never suspend) will be `[[rule]]` tables of the same file and will ask [`Rules::origin`] first.
//!
//! ```toml
//! [origin]
//! also_transparent = ["libmy_wrapper.so*"]   # besides the built-in ones
//! # transparent = ["libamdhip64.so*"]        # instead of them
//! ```
//!
//! Nothing is read or written here: who has the text of a file hands it to [`Rules::parse`].

pub mod document;
mod origin;
mod parse;
mod patterns;
mod suggest;

pub use document::{Mistake, RulesError};
pub use origin::{BUILT_IN_TRANSPARENT, Rules};
pub use patterns::{Pattern, PatternError, Patterns};
pub use suggest::closest;
