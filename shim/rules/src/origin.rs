//! The origin of a call.

use crate::builtin::Profile;
use crate::patterns::Pattern;
use crate::rule::{Rule, Source};

/// Libraries that are never the origin of a call: the runtime, wrappers of profilers and of this project, and libraries
/// that call through a pointer on behalf of others.
pub const BUILT_IN_TRANSPARENT: &[&str] = &[
    // The runtimes and their components.
    "libamdhip64.so*",
    "libamdhip64-*.so*",
    "libhiprtc*.so*",
    "libhsa-runtime64*.so*",
    "libamd_comgr*.so*",
    "libcuda.so*",
    "libcudart.so*",
    "libcudart-*.so*",
    // Profilers and tools that wrap a runtime.
    "librocprofiler*.so*",
    "libroctracer64*.so*",
    "libroctx64*.so*",
    "librocprofiler-register*.so*",
    "libcupti.so*",
    "libnvToolsExt*.so*",
    "libxsched_shim.so*",
    "libxsched_cuda.so*",
    // The loader and the C library: resolvers, callbacks, the first frames of a thread.
    "ld-linux*.so*",
    "ld-musl*.so*",
    "libc.so*",
    "libc-*.so",
    "libdl.so*",
    "libpthread.so*",
    "[vdso]",
    // Calls by pointer on behalf of an interpreter.
    "libffi*.so*",
    "_ctypes.*.so",
];

/// The contents of a rules file.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) transparent: Vec<Pattern>,
    /// The rules of the file, then those of the profile.
    pub(crate) list: Vec<Rule>,
    pub(crate) profile: Profile,
}

impl Default for Rules {
    fn default() -> Self {
        let transparent = BUILT_IN_TRANSPARENT.iter().map(|glob| Pattern::new(glob));
        let profile = Profile::default();
        Self {
            transparent: transparent.collect::<Result<_, _>>().expect("a test parses all patterns"),
            list: profile.rules().to_vec(),
            profile,
        }
    }
}

impl Rules {
    /// These rules, preceded by the process's own rules from `settings`; the profile of `settings` is ignored.
    #[must_use]
    pub fn with_settings(mut self, settings: &Self) -> Self {
        let own = settings.list.iter().filter(|rule| rule.source == Source::File);
        let own = own.map(|rule| Rule { source: Source::Settings, ..rule.clone() });
        self.list.splice(..0, own);
        self
    }

    /// The rules that give verdicts, in the order in which they are evaluated.
    pub fn rules(&self) -> &[Rule] {
        &self.list
    }

    /// The same without the rules of built-in sets.
    #[must_use]
    pub fn written(&self) -> Self {
        let mut written = self.clone();
        written.list.retain(|rule| !matches!(rule.source, Source::BuiltIn(_)));
        written
    }

    /// The built-in set that follows the file's own rules.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The origin of a call, given the file names of the libraries on its call chain, innermost first.
    ///
    /// None if all libraries are transparent, or if there are none.
    pub fn origin<L: AsRef<str>>(&self, chain: impl IntoIterator<Item = L>) -> Option<L> {
        chain.into_iter().find(|library| !self.is_transparent(library.as_ref()))
    }

    /// Whether calls of this library belong to its caller.
    pub fn is_transparent(&self, library: &str) -> bool {
        self.transparent.iter().any(|pattern| pattern.matches(library))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_valid() {
        assert_eq!(Rules::default().transparent.len(), BUILT_IN_TRANSPARENT.len());
    }

    #[test]
    fn rules_of_a_process_precede_all_others() {
        let one = |name: &str| format!("[[rule]]\nname = '{name}'\naction = 'schedule'\n");
        let all = Rules::parse(&one("file")).unwrap();
        let both = all.clone().with_settings(&Rules::parse(&one("own")).unwrap());
        assert_eq!(both.rules().len(), all.rules().len() + 1, "the rules of the profile are not repeated");
        assert_eq!(both.rules()[0].name.as_deref(), Some("own"));
        assert_eq!(both.rules()[0].location("rules.toml"), "settings:1");
        assert_eq!(both.rules()[1].location("rules.toml"), "rules.toml:1");
    }

    #[test]
    fn the_first_library_above_the_runtime_is_the_origin() {
        let rules = Rules::default();
        let origin = |chain: &[&'static str]| rules.origin(chain.iter().copied());
        let blas = ["librocblas.so.4", "libhipblaslt.so.0", "libtorch_hip.so", "python3.11"];
        assert_eq!(origin(&blas), Some("librocblas.so.4"));
        assert_eq!(
            origin(&["libamdhip64.so.6", "libxsched_shim.so", "librocprofiler-sdk.so.0", "app"]),
            Some("app")
        );
        // PyTorch's wheels rename bundled libraries.
        assert_eq!(origin(&["libamdhip64-4e1a0e8f.so", "libtorch_hip.so"]), Some("libtorch_hip.so"));
        let ctypes = ["libffi.so.8.1.2", "_ctypes.cpython-311-x86_64-linux-gnu.so", "python3.11"];
        assert_eq!(origin(&ctypes), Some("python3.11"));
    }

    #[test]
    fn a_chain_of_transparent_libraries_has_no_origin() {
        assert_eq!(Rules::default().origin(["libamdhip64.so.6", "libc.so.6"]), None);
        assert_eq!(Rules::default().origin([""; 0]), None);
    }

    #[test]
    fn names_that_only_begin_alike_are_not_transparent() {
        for library in ["libcublas.so", "libc++.so.1", "libamdhip64_wrapper.so", "[unknown]", "libdlx.so"] {
            assert!(!Rules::default().is_transparent(library), "{library}");
        }
    }
}
