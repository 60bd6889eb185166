//! Deciding in the process, by its immediate caller, where no program walks the stack.
//!
//! The rules are the same; they see a chain of one library. Conditions that need more of the chain do not fit.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_abi::shim_status::ShimVerdicts;
use xsched_abi::verdict::{Action, RuleId, Verdict};
use xsched_abi::wire::SchedulingDomain;
use xsched_rules::{Call, Caller, Decider, Frame, Rulebook, Rules};

use crate::counters::{self, Ruling, Trouble};
use crate::defer::Stopped;
use crate::domain;
use crate::process::Renewable;
use crate::verdict::origins::Library;
use crate::verdict::{NAMES_KERNELS, caller, page, renew, settings, show, voice};

/// The rules in force.
#[derive(Default)]
struct Local {
    /// The user's own, as text; None: nobody has looked.
    settings: Option<String>,
    /// The controller's, as text.
    controllers: Option<String>,
    book: Option<Arc<Rulebook>>,
}

static LOCAL: Renewable<Mutex<Local>> = Renewable::new();

fn local() -> MutexGuard<'static, Local> {
    LOCAL.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: the controller's rules come with its own connection.
pub(super) fn begin_afresh() {
    LOCAL.renew();
}

/// The user's own rules as text, to be put in front of a controller's; empty if there are none.
pub(crate) fn own_rules() -> String {
    local().settings().to_owned()
}

/// The rules of the controller, or none any more.
pub(crate) fn set_rules(text: Option<String>) {
    let mut local = local();
    local.controllers = text;
    local.book = None;
    drop(local);
    renew();
}

/// Whether there are rules of a controller.
pub(super) fn has_controllers_rules() -> bool {
    LOCAL.existing().is_some() && local().controllers.is_some()
}

/// Reads the rules, if that was not done yet: then it is known whether they name kernels.
pub(super) fn prepare() {
    let _ = book();
}

/// Whether a library only calls for others.
pub(super) fn is_transparent(library: &str) -> bool {
    book().rules().is_transparent(library)
}

/// The verdict on a call, by whoever it returns to, and the library that it belongs to.
pub(super) fn decide(call: &Stopped<'_>, kernel: Option<&str>) -> (Verdict, Option<Library>) {
    if !page::is_in_force() {
        show(ShimVerdicts::Caller);
    }
    let return_address = call.frame.return_address;
    let path = caller::library(return_address);
    counters::ruled(if path.is_some() { Ruling::Caller } else { Ruling::Unknown });
    let name = path.as_deref().map(caller::file_name);
    let origin =
        name.and_then(|name| book().rules().origin([name]).map(|name| Library::Own(name.to_owned())));
    let said = path.as_deref().map_or(SchedulingDomain::Auto, domain::of_library);
    let by_domain = |action| Verdict::new(action, 0, true).by(RuleId::DOMAIN);
    match said {
        SchedulingDomain::System => return (by_domain(Action::NeverSuspend), origin),
        SchedulingDomain::Application => return (by_domain(Action::Schedule), origin),
        SchedulingDomain::Auto => {}
    }
    let function = path.as_ref().and_then(|_| caller::function(return_address));
    let frame = name.map(|library| Frame { library, function: function.as_deref() });
    let api = call.function.name.to_str().ok();
    let call = Call { chain: frame.as_slice(), is_whole: false, api, kernel };
    let decision = book().decide(call);
    let rule = match decision.by {
        Decider::Nobody => RuleId::NOBODY,
        Decider::Rule(number) => RuleId::own(number),
        Decider::Domain => RuleId::DOMAIN,
    };
    // There is never more to go by than the caller.
    (Verdict::new(decision.action, decision.level, true).by(rule), origin)
}

fn book() -> Arc<Rulebook> {
    let mut local = local();
    if let Some(book) = &local.book {
        return Arc::clone(book);
    }
    let book = Arc::new(local.read());
    local.book = Some(Arc::clone(&book));
    if !page::is_in_force() {
        NAMES_KERNELS.store(book.names_kernels(), std::sync::atomic::Ordering::Relaxed);
    }
    book
}

impl Local {
    fn settings(&mut self) -> &str {
        self.settings.get_or_insert_with(|| {
            let (text, error) = settings::rules();
            if let Some(error) = error {
                counters::trouble(Trouble::Settings);
                voice::complain(&error);
            }
            text
        })
    }

    fn read(&mut self) -> Rulebook {
        let own = parse(self.settings());
        let controllers = parse(self.controllers.as_deref().unwrap_or_default());
        Rulebook::new(Arc::new(controllers.behind(&own)), &this_process())
    }
}

/// Rules that cannot be read are none: the controller has checked its own, and the user's are written by the shim.
fn parse(text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| {
        counters::trouble(Trouble::Settings);
        voice::complain(&error);
        Rules::default()
    })
}

fn this_process() -> Caller {
    let executable = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let cgroups = std::path::Path::new(own).ancestors();
    Caller {
        executable: executable.unwrap_or_default(),
        users: vec![rustix::process::geteuid().as_raw().to_string()],
        cgroups: cgroups.map(|path| path.to_string_lossy().into_owned()).collect(),
    }
}
