//! How the calls of different callers are treated: by the domain of the thread, or by the rules on the library that calls.
//!
//! The process decides itself, from where a call returns. CUDA's libraries have CUDA's runtime inside or call the driver, so for cuBLAS,
//! cuDNN, NCCL, Triton and CuPy that is the answer. Calls through the shared `libcudart.so` belong to no library here.
//!
//! A verdict is kept by call site, and by kernel where a rule asks for its name.

use std::cell::Cell;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_preload::caller_rules::{CallerRules, KnownCall};
use xsched_preload::fork::Renewable;
use xsched_preload::sites::{CACHE, Known, Site};
use xsched_preload::{caller, log, origins, settings};
use xsched_protocol::verdict::{Action, Judgement, RuleId, Verdict};
use xsched_protocol::wire::SchedulingDomain;
use xsched_rules::Rules;
use xsched_xqueue::{ControllerRules, Judged, Library, Origin};

use crate::api::NAMES;
use crate::counters::{Counter, count};
use crate::driver;

/// Where a call comes from, and which it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSite {
    /// Where it returns.
    pub(crate) caller: u64,
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

/// Whether a verdict that depends on the kernel was cached.
static DEPENDS_ON_KERNELS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static DOMAIN: Cell<SchedulingDomain> = const { Cell::new(SchedulingDomain::Auto) };
}

fn in_force() -> MutexGuard<'static, InForce> {
    IN_FORCE.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// How to treat a call that puts work on a stream, and the library that it belongs to. `kernel` is what it launches.
#[inline]
pub(crate) fn judge(site: CallSite, kernel: Option<usize>) -> Judged {
    let by_thread = |action| Judgement::new(action, 0, RuleId::DOMAIN);
    let judged = judge_caller(site, kernel);
    match domain_of_thread() {
        SchedulingDomain::Auto => judged,
        SchedulingDomain::System => Judged { judgement: by_thread(Action::NeverSuspend), ..judged },
        SchedulingDomain::Application => Judged { judgement: by_thread(Action::Schedule), ..judged },
    }
}

#[inline]
fn judge_caller(CallSite { caller, id }: CallSite, kernel: Option<usize>) -> Judged {
    let generation = GENERATION.load(Ordering::Acquire);
    let find = |kernel: usize| CACHE.find(Site::new(caller, 0, id, kernel as u64), generation);
    let by_kernel = || find(kernel.filter(|_| DEPENDS_ON_KERNELS.load(Ordering::Relaxed))?);
    let known = find(0).or_else(by_kernel).unwrap_or_else(|| decide(caller, id, kernel, generation));
    Judged { judgement: known.judgement, origin: Origin(known.origin) }
}

#[cold]
fn decide(caller: u64, id: usize, kernel: Option<usize>, generation: u64) -> Known {
    let rules = rules_in_force();
    let path = caller::library(caller);
    let library = path.as_deref().map(caller::file_name);
    let function = path.as_ref().and_then(|_| caller::function(caller));
    let name = kernel.and_then(driver::name_of);
    let api = NAMES[id].to_str().ok();
    let verdict: Verdict =
        rules.decide(KnownCall { library, function: function.as_deref(), api, kernel: name.as_deref() });
    let origin = library.and_then(|library| rules.origin(library));
    let Origin(origin) =
        origin.map_or(Origin::UNKNOWN, |name| origins::number(Library::Own(name.to_owned())));
    let known = Known { judgement: verdict.into(), origin };
    let kernel = kernel.filter(|_| !verdict.is_for_any_kernel());
    if kernel.is_some() {
        DEPENDS_ON_KERNELS.store(true, Ordering::Relaxed);
    }
    // No kernel's handle is 0, which stands for all.
    CACHE.insert(Site::new(caller, 0, id, kernel.unwrap_or(0) as u64), known, generation);
    known
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
    origins::renew_after_fork();
    invalidate();
}
