//! Combines the parts of a file, in their order, into a store.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

use foldhash::fast::RandomState;
use xsched_perfetto::{ProcessId, Scope, ThreadId, TrackId};

use super::{
    Reading,
    part::{Part, TrackKey, UnsortedTrack},
};
use crate::store::{
    Group, SliceId, Store, Track, TrackKind,
    slices::Slices,
    texts::{TextId, Texts},
};

/// The deepest nesting of tracks that is followed. A file with more has a circle.
const ANCESTORS_MAX: usize = 16;

/// The contents of the parts so far.
#[derive(Debug, Default)]
pub(super) struct Whole {
    store: Store,
    tracks: Vec<UnsortedTrack>,
    track_indexes: HashMap<TrackKey, usize, RandomState>,
    /// As in [`Part::open`].
    open: HashMap<u64, Vec<(usize, usize)>, RandomState>,
    processes: HashMap<ProcessId, (String, String)>,
    threads: HashMap<ThreadId, String>,
    described: HashMap<TrackId, (Scope, TextId)>,
    followed: HashSet<ProcessId>,
    span_ns: Option<(u64, u64)>,
    realtime_offset_ns: Option<i64>,
}

/// The owner of a group of tracks. Groups are shown in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Root(TrackId),
    /// A process with launches that are linked to their executions.
    Followed(ProcessId),
    Process(ProcessId),
    Trace,
}

impl Whole {
    /// Empty, with the texts that all parts share.
    pub(super) fn new(texts: Mutex<Texts>) -> Self {
        let texts = texts.into_inner().unwrap_or_else(PoisonError::into_inner);
        Self { store: Store { texts, ..Store::default() }, ..Self::default() }
    }

    /// Adds the next part; returns the outcome of reading it.
    pub(super) fn absorb(&mut self, part: Part) -> Reading {
        // The part's ends come first: they end slices of earlier parts, not those that begin in this part.
        for (track, ts_ns) in part.ends {
            match self.open.get_mut(&track).and_then(Vec::pop) {
                Some((track, index)) => {
                    self.tracks[track].slices[index].end_ns = Some(ts_ns);
                    self.reach((ts_ns, ts_ns));
                }
                None => self.store.condition.skipped += 1,
            }
        }
        let arguments = self.store.arguments.append(part.arguments);
        let stacks = self.store.stacks.append(&part.stacks);
        let mut here = Vec::with_capacity(part.tracks.len());
        for mut track in part.tracks {
            for slice in &mut track.slices {
                slice.facts.arguments += arguments;
                slice.facts.stack = stacks[slice.facts.stack.index()];
            }
            track.marks.iter_mut().for_each(|mark| mark.arguments += arguments);
            here.push(self.add(track));
        }
        for (track, begun) in part.open {
            let begun = begun.into_iter().map(|(track, index)| {
                let (track, before) = here[track];
                (track, before + index)
            });
            self.open.entry(track).or_default().extend(begun);
        }
        for (id, (name, cmdline)) in part.processes {
            let known = self.processes.entry(id).or_default();
            if known.0.is_empty() {
                known.0 = name;
            }
            if !cmdline.is_empty() {
                known.1 = cmdline;
            }
        }
        self.threads.extend(part.threads);
        self.described.extend(part.described);
        self.followed.extend(part.followed);
        part.span_ns.into_iter().for_each(|span| self.reach(span));
        self.realtime_offset_ns = self.realtime_offset_ns.or(part.realtime_offset_ns);
        self.store.condition.lost = part.lost.unwrap_or(self.store.condition.lost);
        self.store.condition.skipped += part.skipped;
        part.reading
    }

    /// Adds a part of a track; returns the index of the track here, and how many slices it had before.
    fn add(&mut self, mut part: UnsortedTrack) -> (usize, usize) {
        let index = *self.track_indexes.entry(part.key).or_insert_with(|| {
            self.tracks.push(UnsortedTrack::new(part.key));
            self.tracks.len() - 1
        });
        let track = &mut self.tracks[index];
        let before = track.slices.len();
        if before == 0 && track.marks.is_empty() && track.samples.is_empty() {
            *track = part;
        } else {
            track.slices.append(&mut part.slices);
            track.marks.append(&mut part.marks);
            track.samples.append(&mut part.samples);
        }
        (index, before)
    }

    fn reach(&mut self, (first_ns, last_ns): (u64, u64)) {
        let (first, last) = self.span_ns.unwrap_or((first_ns, last_ns));
        self.span_ns = Some((first.min(first_ns), last.max(last_ns)));
    }

    /// The store. `damage` describes the damage at which reading stopped.
    pub(super) fn finish(mut self, is_cut: bool, damage: Option<String>) -> Store {
        let condition = &mut self.store.condition;
        (condition.is_cut, condition.damage) = (is_cut, damage);
        condition.unfinished = self.open.values().map(|open| open.len() as u64).sum();
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        self.store.span_ns = first_ns..last_ns;
        self.store.realtime_ns =
            self.realtime_offset_ns.map(|offset_ns| first_ns.wrapping_add_signed(offset_ns));
        let parents: HashSet<TrackId> = self
            .described
            .values()
            .filter_map(|(parent, _)| if let Scope::Track(parent) = parent { Some(*parent) } else { None })
            .collect();

        let mut tracks: Vec<(Owner, Track)> = std::mem::take(&mut self.tracks)
            .into_iter()
            .map(|track| {
                let owner = self.owner(&track.key, &parents);
                (owner, self.sorted(track, last_ns))
            })
            .collect();
        tracks.sort_by(|(owner, track), (other_owner, other)| {
            owner.cmp(other_owner).then(track.kind.cmp(&other.kind)).then(track.name.cmp(&other.name))
        });
        let mut owners: Vec<Owner> = Vec::new();
        for (owner, mut track) in tracks {
            if owners.last() != Some(&owner) {
                owners.push(owner);
                self.store.groups.push(self.group(owner));
            }
            track.group = owners.len() - 1;
            self.store.tracks.push(track);
        }
        self.store.link();
        self.store
    }

    fn sorted(&mut self, track: UnsortedTrack, last_ns: u64) -> Track {
        let UnsortedTrack { key, slices, mut marks, mut samples } = track;
        let category = slices.first().map(|slice| self.store.texts.get(slice.facts.category));
        let kind = match (&key, category) {
            (TrackKey::Counter(..), _) => TrackKind::Counter,
            (TrackKey::Events(Scope::Thread(_)), _) => TrackKind::Thread,
            (_, Some("gpu")) => TrackKind::Execution,
            (_, Some("xqueue")) => TrackKind::Queue,
            (_, Some("arbiter")) => TrackKind::Arbiter,
            _ => TrackKind::Other,
        };
        let (slices, too_deep) = Slices::new(slices, last_ns);
        self.store.condition.too_deep += too_deep;
        marks.sort_by_key(|mark| mark.ts_ns);
        samples.sort_by_key(|sample| sample.ts_ns);
        Track { name: self.track_name(&key), group: 0, kind, slices, marks, samples }
    }

    fn track_name(&self, key: &TrackKey) -> String {
        match key {
            TrackKey::Counter(_, name) => self.store.texts.get(*name).to_owned(),
            TrackKey::Events(Scope::Thread(thread)) => match self.threads.get(thread) {
                Some(name) => format!("{name} {}", thread.tid),
                None => format!("thread {}", thread.tid),
            },
            TrackKey::Events(Scope::Track(id)) => self
                .described
                .get(id)
                .map_or_else(String::new, |(_, name)| self.store.texts.get(*name).to_owned()),
            TrackKey::Events(Scope::Process(_) | Scope::Global) => "events".to_owned(),
        }
    }

    /// The owner of the group in which a track is shown.
    fn owner(&self, key: &TrackKey, parents: &HashSet<TrackId>) -> Owner {
        let (TrackKey::Events(mut scope) | TrackKey::Counter(mut scope, _)) = *key;
        for _ in 0..ANCESTORS_MAX {
            match scope {
                Scope::Global => break,
                Scope::Process(process) | Scope::Thread(ThreadId { process, .. }) => {
                    let is_followed = self.followed.contains(&process);
                    return if is_followed { Owner::Followed(process) } else { Owner::Process(process) };
                }
                Scope::Track(id) => match self.described.get(&id) {
                    Some((Scope::Global, _)) if parents.contains(&id) => return Owner::Root(id),
                    Some((parent, _)) => scope = *parent,
                    None => break,
                },
            }
        }
        Owner::Trace
    }

    fn group(&self, owner: Owner) -> Group {
        match owner {
            Owner::Followed(process) | Owner::Process(process) => {
                let (name, cmdline) = self.processes.get(&process).cloned().unwrap_or_default();
                let name = if name.is_empty() { "process".to_owned() } else { name };
                Group { name, pid: Some(process.pid), cmdline }
            }
            Owner::Root(id) => {
                let name = self.described.get(&id).map(|(_, name)| self.store.texts.get(*name).to_owned());
                Group { name: name.unwrap_or_default(), pid: None, cmdline: String::new() }
            }
            Owner::Trace => Group { name: "Recording".to_owned(), pid: None, cmdline: String::new() },
        }
    }
}

impl Store {
    /// Collects the flows.
    fn link(&mut self) {
        for (track_index, track) in self.tracks.iter().enumerate() {
            for index in 0..track.slices.len() {
                let id = SliceId { track: track_index as u32, index: index as u32 };
                let (begun, ended) = (track.slices.flow(index), track.slices.ended_flow(index));
                if begun != 0 {
                    self.flows_begun.push((begun, id));
                }
                if ended != 0 {
                    self.flows_ended.push((ended, id));
                }
            }
        }
        self.flows_begun.sort_unstable();
        self.flows_ended.sort_unstable();
    }
}
