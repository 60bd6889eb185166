//! What the rules say of launches through chains of libraries, as the program that makes them knows it: `tests/apps/callers`.

/// Whatever RCCL calls is never suspended, and a search of MIOpen's passes through, whoever calls HIP in the end.
pub const RULES: &str = "[[rule]]\nchain = 'librccl.so*'\naction = 'never-suspend'\n
[[rule]]\nchain = 'libMIOpen.so*:miopenFind*'\naction = 'passthrough'\n";
