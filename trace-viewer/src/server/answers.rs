//! The answers to the page, in the form in which they are sent.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    explain::{self, Explanation},
    overview::process_name,
    resolution::{self, Window},
    store::{ArgumentValue, Mark, SliceId, Store, TextId, Track, TrackKind},
};

/// Parts of the timeline in which slices are counted, for the strip that shows all of it.
const PARTS: usize = 480;

/// Everything that does not depend on the window.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names that the page knows")]
pub(super) struct Tracks<'a> {
    file: &'a str,
    length_ns: u64,
    /// When the timeline begins, in milliseconds since 1970.
    began_ms: Option<u64>,
    /// How many slices of threads begin in each part of the timeline.
    activity: Vec<u32>,
    groups: Vec<TrackGroup<'a>>,
    tracks: Vec<TrackHead<'a>>,
}

#[derive(Serialize)]
struct TrackGroup<'a> {
    name: String,
    is_process: bool,
    cmdline: &'a str,
}

#[derive(Serialize)]
struct TrackHead<'a> {
    name: &'a str,
    group: usize,
    kind: &'static str,
    rows: usize,
    slices: usize,
    marks: usize,
    /// The least and the greatest value of a counter.
    range: Option<(i64, i64)>,
}

/// Groups and tracks.
pub(super) fn tracks<'a>(file: &'a str, store: &'a Store) -> Tracks<'a> {
    Tracks {
        file,
        length_ns: store.span_ns.end - store.span_ns.start,
        began_ms: store.realtime_ns.map(|ns| ns / 1_000_000),
        activity: activity(store),
        groups: (0..store.groups.len())
            .map(|number| {
                let group = &store.groups[number];
                let (name, is_process) = (process_name(store, number), group.pid.is_some());
                TrackGroup { name, is_process, cmdline: &group.cmdline }
            })
            .collect(),
        tracks: store
            .tracks
            .iter()
            .map(|track| TrackHead {
                name: &track.name,
                group: track.group,
                kind: track.kind.name(),
                rows: track.slices.rows.len(),
                slices: track.slices.len(),
                marks: track.marks.len(),
                range: extremes(track),
            })
            .collect(),
    }
}

fn activity(store: &Store) -> Vec<u32> {
    let mut parts = vec![0; PARTS];
    for track in store.tracks.iter().filter(|track| track.kind == TrackKind::Thread) {
        for begin_ns in &track.slices.begins_ns {
            parts[store.part(*begin_ns, PARTS)] += 1;
        }
    }
    parts
}

fn extremes(track: &Track) -> Option<(i64, i64)> {
    let values = || track.samples.iter().map(|sample| sample.value);
    Some((values().min()?, values().max()?))
}

/// What the page draws in a window.
#[derive(Serialize)]
pub(super) struct Tiles<'a> {
    tracks: Vec<Tile>,
    /// The texts that the tiles refer to.
    texts: BTreeMap<u32, &'a str>,
}

/// A window of one track. Each list is a column, with one entry for each thing to draw.
#[derive(Default, Serialize)]
struct Tile {
    track: usize,
    rows: Vec<TileRow>,
    marks: TileMarks,
    counter: TileCounter,
}

#[derive(Default, Serialize)]
struct TileRow {
    begin: Vec<i64>,
    end: Vec<i64>,
    count: Vec<usize>,
    busy: Vec<u64>,
    /// The longest of the slices, and its label.
    index: Vec<usize>,
    label: Vec<u32>,
    origin: Vec<u32>,
}

#[derive(Default, Serialize)]
struct TileMarks {
    at: Vec<i64>,
    count: Vec<usize>,
    index: Vec<usize>,
    label: Vec<u32>,
}

#[derive(Default, Serialize)]
struct TileCounter {
    at: Vec<i64>,
    min: Vec<i64>,
    max: Vec<i64>,
    last: Vec<i64>,
}

/// What the page draws of some tracks. Times are relative to the begin of the window.
pub(super) fn tiles<'a>(store: &'a Store, tracks: &[usize], window: Window) -> Tiles<'a> {
    let mut texts = BTreeMap::new();
    let mut named = |id: TextId| {
        texts.entry(id.0).or_insert_with(|| store.texts.get(id));
        id.0
    };
    let relative = |ts_ns: u64| ts_ns.wrapping_sub(window.from_ns) as i64;
    let tracks = tracks
        .iter()
        .map(|&number| {
            let track = &store.tracks[number];
            let mut tile = Tile { track: number, ..Tile::default() };
            for row in &track.slices.rows {
                let mut columns = TileRow::default();
                for thing in resolution::drawn(&track.slices, row, window) {
                    columns.begin.push(relative(thing.begin_ns));
                    columns.end.push(relative(thing.end_ns));
                    columns.count.push(thing.count);
                    columns.busy.push(thing.busy_ns);
                    columns.index.push(thing.longest);
                    columns.label.push(named(label(track, thing.longest)));
                    columns.origin.push(named(track.slices.facts[thing.longest].origin));
                }
                tile.rows.push(columns);
            }
            for (index, count) in resolution::marks(&track.marks, window) {
                tile.marks.at.push(relative(track.marks[index].ts_ns));
                tile.marks.count.push(count);
                tile.marks.index.push(index);
                tile.marks.label.push(named(track.marks[index].name));
            }
            for bin in resolution::counter(&track.samples, window) {
                tile.counter.at.push(relative(bin.ts_ns));
                tile.counter.min.push(bin.min);
                tile.counter.max.push(bin.max);
                tile.counter.last.push(bin.last);
            }
            tile
        })
        .collect();
    Tiles { tracks, texts }
}

/// The label of a slice: its kernel if that is known, else its name.
fn label(track: &Track, index: usize) -> TextId {
    match track.slices.facts[index].kernel {
        TextId(0) => track.slices.facts[index].name,
        kernel => kernel,
    }
}

/// Everything about a slice.
#[derive(Serialize)]
pub(super) struct Slice<'a> {
    position: Position<'a>,
    name: &'a str,
    category: &'a str,
    arguments: Vec<(&'a str, String)>,
    /// Libraries and functions that called, innermost first.
    chain: Vec<&'a str>,
    callers: Vec<&'a str>,
    /// The slices at the other ends of arrows: those that end here, and those that begin here.
    comes_from: Vec<Position<'a>>,
    leads_to: Vec<Position<'a>>,
    wait: Option<Explanation>,
    /// The slices before and after it in its row.
    previous: Option<usize>,
    next: Option<usize>,
}

/// Which slice, and where it is drawn.
#[derive(Serialize)]
pub(super) struct Position<'a> {
    track: u32,
    index: u32,
    row: usize,
    label: &'a str,
    track_name: &'a str,
    group_name: String,
    begin_ns: u64,
    end_ns: u64,
    is_open: bool,
}

fn position(store: &Store, id: SliceId) -> Option<Position<'_>> {
    let (track, index) = store.slices_with(id)?;
    let slices = &track.slices;
    Some(Position {
        track: id.track,
        index: id.index,
        row: slices.rows.iter().position(|row| row.range.contains(&index))?,
        label: store.texts.get(label(track, index)),
        track_name: &track.name,
        group_name: process_name(store, track.group),
        begin_ns: slices.begins_ns[index] - store.span_ns.start,
        end_ns: slices.ends_ns[index] - store.span_ns.start,
        is_open: slices.facts[index].is_open,
    })
}

/// Everything about a slice, if there is such a slice.
pub(super) fn slice(store: &Store, id: SliceId) -> Option<Slice<'_>> {
    let (track, index) = store.slices_with(id)?;
    let position_of = |id| position(store, id);
    let here = position(store, id)?;
    let row = &track.slices.rows[here.row];
    let at = track.slices.facts[index].arguments;
    let (chain, callers) = callers(store, track, index);
    Some(Slice {
        name: store.texts.get(track.slices.facts[index].name),
        category: store.texts.get(track.slices.facts[index].category),
        arguments: arguments(store, at),
        chain,
        callers,
        comes_from: store.begins_of(id).filter_map(position_of).collect(),
        leads_to: store.ends_of(id).filter_map(position_of).collect(),
        wait: explain::explain(store, id),
        previous: (index > row.range.start).then(|| index - 1),
        next: (index + 1 < row.range.end).then_some(index + 1),
        position: here,
    })
}

/// Libraries and functions that called a slice, innermost first: from the recording's annotations, else from the call stack.
fn callers<'a>(store: &'a Store, track: &Track, index: usize) -> (Vec<&'a str>, Vec<&'a str>) {
    let texts = |name| {
        let text = store.argument_text(track.slices.facts[index].arguments, name);
        text.map_or(Vec::new(), |text| text.split(" < ").collect::<Vec<_>>())
    };
    let stack = store.stacks.get(track.slices.facts[index].stack);
    let (mut chain, mut callers) = (texts("chain"), texts("callers"));
    if callers.is_empty() {
        callers.extend(stack.iter().map(|frame| store.texts.get(frame.function)));
    }
    if chain.is_empty() {
        let libraries = stack.iter().map(|frame| store.texts.get(frame.library));
        chain.extend(libraries.filter(|library| !library.is_empty()));
        chain.dedup();
    }
    (chain, callers)
}

/// Everything about a mark.
#[derive(Serialize)]
pub(super) struct MarkDetails<'a> {
    name: &'a str,
    category: &'a str,
    track_name: &'a str,
    group_name: String,
    at_ns: u64,
    arguments: Vec<(&'a str, String)>,
}

/// Everything about a mark, if there is such a mark.
pub(super) fn mark(store: &Store, track: usize, index: usize) -> Option<MarkDetails<'_>> {
    let track = store.tracks.get(track)?;
    let mark: &Mark = track.marks.get(index)?;
    Some(MarkDetails {
        name: store.texts.get(mark.name),
        category: store.texts.get(mark.category),
        track_name: &track.name,
        group_name: process_name(store, track.group),
        at_ns: mark.ts_ns - store.span_ns.start,
        arguments: arguments(store, mark.arguments),
    })
}

/// Names and values in the form in which they are shown. Call chains are left out: they are shown separately.
fn arguments(store: &Store, at: u64) -> Vec<(&str, String)> {
    store
        .arguments
        .at(at)
        .map(|(name, value)| {
            let value = match value {
                ArgumentValue::Str(text) => store.texts.get(text).to_owned(),
                ArgumentValue::U64(number) => number.to_string(),
                ArgumentValue::I64(number) => number.to_string(),
                ArgumentValue::F64(number) => number.to_string(),
                ArgumentValue::Pointer(address) => format!("{address:#x}"),
                ArgumentValue::Bool(truth) => truth.to_string(),
                ArgumentValue::Other => "(a type of value that is not shown)".to_owned(),
            };
            (store.texts.get(name), value)
        })
        .filter(|(name, _)| !matches!(*name, "chain" | "callers"))
        .collect()
}

/// The result of a search.
#[derive(Serialize)]
pub(super) struct Search<'a> {
    pub(super) total: usize,
    pub(super) parts: &'a [u32],
}

/// One slice of a search's result.
#[derive(Serialize)]
pub(super) struct Hit<'a> {
    n: usize,
    position: Position<'a>,
}

/// The `n`th slice of a search's result.
pub(super) fn hit(store: &Store, n: usize, id: SliceId) -> Option<Hit<'_>> {
    Some(Hit { n, position: position(store, id)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests as sample;

    #[test]
    fn callers_come_from_annotations_and_from_the_stack() {
        let store = sample::store();
        let track = store.tracks.iter().position(|track| track.kind == TrackKind::Thread).unwrap();
        let slice = slice(&store, SliceId { track: track as u32, index: 0 }).unwrap();
        assert_eq!(slice.chain, ["librocblas.so.4", "libtorch_hip.so", "python3.11"]);
        assert_eq!(slice.callers, ["rocblas_sgemm", "at::mm", "main"]);
    }
}
