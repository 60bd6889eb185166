// The vertical layout: a list of lines from top to bottom, with groups that can be folded.

import { make } from "./dom.js";

export const ROW = 20;
const GROUP = 26;
const MARKS = 14;
const COUNTER = 36;
const GAP = 4;

export class Layout {
  /** Arranges groups and tracks as the server describes them. */
  constructor(groups, tracks, list, changed) {
    this.groups = groups;
    this.tracks = tracks;
    this.folded = new Set();
    this.list = list;
    this.changed = changed;
    this.arrange();
  }

  arrange() {
    this.lines = [];
    this.lineOf = new Map();
    let y = 0;
    let group = -1;
    this.tracks.forEach((track, number) => {
      if (track.group !== group) {
        group = track.group;
        this.lines.push({ y, height: GROUP, group });
        y += GROUP;
      }
      if (this.folded.has(group)) return;
      const isCounter = track.kind === "counter";
      const marks = track.marks > 0 ? MARKS : 0;
      const height = (isCounter ? COUNTER : Math.max(track.rows, marks ? 0 : 1) * ROW + marks) + GAP;
      const line = { y, height, track: number, rowsAt: marks + 2 };
      this.lines.push(line);
      this.lineOf.set(number, line);
      y += height;
    });
    this.height = y;
    this.#label();
  }

  fold(group) {
    if (!this.folded.delete(group)) this.folded.add(group);
    this.arrange();
    this.changed();
  }

  /** Lines that are at least partly between two heights. */
  between(top, bottom) {
    return this.lines.filter((line) => line.y < bottom && line.y + line.height > top);
  }

  at(y) {
    return this.lines.find((line) => y >= line.y && y < line.y + line.height);
  }

  #label() {
    this.list.replaceChildren(...this.lines.map((line) => {
      const element = line.track === undefined ? this.#group(line.group) : this.#track(this.tracks[line.track]);
      element.style.top = `${line.y}px`;
      element.style.height = `${line.height}px`;
      return element;
    }));
  }

  #group(number) {
    const group = this.groups[number];
    const button = make("button", { type: "button", className: "group", title: group.cmdline || group.name }, group.name);
    button.setAttribute("aria-expanded", String(!this.folded.has(number)));
    button.addEventListener("click", () => this.fold(number));
    return button;
  }

  #track(track) {
    const kind = { execution: "device", queue: "queue" }[track.kind];
    return make("div", { title: track.name }, track.name, kind ? make("span", { className: "kind" }, kind) : null);
  }
}
