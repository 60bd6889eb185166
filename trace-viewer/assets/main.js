// Connects the parts of the page.

import { Colours } from "./colours.js";
import { markDetails, sliceDetails } from "./details.js";
import { byId, say } from "./dom.js";
import { handOver } from "./hand-over.js";
import { listenToKeys } from "./keys.js";
import { Layout } from "./layout.js";
import { Minimap } from "./minimap.js";
import { Search } from "./search.js";
import { ask, reportPresence } from "./server.js";
import { followTheme } from "./theme.js";
import { Timeline } from "./timeline.js";

const failed = (error) => say(error.message);

async function begin() {
  reportPresence();
  const about = await ask("tracks");
  byId("file").textContent = about.file;
  byId("file").title = about.began_ms === null ? about.file : `${about.file}, started ${new Date(about.began_ms).toLocaleString()}`;
  const colours = new Colours();
  colours.refresh();
  const layout = new Layout(about.groups, about.tracks, byId("label-list"), () => timeline.redraw());
  const timeline = new Timeline({
    length: about.length_ns, layout, colours, onSelect: select, onMark: selectMark, onDraw: () => minimap.draw(), onError: failed,
  });
  const minimap = new Minimap(byId("minimap"), timeline, colours, about.activity);
  const details = byId("details");
  let current = null;
  let selections = 0;

  function showDetails(children) {
    details.replaceChildren(...children);
    details.hidden = children.length === 0;
    details.scrollTop = 0;
    timeline.redraw();
  }

  /** Selects a slice, or nothing. A selection made meanwhile takes precedence over an answer that comes late. */
  async function select(id) {
    const asked = ++selections;
    const slice = id ? await ask("slice", { track: id.track, index: id.index }).catch(failed) : null;
    if (asked !== selections) return;
    current = slice ?? null;
    timeline.selected = current?.position ?? null;
    timeline.links = current ? [
      ...current.comes_from.map((position) => ({ position, isFrom: true })),
      ...current.leads_to.map((position) => ({ position, isFrom: false })),
    ] : [];
    showDetails(current ? sliceDetails(current, go, () => select(null)) : []);
  }

  async function selectMark(track, index) {
    await select(null);
    const asked = selections;
    const mark = await ask("mark", { track, index }).catch(failed);
    if (mark && asked === selections) showDetails(markDetails(mark, () => select(null)));
  }

  /** Selects a slice and brings it into view. */
  async function go(position) {
    showTab("timeline");
    await select(position);
    if (current?.position.track === position.track && current.position.index === position.index) timeline.reveal(current.position);
  }

  const step = (index) => { if (current && index !== null) go({ track: current.position.track, index }); };
  const search = new Search({
    found: (parts) => { minimap.hits = parts; minimap.draw(); },
    go,
    from: () => timeline.view.from,
    failed,
  });

  listenToKeys(timeline, {
    f: () => (current ? timeline.frame(current.position) : timeline.fit()),
    "/": () => { byId("word").focus(); byId("word").select(); },
    "?": () => byId("keys").showModal(),
    Escape: () => select(null),
    ",": () => step(current?.previous ?? null),
    ".": () => step(current?.next ?? null),
    "[": () => { if (current?.comes_from[0]) go(current.comes_from[0]); },
    "]": () => { if (current?.leads_to[0]) go(current.leads_to[0]); },
    1: () => showTab("overview"),
    2: () => showTab("timeline"),
  });

  for (const row of document.querySelectorAll("tr[data-find]")) {
    // A process is shown as "name (pid)", so a search for that text would find no slices.
    row.addEventListener("click", () => find(row.dataset.find));
  }
  async function find(name) {
    showTab("timeline");
    const group = about.groups.findIndex((known) => known.name === name);
    const track = about.tracks.findIndex((known) => known.group === group && known.kind === "thread");
    if (group < 0) await search.look(name);
    else if (track >= 0) await go({ track, index: 0 });
  }

  byId("help").addEventListener("click", () => byId("keys").showModal());
  byId("colours").addEventListener("change", (event) => { timeline.colourBy = event.target.value; event.target.blur(); timeline.redraw(); });
  byId("hand-over").addEventListener("click", () => handOver(about.file).catch(failed));
  followTheme(() => { colours.refresh(); timeline.redraw(); });
}

function showTab(name) {
  for (const tab of ["overview", "timeline"]) {
    byId(tab).hidden = tab !== name;
    byId(`show-${tab}`).setAttribute("aria-selected", String(tab === name));
  }
  history.replaceState(null, "", `#${name}`);
}

for (const tab of ["overview", "timeline"]) byId(`show-${tab}`).addEventListener("click", () => showTab(tab));
if (location.hash === "#timeline") showTab("timeline");
begin().then(() => { document.documentElement.dataset.ready = "true"; }, failed);
