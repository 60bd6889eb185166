//! How the calls of different callers are treated: scheduled, passed through, or never suspended.
//!
//! ```text
//!   a test asks for random verdicts ------------------> random              (random)
//!   the thread has a scheduling domain ---------------> by its domain       (domain)
//!   the call site is known ---------------------------> as before           (sites of xsched-preload)
//!   programs of the controller are attached ----------> they walk the stack (programs there)
//!   else ---------------------------------------------> by the rules, from the immediate caller (local)
//! ```
//!
//! No verdict is needed while nothing is suspended, deferred or shared with other processes.
//!
//! A verdict is policy. Whatever it is, a program computes the same as without it: see [`xsched_xqueue::Treatment`].

pub(crate) mod domain;
mod local;
#[cfg(feature = "test-switches")]
mod random;
mod verbose;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use xsched_preload::programs::{self, ANSWER_LIMIT, Answer, NoAnswer, Registers};
use xsched_preload::sites::{CACHE, Known, Site};
use xsched_preload::{caller, kernel_names, origins};
use xsched_protocol::probe::PROBES;
use xsched_protocol::return_probe::is_trampoline;
use xsched_protocol::shim_status::ShimVerdicts;
use xsched_protocol::verdict::{Action, Judgement, RuleId, Subject};
use xsched_protocol::wire::SchedulingDomain;
use xsched_xqueue::{Judged, Library, Origin, PageError, now};

use crate::api::{ApiFunction, COUNT};
use crate::counters::{self, Trouble, VerdictSource};
use crate::kernels;
use crate::runtime::stopped::Stopped;
use crate::status::xsched_shim_status;

pub(crate) use local::{own_rules, set_rules};
pub(crate) use verbose::{announce, is_verbose};
pub(crate) use xsched_preload::origins::all as origins;

/// Changes whenever cached verdicts may be wrong, as the page's generation does.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How often a thread checks whether the controller has processed a packet.
const CHECK_EVERY: Duration = Duration::from_micros(100);

/// Whether a verdict that depends on the kernel was cached.
static DEPENDS_ON_KERNELS: AtomicBool = AtomicBool::new(false);

/// How to treat a call that puts work on a stream or waits for work, and why. Also the library that the call belongs to, except
/// in a thread's system domain.
///
/// `needs_none` says whether the call does not wait for its verdict.
pub(crate) fn judge(call: &Stopped<'_>, needs_none: impl Fn() -> bool) -> Judged {
    #[cfg(feature = "test-switches")]
    if let Some(judgement) = random::judgement() {
        return judgement.into();
    }
    let by_thread = |action| Judgement::new(action, 0, RuleId::DOMAIN);
    let judged = match domain::of_thread() {
        SchedulingDomain::System => by_thread(Action::NeverSuspend).into(),
        SchedulingDomain::Auto => judge_caller(call, needs_none),
        SchedulingDomain::Application => match judge_caller(call, needs_none) {
            // The library has declared its own calls: others may wait for them.
            judged
                if judged.judgement.action() == Some(Action::NeverSuspend)
                    && domain::any_library_has_domain() =>
            {
                judged
            }
            judged => Judged { judgement: by_thread(Action::Schedule), ..judged },
        },
    };
    if judged.judgement.action() == Some(Action::Passthrough) {
        verbose::report_pass(call.frame.return_address, call.function.name);
    }
    judged
}

fn judge_caller(call: &Stopped<'_>, needs_none: impl Fn() -> bool) -> Judged {
    let generation = generation();
    let copy = call.target.copy.map_or(0, |copy| copy.index() + 1);
    let site = |kernel: usize| Site::new(call.frame.return_address, copy, call.id() as usize, kernel as u64);
    let find = |kernel| CACHE.find(site(kernel), generation);
    let by_kernel = || {
        let handle = DEPENDS_ON_KERNELS.load(Ordering::Relaxed).then(|| call.kernel_handle()).flatten();
        find(handle?)
    };
    let known = find(0).or_else(by_kernel).unwrap_or_else(|| decide_site(call, site, generation, needs_none));
    Judged { judgement: known.judgement, origin: Origin(known.origin) }
}

/// The generation under which verdicts of call sites are cached.
#[inline]
fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire).wrapping_add(programs::generation())
}

#[cold]
#[inline(never)]
fn decide_site(
    call: &Stopped<'_>,
    site: impl Fn(usize) -> Site,
    mut generation: u64,
    needs_none: impl Fn() -> bool,
) -> Known {
    if !programs::is_in_force() {
        local::prepare();
    }
    let kernel = || kernel_of(call);
    let ask = |kernel| ask(call, kernel, &needs_none);
    let own = GENERATION.load(Ordering::Acquire);
    let is_asked = programs::is_in_force();
    // Few callers have rules on kernels. For the others, a kernel that is launched for the first time is nothing new.
    let asked = is_asked.then(|| ask(None)).flatten().and_then(|answer| {
        let is_known = answer.verdict.action().is_some();
        let kernel = (is_known && !answer.verdict.is_for_any_kernel()).then(kernel).flatten();
        kernel.map_or(Some(answer), |(number, _)| ask(Some(number)))
    });
    // A question without an answer is asked again the next time.
    let is_final = asked.is_some() || !is_asked;
    let (verdict, library) = match asked {
        Some(answer) => {
            generation = own.wrapping_add(answer.generation);
            (answer.verdict, (answer.origin != 0).then_some(Library::Controllers(answer.origin)))
        }
        None => local::decide(call, kernel().as_ref().map(|(_, name)| name.as_str())),
    };
    let Origin(origin) = library.map_or(Origin::UNKNOWN, origins::number);
    let known = Known { judgement: verdict.into(), origin };
    // A return probe has put its own address there: all callers look the same.
    if is_final && verdict.is_decided_by_caller() && !is_trampoline(call.frame.return_address) {
        let kernel = (!verdict.is_for_any_kernel()).then(|| call.kernel_handle()).flatten();
        if kernel.is_some() {
            DEPENDS_ON_KERNELS.store(true, Ordering::Relaxed);
        }
        // No kernel's handle is 0, which stands for all.
        if kernel != Some(0) {
            CACHE.insert(site(kernel.unwrap_or(0)), known, generation);
        }
    }
    known
}

/// The answer of the controller's programs about a stopped call; None without an answer.
fn ask(call: &Stopped<'_>, kernel: Option<u32>, needs_none: impl Fn() -> bool) -> Option<Answer> {
    let frame = call.frame;
    let registers = Registers {
        rip: frame.return_address,
        rsp: frame.stack_arguments().addr() as u64,
        rbp: frame.base_pointer,
    };
    let answer = programs::ask(registers, Subject::new(api(call), kernel), needs_none);
    counters::verdict_found(match answer {
        Ok(_) => VerdictSource::Programs,
        Err(NoAnswer::NoSlot) => VerdictSource::NoSlot,
        Err(NoAnswer::Unheard) => VerdictSource::Unheard,
        Err(NoAnswer::NotAwaited) => VerdictSource::NotAwaited,
        Err(NoAnswer::Late) => VerdictSource::Late,
    });
    answer.ok()
}

/// The name of the kernel that a call launches, if it launches one whose name is known, and its number.
fn kernel_of(call: &Stopped<'_>) -> Option<(u32, String)> {
    let copy = call.target.copy?.index();
    let name = kernels::name(copy, call.kernel_handle()?)?;
    let number = kernel_names::number(&name).unwrap_or_else(|_| {
        counters::trouble(Trouble::UnsentReport);
        None
    });
    Some((number?, name))
}

/// A stopped call's function in the table of probed functions.
fn api(call: &Stopped<'_>) -> u16 {
    number(call.function)
}

/// A function's number in the table of probed functions, if it has one.
pub(crate) fn probe(function: &ApiFunction) -> Option<u16> {
    Some(number(function)).filter(|&number| number != Subject::UNKNOWN_API)
}

/// The calling thread's number among this process's; None if there are too many, or the thread is ending.
pub(crate) fn thread_slot() -> Option<usize> {
    programs::thread_slot()
}

/// A number that changes whenever the process maps code; None if no program watches that.
#[inline]
pub(crate) fn mapped_code() -> Option<u64> {
    programs::is_in_force().then(programs::generation)
}

fn number(function: &ApiFunction) -> u16 {
    /// Not looked up yet.
    const UNSEEN: u16 = Subject::UNKNOWN_API - 1;
    static NUMBERS: [AtomicU16; COUNT] = [const { AtomicU16::new(UNSEEN) }; COUNT];
    let number = &NUMBERS[function.id as usize];
    if number.load(Ordering::Relaxed) == UNSEEN {
        let name = function.name.to_bytes();
        let is_it = |probe: &xsched_protocol::probe::Probe| {
            probe.name.as_bytes() == name || probe.aliases.iter().any(|alias| alias.as_bytes() == name)
        };
        let found = PROBES.iter().position(is_it);
        number.store(found.map_or(Subject::UNKNOWN_API, |index| index as u16), Ordering::Relaxed);
    }
    number.load(Ordering::Relaxed)
}

/// Cached verdicts may be wrong from now on.
pub(crate) fn invalidate() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Another controller is connected: the numbers of libraries lose their meaning.
pub(crate) fn forget_origins() {
    // Before and after: a verdict that is found meanwhile must not stay cached with an old number.
    invalidate();
    origins::forget();
    invalidate();
}

/// Sends the controller a packet that changes verdicts, and waits until it was processed, for a tenth of a second at
/// most.
pub(crate) fn wait_for_invalidation(send: impl FnOnce()) {
    let before = programs::generation();
    send();
    let began = now();
    while programs::is_in_force() && programs::generation() == before && now() - began < ANSWER_LIMIT {
        thread::sleep(CHECK_EVERY);
    }
}

/// A module was unloaded: the handles of its kernels may become those of others.
pub(crate) fn forget_kernels() {
    if DEPENDS_ON_KERNELS.load(Ordering::Relaxed) {
        invalidate();
    }
}

/// The library that calls the function which returns here; None if the program itself calls, or a library that only
/// calls for others.
pub(crate) fn calling_library(return_address: u64) -> Option<String> {
    let path = caller::library(return_address).filter(|_| !caller::is_program(return_address))?;
    (!local::is_transparent(caller::file_name(&path))).then_some(path)
}

/// The controller's programs decide from now on, and leave their answers on this page. False if they have done so
/// before.
///
/// # Errors
/// The page cannot be mapped.
pub(crate) fn use_programs(page: &OwnedFd) -> Result<bool, PageError> {
    let is_first = !programs::is_in_force();
    programs::set(page)?;
    publish(ShimVerdicts::Programs);
    invalidate();
    Ok(is_first)
}

/// There is no controller: the process decides by itself.
pub(crate) fn controller_gone() {
    // Also called every second where there never was a controller.
    if programs::is_in_force() || local::has_controllers_rules() {
        programs::unset();
        set_rules(None);
    }
}

/// Publishes how callers are identified, in the shim's status.
fn publish(how: ShimVerdicts) {
    xsched_shim_status.verdicts.store(how as u32, Ordering::Relaxed);
}

/// In a forked child, which has no controller yet.
pub(crate) fn renew_after_fork() {
    programs::renew_after_fork();
    local::renew_after_fork();
    kernel_names::renew_after_fork();
    origins::renew_after_fork();
    verbose::renew_after_fork();
    publish(ShimVerdicts::None);
    invalidate();
}
