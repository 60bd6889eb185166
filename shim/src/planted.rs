//! Bugs on purpose, which the differential tests must find (`tests/differential`).
//!
//! Those of the queues are theirs (`xsched_xqueue::Bugs`).
//!
//! Only with the feature `planted-bugs`, which no build for users has; then `XSCHED_PLANTED_BUG` names one of them.
//! Without it all of this is a constant `false`, and no code is left of it.

/// A bug; its name in the environment is the comment's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// `shallow-arguments`: arguments of a kernel are read when it is launched, not when it is asked for.
    ShallowArguments,
    /// `shallow-buffer`: the same for arguments in one buffer.
    ShallowBuffer,
    /// `shallow-structure`: the same for what describes a copy of a box, or a batch.
    ShallowStructure,
    /// `missed-drain`: `hipStreamSynchronize` does not wait for what is deferred.
    MissedDrain,
    /// `free-without-drain`: `hipFree` does not either.
    FreeWithoutDrain,
    /// `overtaking`: a call passes although earlier ones of its stream are deferred.
    Overtaking,
    /// `lost-record`: a record that is deferred is forgotten.
    LostRecord,
    /// `null-stream-alone`: the null stream does not come after blocking streams.
    NullStreamAlone,
    /// `blocking-stream-alone`: blocking streams do not come after the null stream.
    BlockingStreamAlone,
    /// `early-answer`: a question about a stream is answered by the runtime, which knows of nothing deferred.
    EarlyAnswer,
    /// `pageable-deferred`: copies from and to memory that is not pinned are deferred like others.
    PageableDeferred,
    /// `unchecked-launch`: launches that the runtime would refuse are deferred like others.
    UncheckedLaunch,
    /// `early-record`: a record does not come after the waits for the one before.
    EarlyRecord,
    /// `wrong-device`: what is launched late is launched on whatever device the thread has.
    WrongDevice,
    /// `capture-deferred`: calls are deferred while a stream captures.
    CaptureDeferred,
    /// `capture-without-drain`: what is deferred is not launched before a capture begins.
    CaptureWithoutDrain,
    /// `captures-end-together`: the end of one capture counts as the end of all.
    CapturesEndTogether,
    /// `deferred-after-fault`: launches are deferred, as if nothing were wrong, when the device has failed.
    DeferredAfterFault,
    /// `lost-attribute`: the last attribute of a launch is not kept.
    LostAttribute,
    /// `lost-stop`: the event behind a launch does not count as recorded by it.
    LostStop,
    /// `shallow-boxes`: the boxes of a batch are read when it is launched.
    ShallowBoxes,
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    const ALL: [(&'static str, Self); 21] = [
        ("shallow-arguments", Self::ShallowArguments),
        ("shallow-buffer", Self::ShallowBuffer),
        ("shallow-structure", Self::ShallowStructure),
        ("missed-drain", Self::MissedDrain),
        ("free-without-drain", Self::FreeWithoutDrain),
        ("overtaking", Self::Overtaking),
        ("lost-record", Self::LostRecord),
        ("null-stream-alone", Self::NullStreamAlone),
        ("blocking-stream-alone", Self::BlockingStreamAlone),
        ("early-answer", Self::EarlyAnswer),
        ("pageable-deferred", Self::PageableDeferred),
        ("unchecked-launch", Self::UncheckedLaunch),
        ("early-record", Self::EarlyRecord),
        ("wrong-device", Self::WrongDevice),
        ("capture-deferred", Self::CaptureDeferred),
        ("capture-without-drain", Self::CaptureWithoutDrain),
        ("captures-end-together", Self::CapturesEndTogether),
        ("deferred-after-fault", Self::DeferredAfterFault),
        ("lost-attribute", Self::LostAttribute),
        ("lost-stop", Self::LostStop),
        ("shallow-boxes", Self::ShallowBoxes),
    ];

    fn asked() -> Option<Self> {
        static ASKED: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
        *ASKED.get_or_init(|| {
            let name = name()?;
            Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, bug)| *bug)
        })
    }
}

/// What the environment calls it.
#[cfg(feature = "planted-bugs")]
fn name() -> Option<String> {
    std::env::var("XSCHED_PLANTED_BUG").ok()
}

/// That of the queues.
#[cfg(feature = "planted-bugs")]
pub(crate) fn of_queues() -> xsched_xqueue::Bugs {
    name().map_or(xsched_xqueue::Bugs::NONE, |name| xsched_xqueue::Bugs::named(&name))
}

/// A build for users has none.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) fn of_queues() -> xsched_xqueue::Bugs {
    xsched_xqueue::Bugs::NONE
}

/// Whether the environment asks for this bug.
#[cfg(feature = "planted-bugs")]
pub(crate) fn is_planted(bug: Bug) -> bool {
    Bug::asked() == Some(bug)
}

/// A build for users has none.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}
