//! Deciding in the process, by its immediate caller, where no program walks the stack.
//!
//! The rules are the same; they see a chain of one library. Conditions that need more of the chain do not fit.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_protocol::return_probe::is_trampoline;
use xsched_protocol::shim_status::ShimVerdicts;
use xsched_protocol::verdict::{Action, RuleId, Verdict};
use xsched_protocol::wire::SchedulingDomain;
use xsched_rules::{Call, Caller, Decider, Frame, Rulebook, Rules};
use xsched_xqueue::{ControllerRules, Library};

use crate::ground::counters::{self, Trouble, VerdictSource};
use crate::ground::fork::Renewable;
use crate::ground::program;
use crate::runtime::stopped::Stopped;
use crate::verdict::domain;
use crate::verdict::{NAMES_KERNELS, caller, page, renew, settings, show, verbose};

/// The rules in force.
#[derive(Default)]
struct Local {
    /// The user's own, as text; None: nobody has looked.
    settings: Option<String>,
    controllers: Option<ControllerRules>,
    book: Option<Arc<Book>>,
}

/// The rules as they are asked.
struct Book {
    rules: Rulebook,
    /// How many there are before those of the controller, or the default ones.
    own_count: u32,
    /// See [`ControllerRules::first`].
    first: u16,
}

impl Book {
    /// What rules are known as by whoever records.
    fn id(&self, decider: Decider) -> RuleId {
        match decider {
            Decider::Nobody => RuleId::NOBODY,
            Decider::Domain => RuleId::DOMAIN,
            Decider::Rule(number) => {
                if let Some(index) = number.checked_sub(self.own_count) {
                    return RuleId::handed_out(self.first, index);
                }
                let name = self.rules.rules().rules()[number as usize].name.as_deref();
                RuleId::setting(name.unwrap_or_default())
            }
        }
    }
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
pub(crate) fn set_rules(rules: Option<ControllerRules>) {
    let mut local = local();
    local.controllers = rules;
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
    book().rules.rules().is_transparent(library)
}

/// The verdict on a call, by whoever it returns to, and the library that it belongs to.
pub(super) fn decide(call: &Stopped<'_>, kernel: Option<&str>) -> (Verdict, Option<Library>) {
    if !page::is_in_force() {
        show(ShimVerdicts::Caller);
    }
    let return_address = call.frame.return_address;
    let path = caller::library(return_address);
    counters::verdict_found(source(path.is_some(), return_address));
    let name = path.as_deref().map(caller::file_name);
    let origin =
        name.and_then(|name| book().rules.rules().origin([name]).map(|name| Library::Own(name.to_owned())));
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
    let book = book();
    let decision = book.rules.decide(call);
    // There is never more to go by than the caller.
    (Verdict::new(decision.action, decision.level, true).by(book.id(decision.by)), origin)
}

/// How a call is judged that returns there.
fn source(is_in_a_library: bool, return_address: u64) -> VerdictSource {
    match () {
        () if is_in_a_library => VerdictSource::Caller,
        () if is_trampoline(return_address) => VerdictSource::Hidden,
        () => VerdictSource::Unknown,
    }
}

fn book() -> Arc<Book> {
    let mut local = local();
    if let Some(book) = &local.book {
        return Arc::clone(book);
    }
    let book = Arc::new(local.read());
    local.book = Some(Arc::clone(&book));
    if !page::is_in_force() {
        NAMES_KERNELS.store(book.rules.names_kernels(), std::sync::atomic::Ordering::Relaxed);
    }
    book
}

impl Local {
    fn settings(&mut self) -> &str {
        self.settings.get_or_insert_with(|| {
            let (text, error) = settings::rules();
            if let Some(error) = error {
                counters::trouble(Trouble::Settings);
                verbose::complain(&error);
            }
            text
        })
    }

    fn read(&mut self) -> Book {
        let own = parse(self.settings());
        let (text, first, users) = self.controllers.as_ref().map_or(("", 0, [].as_slice()), |rules| {
            (rules.text.as_str(), rules.first, rules.users.as_slice())
        });
        let controllers = parse(text);
        let before = controllers.rules().len();
        let all = controllers.behind(&own);
        let own_count = (all.rules().len() - before) as u32;
        Book { rules: Rulebook::new(Arc::new(all), &this_process(users)), own_count, first }
    }
}

/// Rules that cannot be read are none: the controller has checked its own, and the user's are written by the shim.
fn parse(text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| {
        counters::trouble(Trouble::Settings);
        verbose::complain(&error);
        Rules::default()
    })
}

fn this_process(users: &[String]) -> Caller {
    let executable = program::path().map(|path| path.to_string_lossy().into_owned());
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let cgroups = std::path::Path::new(own).ancestors();
    Caller {
        executable: executable.unwrap_or_default(),
        users: std::iter::once(rustix::process::geteuid().as_raw().to_string())
            .chain(users.iter().cloned())
            .collect(),
        cgroups: cgroups.map(|path| path.to_string_lossy().into_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_a_probe_hides_is_not_one_without_a_library() {
        let own = source as *const () as u64;
        let sources =
            [own, 0x7fff_ffff_e000, 16].map(|address| source(caller::library(address).is_some(), address));
        assert_eq!(sources, [VerdictSource::Caller, VerdictSource::Hidden, VerdictSource::Unknown]);
    }

    /// Set for a copy of this program that is to remove its own file.
    const REPLACED: &str = "TEST_OF_A_REPLACED_PROGRAM";

    #[test]
    fn a_program_whose_file_was_replaced_is_what_it_was() {
        if let Some(path) = std::env::var_os(REPLACED) {
            fs::remove_file(&path).unwrap();
            let path = path.into_string().unwrap();
            assert_eq!(this_process(&[]).executable, path);
            let own = a_program_whose_file_was_replaced_is_what_it_was as *const () as u64;
            assert_eq!(caller::library(own + 1), Some(path), "nor do rules on libraries miss it");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("online service");
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let this_test = "verdict::local::tests::a_program_whose_file_was_replaced_is_what_it_was";
        let arguments = ["--exact", this_test, "--nocapture"];
        let output = std::process::Command::new(&path).args(arguments).env(REPLACED, &path).output().unwrap();
        assert!(output.status.success() && !path.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
