//! Which calls are recorded: the kernel filters by function, duration and chance, this module by library and kernel.
//!
//! Filtered calls are not losses: they are counted separately. Functions that name kernels are always probed, and their
//! calls filtered out here if necessary.

mod functions;

use xsched_abi::{EVERY_LAUNCH, Probe};
use xsched_rules::{PatternError, Patterns};
use xsched_symbols::plain_name;

use crate::call::RuntimeCall;
pub use functions::Functions;
use xsched_recording::Reason;

/// Why a combination of filters is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what has happened")]
pub enum FilterError {
    #[error("`--{option}`: {cause}")]
    Pattern { option: &'static str, cause: PatternError },
    #[error("`--{0}` needs launches, which `--api` excludes")]
    NoLaunches(&'static str),
    #[error("`--kernel` needs launches or lookups of kernels, which `--api` excludes")]
    NoKernels,
}

/// The filters of a recording.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    functions: Functions,
    libraries: Patterns,
    kernels: Patterns,
    min_duration_ns: u64,
    /// One in this many launches.
    sample: u32,
}

impl Filters {
    /// Combines filters; `sample` is one in this many launches, and zero or one takes all of them.
    pub fn new(
        functions: Functions,
        libraries: &[String],
        kernels: &[String],
        min_duration_ns: u64,
        sample: u32,
    ) -> Result<Self, FilterError> {
        let parse = |option, globs: &[String]| {
            Patterns::parse(globs).map_err(|cause| FilterError::Pattern { option, cause })
        };
        let filters = Self {
            libraries: parse("library", libraries)?,
            kernels: parse("kernel", kernels)?,
            functions,
            min_duration_ns,
            sample,
        };
        if sample > 1 && !filters.include_launches() {
            return Err(FilterError::NoLaunches("sample"));
        }
        let has_kernels = |probe: &Probe| is_launch(probe) || probe.category.names_kernels();
        if !filters.kernels.is_everything() && !filters.functions.include(has_kernels) {
            return Err(FilterError::NoKernels);
        }
        Ok(filters)
    }

    /// Whether launches are recorded at all.
    pub fn include_launches(&self) -> bool {
        self.functions.include(is_launch)
    }

    /// Whether a function of the table gets probes.
    pub(crate) fn probe(&self, probe: &Probe) -> bool {
        self.functions.want(probe) || probe.category.names_kernels()
    }

    /// Whether the user has chosen functions.
    pub(crate) fn choose_functions(&self) -> bool {
        !self.functions.are_all()
    }

    /// Whether the programs report every call.
    pub(crate) fn take_every_call(&self) -> bool {
        self.functions.are_all() && self.min_duration_ns == 0 && self.sample <= 1
    }

    /// Whether the programs report every launch of the functions that the user has chosen.
    pub(crate) fn take_every_launch(&self) -> bool {
        self.min_duration_ns == 0 && self.sample <= 1
    }

    /// The shortest duration that the programs report.
    pub(crate) fn min_duration_ns(&self) -> u64 {
        self.min_duration_ns
    }

    /// The share of launches that the programs report, as defined by [`xsched_abi::Config::launch_share`].
    pub(crate) fn launch_share(&self) -> u64 {
        EVERY_LAUNCH.div_ceil(u64::from(self.sample.max(1)))
    }

    /// Decides about a call that the programs have reported.
    pub(crate) fn decide(&self, call: &RuntimeCall) -> Decision {
        if !self.functions.want(call.probe) {
            return Decision::NamesOnly;
        }
        let is_short = call.duration_ns().is_some_and(|duration_ns| duration_ns < self.min_duration_ns);
        let libraries = [&*call.origin, &*call.caller.library];
        if is_short {
            Decision::LeaveOut(Reason::Short)
        } else if !self.libraries.match_any(&libraries) {
            Decision::LeaveOut(Reason::Library)
        } else if !self.kernels.is_everything() && !self.takes_kernel(call.kernel.as_deref()) {
            Decision::LeaveOut(Reason::Kernel)
        } else {
            Decision::Record
        }
    }

    /// As [`decide`](Self::decide), for a call whose chain is not known yet. Nothing if the chain could change the decision: it
    /// may show another library to which the call belongs.
    pub(crate) fn decide_early(&self, call: &RuntimeCall) -> Option<Decision> {
        let decision = self.decide(call);
        let is_final = match decision {
            Decision::NamesOnly | Decision::LeaveOut(Reason::Short) => true,
            Decision::LeaveOut(Reason::Kernel) => self.libraries.is_everything(),
            Decision::LeaveOut(_) | Decision::Record => false,
        };
        is_final.then_some(decision)
    }

    /// A call without a kernel matches no filter by kernel.
    fn takes_kernel(&self, kernel: Option<&str>) -> bool {
        kernel.is_some_and(|kernel| self.kernels.match_any(&[kernel, plain_name(kernel)]))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Record,
    /// It was reported only for the names in it.
    NamesOnly,
    /// It is filtered out.
    LeaveOut(Reason),
}

fn is_launch(probe: &Probe) -> bool {
    probe.category == xsched_abi::Category::Launch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::call;

    fn filters(libraries: &[&str], kernels: &[&str], min_duration_ns: u64) -> Filters {
        let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
        Filters::new(Functions::default(), &owned(libraries), &owned(kernels), min_duration_ns, 1).unwrap()
    }

    #[test]
    fn libraries_are_known_by_origin_and_by_caller() {
        let mut call = call("hipMemcpy");
        call.caller.library = "libhipblaslt.so".into();
        call.origin = "python3.11".into();
        let decide = |globs: &[&str]| filters(globs, &[], 0).decide(&call);
        assert_eq!(decide(&["python*"]), Decision::Record);
        assert_eq!(decide(&["libhipblas*"]), Decision::Record);
        assert_eq!(decide(&["librocblas*"]), Decision::LeaveOut(Reason::Library));
        assert_eq!(decide(&["!python*"]), Decision::LeaveOut(Reason::Library));
    }

    #[test]
    fn kernels_are_known_by_their_whole_and_by_their_plain_name() {
        let mut launch = call("hipLaunchKernel");
        launch.kernel = Some("void demo::mix<unsigned int, 3>(unsigned int*)".into());
        assert_eq!(filters(&[], &["demo::mix"], 0).decide(&launch), Decision::Record);
        assert_eq!(filters(&[], &["*unsigned int, 3*"], 0).decide(&launch), Decision::Record);
        assert_eq!(filters(&[], &["mix"], 0).decide(&launch), Decision::LeaveOut(Reason::Kernel));
        assert_eq!(filters(&[], &["!*mix*"], 0).decide(&launch), Decision::LeaveOut(Reason::Kernel));
        // A filter by kernel excludes copies.
        assert_eq!(filters(&[], &["*"], 0).decide(&call("hipMemcpy")), Decision::LeaveOut(Reason::Kernel));
    }

    #[test]
    fn short_calls_are_left_out_and_unfinished_ones_are_not() {
        let filters = filters(&[], &[], 50_000);
        let mut call = call("hipModuleGetFunction");
        call.end_ns = Some(49_999);
        assert_eq!(filters.decide(&call), Decision::LeaveOut(Reason::Short));
        call.end_ns = Some(50_000);
        assert_eq!(filters.decide(&call), Decision::Record);
        call.end_ns = None;
        assert_eq!(filters.decide(&call), Decision::Record);
    }

    #[test]
    fn functions_that_name_kernels_are_probed_and_not_recorded() {
        let functions = "launch".parse().unwrap();
        let filters = Filters::new(functions, &[], &[], 0, 0).unwrap();
        assert!(filters.probe(call("hipLaunchKernel").probe));
        assert!(filters.probe(call("hipModuleGetFunction").probe));
        assert!(!filters.probe(call("hipMemcpy").probe));
        assert_eq!(filters.decide(&call("hipModuleGetFunction")), Decision::NamesOnly);
        assert_eq!(filters.decide(&call("hipLaunchKernel")), Decision::Record);
    }

    #[test]
    fn filters_that_exclude_everything_are_refused() {
        let new = |api: &str, kernels: &[String], sample| {
            Filters::new(api.parse().unwrap(), &[], kernels, 0, sample).map(drop)
        };
        let error = new("copy", &[], 10).unwrap_err().to_string();
        assert_eq!(error, "`--sample` needs launches, which `--api` excludes");
        assert!(matches!(new("copy", &["gemm*".to_owned()], 0), Err(FilterError::NoKernels)));
        assert!(matches!(
            new("launch", &["a".to_owned(), "!a".to_owned()], 0),
            Err(FilterError::Pattern { option: "kernel", .. })
        ));
        new("launch", &["gemm*".to_owned()], 10).unwrap();
    }

    #[test]
    fn shares_are_of_two_to_the_32() {
        let share = |sample| Filters { sample, ..Filters::default() }.launch_share();
        assert_eq!([share(0), share(1), share(2), share(4)], [1 << 32, 1 << 32, 1 << 31, 1 << 30]);
        assert_eq!(share(3), 1_431_655_766);
    }
}
