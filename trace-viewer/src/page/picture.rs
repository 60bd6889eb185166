//! The whole timeline as one picture, for a page without scripts: one line for each track, darker where more was running.

use std::{collections::BTreeMap, fmt::Write as _};

use super::html::Html;
use crate::{
    resolution::{Window, drawn},
    store::{Store, Track, TrackKind},
};

const WIDTH: u64 = 1_000;
const ROW: u64 = 14;
/// Tracks that are drawn: those with the most slices.
const TRACKS_MAX: usize = 48;
/// Shades of one colour, by the busy share of a pixel.
const SHADES: usize = 4;

/// Draws the picture, unless there are no slices.
pub(super) fn write(html: &mut Html, store: &Store) {
    let mut busiest: Vec<usize> =
        (0..store.tracks.len()).filter(|track| !store.tracks[*track].slices.begins_ns.is_empty()).collect();
    busiest.sort_by_key(|track| {
        let track = &store.tracks[*track];
        (track.kind == TrackKind::Thread, std::cmp::Reverse(track.slices.len()))
    });
    let left_out = busiest.len().saturating_sub(TRACKS_MAX);
    busiest.truncate(TRACKS_MAX);
    busiest.sort_unstable();
    if busiest.is_empty() {
        return;
    }
    html.open("section", &[]);
    html.element("h2", &[], "Timeline");
    let mut group = None;
    for number in busiest {
        let track = &store.tracks[number];
        if group != Some(track.group) {
            group = Some(track.group);
            html.element("h3", &[], &crate::overview::process_name(store, track.group));
        }
        html.open("div", &[("class", "line")]);
        html.element("span", &[("title", &track.name)], &track.name);
        line(html, store, track);
        html.close("div");
    }
    if left_out > 0 {
        html.element("p", &[("class", "quiet")], &format!("and {left_out} more tracks"));
    }
    html.close("section");
}

/// Draws the outermost row of one track. Each state of a queue has its own colour.
fn line(html: &mut Html, store: &Store, track: &Track) {
    let (from_ns, to_ns) = (store.span_ns.start, store.span_ns.end.max(store.span_ns.start + 1));
    let window = Window { from_ns, to_ns: to_ns.saturating_add(1), bins: WIDTH };
    let scale = WIDTH as f64 / (to_ns - from_ns) as f64;
    // By class, in a fixed order.
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    let Some(row) = track.slices.rows.first() else { return };
    for thing in drawn(&track.slices, row, window) {
        let begin = (thing.begin_ns.max(from_ns) - from_ns) as f64 * scale;
        let width = ((thing.end_ns - thing.begin_ns) as f64 * scale).max(0.4);
        let share = thing.busy_ns as f64 / (thing.end_ns - thing.begin_ns).max(1) as f64;
        let shade = ((share * SHADES as f64).ceil() as usize).clamp(1, SHADES);
        let name = store.texts.get(track.slices.facts[thing.longest].name);
        let class = match (track.kind, name) {
            (TrackKind::Queue, "suspended" | "buffered" | "running") => format!("{name} k{shade}"),
            _ => format!("{} k{shade}", track.kind.name()),
        };
        let path = paths.entry(class).or_default();
        write!(path, "M{begin:.1} 0h{width:.1}v{ROW}h-{width:.1}z").expect("a String takes everything");
    }
    let view = format!("0 0 {WIDTH} {ROW}");
    html.open("svg", &[("viewBox", &view), ("preserveAspectRatio", "none")]);
    for (class, path) in &paths {
        html.element("path", &[("class", class), ("d", path)], "");
    }
    html.close("svg");
}
