//! Rules on launches through call chains. The program that makes these launches, `tests/apps/callers`, knows them too.

/// Calls below RCCL are never suspended, and a search of MIOpen passes through, whichever library calls HIP in the end.
pub const RULES: &str = "[[rule]]\nchain = 'librccl.so*'\naction = 'never-suspend'\n
[[rule]]\nchain = 'libMIOpen.so*:miopenFind*'\naction = 'passthrough'\n";
