//! The overview of a timeline, as a part of a page.

use super::{
    html::Html,
    plots,
    words::{count, duration},
};
use crate::{
    overview::{Group, Overview},
    store::Store,
};

/// The most rows of a table.
const ROWS_MAX: usize = 20;

/// Totals, warnings, plots, tables.
pub(super) fn write(html: &mut Html, store: &Store, overview: &Overview) {
    warnings(html, store);
    cards(html, store, overview);
    if overview.launches > 0 {
        html.open("div", &[("class", "plots")]);
        html.open("figure", &[]);
        html.element("figcaption", &[], "Launches over time");
        plots::over_time(html, store, &overview.over_time);
        html.close("figure");
        html.open("figure", &[]);
        html.element("figcaption", &[], "Time in the launch call");
        plots::latencies(html, &overview.latencies);
        html.close("figure");
        html.close("div");
    }
    preemptions(html, overview);
    let waits = "Time from launch to execution, by process";
    table(html, waits, ["process", "launches"], &overview.waits);
    table(html, "Calls by library", ["library", "calls"], &overview.by_origin);
    table(html, "Calls by process", ["process", "calls"], &overview.by_process);
    table(html, "Device time by kernel", ["kernel", "runs"], &overview.by_executed);
    table(html, "Launches by kernel", ["kernel", "launches"], &overview.by_kernel);
    table(html, "Calls by function", ["function", "calls"], &overview.by_function);
    if overview.slices == 0 {
        html.element("p", &[("class", "nothing")], "There are no events in this recording.");
    }
}

/// Conditions of the recording that limit what the rest of the page says.
fn warnings(html: &mut Html, store: &Store) {
    let condition = &store.condition;
    let mut warn = |text: &str| html.element("p", &[("class", "warning"), ("role", "status")], text);
    if let Some(damage) = &condition.damage {
        warn(&format!(
            "The file is damaged: failed to {damage}. The page shows the events before the damage."
        ));
    }
    if condition.is_cut {
        warn("The file was cut off. The page shows the events before the cut.");
    }
    if condition.lost > 0 {
        warn(&format!("{} events were lost while recording.", count(condition.lost)));
    }
    if condition.skipped > 0 {
        warn(&format!(
            "This version does not know the type of {} events; they are left out.",
            count(condition.skipped)
        ));
    }
    if condition.too_deep > 0 {
        warn(&format!("{} slices are nested too deep to be drawn.", count(condition.too_deep)));
    }
}

fn cards(html: &mut Html, store: &Store, overview: &Overview) {
    let processes = store.groups.iter().filter(|group| group.pid.is_some()).count() as u64;
    let mut cards = vec![
        ("recorded", duration(store.span_ns.end - store.span_ns.start)),
        ("calls", count(overview.calls)),
        ("launches", count(overview.launches)),
        ("processes", count(processes)),
    ];
    if overview.executions > 0 {
        cards.push(("on the device", duration(overview.device_ns)));
    }
    let preemptions: u64 = overview.preemptions.iter().map(|pair| pair.count).sum();
    if preemptions > 0 {
        cards.push(("preemptions", count(preemptions)));
    }
    if store.condition.unfinished > 0 {
        cards.push(("still running at the end", count(store.condition.unfinished)));
    }
    html.open("dl", &[("class", "cards")]);
    for (name, value) in cards {
        html.open("div", &[]);
        html.element("dt", &[], name);
        html.element("dd", &[], &value);
        html.close("div");
    }
    html.close("dl");
}

fn preemptions(html: &mut Html, overview: &Overview) {
    if overview.preemptions.is_empty() {
        return;
    }
    html.open("section", &[]);
    html.element("h2", &[], "Preemptions");
    html.open("table", &[]);
    html.open("thead", &[]);
    html.open("tr", &[]);
    for name in ["process", "preempted by", "reason"] {
        html.element("th", &[("scope", "col"), ("class", "text")], name);
    }
    html.element("th", &[("scope", "col")], "times");
    html.close("tr");
    html.close("thead");
    html.open("tbody", &[]);
    for pair in overview.preemptions.iter().take(ROWS_MAX) {
        html.open("tr", &[]);
        html.element("th", &[("scope", "row")], &pair.process);
        html.element("td", &[("class", "text")], &pair.by);
        html.element("td", &[("class", "text")], &pair.reason);
        html.element("td", &[], &count(pair.count));
        html.close("tr");
    }
    html.close("tbody");
    html.close("table");
    more(html, overview.preemptions.len());
    html.close("section");
}

fn table(html: &mut Html, title: &str, names: [&str; 2], groups: &[Group]) {
    if groups.is_empty() {
        return;
    }
    html.open("section", &[]);
    html.element("h2", &[], title);
    html.open("table", &[]);
    header(html, &[names[0], names[1], "share", "total", "p50", "p99", "max"]);
    html.open("tbody", &[]);
    let whole = groups.iter().map(|group| group.total_ns).fold(0, u64::saturating_add).max(1);
    for group in groups.iter().take(ROWS_MAX) {
        let share = 100.0 * group.total_ns as f64 / whole as f64;
        html.open("tr", &[("data-find", &group.name)]);
        html.element("th", &[("scope", "row"), ("title", &group.name)], &group.name);
        html.element("td", &[], &count(group.count));
        html.open("td", &[("class", "share")]);
        html.element(
            "meter",
            &[("min", "0"), ("max", "100"), ("value", &format!("{share:.1}"))],
            &format!("{share:.0} %"),
        );
        html.close("td");
        for ns in [group.total_ns, group.p50_ns, group.p99_ns, group.max_ns] {
            html.element("td", &[], &duration(ns));
        }
        html.close("tr");
    }
    html.close("tbody");
    html.close("table");
    more(html, groups.len());
    html.close("section");
}

fn header(html: &mut Html, names: &[&str]) {
    html.open("thead", &[]);
    html.open("tr", &[]);
    for name in names {
        html.element("th", &[("scope", "col")], name);
    }
    html.close("tr");
    html.close("thead");
}

fn more(html: &mut Html, len: usize) {
    if len > ROWS_MAX {
        html.element("p", &[("class", "quiet")], &format!("and {} more", count((len - ROWS_MAX) as u64)));
    }
}
