//! Rules on the call chain of a HIP call.
//!
//! They determine two things. The *origin* of a call is the first library on its chain that is not *transparent*. The HIP
//! runtime and the libraries through which it is called are transparent. The verdict on a call is that of the first rule that
//! matches; the rules of the profile follow the file's own rules.
//!
//! ```toml
//! profile = "default"                        # or "compat"
//!
//! [origin]
//! also_transparent = ["libmy_wrapper.so*"]   # besides the built-in ones
//! # transparent = ["libamdhip64.so*"]        # instead of the built-in ones
//!
//! [[rule]]                                   # all given conditions must match; of a list, one element
//! name = "solver"                            # shown to people
//! library = ["libsolver.so*", "libblas*"]    # the origin of the call; `*` and `?` match any characters
//! function = "solve*"                        # in that library
//! chain = "libMIOpen.so*:miopenFind*"        # any function of the chain: a library, or library:function
//! under = "libtorch_hip.so"                  # the caller of that library
//! outermost = "python3*"                     # the outermost library of the chain
//! api = "hipLaunch*"                         # the HIP function
//! kernel = "gemm_*"                          # its name in the code object
//! process = "trainer"                        # file name of the process's executable, or path if there is a slash
//! user = "alice"                             # name or id
//! cgroup = "/system.slice/batch*"            # the process's cgroup or an ancestor
//! action = "schedule"                        # or "passthrough", "never-suspend"
//! preemption = 2                             # the highest preemption mode
//! ```
//!
//! A verdict also says whether the immediate caller alone determines it. Then it is valid for every call from there.
//!
//! This crate does no input or output: the caller passes the text of a file to [`Rules::parse`].

mod builtin;
mod decide;
pub mod document;
mod origin;
mod parse;
mod patterns;
mod rule;
mod suggest;

pub use builtin::Profile;
pub use decide::{Call, Caller, Decider, Decision, Domain, Rulebook};
pub use document::{Mistake, Mistakes, RulesError};
pub use origin::{BUILT_IN_TRANSPARENT, Rules};
pub use patterns::{Pattern, PatternError, Patterns};
pub use rule::{Frame, Rule, Source, action_name};
pub use suggest::closest;
