//! A timeline in memory: read once, then asked about.
//!
//! Slices lie in columns, track by track and row by row, in order of time, so that what is in a window is a range found
//! by two searches. What is only shown when a slice is selected is packed (`arguments`).
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

/// Rows of a track that are drawn. Calls nest a few deep; a file that says otherwise is damaged or hostile.
pub(crate) const ROWS_MAX: usize = 64;

/// Everything that is known of one file.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Every name and text.
    pub(crate) texts: Texts,
    /// What is known about slices and marks beyond their names.
    pub(crate) arguments: Arguments,
    /// Who called.
    pub(crate) stacks: Stacks,
    /// In the order in which they are shown: those of a group side by side.
    pub(crate) tracks: Vec<Track>,
    /// What tracks belong to, in the order in which they are shown.
    pub(crate) groups: Vec<Group>,
    /// Arrows by number: where each begins, and where it ends.
    pub(crate) flows_begun: Vec<(u64, SliceId)>,
    /// See above; both in the order of the numbers.
    pub(crate) flows_ended: Vec<(u64, SliceId)>,
    /// The earliest and the latest time of anything that is drawn.
    pub(crate) span_ns: Range<u64>,
    /// When that was by the clock on the wall, nanoseconds since 1970; `None` if the file does not say.
    pub(crate) realtime_ns: Option<u64>,
    /// What is wrong with the file.
    pub(crate) condition: Condition,
}

/// What somebody who looks at a timeline should know about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The file ends in the middle of a packet, or of a compressed part.
    pub(crate) is_cut: bool,
    /// The file is damaged: what is wrong, and where. What precedes it is shown.
    pub(crate) damage: Option<String>,
    /// Events that this reader does not understand.
    pub(crate) skipped: u64,
    /// Events that the recorder says it has lost.
    pub(crate) lost: u64,
    /// Slices that still ran at the end.
    pub(crate) unfinished: u64,
    /// Slices nested deeper than is drawn.
    pub(crate) too_deep: u64,
}

/// A process, a device, or the trace as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// What it is called.
    pub(crate) name: String,
    /// Its pid, if it is a process.
    pub(crate) pid: Option<u32>,
    /// Its command line, if it is a process and that is known.
    pub(crate) cmdline: String,
}

/// One line or more of the timeline.
#[derive(Debug)]
pub(crate) struct Track {
    /// What it is called.
    pub(crate) name: String,
    /// Its group.
    pub(crate) group: usize,
    /// What it shows.
    pub(crate) kind: TrackKind,
    /// What lasts.
    pub(crate) slices: Slices,
    /// What happened at one moment, in order of time.
    pub(crate) marks: Vec<Mark>,
    /// A counter's values, in order of time.
    pub(crate) samples: Vec<Sample>,
}

/// What a track shows, as far as that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TrackKind {
    /// Which level may run on a device.
    Arbiter,
    /// What a stream of a device executes.
    Execution,
    /// The states of a queue.
    Queue,
    /// The calls of a thread.
    Thread,
    /// Something else that lasts, or has marks.
    Other,
    /// Values over time.
    Counter,
}

/// Something that happened at one moment.
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

/// Which slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SliceId {
    /// Into [`Store::tracks`].
    pub(crate) track: u32,
    /// Into the columns of [`Track::slices`].
    pub(crate) index: u32,
}

impl TrackKind {
    /// Its name in answers to the page.
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
    /// A slice's columns, if there is such a slice: ids come from the page.
    pub(crate) fn slices_with(&self, id: SliceId) -> Option<(&Track, usize)> {
        let track = self.tracks.get(id.track as usize)?;
        let index = id.index as usize;
        (index < track.slices.len()).then_some((track, index))
    }

    /// Which of `parts` equal parts of the timeline a moment is in.
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

    /// The text of one argument, if it is one.
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

    /// Where the arrows end that begin at a slice.
    pub(crate) fn ends_of(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        let flow = self.slices_with(id).map_or(0, |(track, index)| track.slices.flow(index));
        linked(&self.flows_ended, flow)
    }

    /// Where the arrows begin that end at a slice.
    pub(crate) fn begins_of(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        let flow = self.slices_with(id).map_or(0, |(track, index)| track.slices.ended_flow(index));
        linked(&self.flows_begun, flow)
    }
}

/// The slices at the other end of an arrow; 0 is none.
fn linked(there: &[(u64, SliceId)], flow: u64) -> impl Iterator<Item = SliceId> {
    let first = if flow == 0 { there.len() } else { there.partition_point(|(number, _)| *number < flow) };
    there[first..].iter().take_while(move |(number, _)| *number == flow).map(|(_, slice)| *slice)
}
