//! Combines the parts of a file, in their order, into a store.

use std::collections::HashSet;

use xsched_perfetto::{ProcessId, Scope, ThreadId, TrackId};

use super::part::{Part, TrackKey, UnsortedTrack};
use crate::store::{Condition, Group, SliceId, Store, Track, TrackKind, slices::Slices, texts::Texts};

/// The deepest nesting of tracks that is followed. A file with more has a circle.
const ANCESTORS_MAX: usize = 16;

/// The owner of a group of tracks. Groups are shown in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Root(TrackId),
    /// A process with launches that are linked to their executions.
    Followed(ProcessId),
    Process(ProcessId),
    Trace,
}

impl Part {
    /// Adds the next part, and takes over the outcome of reading it.
    pub(super) fn absorb(&mut self, part: Self) {
        // The part's ends come first: they end slices of earlier parts, not those that begin in this part.
        for (track, ts_ns) in part.ends {
            match self.open.get_mut(&track).and_then(Vec::pop) {
                Some((track, index)) => {
                    self.tracks[track].slices[index].end_ns = Some(ts_ns);
                    self.reach(ts_ns);
                }
                None => self.skipped += 1,
            }
        }
        let arguments = self.arguments.append(part.arguments);
        let stacks = self.stacks.append(&part.stacks);
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
            self.add_process(id, name, cmdline);
        }
        self.threads.extend(part.threads);
        self.described.extend(part.described);
        self.followed.extend(part.followed);
        if let Some((first_ns, last_ns)) = part.span_ns {
            self.reach(first_ns);
            self.reach(last_ns);
        }
        self.realtime_offset_ns = self.realtime_offset_ns.or(part.realtime_offset_ns);
        self.lost = part.lost.or(self.lost);
        self.skipped += part.skipped;
        self.reading = part.reading;
    }

    /// Adds a part of a track; returns the index of the track here, and how many slices it had before.
    fn add(&mut self, mut part: UnsortedTrack) -> (usize, usize) {
        let index = self.track(part.key);
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

    /// The store. `texts` are those of all parts; `damage` describes the damage at which reading stopped.
    pub(super) fn finish(mut self, texts: Texts, is_cut: bool, damage: Option<String>) -> Store {
        let unfinished = self.open.values().map(|open| open.len() as u64).sum();
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        let mut store = Store {
            texts,
            arguments: std::mem::take(&mut self.arguments),
            stacks: std::mem::take(&mut self.stacks),
            span_ns: first_ns..last_ns,
            realtime_ns: self.realtime_offset_ns.map(|offset_ns| first_ns.wrapping_add_signed(offset_ns)),
            condition: Condition {
                is_cut,
                damage,
                skipped: self.skipped,
                lost: self.lost.unwrap_or(0),
                unfinished,
                too_deep: 0,
            },
            ..Store::default()
        };
        let parents: HashSet<TrackId> = self
            .described
            .values()
            .filter_map(|(parent, _)| if let Scope::Track(parent) = parent { Some(*parent) } else { None })
            .collect();

        let mut tracks: Vec<(Owner, Track)> = std::mem::take(&mut self.tracks)
            .into_iter()
            .map(|track| {
                let owner = self.owner(&track.key, &parents);
                (owner, self.sorted(track, &mut store))
            })
            .collect();
        tracks.sort_by(|(owner, track), (other_owner, other)| {
            owner.cmp(other_owner).then(track.kind.cmp(&other.kind)).then(track.name.cmp(&other.name))
        });
        let mut owners: Vec<Owner> = Vec::new();
        for (owner, mut track) in tracks {
            if owners.last() != Some(&owner) {
                owners.push(owner);
                store.groups.push(self.group(owner, &store.texts));
            }
            track.group = owners.len() - 1;
            store.tracks.push(track);
        }
        store.link();
        store
    }

    fn sorted(&self, track: UnsortedTrack, store: &mut Store) -> Track {
        let UnsortedTrack { key, slices, mut marks, mut samples } = track;
        let category = slices.first().map(|slice| store.texts.get(slice.facts.category));
        let kind = match (&key, category) {
            (TrackKey::Counter(..), _) => TrackKind::Counter,
            (TrackKey::Events(Scope::Thread(_)), _) => TrackKind::Thread,
            (_, Some("gpu")) => TrackKind::Execution,
            (_, Some("xqueue")) => TrackKind::Queue,
            (_, Some("arbiter")) => TrackKind::Arbiter,
            _ => TrackKind::Other,
        };
        let (slices, too_deep) = Slices::new(slices, store.span_ns.end);
        store.condition.too_deep += too_deep;
        marks.sort_by_key(|mark| mark.ts_ns);
        samples.sort_by_key(|sample| sample.ts_ns);
        Track { name: self.track_name(&key, &store.texts), group: 0, kind, slices, marks, samples }
    }

    fn track_name(&self, key: &TrackKey, texts: &Texts) -> String {
        match key {
            TrackKey::Counter(_, name) => texts.get(*name).to_owned(),
            TrackKey::Events(Scope::Thread(thread)) => match self.threads.get(thread) {
                Some(name) => format!("{name} {}", thread.tid),
                None => format!("thread {}", thread.tid),
            },
            TrackKey::Events(Scope::Track(id)) => {
                self.described.get(id).map_or_else(String::new, |(_, name)| texts.get(*name).to_owned())
            }
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

    fn group(&self, owner: Owner, texts: &Texts) -> Group {
        match owner {
            Owner::Followed(process) | Owner::Process(process) => {
                let (name, cmdline) = self.processes.get(&process).cloned().unwrap_or_default();
                let name = if name.is_empty() { "process".to_owned() } else { name };
                Group { name, pid: Some(process.pid), cmdline }
            }
            Owner::Root(id) => {
                let name = self.described.get(&id).map(|(_, name)| texts.get(*name).to_owned());
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
                let (begun, ended) = (track.slices.facts[index].flow, track.slices.facts[index].ended_flow);
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
