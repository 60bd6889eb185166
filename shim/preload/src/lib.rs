//! What a preloaded library needs of its process, whatever the runtime: the shims of HIP and CUDA both use it.
//!
//! | module | responsible for |
//! | --- | --- |
//! | [`mod@env`] | the environment variables |
//! | [`log`] | writing to the place that `XSCHED_LOG` names |
//! | [`fork`] | state that a forked child replaces |
//! | [`dlsym`] | the next `dlsym` behind the shim's own |
//! | [`behind`] | functions of a shim that is loaded behind this one |
//! | [`hints`] | what the environment asks the queues for |
//! | [`asked`] | what the program asks for while it runs |
//! | [`gates`] | which gates the process has, for others |
//! | [`memory`] | memory of the shim's own, also when the system gives none |
//! | [`hashing`] | the multiplier of hash tables |
//! | [`caller`] | the library and the function that a call returns to |
//! | [`caller_rules`] | rules on calls, where the process decides by the immediate caller |
//! | [`sites`] | verdicts of known call sites |
//! | [`programs`] | verdicts by the controller's programs, which know the whole call chain |
//! | [`thread_end`] | what a thread gives back when it ends |
//! | [`told`] | what the controller is told about calls |
//! | [`kernel_names`] | numbers for names of kernels, where rules use names |
//! | [`settings`] | rules that the environment asks for |
//! | [`origins`] | numbers for the libraries that calls belong to |
//! | [`program`] | which file the process executes |
//! | [`index`] | finding what belongs to a handle without a lock |
//! | [`added_calls`] | calls of a runtime that the shim adds to those of the program |

pub mod added_calls;
pub mod asked;
pub mod behind;
pub mod caller;
pub mod caller_rules;
pub mod dlsym;
pub mod env;
pub mod fork;
pub mod gates;
pub mod hashing;
pub mod hints;
pub mod index;
pub mod kernel_names;
pub mod log;
pub mod memory;
pub mod origins;
pub mod program;
pub mod programs;
pub mod settings;
pub mod sites;
pub mod thread_end;
pub mod told;
