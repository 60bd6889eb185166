//! Small plots as SVG. The style sheet gives the colours, by class; the title of each bar has its numbers.

use super::{
    html::Html,
    words::{count, duration_f64},
};
use crate::{
    overview::{PARTS, bucket_begin_ns},
    store::Store,
};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 132.0;
/// The height of the axis below.
const AXIS: f64 = 20.0;
/// Half of the widest label of an axis: one closer to the right edge would be cut off.
const LABEL_HALF: f64 = 26.0;
/// Ticks of the time axis.
const TICKS: usize = 5;

/// Launches over time, with the libraries stacked.
pub(super) fn over_time(html: &mut Html, store: &Store, series: &[(String, Vec<u32>)]) {
    let sums: Vec<u32> = (0..PARTS).map(|part| series.iter().map(|(_, counts)| counts[part]).sum()).collect();
    let highest = f64::from(sums.iter().copied().max().unwrap_or(0).max(1));
    let length_ns = (store.span_ns.end - store.span_ns.start) as f64;
    let part_ns = length_ns / PARTS as f64;
    begin(html, "Launches over time");
    let step = WIDTH / PARTS as f64;
    for part in 0..PARTS {
        let mut base = HEIGHT - AXIS;
        for (index, (name, counts)) in series.iter().enumerate() {
            let height = f64::from(counts[part]) / highest * (HEIGHT - AXIS - 14.0);
            if height > 0.0 {
                base -= height;
                let title = format!(
                    "{name}: {} launches in {} from {}",
                    count(counts[part].into()),
                    duration_f64(part_ns),
                    duration_f64(part_ns * part as f64)
                );
                let class = format!("series s{index}");
                bar(html, &class, (part as f64 * step, base), ((step - 0.5).max(0.5), height), &title);
            }
        }
    }
    label(html, (0.0, 10.0), "start", &format!("{} in {}", count(highest as u64), duration_f64(part_ns)));
    for tick in 0..=TICKS {
        let anchor = if tick == 0 {
            "start"
        } else if tick == TICKS {
            "end"
        } else {
            "middle"
        };
        let share = tick as f64 / TICKS as f64;
        label(html, (WIDTH * share, HEIGHT - 5.0), anchor, &duration_f64(length_ns * share));
    }
    html.close("svg");
    html.open("ul", &[("class", "legend")]);
    for (index, (name, counts)) in series.iter().enumerate() {
        html.open("li", &[]);
        html.element("span", &[("class", &format!("swatch s{index}"))], "");
        html.text(name);
        let total = counts.iter().map(|count| u64::from(*count)).sum();
        html.element("span", &[("class", "quiet")], &format!(" {}", count(total)));
        html.close("li");
    }
    html.close("ul");
}

/// How long launches took: one bar for each bucket, on a logarithmic axis.
pub(super) fn latencies(html: &mut Html, counts: &[u32]) {
    begin(html, "How long launches took in the call");
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let (first, last) = (first.saturating_sub(2), (last + 2).min(counts.len() - 1));
    let shown = &counts[first..=last];
    let highest = f64::from(shown.iter().copied().max().unwrap_or(0).max(1));
    let step = WIDTH / shown.len() as f64;
    for (index, number) in shown.iter().enumerate() {
        let height = f64::from(*number) / highest * (HEIGHT - AXIS - 14.0);
        if height > 0.0 {
            let (from, to) = (bucket_begin_ns(first + index), bucket_begin_ns(first + index + 1));
            let title = format!(
                "{} to {}: {} launches",
                duration_f64(from),
                duration_f64(to),
                count(u64::from(*number))
            );
            let at = (index as f64 * step, HEIGHT - AXIS - height);
            bar(html, "series s0", at, ((step - 1.0).max(0.5), height), &title);
        }
    }
    label(html, (0.0, 10.0), "start", &count(highest as u64));
    let every = (shown.len() / 6).max(1);
    for index in (0..shown.len()).step_by(every) {
        let x = index as f64 * step;
        let anchor = if index == 0 {
            "start"
        } else if x > WIDTH - LABEL_HALF {
            "end"
        } else {
            "middle"
        };
        label(
            html,
            (if anchor == "end" { WIDTH } else { x }, HEIGHT - 5.0),
            anchor,
            &duration_f64(bucket_begin_ns(first + index)),
        );
    }
    html.close("svg");
}

fn begin(html: &mut Html, title: &str) {
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    html.open("svg", &[("class", "plot"), ("viewBox", &view), ("role", "img"), ("aria-label", title)]);
    let (line, end) = ((HEIGHT - AXIS).to_string(), WIDTH.to_string());
    html.element("line", &[("class", "axis"), ("x1", "0"), ("x2", &end), ("y1", &line), ("y2", &line)], "");
}

fn bar(html: &mut Html, class: &str, at: (f64, f64), size: (f64, f64), title: &str) {
    let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(|number| format!("{number:.2}"));
    html.open("rect", &[("class", class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)]);
    html.element("title", &[], title);
    html.close("rect");
}

fn label(html: &mut Html, at: (f64, f64), anchor: &str, text: &str) {
    let (x, y) = (format!("{:.1}", at.0), format!("{:.1}", at.1));
    html.element("text", &[("x", &x), ("y", &y), ("text-anchor", anchor)], text);
}
