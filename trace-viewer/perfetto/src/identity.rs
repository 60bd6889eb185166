//! The owner of a track, and the uuid of the track in the trace.
//!
//! A uuid is a hash of the identity, not a running number. So it needs no table, stays the same when a
//! descriptor is written again, and does not collide when two traces are concatenated. It keeps 56 bits of
//! the hash, which takes eight bytes in each event instead of ten; ten thousand tracks then collide once in
//! 10^9 traces.

/// Identifies a process. The pid alone does not: pids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The pid in the tracer's pid namespace.
    pub pid: u32,
    /// When the process started, `CLOCK_BOOTTIME` nanoseconds; 0 if that is unknown. The same process must
    /// always be given with the same value. With the time of an `exec`, the program that it started is shown
    /// as a separate process.
    pub start_ns: u64,
}

/// Identifies a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// The process.
    pub process: ProcessId,
    /// The tid in the tracer's pid namespace; equal to the pid for the main thread.
    pub tid: u32,
}

/// Identifies a track that is neither a thread's nor a process's: that of a device's stream, or of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub(crate) u64);

/// The part of the trace in which an event or a track is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// In the trace as a whole.
    Global,
    /// In a process.
    Process(ProcessId),
    /// In a thread.
    Thread(ThreadId),
    /// On a track that was described to the writer, or by the trace.
    Track(TrackId),
}

/// Identifies a counter track that was described to the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub(crate) u64);

/// The kind of identity. It is part of the hash, so equal numbers of different kinds have different hashes.
#[derive(Clone, Copy)]
enum Kind {
    Global = 1,
    Process = 2,
    Thread = 3,
    Counter = 4,
    Track = 5,
}

impl ProcessId {
    pub(crate) fn uuid(self) -> u64 {
        uuid(Kind::Process, &[self.pid.into(), self.start_ns])
    }
}

impl ThreadId {
    pub(crate) fn uuid(self) -> u64 {
        uuid(Kind::Thread, &[self.process.pid.into(), self.process.start_ns, self.tid.into()])
    }
}

impl Scope {
    pub(crate) fn uuid(self) -> u64 {
        match self {
            Self::Global => uuid(Kind::Global, &[]),
            Self::Process(process) => process.uuid(),
            Self::Thread(thread) => thread.uuid(),
            Self::Track(track) => track.0,
        }
    }
}

impl TrackId {
    pub(crate) fn new(parent: Scope, name: &str) -> Self {
        Self(named(Kind::Track, parent, name))
    }
}

impl CounterId {
    pub(crate) fn new(scope: Scope, name: &str) -> Self {
        Self(named(Kind::Counter, scope, name))
    }
}

/// The uuid of an identity that is a name in a scope.
fn named(kind: Kind, scope: Scope, name: &str) -> u64 {
    let words = name.as_bytes().chunks(8).fold(scope.uuid(), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    });
    uuid(kind, &[words, name.len() as u64])
}

/// The hash of an identity. Never 0, which is Perfetto's default track.
fn uuid(kind: Kind, words: &[u64]) -> u64 {
    let hash = words.iter().fold(mix(kind as u64), |hash, word| mix(hash ^ word));
    (hash & ((1 << 56) - 1)).max(1)
}

/// SplitMix64 (<https://prng.di.unimi.it/splitmix64.c>), a bijection in which every input bit affects every
/// output bit. Written here because a uuid must not change with the version of a hashing crate.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PROCESS: ProcessId = ProcessId { pid: 4_242, start_ns: 77 };

    #[test]
    fn every_identity_has_its_own_uuid() {
        let mut seen = HashSet::new();
        assert!(seen.insert(Scope::Global.uuid()));
        for pid in 0..300 {
            for start_ns in [0, 1, 2, u64::MAX] {
                let process = ProcessId { pid, start_ns };
                assert!(seen.insert(process.uuid()), "{process:?}");
                for tid in 0..100 {
                    let thread = ThreadId { process, tid };
                    assert!(seen.insert(thread.uuid()), "{thread:?}");
                }
            }
        }
        assert!(seen.iter().all(|uuid| (1..1 << 56).contains(uuid)));
    }

    #[test]
    fn counters_differ_by_scope_and_name() {
        let scopes = [Scope::Global, Scope::Process(PROCESS)];
        let names = ["", "a", "a\0", "queue depth", "queue depth ", "queue depth 2"];
        let ids: HashSet<_> =
            scopes.iter().flat_map(|scope| names.map(|name| CounterId::new(*scope, name))).collect();
        assert_eq!(ids.len(), scopes.len() * names.len());
    }

    /// Traces written by two versions of this program may be concatenated. The numbers were computed by an
    /// independent implementation.
    #[test]
    fn uuids_never_change() {
        assert_eq!(Scope::Global.uuid(), 0x000a_2dec_8902_5cc1);
        assert_eq!(PROCESS.uuid(), 0x006c_cf7c_0182_cdf2);
        assert_eq!(ThreadId { process: PROCESS, tid: 4_243 }.uuid(), 0x0065_6f42_223c_5079);
        assert_eq!(CounterId::new(Scope::Global, "lost events").0, 0x00fc_0aa5_067b_a440);
    }
}
