//! A timeline in memory: read once, then queried.
//!
//! Slices lie in columns, track by track and row by row, in time order, so two searches find the range of slices in a window.
//! Facts that are only shown for a selected slice are packed (`arguments`).
//! All times are `CLOCK_BOOTTIME` nanoseconds, as in the file.

mod arguments;
mod load;
mod read_ahead;
mod slices;
mod stacks;
mod texts;

use std::ops::Range;

pub(crate) use self::{
    arguments::{ArgumentValue, Arguments},
    load::load,
    slices::{Row, Slices},
    stacks::Stacks,
    texts::{TextId, Texts},
};
#[cfg(test)]
pub(crate) use self::{load::load_at_once, slices::tests::slices as slices_of};

/// The most rows of a track. Calls nest a few deep; a file with deeper nesting is damaged or hostile.
pub(crate) const ROWS_MAX: usize = 64;

/// The contents of one file.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Every name and text.
    pub(crate) texts: Texts,
    /// The annotations of slices and marks.
    pub(crate) arguments: Arguments,
    /// The call stacks.
    pub(crate) stacks: Stacks,
    /// The tracks in the order in which they are shown, those of a group next to each other.
    pub(crate) tracks: Vec<Track>,
    /// The groups that tracks belong to, in the order in which they are shown.
    pub(crate) groups: Vec<Group>,
    /// Flows (arrows between slices) by number, and the slice at which each begins. Sorted.
    pub(crate) flows_begun: Vec<(u64, SliceId)>,
    /// Flows by number, and the slice at which each ends. Sorted.
    pub(crate) flows_ended: Vec<(u64, SliceId)>,
    /// The earliest and the latest time of any event that is drawn.
    pub(crate) span_ns: Range<u64>,
    /// The realtime clock at the earliest time, in nanoseconds since 1970; `None` if the file does not say.
    pub(crate) realtime_ns: Option<u64>,
    /// What is wrong with the file.
    pub(crate) condition: Condition,
}

/// Conditions of a recording that limit what its timeline shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The file ends in the middle of a packet, or of a compressed part.
    pub(crate) is_cut: bool,
    /// If the file is damaged: what is wrong, and where. The events before the damage are shown.
    pub(crate) damage: Option<String>,
    /// Events that this reader does not understand.
    pub(crate) skipped: u64,
    /// Events that the recorder reports as lost.
    pub(crate) lost: u64,
    /// Slices that had not ended when the recording ended.
    pub(crate) unfinished: u64,
    /// Slices nested deeper than is drawn.
    pub(crate) too_deep: u64,
}

/// A process, a device, or the trace as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// The pid, if the group is a process.
    pub(crate) pid: Option<u32>,
    /// The command line of a process, if it is known.
    pub(crate) cmdline: String,
}

/// One or more rows of the timeline.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) name: String,
    /// Into [`Store::groups`].
    pub(crate) group: usize,
    pub(crate) kind: TrackKind,
    pub(crate) slices: Slices,
    /// In time order.
    pub(crate) marks: Vec<Mark>,
    /// A counter's values, in time order.
    pub(crate) samples: Vec<Sample>,
}

/// The content of a track, as far as the viewer distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TrackKind {
    /// Which level may launch on a device.
    Arbiter,
    /// The executions of a device's stream.
    Execution,
    /// The states of a queue.
    Queue,
    /// The calls of a thread.
    Thread,
    /// Any other slices or marks.
    Other,
    /// Values over time.
    Counter,
}

/// An event without a duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) ts_ns: u64,
    pub(crate) name: TextId,
    pub(crate) category: TextId,
    /// Into [`Store::arguments`].
    pub(crate) arguments: u64,
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) ts_ns: u64,
    pub(crate) value: i64,
}

/// Identifies a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SliceId {
    /// Into [`Store::tracks`].
    pub(crate) track: u32,
    /// Into the columns of [`Track::slices`].
    pub(crate) index: u32,
}

impl TrackKind {
    /// The name in answers to the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arbiter => "arbiter",
            Self::Execution => "execution",
            Self::Queue => "queue",
            Self::Thread => "thread",
            Self::Other => "other",
            Self::Counter => "counter",
        }
    }
}

impl Store {
    /// A slice's track, and its index there. `None` if there is no such slice: ids come from the page.
    pub(crate) fn slices_with(&self, id: SliceId) -> Option<(&Track, usize)> {
        let track = self.tracks.get(id.track as usize)?;
        let index = id.index as usize;
        (index < track.slices.len()).then_some((track, index))
    }

    /// The index of the part that a moment is in, if the timeline is divided into `parts` equal parts.
    pub(crate) fn part(&self, ts_ns: u64, parts: usize) -> usize {
        let length_ns = (self.span_ns.end - self.span_ns.start).max(1);
        let part =
            u128::from(ts_ns.saturating_sub(self.span_ns.start)) * parts as u128 / u128::from(length_ns);
        (part as usize).min(parts - 1)
    }

    /// The value of one argument of a slice or mark.
    pub(crate) fn argument(&self, at: u64, name: &str) -> Option<ArgumentValue> {
        let name = self.texts.find(name)?;
        self.arguments.at(at).find_map(|(found, value)| (found == name).then_some(value))
    }

    /// The value of one argument, if it is a text.
    pub(crate) fn argument_text(&self, at: u64, name: &str) -> Option<&str> {
        match self.argument(at, name)? {
            ArgumentValue::Str(text) => Some(self.texts.get(text)),
            _ => None,
        }
    }

    /// The value of one argument, if it is a number.
    pub(crate) fn argument_number(&self, at: u64, name: &str) -> Option<u64> {
        match self.argument(at, name)? {
            ArgumentValue::U64(number) => Some(number),
            ArgumentValue::I64(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    /// The slices at which the flows end that begin at a slice.
    pub(crate) fn ends_of(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        let flow = self.slices_with(id).map_or(0, |(track, index)| track.slices.facts[index].flow);
        linked(&self.flows_ended, flow)
    }

    /// The slices at which the flows begin that end at a slice.
    pub(crate) fn begins_of(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        let flow = self.slices_with(id).map_or(0, |(track, index)| track.slices.facts[index].ended_flow);
        linked(&self.flows_begun, flow)
    }
}

/// The slices at the other end of a flow; flow 0 means none.
fn linked(there: &[(u64, SliceId)], flow: u64) -> impl Iterator<Item = SliceId> {
    let first = if flow == 0 { there.len() } else { there.partition_point(|(number, _)| *number < flow) };
    there[first..].iter().take_while(move |(number, _)| *number == flow).map(|(_, slice)| *slice)
}
