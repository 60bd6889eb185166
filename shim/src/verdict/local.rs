//! Deciding in the process, by the immediate caller, where no program walks the stack.
//!
//! The rules are the same; they see a chain of one library. Conditions that need more of the chain do not match.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_preload::caller;
use xsched_preload::caller_rules::{CallerRules, KnownCall};
use xsched_preload::fork::Renewable;
use xsched_preload::{programs, settings};
use xsched_protocol::return_probe::is_trampoline;
use xsched_protocol::shim_status::ShimVerdicts;
use xsched_protocol::verdict::{Action, RuleId, Verdict};
use xsched_protocol::wire::SchedulingDomain;
use xsched_rules::Rules;
use xsched_xqueue::{ControllerRules, Library};

use crate::counters::{self, Trouble, VerdictSource};
use crate::runtime::stopped::Stopped;
use crate::verdict::domain;
use crate::verdict::{invalidate, publish, verbose};

/// The rules in force.
#[derive(Default)]
struct Local {
    /// The user's own, as text; None if they were not read yet.
    settings: Option<String>,
    controllers: Option<ControllerRules>,
    book: Option<Arc<CallerRules>>,
}

static LOCAL: Renewable<Mutex<Local>> = Renewable::new();

fn local() -> MutexGuard<'static, Local> {
    LOCAL.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: the controller's rules come with its own connection.
pub(super) fn renew_after_fork() {
    LOCAL.renew();
}

/// The user's own rules as text, to precede a controller's; empty if there are none.
pub(crate) fn own_rules() -> String {
    local().settings().to_owned()
}

/// Sets the rules of the controller; None removes them.
pub(crate) fn set_rules(rules: Option<ControllerRules>) {
    let mut local = local();
    local.controllers = rules;
    local.book = None;
    drop(local);
    invalidate();
}

/// Whether there are rules of a controller.
pub(super) fn has_controllers_rules() -> bool {
    LOCAL.existing().is_some() && local().controllers.is_some()
}

/// Reads the rules, if that was not done yet: then it is known whether they name kernels.
pub(super) fn prepare() {
    let _ = rules_in_force();
}

/// Whether a library only calls for others.
pub(super) fn is_transparent(library: &str) -> bool {
    rules_in_force().origin(library).is_none()
}

/// The verdict on a call by its immediate caller, and the library that it belongs to.
pub(super) fn decide(call: &Stopped<'_>, kernel: Option<&str>) -> (Verdict, Option<Library>) {
    if !programs::is_in_force() {
        publish(ShimVerdicts::Caller);
    }
    let return_address = call.frame.return_address;
    let path = caller::library(return_address);
    counters::verdict_found(source(path.is_some(), return_address));
    let name = path.as_deref().map(caller::file_name);
    let origin =
        name.and_then(|name| rules_in_force().origin(name).map(|name| Library::Own(name.to_owned())));
    let declared = path.as_deref().map_or(SchedulingDomain::Auto, domain::of_library);
    let by_domain = |action| Verdict::new(action, 0, true).for_any_kernel().by(RuleId::DOMAIN);
    match declared {
        SchedulingDomain::System => return (by_domain(Action::NeverSuspend), origin),
        SchedulingDomain::Application => return (by_domain(Action::Schedule), origin),
        SchedulingDomain::Auto => {}
    }
    let function = path.as_ref().and_then(|_| caller::function(return_address));
    let api = call.function.name.to_str().ok();
    let known = KnownCall { library: name, function: function.as_deref(), api, kernel };
    (rules_in_force().decide(known), origin)
}

/// How the verdict of a call is found that returns there.
fn source(is_in_a_library: bool, return_address: u64) -> VerdictSource {
    match () {
        () if is_in_a_library => VerdictSource::Caller,
        () if is_trampoline(return_address) => VerdictSource::Hidden,
        () => VerdictSource::Unknown,
    }
}

fn rules_in_force() -> Arc<CallerRules> {
    let mut local = local();
    if let Some(book) = &local.book {
        return Arc::clone(book);
    }
    let book = Arc::new(local.read());
    local.book = Some(Arc::clone(&book));
    book
}

impl Local {
    fn settings(&mut self) -> &str {
        self.settings.get_or_insert_with(|| {
            let (text, error) = settings::rules();
            if let Some(error) = error {
                counters::trouble(Trouble::Settings);
                verbose::report_error(&error);
            }
            text
        })
    }

    fn read(&mut self) -> CallerRules {
        let own = parse(self.settings());
        let (text, first, users) = self.controllers.as_ref().map_or(("", 0, [].as_slice()), |rules| {
            (rules.text.as_str(), rules.first, rules.users.as_slice())
        });
        CallerRules::new(&own, parse(text), first, users)
    }
}

/// Unreadable rules count as no rules: the controller has checked its own, and the shim has written the user's.
fn parse(text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| {
        counters::trouble(Trouble::Settings);
        verbose::report_error(&error);
        Rules::default()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xsched_preload::caller_rules::this_process;

    use super::*;

    #[test]
    fn a_caller_hidden_by_a_probe_differs_from_one_without_a_library() {
        let own = source as *const () as u64;
        let sources =
            [own, 0x7fff_ffff_e000, 16].map(|address| source(caller::library(address).is_some(), address));
        assert_eq!(sources, [VerdictSource::Caller, VerdictSource::Hidden, VerdictSource::Unknown]);
    }

    /// Set for a copy of this program that is to remove its own file.
    const REPLACED: &str = "TEST_OF_A_REPLACED_PROGRAM";

    #[test]
    fn a_program_keeps_its_path_when_its_file_was_replaced() {
        if let Some(path) = std::env::var_os(REPLACED) {
            fs::remove_file(&path).unwrap();
            let path = path.into_string().unwrap();
            assert_eq!(this_process(&[]).executable, path);
            let own = a_program_keeps_its_path_when_its_file_was_replaced as *const () as u64;
            assert_eq!(caller::library(own + 1), Some(path), "nor do rules on libraries miss it");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("online service");
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let this_test = "verdict::local::tests::a_program_keeps_its_path_when_its_file_was_replaced";
        let arguments = ["--exact", this_test, "--nocapture"];
        let output = std::process::Command::new(&path).args(arguments).env(REPLACED, &path).output().unwrap();
        assert!(output.status.success() && !path.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
