//! Rules on the call chain of a HIP call.
//!
//! They say two things. Whose a call is: its *origin* is the first library on the chain that is not *transparent*; the
//! HIP runtime and the libraries through which it is reached are. And what becomes of it: the first rule that fits
//! decides, and behind the file's own rules come those of its profile.
//!
//! ```toml
//! profile = "default"                        # or "compat"
//!
//! [origin]
//! also_transparent = ["libmy_wrapper.so*"]   # besides the built-in ones
//! # transparent = ["libamdhip64.so*"]        # instead of them
//!
//! [[rule]]                                   # all that is given must fit; of a list, one
//! name = "solver"                            # for people
//! library = ["libsolver.so*", "libblas*"]    # to which the call belongs; `*` and `?` stand for what may differ
//! function = "solve*"                        # in that library
//! chain = "libMIOpen.so*:miopenFind*"        # any function of the chain: a library, or library:function
//! under = "libtorch_hip.so"                  # what has called the library
//! outermost = "python3*"                     # where the chain begins
//! api = "hipLaunch*"                         # the HIP function
//! kernel = "gemm_*"                          # as the code object names it
//! process = "trainer"                        # file name of what the process executes, or path if there is a slash
//! user = "alice"                             # name or number
//! cgroup = "/system.slice/batch*"            # the process's own or one above it
//! action = "schedule"                        # or "passthrough", "never-suspend"
//! level = 2                                  # highest level of preemption
//! ```
//!
//! A verdict also says whether the immediate caller alone has decided it: then it holds for every call from there.
//!
//! Nothing is read or written here: who has the text of a file hands it to [`Rules::parse`].

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
