//! Verdicts: how the rules treat a call, by the origin of the call.
//!
//! A process asks by calling a probed function of its shim, [`CLASSIFY_SYMBOL`]. The program at that probe walks the stack
//! from the registers in the arguments and looks up the controller's decision about this call chain. It writes the answer into
//! the slot of the calling thread before the function returns.
//!
//! ```text
//!   shim                                programs                              controller
//!   xsched_classify(slot, ticket, …) ──► walk, VERDICTS[chain, subject] ──┐
//!                                        known: slot = verdict           │ new: Wanted ──► rules
//!   slot.ticket == ticket, read it  ◄──  new:   slot = PENDING           └──  VERDICTS  ◄──┘
//! ```
//!
//! Each process maps a verdict page of its own, read-only.

mod judgement;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use judgement::{DecidedBy, Judgement, RuleId, SETTINGS};

/// The symbol of the shim's function that the programs probe:
/// `fn(slot, ticket, subject, rip, rsp, rbp)`, all of 64 bits and in registers. It begins with a one-byte no-operation and
/// returns at once. `rip`, `rsp` and `rbp` are the registers of the hook's caller, as of the hook's return.
pub const CLASSIFY_SYMBOL: &str = "xsched_classify";

/// Threads of one process that can ask at the same time. The process assigns slots to its threads.
pub const VERDICT_SLOTS: usize = 1024;

/// The verdict page of one process.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct VerdictPage {
    /// Changes whenever a verdict that the process has kept may be wrong: other rules, other mappings, or a domain that was set.
    pub generation: u64,
    /// Keeps the slots aligned; zero.
    pub reserved: [u64; 7],
    /// By thread, as the process numbers its threads.
    pub slots: [VerdictSlot; VERDICT_SLOTS],
}

/// The answer to a thread.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct VerdictSlot {
    /// The ticket of the call that was answered, written last. Any other number: no program has seen the call.
    pub ticket: u64,
    /// A [`Verdict`].
    pub verdict: u64,
    /// Id of the call chain; 0: unknown.
    pub chain: u64,
    /// Id of the call's origin; 0: unknown.
    pub origin: u32,
    /// Index of the rule that decided, plus one; 0: the default applies.
    pub rule: u32,
    /// [`VerdictPage::generation`] as it was before the lookup: the answer may be kept while the page has this generation.
    pub generation: u64,
    /// Keeps slots of different threads in different cache lines; zero.
    pub reserved: [u64; 3],
}

/// The decision on a call, as one word.
///
/// ```text
///   63  48 47  32 31      18 17      16                15    8 7      0
///     0     rule       0     pending decided by caller  mode    action
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Verdict(pub u64);

/// The action of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// It is scheduled like all work of its process.
    Schedule = 1,
    /// It is launched at once, behind the commands that its stream has deferred, and does not count as work of the process.
    Passthrough = 2,
    /// As [`Action::Schedule`], but it is never deferred or suspended.
    NeverSuspend = 3,
}

from_number!(u8, Action: Schedule Passthrough NeverSuspend);

impl Verdict {
    /// Any call with the same return address, API and kernel has the same verdict, so it may be cached by call site.
    pub const DECIDED_BY_CALLER: u64 = 1 << 16;

    /// And any kernel: no rule that may decide on calls with this return address has a condition on the kernel.
    pub const FOR_ANY_KERNEL: u64 = 1 << 18;

    /// Not decided yet: the process asks again soon.
    pub const PENDING: u64 = 1 << 17;

    /// Unknown, and final: the default applies.
    pub const UNKNOWN: Self = Self(0);

    /// `mode` is the highest preemption mode, 1 to 3; 0: no limit.
    #[inline]
    pub const fn new(action: Action, mode: u8, decided_by_caller: bool) -> Self {
        let decided = if decided_by_caller { Self::DECIDED_BY_CALLER } else { 0 };
        Self(action as u64 | (mode as u64) << 8 | decided)
    }

    /// The same, see [`Verdict::FOR_ANY_KERNEL`].
    #[inline]
    #[must_use]
    pub const fn for_any_kernel(self) -> Self {
        Self(self.0 | Self::FOR_ANY_KERNEL)
    }

    /// The same, with the rule that decided.
    #[inline]
    #[must_use]
    pub const fn by(self, rule: RuleId) -> Self {
        Self(self.0 & !(0xffff << 32) | rule.bits() << 32)
    }

    /// The rule that decided.
    #[inline]
    pub const fn rule(self) -> RuleId {
        RuleId::from_bits(self.0 >> 32)
    }

    /// None while nothing is decided, and for [`Verdict::UNKNOWN`].
    #[inline]
    pub const fn action(self) -> Option<Action> {
        Action::from_number(self.0 as u8)
    }

    /// The highest preemption mode; 0: no limit.
    #[inline]
    pub const fn mode(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// See [`Verdict::DECIDED_BY_CALLER`].
    #[inline]
    pub const fn is_decided_by_caller(self) -> bool {
        self.0 & Self::DECIDED_BY_CALLER != 0
    }

    /// See [`Verdict::FOR_ANY_KERNEL`].
    #[inline]
    pub const fn is_for_any_kernel(self) -> bool {
        self.0 & Self::FOR_ANY_KERNEL != 0
    }

    /// See [`Verdict::PENDING`].
    #[inline]
    pub const fn is_pending(self) -> bool {
        self.0 & Self::PENDING != 0
    }
}

/// The function and the kernel of a call, as one word: `subject` of the classification function.
///
/// ```text
///   63    48 47          16 15    0
///      0      kernel id + 1   API
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject(pub u64);

impl Subject {
    /// A function that is not in [`PROBES`](crate::probe::PROBES).
    pub const UNKNOWN_API: u16 = u16::MAX;

    /// `api` is an index into [`PROBES`](crate::probe::PROBES), or [`Subject::UNKNOWN_API`]. `kernel` is a number that the process
    /// has announced by [`KernelName`](crate::wire::KernelName); it is left out unless rules name kernels.
    #[inline]
    pub const fn new(api: u16, kernel: Option<u32>) -> Self {
        let kernel = match kernel {
            // The field holds the number plus one, so the largest number has no encoding.
            Some(kernel) if kernel < u32::MAX => kernel as u64 + 1,
            _ => 0,
        };
        Self(api as u64 | kernel << 16)
    }

    /// The index into [`PROBES`](crate::probe::PROBES).
    #[inline]
    pub const fn api(self) -> u16 {
        self.0 as u16
    }

    /// The number of the kernel.
    #[inline]
    pub const fn kernel(self) -> Option<u32> {
        ((self.0 >> 16) as u32).checked_sub(1)
    }
}

/// Key of the map `VERDICTS`. A chain's id holds for one process and one state of its mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct VerdictKey {
    /// Id of the chain.
    pub chain: u64,
    /// A [`Subject`].
    pub subject: u64,
}

/// Value of the map `VERDICTS`: the controller's decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Decided {
    /// A [`Verdict`].
    pub verdict: u64,
    /// [`VerdictSlot::origin`]
    pub origin: u32,
    /// [`VerdictSlot::rule`]
    pub rule: u32,
}

/// A question that has no decision yet, in the ring buffer behind the `Stack` of its chain.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Wanted {
    /// `RecordKind::Wanted` of the tracer's records.
    pub kind: u32,
    /// The process, by its id in the initial pid namespace.
    pub tgid: u32,
    /// The question.
    pub key: VerdictKey,
}

/// Operations of the controller, through its function `xsched_origin_order(operation, argument)`, which the programs probe. Only the program can write a page that is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Order {
    /// The caller becomes the controller. Argument: the token that it has put into the programs' configuration.
    BecomeController = 1,
    /// Verdicts that a process has kept may be wrong now. Argument: its id in the initial pid namespace.
    Renew = 2,
}

/// The only element of the `ORIGIN` map: which process is the controller, and where the kernel keeps the return addresses that
/// return probes have replaced.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OriginConfig {
    /// The token that the controller has to show; 0: it has shown it.
    pub number: u64,
    /// The controller's thread group, by its id in the initial pid namespace.
    pub controller: u64,
    /// Of `utask` in `struct task_struct`; 0: none of these offsets is known.
    pub task_utask: u32,
    /// Of `return_instances` in `struct uprobe_task`.
    pub utask_instances: u32,
    /// Of `stack` in `struct return_instance`: where on the stack the address was.
    pub instance_stack: u32,
    /// Of `orig_ret_vaddr` there.
    pub instance_address: u32,
    /// Of `next` there.
    pub instance_next: u32,
    /// Zero.
    pub reserved: u32,
}

/// [`VerdictSlot::rule`] where a library on the chain has declared its scheduling domain.
pub const RULE_DOMAIN: u32 = u32::MAX;

/// Maximum number of processes with a verdict page.
pub const VERDICT_PAGES_MAX: u32 = 1 << 12;

const _: () = assert!(size_of::<VerdictSlot>() == 64 && size_of::<VerdictPage>() == 64 + 64 * VERDICT_SLOTS);
const _: () =
    assert!(size_of::<VerdictKey>() == 16 && size_of::<Decided>() == 16 && size_of::<Wanted>() == 24);
const _: () = assert!(size_of::<OriginConfig>() == 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_keeps_its_parts_apart() {
        for action in [Action::Schedule, Action::Passthrough, Action::NeverSuspend] {
            for mode in 0..=3 {
                for decided in [false, true] {
                    let verdict = Verdict::new(action, mode, decided);
                    assert_eq!(verdict.action(), Some(action));
                    assert_eq!((verdict.mode(), verdict.is_decided_by_caller()), (mode, decided));
                    assert!(!verdict.is_pending() && !verdict.is_for_any_kernel());
                    assert!(verdict.for_any_kernel().is_for_any_kernel());
                }
            }
        }
        assert!(Verdict(Verdict::PENDING).is_pending());
        assert_eq!(Verdict(Verdict::PENDING).action(), None);
        assert_eq!(Verdict::UNKNOWN.action(), None);
    }

    #[test]
    fn a_subject_has_a_kernel_or_none() {
        assert_eq!(Subject::new(7, None).kernel(), None);
        let subject = Subject::new(Subject::UNKNOWN_API, Some(0));
        assert_eq!((subject.api(), subject.kernel()), (Subject::UNKNOWN_API, Some(0)));
        assert_eq!(Subject::new(3, Some(u32::MAX - 1)).kernel(), Some(u32::MAX - 1));
        assert_eq!(Subject::new(3, Some(u32::MAX)).kernel(), None);
    }
}
