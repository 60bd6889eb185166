// The details of the selection: time and track, arguments, call chain, and why it waited.

import { make } from "./dom.js";
import { duration, grouped } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";

/** The panel of a slice; `go` is called with the position of a slice to select. */
export function sliceDetails(slice, go, close) {
  const { position } = slice;
  const length = position.end_ns - position.begin_ns;
  const facts = [
    ["duration", position.is_open ? `${duration(length)}, still running at the end` : duration(length)],
    ["begin", duration(position.begin_ns)],
    ["category", slice.category],
    ...slice.arguments,
  ];
  return [
    make("button", { type: "button", id: "close-details", title: "Close (Esc)", onclick: close, ariaLabel: "Close" }, "×"),
    make("h2", {}, slice.name),
    make("p", { className: "where" }, `${position.track_name} · ${position.group_name}`),
    make("div", { className: "columns" },
      make("div", {}, ...waitDetails(slice), ...links(slice, go)),
      make("div", {}, make("h3", {}, "Arguments"), factList(facts)),
      make("div", {}, ...chain(slice))),
  ];
}

/** The panel of a mark. */
export function markDetails(mark, close) {
  const facts = [["at", duration(mark.at_ns)], ["category", mark.category], ...mark.arguments];
  return [
    make("button", { type: "button", id: "close-details", title: "Close (Esc)", onclick: close, ariaLabel: "Close" }, "×"),
    make("h2", {}, mark.name),
    make("p", { className: "where" }, `${mark.track_name} · ${mark.group_name}`),
    factList(facts),
  ];
}

function factList(facts) {
  const entries = facts.filter(([, value]) => value !== "").flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
  return make("dl", { className: "facts" }, ...entries);
}

function chain(slice) {
  const callers = slice.callers.length > 0 ? slice.callers : slice.chain;
  if (callers.length === 0) return [make("h3", {}, "Call chain"), make("p", { className: "quiet" }, "This recording has none for this slice.")];
  const libraries = slice.callers.length > 0 && slice.chain.length > 0 ? [make("h3", {}, "Through"), make("p", { className: "quiet" }, slice.chain.join(" ← "))] : [];
  return [make("h3", {}, "Call chain"), make("ol", {}, ...callers.map((caller) => make("li", {}, caller))), ...libraries];
}

function links(slice, go) {
  const link = (position, words) => make("button", { type: "button", className: "link", onclick: () => go(position) }, `${words} ${position.label}, ${position.track_name}`);
  const entries = [
    ...slice.comes_from.map((position) => link(position, "← launched by")),
    ...slice.leads_to.map((position) => link(position, "→ ran as")),
  ];
  return entries.length > 0 ? [make("h3", {}, "Linked to"), ...entries] : [];
}

function waitDetails({ wait, category }) {
  if (!wait) {
    if (!["hip.launch", "cuda.launch"].includes(category)) return [];
    return [make("h3", {}, "Why it waited"), make("p", { className: "quiet" }, "This recording does not say when it ran: record a process that runs under `xsched-ctl serve`, with the shim.")];
  }
  const heading = make("h3", {}, "Why it waited");
  if (wait.waited_ns === 0) return [heading, make("p", { className: "wait" }, "It did not wait.")];
  return [
    heading,
    make("p", { className: "wait", id: "why" }, sentence(wait)),
    bar(wait),
    make("ul", { className: "wait-list" }, ...wait.parts.map((part) => make("li", {},
      make("span", { className: `swatch ${part.name.replaceAll(" ", "-")}` }), part.name,
      make("span", { className: "amount" }, `${duration(part.ns)} · ${Math.round((100 * part.ns) / wait.waited_ns)} %`)))),
    ...listed("Preempted by", wait.preemptions.map((preemption) => [`${process(preemption.by, preemption.by_pid)}${preemption.level === null ? "" : `, level ${preemption.level}`}${preemption.reason ? `: ${preemption.reason}` : ""}`, `at ${duration(preemption.at_ns)}`])),
    ...listed("Meanwhile on the device", wait.neighbours.map((neighbour) => [process(neighbour.name, neighbour.pid), duration(neighbour.ns)])),
  ];
}

const LISTED_MAX = 5;

function listed(title, entries) {
  if (entries.length === 0) return [];
  const more = entries.length > LISTED_MAX ? [make("li", { className: "quiet" }, `and ${grouped(entries.length - LISTED_MAX)} more`)] : [];
  const shown = entries.slice(0, LISTED_MAX).map(([text, amount]) => make("li", {}, make("span", {}, text), make("span", { className: "amount" }, amount)));
  return [make("h3", {}, title), make("ul", { className: "wait-list" }, ...shown, ...more)];
}

function process(name, pid) {
  return pid === null || pid === undefined ? name || "another process" : `${name} (${pid})`;
}

/** A sentence that names the longest part of the wait. */
function sentence(wait) {
  const longest = wait.parts.reduce((one, other) => (other.ns > one.ns ? other : one));
  const last = wait.preemptions.at(-1);
  const neighbour = wait.neighbours[0];
  const because = {
    suspended: last ? `it was preempted by ${process(last.by, last.by_pid)}` : "its queue was suspended",
    buffered: "it was deferred in its queue",
    "in flight": neighbour ? `the device ran work of ${process(neighbour.name, neighbour.pid)}` : "the device still ran earlier launches",
    "in the call": "the call itself took that long",
    "at a gate": "it waited at a closed gate",
  }[longest.name];
  return `It ran ${duration(wait.waited_ns)} after the call, ${duration(longest.ns)} of that because ${because}.`;
}

function bar(wait) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "wait-bar");
  svg.setAttribute("viewBox", "0 0 1000 16");
  svg.setAttribute("preserveAspectRatio", "none");
  let x = 0;
  for (const part of wait.parts) {
    const rect = document.createElementNS(SVG, "rect");
    const width = (1000 * part.ns) / wait.waited_ns;
    for (const [name, value] of [["x", x], ["y", 0], ["width", width], ["height", 16], ["class", part.name.replaceAll(" ", "-")]]) rect.setAttribute(name, value);
    svg.append(rect);
    x += width;
  }
  return svg;
}
