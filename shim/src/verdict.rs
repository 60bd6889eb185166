//! How the calls of different callers are treated: scheduled, passed through, or never suspended.
//!
//! ```text
//!   a test asks for any ------------------------------> at random
//!   the thread has said what its calls are -----------> as it says          (crate::verdict::domain)
//!   the call site is known ---------------------------> as it was           (cache)
//!   programs hear this process -----------------------> they walk the stack (ask, page, slot)
//!   else ---------------------------------------------> by the rules, from the immediate caller (local, caller)
//! ```
//!
//! Nobody asks while nothing is suspended, deferred or shared with other processes.
//!
//! A verdict is policy. Whatever it says, a program computes what it computed without it: see [`xsched_xqueue::Treatment`].

mod ask;
mod cache;
mod caller;
pub(crate) mod connection;
pub(crate) mod domain;
mod kernel_names;
mod local;
mod origins;
mod page;
mod random;
mod settings;
mod slot;
mod verbose;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use xsched_protocol::probe::PROBES;
use xsched_protocol::return_probe::is_trampoline;
use xsched_protocol::shim_status::ShimVerdicts;
use xsched_protocol::verdict::{Action, Judgement, RuleId, Subject};
use xsched_protocol::wire::{SchedulingDomain, Verdicts};

use crate::api::COUNT;
use crate::ground::status::xsched_shim_status;
use crate::runtime::stopped::Stopped;
use cache::{CACHE, Known, Site};
use xsched_xqueue::{Judged, Library, Origin, PageError, now};

pub(crate) use kernel_names::all as kernel_names;
pub(crate) use local::{own_rules, set_rules};
pub(crate) use origins::all as origins;
pub(crate) use verbose::{begin as announce, is_asked as is_verbose};

/// Changes whenever what is kept may be wrong, as the page's generation does.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How often it is looked whether the controller has done what it was told.
const RENEWAL_LOOK: Duration = Duration::from_micros(100);

/// Whether verdicts depend on the kernel that is launched.
static NAMES_KERNELS: AtomicBool = AtomicBool::new(false);

/// How a call that puts work on a stream, or waits for some, is to be treated, and why; and to whom it belongs, unless the
/// thread says what it is, whoever calls.
pub(crate) fn judge(call: &Stopped<'_>, is_urgent: impl Fn() -> bool) -> Judged {
    if let Some(judgement) = random::judgement() {
        return judgement.into();
    }
    let by_thread = |action| Judgement::new(action, 0, RuleId::DOMAIN);
    let judged = match domain::of_thread() {
        SchedulingDomain::System => by_thread(Action::NeverSuspend).into(),
        SchedulingDomain::Auto => judge_caller(call, is_urgent),
        SchedulingDomain::Application => match judge_caller(call, is_urgent) {
            // A library has said so of itself: others may wait for it.
            judged
                if judged.judgement.action() == Some(Action::NeverSuspend)
                    && domain::has_any_library_spoken() =>
            {
                judged
            }
            judged => Judged { judgement: by_thread(Action::Schedule), ..judged },
        },
    };
    if judged.judgement.action() == Some(Action::Passthrough) {
        verbose::passes_through(call.frame.return_address, call.function.name);
    }
    judged
}

fn judge_caller(call: &Stopped<'_>, is_urgent: impl Fn() -> bool) -> Judged {
    let generation = generation();
    let kernel = if NAMES_KERNELS.load(Ordering::Relaxed) { call.kernel_handle().unwrap_or(0) } else { 0 };
    let copy = call.target.copy.map_or(0, |copy| copy.index() + 1);
    let site = Site::new(call.frame.return_address, copy, call.id() as usize, kernel as u64);
    let known = CACHE.find(site, generation).unwrap_or_else(|| find_out(call, site, generation, is_urgent));
    Judged { judgement: known.judgement, origin: Origin(known.origin) }
}

/// What calls from a site are kept under.
#[inline]
fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire).wrapping_add(page::generation())
}

#[cold]
#[inline(never)]
fn find_out(call: &Stopped<'_>, site: Site, mut generation: u64, is_urgent: impl Fn() -> bool) -> Known {
    if !page::is_in_force() {
        local::prepare();
    }
    let kernel = NAMES_KERNELS.load(Ordering::Relaxed).then(|| kernel_names::of(call)).flatten();
    let own = GENERATION.load(Ordering::Acquire);
    let is_asked = page::is_in_force();
    let asked = is_asked
        .then(|| {
            let subject = Subject::new(api(call), kernel.as_ref().map(|(number, _)| *number));
            ask::ask(call.frame, subject, is_urgent)
        })
        .flatten();
    // What nobody has answered is asked again the next time.
    let is_final = asked.is_some() || !is_asked;
    let (verdict, library) = match asked {
        Some(answer) => {
            generation = own.wrapping_add(answer.generation);
            (answer.verdict, (answer.origin != 0).then_some(Library::Controllers(answer.origin)))
        }
        None => local::decide(call, kernel.as_ref().map(|(_, name)| name.as_str())),
    };
    let Origin(origin) = library.map_or(Origin::UNKNOWN, origins::number);
    let known = Known { judgement: verdict.into(), origin };
    // A return probe has put its own address there: every caller looks the same.
    if is_final && verdict.is_decided_by_caller() && !is_trampoline(call.frame.return_address) {
        CACHE.insert(site, known, generation);
    }
    known
}

/// A function's number in the table of probed functions.
fn api(call: &Stopped<'_>) -> u16 {
    /// Nobody has looked yet.
    const UNSEEN: u16 = Subject::UNKNOWN_API - 1;
    static NUMBERS: [AtomicU16; COUNT] = [const { AtomicU16::new(UNSEEN) }; COUNT];
    let number = &NUMBERS[call.id() as usize];
    if number.load(Ordering::Relaxed) == UNSEEN {
        let name = call.function.name.to_bytes();
        let is_it = |probe: &xsched_protocol::probe::Probe| {
            probe.name.as_bytes() == name || probe.aliases.iter().any(|alias| alias.as_bytes() == name)
        };
        let found = PROBES.iter().position(is_it);
        number.store(found.map_or(Subject::UNKNOWN_API, |place| place as u16), Ordering::Relaxed);
    }
    number.load(Ordering::Relaxed)
}

/// What was found out so far may be wrong now.
pub(crate) fn renew() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Another controller is there: what numbers of libraries stand for is forgotten.
pub(crate) fn forget_origins() {
    // Nothing that is found out meanwhile is kept with a number of before.
    renew();
    origins::forget();
    renew();
}

/// Tells the controller something that changes verdicts, and waits until it has seen to that, for a tenth of a second at most.
pub(crate) fn wait_for_renewal(tell: impl FnOnce()) {
    let before = page::generation();
    tell();
    let began = now();
    while page::is_in_force() && page::generation() == before && now() - began < ask::PATIENCE {
        thread::sleep(RENEWAL_LOOK);
    }
}

/// A module was unloaded: the handles of its kernels may become others'.
pub(crate) fn forget_kernels() {
    if NAMES_KERNELS.load(Ordering::Relaxed) {
        renew();
    }
}

/// The library that speaks when a function is called that returns here; None: the program does, or something through which
/// it calls.
pub(crate) fn speaking_library(return_address: u64) -> Option<String> {
    let path = caller::library(return_address).filter(|_| !caller::is_program(return_address))?;
    (!local::is_transparent(caller::file_name(&path))).then_some(path)
}

/// Programs decide from now on, and leave their answers on this page. False if they have done so before.
///
/// # Errors
/// It cannot be mapped.
pub(crate) fn begin_asking(page: &OwnedFd, packet: Verdicts) -> Result<bool, PageError> {
    let is_first = !page::is_in_force();
    page::set(page)?;
    NAMES_KERNELS.store(packet.flags & Verdicts::RULES_NAME_KERNELS != 0, Ordering::Relaxed);
    show(ShimVerdicts::Programs);
    renew();
    Ok(is_first)
}

/// There is no controller: the process decides by itself.
pub(crate) fn be_alone() {
    // Also said, every second, where there never was one.
    if page::is_in_force() || local::has_controllers_rules() {
        page::unset();
        set_rules(None);
    }
}

/// Says to others how callers are told apart.
fn show(how: ShimVerdicts) {
    xsched_shim_status.verdicts.store(how as u32, Ordering::Relaxed);
}

/// In a forked child, which has no controller yet.
pub(crate) fn begin_afresh() {
    page::unset();
    slot::begin_afresh();
    local::begin_afresh();
    kernel_names::begin_afresh();
    origins::begin_afresh();
    verbose::begin_afresh();
    show(ShimVerdicts::None);
    renew();
}
