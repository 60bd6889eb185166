//! Verdicts: what the rules say of a call, by who really makes it.
//!
//! A process asks by calling a probed function of its shim, [`CLASSIFY_SYMBOL`]. The program at that probe walks the stack
//! from the registers that it is given, looks up what the controller has decided about this chain of calls, and leaves
//! the answer in the slot of the calling thread before the function returns.
//!
//! ```text
//!   shim                                programs                              controller
//!   xsched_classify(slot, ticket, …) ──► walk, VERDICTS[chain, subject] ──┐
//!                                        known: slot = verdict           │ new: Wanted ──► rules
//!   slot.ticket == ticket, read it  ◄──  new:   slot = PENDING           └──  VERDICTS  ◄──┘
//! ```
//!
//! Each process has a page of slots for itself, which it maps and can only read.

mod judgement;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use judgement::{DecidedBy, Judgement, RuleId, SETTINGS};

/// The symbol of the shim's function that the programs probe:
/// `fn(slot, ticket, subject, rip, rsp, rbp)`, all of 64 bits and in registers. It begins with a one-byte no-operation and
/// returns at once. `rip`, `rsp` and `rbp` are the registers of whoever called the hook, after the hook's return.
pub const CLASSIFY_SYMBOL: &str = "xsched_classify";

/// The symbol of the controller's function that the programs probe: `fn(operation, argument)`, see [`Order`].
pub const ORDER_SYMBOL: &str = "xsched_origin_order";

/// Threads of one process that can ask at the same time. A slot belongs to whom the process gives it.
pub const VERDICT_SLOTS: usize = 1024;

/// What one process maps.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct VerdictPage {
    /// Changes whenever a verdict that the process has kept may be wrong: other rules, other code mapped, a domain set.
    pub generation: u64,
    /// Keeps the slots aligned; zero.
    pub reserved: [u64; 7],
    /// By thread, as the process has numbered its own.
    pub slots: [VerdictSlot; VERDICT_SLOTS],
}

/// The answer to one thread.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct VerdictSlot {
    /// The ticket of the call that was answered, written last. Another number: no program was there.
    pub ticket: u64,
    /// A [`Verdict`].
    pub verdict: u64,
    /// Id of the chain of calls; 0: it could not be found out.
    pub chain: u64,
    /// Id of the library that the call belongs to; 0: unknown.
    pub origin: u32,
    /// Number of the rule that has decided, and one; 0: none has, the default holds.
    pub rule: u32,
    /// [`VerdictPage::generation`] as it was before the answer was looked up: what the answer may be kept under.
    pub generation: u64,
    /// Keeps slots of different threads in different cache lines; zero.
    pub reserved: [u64; 3],
}

/// What becomes of a call, as one word.
///
/// ```text
///   63  48 47  32 31      18 17      16                15    8 7      0
///     0     rule       0     pending decided by caller  level   action
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Verdict(pub u64);

/// What is done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// It waits its turn like all work of its process.
    Schedule = 1,
    /// It is launched at once, behind what its stream has buffered, and is no work of the process to be counted.
    Passthrough = 2,
    /// As [`Action::Schedule`], but once it is called nothing holds it back.
    NeverSuspend = 3,
}

impl Action {
    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Schedule),
            2 => Some(Self::Passthrough),
            3 => Some(Self::NeverSuspend),
            _ => None,
        }
    }
}

impl Verdict {
    /// Any call with the same return address, API and kernel has the same verdict, so it may be kept by call site.
    pub const DECIDED_BY_CALLER: u64 = 1 << 16;

    /// Nobody has decided yet: ask again soon.
    pub const PENDING: u64 = 1 << 17;

    /// Nothing is known, and nothing will be: the default holds.
    pub const UNKNOWN: Self = Self(0);

    /// `level` is the highest level of preemption, 1 to 3; 0: no limit.
    #[inline]
    pub const fn new(action: Action, level: u8, decided_by_caller: bool) -> Self {
        let decided = if decided_by_caller { Self::DECIDED_BY_CALLER } else { 0 };
        Self(action as u64 | (level as u64) << 8 | decided)
    }

    /// The same, with what has decided.
    #[inline]
    #[must_use]
    pub const fn by(self, rule: RuleId) -> Self {
        Self(self.0 & !(0xffff << 32) | rule.bits() << 32)
    }

    /// What has decided.
    #[inline]
    pub const fn rule(self) -> RuleId {
        RuleId::from_bits(self.0 >> 32)
    }

    /// None: nothing is known (yet).
    #[inline]
    pub const fn action(self) -> Option<Action> {
        Action::from_number(self.0 as u8)
    }

    /// The highest level of preemption; 0: no limit.
    #[inline]
    pub const fn level(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// See [`Verdict::DECIDED_BY_CALLER`].
    #[inline]
    pub const fn is_decided_by_caller(self) -> bool {
        self.0 & Self::DECIDED_BY_CALLER != 0
    }

    /// See [`Verdict::PENDING`].
    #[inline]
    pub const fn is_pending(self) -> bool {
        self.0 & Self::PENDING != 0
    }
}

/// What is called, as one word: `subject` of the classification function.
///
/// ```text
///   63    48 47          16 15    0
///      0      kernel id + 1   API
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject(pub u64);

impl Subject {
    /// A function that [`PROBES`](crate::probe::PROBES) does not have.
    pub const UNKNOWN_API: u16 = u16::MAX;

    /// `api` is an index into [`PROBES`](crate::probe::PROBES), or [`Subject::UNKNOWN_API`]. `kernel` is a number that the process
    /// has told by [`KernelName`](crate::wire::KernelName); it is left out unless rules name kernels.
    #[inline]
    pub const fn new(api: u16, kernel: Option<u32>) -> Self {
        let kernel = match kernel {
            // The last number has none after it.
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

/// Key of the map `VERDICTS`. A chain's id is of one process and one state of its mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct VerdictKey {
    /// Id of the chain.
    pub chain: u64,
    /// A [`Subject`].
    pub subject: u64,
}

/// Value of the map `VERDICTS`: what the controller has decided.
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

/// A question that nobody has asked before, in the ring buffer behind the `Stack` of its chain.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Wanted {
    /// `RecordKind::Wanted` of the tracer's records.
    pub kind: u32,
    /// The process, as the initial pid namespace has it.
    pub tgid: u32,
    /// What is asked about.
    pub key: VerdictKey,
}

/// What the controller orders by [`ORDER_SYMBOL`]. Only the program may write a page that is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Order {
    /// The caller is the controller; the argument is the number that it has put into the programs' configuration.
    Claim = 1,
    /// The process with this id (as the initial pid namespace has it) may have kept verdicts that are wrong now.
    Renew = 2,
}

/// The single element of the `ORIGIN` map: who may order, and where the kernel remembers return addresses that return
/// probes have replaced.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OriginConfig {
    /// What the controller shows to become the one that orders; 0: it has.
    pub number: u64,
    /// Its thread group, as the initial pid namespace has it.
    pub controller: u64,
    /// Of `utask` in `struct task_struct`; 0: nothing of this is known.
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

/// [`VerdictSlot::rule`] where a library on the chain has said what its calls are.
pub const RULE_DOMAIN: u32 = u32::MAX;

/// Most processes that have a page.
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
            for level in 0..=3 {
                for decided in [false, true] {
                    let verdict = Verdict::new(action, level, decided);
                    assert_eq!(verdict.action(), Some(action));
                    assert_eq!((verdict.level(), verdict.is_decided_by_caller()), (level, decided));
                    assert!(!verdict.is_pending());
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
