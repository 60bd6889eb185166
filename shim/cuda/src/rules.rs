//! How the calls of different callers are treated: by the domain of the thread, or by the rules on the library that calls.
//!
//! The process decides itself, from where a call returns. CUDA's libraries have CUDA's runtime inside or call the driver, so for cuBLAS,
//! cuDNN, NCCL, Triton and CuPy that is the answer. Calls through the shared `libcudart.so` belong to no library here.
//!
//! Where a rule of a file or of settings could decide otherwise about another chain, the controller's programs are asked, which walk
//! the stack. That costs 2 us a call, so they are not asked for the built-in sets.
//!
//! A verdict is kept by call site, if no other chain through it has another one, and by kernel where a rule asks for its name.

use std::cell::Cell;
use std::error::Error;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use xsched_preload::caller_rules::{CallerRules, KnownCall};
use xsched_preload::fork::Renewable;
use xsched_preload::programs::{self, Answer, Registers};
use xsched_preload::sites::{CACHE, Cache, Known, Site};
use xsched_preload::told::Untold;
use xsched_preload::{caller, kernel_names, log, origins, settings, told};
use xsched_protocol::probe::PROBES;
use xsched_protocol::return_probe::is_trampoline;
use xsched_protocol::shim_status::ShimVerdicts;
use xsched_protocol::verdict::{Action, Judgement, RuleId, Subject, Verdict};
use xsched_protocol::wire::SchedulingDomain;
use xsched_rules::Rules;
use xsched_xqueue::{ControllerRules, Judged, Library, Origin, PageError};

use crate::api::NAMES;
use crate::counters::{Counter, count};
use crate::driver;
use crate::status::xsched_cuda_status;

/// Where a call comes from, and which it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSite {
    /// Those of its caller, when it has returned.
    pub(crate) registers: Registers,
    /// The function's number in the list.
    pub(crate) id: usize,
}

/// The rules in force.
#[derive(Default)]
struct InForce {
    controllers: Option<ControllerRules>,
    /// As they apply to this process; None until they are needed.
    book: Option<Arc<CallerRules>>,
}

static IN_FORCE: Renewable<Mutex<InForce>> = Renewable::new();

/// Changes whenever cached verdicts may be wrong.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Sites of which other chains may have other verdicts: the programs are asked about each call.
static UNSURE: Cache = Cache::empty();

/// What is known of such a site.
const UNDECIDED: Known =
    Known { judgement: Judgement::new(Action::Schedule, 0, RuleId::NONE), origin: Origin::UNKNOWN.0 };

/// Numbers of kernels' names, by handle.
static KERNELS: Renewable<Mutex<HashMap<usize, u32>>> = Renewable::new();

/// Whether a verdict that depends on the kernel was cached.
static DEPENDS_ON_KERNELS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static DOMAIN: Cell<SchedulingDomain> = const { Cell::new(SchedulingDomain::Auto) };
}

fn in_force() -> MutexGuard<'static, InForce> {
    IN_FORCE.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// How to treat a call that puts work on a stream, and the library that it belongs to. `kernel` is what it launches. `needs_none` says
/// whether the call does not wait for its verdict.
#[inline]
pub(crate) fn judge(site: CallSite, kernel: Option<usize>, needs_none: impl Fn() -> bool) -> Judged {
    let by_thread = |action| Judgement::new(action, 0, RuleId::DOMAIN);
    let judged = judge_caller(site, kernel, needs_none);
    match domain_of_thread() {
        SchedulingDomain::Auto => judged,
        SchedulingDomain::System => Judged { judgement: by_thread(Action::NeverSuspend), ..judged },
        SchedulingDomain::Application => Judged { judgement: by_thread(Action::Schedule), ..judged },
    }
}

#[inline]
fn judge_caller(call: CallSite, kernel: Option<usize>, needs_none: impl Fn() -> bool) -> Judged {
    let generation = generation();
    let find = |kernel: usize| CACHE.find(call.site(kernel), generation);
    let by_kernel = || find(kernel.filter(|_| DEPENDS_ON_KERNELS.load(Ordering::Relaxed))?);
    let known = find(0).or_else(by_kernel).unwrap_or_else(|| decide(call, kernel, generation, needs_none));
    Judged { judgement: known.judgement, origin: Origin(known.origin) }
}

impl CallSite {
    fn site(self, kernel: usize) -> Site {
        Site::new(self.registers.rip, 0, self.id, kernel as u64)
    }
}

/// The generation under which verdicts of call sites are cached.
#[inline]
fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire).wrapping_add(programs::generation())
}

#[cold]
fn decide(call: CallSite, kernel: Option<usize>, generation: u64, needs_none: impl Fn() -> bool) -> Known {
    // The programs answer soon, and to look up the caller and the kernel's name takes longer.
    let is_unsure = programs::is_in_force() && UNSURE.find(call.site(0), generation).is_some();
    let known = is_unsure.then(|| decide_by_chain(call, kernel, &needs_none)).flatten();
    known.unwrap_or_else(|| decide_by_caller(call, kernel, generation, needs_none))
}

/// By the immediate caller, unless the programs must be asked.
fn decide_by_caller(
    call: CallSite,
    kernel: Option<usize>,
    generation: u64,
    needs_none: impl Fn() -> bool,
) -> Known {
    let rules = rules_in_force();
    let path = caller::library(call.registers.rip);
    let library = path.as_deref().map(caller::file_name);
    let function = path.as_ref().and_then(|_| caller::function(call.registers.rip));
    let name = kernel.and_then(driver::name_of);
    let api = NAMES[call.id].to_str().ok();
    let known = KnownCall { library, function: function.as_deref(), api, kernel: name.as_deref() };
    let is_unsure = !rules.is_sure(known) && has_programs();
    if is_unsure {
        UNSURE.insert(call.site(0), UNDECIDED, generation);
        if let Some(known) = decide_by_chain(call, kernel, needs_none) {
            return known;
        }
    }
    let origin = library.and_then(|library| rules.origin(library));
    let verdict = rules.decide(known);
    let known = known_of(verdict, origin.map(|name| Library::Own(name.to_owned())));
    // A question without an answer is asked again the next time.
    if !is_unsure {
        keep(call, kernel, verdict, known, generation);
    }
    known
}

/// By the programs' answer; None without an answer.
fn decide_by_chain(call: CallSite, kernel: Option<usize>, needs_none: impl Fn() -> bool) -> Option<Known> {
    let own = GENERATION.load(Ordering::Acquire);
    let Answer { verdict, origin, generation } = ask(call, kernel, needs_none)?;
    let known = known_of(verdict, (origin != 0).then_some(Library::Controllers(origin)));
    keep(call, kernel, verdict, known, own.wrapping_add(generation));
    Some(known)
}

fn known_of(verdict: Verdict, library: Option<Library>) -> Known {
    let Origin(origin) = library.map_or(Origin::UNKNOWN, origins::number);
    Known { judgement: verdict.into(), origin }
}

/// Keeps what is known of a call for others from there, unless these may have another verdict.
fn keep(call: CallSite, kernel: Option<usize>, verdict: Verdict, known: Known, generation: u64) {
    // A return probe has put its own address there: all callers look the same.
    if !verdict.is_decided_by_caller() || is_trampoline(call.registers.rip) {
        return;
    }
    let kernel = kernel.filter(|_| !verdict.is_for_any_kernel());
    if kernel.is_some() {
        DEPENDS_ON_KERNELS.store(true, Ordering::Relaxed);
    }
    // No kernel's handle is 0, which stands for all.
    CACHE.insert(call.site(kernel.unwrap_or(0)), known, generation);
}

/// The programs' answer about a call that launches a kernel; None without an answer.
fn ask(call: CallSite, kernel: Option<usize>, needs_none: impl Fn() -> bool) -> Option<Answer> {
    let ask = |kernel| programs::ask(call.registers, Subject::new(number(call.id), kernel), &needs_none);
    let known = kernel.and_then(|kernel| kernels().get(&kernel).copied());
    let answer = match (ask(known), kernel) {
        // Few callers have rules on kernels. For the others, a kernel that is launched for the first time is nothing new.
        (Ok(answer), Some(kernel))
            if known.is_none()
                && answer.verdict.action().is_some()
                && !answer.verdict.is_for_any_kernel() =>
        {
            number_of(kernel).map_or(Ok(answer), |number| ask(Some(number)))
        }
        (answer, _) => answer,
    };
    count(if answer.is_ok() { Counter::Asked } else { Counter::Unanswered });
    answer.ok()
}

/// The number of a kernel's name, if it has one.
fn number_of(kernel: usize) -> Option<u32> {
    let name = driver::name_of(kernel)?;
    let number = kernel_names::number(&name).unwrap_or_else(untold)?;
    kernels().insert(kernel, number);
    Some(number)
}

fn kernels() -> MutexGuard<'static, HashMap<usize, u32>> {
    KERNELS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether programs can be asked about a call that the immediate caller does not decide.
fn has_programs() -> bool {
    let are_there = programs::is_in_force();
    let how = if are_there { ShimVerdicts::Programs } else { ShimVerdicts::Caller };
    xsched_cuda_status.verdicts.store(how as u32, Ordering::Relaxed);
    are_there
}

/// A function's number in the table of probed functions, if it has one.
fn number(id: usize) -> u16 {
    static NUMBERS: LazyLock<Vec<u16>> = LazyLock::new(|| {
        let number_of =
            |name: &&CStr| PROBES.iter().position(|probe| probe.name.as_bytes() == name.to_bytes());
        let numbers = NAMES.iter().map(number_of);
        numbers.map(|number| number.map_or(Subject::UNKNOWN_API, |index| index as u16)).collect()
    });
    NUMBERS[id]
}

/// The controller's programs may be asked from now on, and leave their answers on this page.
///
/// # Errors
/// The page cannot be mapped.
pub(crate) fn use_programs(page: &OwnedFd) -> Result<(), PageError> {
    let is_first = !programs::is_in_force();
    programs::set(page)?;
    invalidate();
    if is_first {
        let (own, _) = settings::rules();
        told::rules(&own).unwrap_or_else(untold);
        for (number, name) in kernel_names::all() {
            told::kernel(number, &name).unwrap_or_else(untold);
        }
    }
    Ok(())
}

/// The controller could not be told of something. Calls are judged without that.
fn untold<T: Default>(_: Untold) -> T {
    count(Counter::Trouble);
    T::default()
}

/// There is no controller: the process decides by itself.
pub(crate) fn controller_gone() {
    programs::unset();
    set(None);
}

fn rules_in_force() -> Arc<CallerRules> {
    let mut in_force = in_force();
    let InForce { controllers, book } = &mut *in_force;
    let read = || {
        let (text, first, users) = controllers.as_ref().map_or(("", 0, [].as_slice()), |rules| {
            (rules.text.as_str(), rules.first, rules.users.as_slice())
        });
        let (own, error) = settings::rules();
        if let Some(error) = error {
            unreadable(&error);
        }
        Arc::new(CallerRules::new(&parse(&own), parse(text), first, users))
    };
    Arc::clone(book.get_or_insert_with(read))
}

/// Unreadable rules count as no rules: the controller has checked its own, and the shim has written the user's.
fn parse(text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| {
        unreadable(&error);
        Rules::default()
    })
}

fn unreadable(error: &dyn Error) {
    count(Counter::UnreadableRules);
    log::write(&format!("xsched-cuda: {error}\n"));
}

/// Sets the rules of the controller; None: the default ones are in force.
pub(crate) fn set(rules: Option<ControllerRules>) {
    let mut in_force = in_force();
    if in_force.controllers == rules {
        return;
    }
    *in_force = InForce { controllers: rules, book: None };
    drop(in_force);
    invalidate();
}

/// Another controller is there: the numbers of libraries lose their meaning.
pub(crate) fn forget_origins() {
    // Before and after: a verdict that is found meanwhile must not stay cached with an old number.
    invalidate();
    origins::forget();
    invalidate();
}

/// A module goes: the handles of its kernels may become those of others.
pub(crate) fn forget_kernels() {
    if KERNELS.existing().is_some() {
        kernels().clear();
    }
    if DEPENDS_ON_KERNELS.load(Ordering::Relaxed) {
        invalidate();
    }
}

fn invalidate() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// The calling thread's domain.
#[inline]
pub(crate) fn domain_of_thread() -> SchedulingDomain {
    DOMAIN.try_with(Cell::get).unwrap_or(SchedulingDomain::Auto)
}

/// Sets the calling thread's domain.
pub(crate) fn set_domain_of_thread(domain: SchedulingDomain) {
    let _ = DOMAIN.try_with(|own| own.set(domain));
}

/// In a forked child: the controller's rules come with its own connection.
pub(crate) fn renew_after_fork() {
    IN_FORCE.renew();
    KERNELS.renew();
    programs::renew_after_fork();
    kernel_names::renew_after_fork();
    told::renew_after_fork();
    origins::renew_after_fork();
    invalidate();
}
