// The timeline: its visible window, navigation, and drawing.

import { byId, make } from "./dom.js";
import { ROW } from "./layout.js";
import { duration, grouped, moment, niceStep } from "./numbers.js";
import { Tiles } from "./tiles.js";

const AXIS = 26;
/** The shortest window, nanoseconds. */
const SHORTEST = 200;
const CLICK_DISTANCE = 4;
/** Windows a second while a key is held. */
const PAN_SPEED = 1.3;
const ZOOM_SPEED = 3.2;
/** How far from a mark or a slice the pointer may be to select it, pixels. */
const NEAR = 6;
const FONT = '11.5px system-ui, "Liberation Sans", sans-serif';

export class Timeline {
  view = { from: 0, to: 1 };
  scroll = 0;
  selected = null;
  /** Positions of the slices at the other ends of the selection's arrows. */
  links = [];
  /** The directions of the held keys: -1, 0 or 1 each. */
  motion = { pan: 0, zoom: 0 };
  #pointer = null;
  #labels = [];
  #scheduled = false;
  #lastFrame = 0;

  constructor({ length, layout, colours, onSelect, onMark, onDraw, onError }) {
    Object.assign(this, { length: Math.max(length, 1), layout, colours, onSelect, onMark, onDraw, colourBy: "label" });
    this.lanes = byId("lanes");
    this.canvas = byId("canvas");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.tip = byId("tip");
    this.tiles = new Tiles(() => this.redraw(), onError);
    const all = layout.tracks.map((_, number) => number);
    this.tiles.keepAll(this.length, all.slice(0, 128));
    this.fit();
    this.#listen();
    new ResizeObserver(() => this.redraw()).observe(this.lanes);
  }

  // The visible window.

  fit() {
    const margin = this.length * 0.01;
    this.show(-margin, this.length + margin);
  }

  /** Shows a window, limited to the recording and a margin. */
  show(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST), this.length * 1.1 + SHORTEST);
    const middle = Math.min(Math.max((from + to) / 2, 0), this.length);
    this.view = { from: middle - span / 2, to: middle + span / 2 };
    this.redraw();
  }

  pan(share) {
    const span = this.view.to - this.view.from;
    this.show(this.view.from + share * span, this.view.to + share * span);
  }

  /** Zooms around a point of the window, from 0 at its left to 1 at its right. */
  zoom(factor, at = this.#pointerShare()) {
    const { from, to } = this.view;
    const span = Math.min(Math.max((to - from) * factor, SHORTEST), this.length * 1.1);
    const fixed = from + (to - from) * at;
    this.view = { from: fixed - span * at, to: fixed + span * (1 - at) };
    this.show(this.view.from, this.view.to);
  }

  /** Brings a slice into view, with some of its surroundings. */
  reveal(position) {
    const line = this.layout.lineOf.get(position.track);
    if (!line) this.layout.fold(this.layout.tracks[position.track].group);
    const { y, height } = this.layout.lineOf.get(position.track);
    const visible = this.lanes.clientHeight - AXIS;
    if (y < this.scroll || y + height > this.scroll + visible) this.#scrollTo(y - visible / 3);
    const { from, to } = this.view;
    const length = position.end_ns - position.begin_ns;
    const isInside = position.begin_ns >= from && position.end_ns <= to;
    if (!isInside || length < (to - from) / 400) {
      const span = isInside ? Math.max(length * 60, SHORTEST) : Math.max(Math.min(to - from, length * 60), length * 3, SHORTEST);
      this.show(position.begin_ns + length / 2 - span / 2, position.begin_ns + length / 2 + span / 2);
    }
    this.redraw();
  }

  /** Zooms to the selection. */
  frame(position) {
    const length = Math.max(position.end_ns - position.begin_ns, SHORTEST);
    this.reveal(position);
    this.show(position.begin_ns - length * 0.6, position.begin_ns + length * 1.6);
  }

  #scrollTo(y) {
    const visible = this.lanes.clientHeight - AXIS;
    this.scroll = Math.max(0, Math.min(y, this.layout.height - visible));
    this.redraw();
  }

  // Navigation.

  #listen() {
    let press = null;
    this.lanes.addEventListener("wheel", (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 20 : 1;
      const [x, y] = [event.deltaX * lines, event.deltaY * lines];
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(y * 0.002), this.#share(event));
      else if (event.shiftKey) this.pan((x + y) / this.canvas.clientWidth);
      else if (Math.abs(x) > Math.abs(y)) this.pan(x / this.canvas.clientWidth);
      else this.#scrollTo(this.scroll + y);
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      press = { x: event.offsetX, y: event.offsetY, view: { ...this.view }, scroll: this.scroll, isDrag: false };
      this.canvas.setPointerCapture(event.pointerId);
      this.lanes.focus({ preventScroll: true });
    });
    this.canvas.addEventListener("pointermove", (event) => {
      this.#pointer = { x: event.offsetX, y: event.offsetY };
      if (press) {
        const [x, y] = [event.offsetX - press.x, event.offsetY - press.y];
        press.isDrag ||= Math.hypot(x, y) > CLICK_DISTANCE;
        if (press.isDrag) {
          this.canvas.classList.add("dragging");
          const by = (x / this.canvas.clientWidth) * (press.view.to - press.view.from);
          this.show(press.view.from - by, press.view.to - by);
          this.#scrollTo(press.scroll - y);
        }
      }
      this.redraw();
    });
    const release = () => { press = null; this.canvas.classList.remove("dragging"); };
    this.canvas.addEventListener("pointerup", (event) => {
      if (press && !press.isDrag) this.#click(event.offsetX, event.offsetY);
      release();
    });
    this.canvas.addEventListener("pointercancel", release);
    this.canvas.addEventListener("pointerleave", () => { this.#pointer = null; this.redraw(); });
  }

  #share(event) {
    return Math.min(1, Math.max(0, event.offsetX / this.canvas.clientWidth));
  }

  #pointerShare() {
    return this.#pointer ? this.#pointer.x / this.canvas.clientWidth : 0.5;
  }

  #click(x, y) {
    const thing = this.#at(x, y);
    if (!thing) this.onSelect(null);
    else if (thing.isMark) this.onMark(thing.track, thing.index);
    else this.onSelect({ track: thing.track, index: thing.index });
  }

  /** What is drawn at a point. It is looked up in the tiles, because drawing, 60 times a second, keeps no list of shapes. */
  #at(x, y) {
    const line = y < AXIS ? null : this.layout.at(y - AXIS + this.scroll);
    if (line?.track === undefined) return null;
    const perPixel = (this.view.to - this.view.from) / this.canvas.clientWidth;
    const [at, near] = [this.view.from + x * perPixel, NEAR * perPixel];
    const down = y - (AXIS + line.y - this.scroll);
    let found = null;
    this.tiles.cover(line.track, at - near, at + near, Tiles.resolution(perPixel), (_begin, _end, things, base) => {
      const thing = down < line.rowsAt
        ? markAt(things.marks, at - base, near)
        : sliceAt(things.rows[Math.floor((down - line.rowsAt) / ROW)], at - base, perPixel);
      if (thing && (!found || thing.distance < found.distance)) found = { ...thing, track: line.track };
    });
    return found;
  }

  // Drawing.

  redraw() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame((now) => {
      this.#scheduled = false;
      this.#move(now);
      this.#draw();
      this.onDraw();
    });
  }

  /** Moves the window while a key is held. */
  #move(now) {
    const { pan, zoom } = this.motion;
    const seconds = this.#lastFrame ? Math.min((now - this.#lastFrame) / 1000, 0.1) : 0;
    this.#lastFrame = pan || zoom ? now : 0;
    if (pan) this.pan(pan * PAN_SPEED * seconds);
    if (zoom) this.zoom(Math.exp(zoom * ZOOM_SPEED * seconds));
    if (pan || zoom) this.redraw();
  }

  #draw() {
    const { canvas, context, colours, view } = this;
    const ratio = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, this.lanes.clientHeight];
    if (width === 0) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.scroll = Math.max(0, Math.min(this.scroll, this.layout.height - (height - AXIS)));
    this.lanes.ariaLabel = `Timeline, ${duration(Math.max(view.from, 0))} to ${duration(view.to)}`;
    [this.lanes.dataset.from, this.lanes.dataset.to] = [view.from, view.to];
    this.layout.list.style.transform = `translateY(${-this.scroll}px)`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.of("page");
    context.fillRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";

    const perPixel = (view.to - view.from) / width;
    const resolution = Tiles.resolution(perPixel);
    const lines = this.layout.between(this.scroll, this.scroll + height);
    this.#grid(width, height, perPixel);
    for (const line of lines) {
      const y = AXIS + line.y - this.scroll;
      if (line.track === undefined) {
        context.fillStyle = colours.of("raised");
        context.fillRect(0, y, width, line.height);
      } else {
        this.#track(line, y, width, perPixel, resolution);
      }
      context.fillStyle = colours.of("line");
      context.fillRect(0, y + line.height - 1, width, 1);
    }
    this.#write();
    this.#selection(width, perPixel);
    this.#axis(width, perPixel);
    this.#hover(width, height, perPixel);
    const shown = lines.filter((line) => line.track !== undefined).map((line) => line.track);
    const spare = (view.to - view.from) * 0.4;
    this.tiles.want(shown, view.from - spare, Math.min(view.to + spare, this.length + 1), resolution);
  }

  #ticks(width, perPixel) {
    const step = Math.max(1, niceStep(perPixel * 110));
    const ticks = [];
    for (let at = Math.ceil(this.view.from / step) * step; at < this.view.to; at += step) {
      if (at >= 0) ticks.push({ x: (at - this.view.from) / perPixel, text: moment(at, step) });
    }
    return ticks;
  }

  #grid(width, height, perPixel) {
    this.context.fillStyle = this.colours.of("line");
    this.context.globalAlpha = 0.5;
    for (const tick of this.#ticks(width, perPixel)) this.context.fillRect(tick.x, AXIS, 1, height);
    this.context.globalAlpha = 1;
  }

  #axis(width, perPixel) {
    const { context, colours } = this;
    context.fillStyle = colours.of("surface");
    context.fillRect(0, 0, width, AXIS);
    context.fillStyle = colours.of("line");
    context.fillRect(0, AXIS - 1, width, 1);
    for (const tick of this.#ticks(width, perPixel)) {
      context.fillStyle = colours.of("line");
      context.fillRect(tick.x, AXIS - 7, 1, 7);
      context.fillStyle = colours.of("quiet");
      context.fillText(tick.text, tick.x + 4, AXIS / 2);
    }
  }

  #track(line, y, width, perPixel, resolution) {
    const { view } = this;
    const track = this.layout.tracks[line.track];
    this.tiles.cover(line.track, view.from, view.to, resolution, (begin, end, things, base) => {
      // A tile draws only between its edges: its neighbours draw their part of a slice that crosses an edge.
      // Edges are at whole pixels, because a pixel that two tiles share would show a seam.
      const edges = [Math.max(0, Math.round((begin - view.from) / perPixel)), Math.min(width, Math.round((end - view.from) / perPixel))];
      things.rows.forEach((row, number) => {
        this.#row(row, track, y + line.rowsAt + number * ROW, base, edges, perPixel);
      });
      this.#marks(things.marks, y, base, edges, perPixel);
      if (track.range) this.#counter(things.counter, track, y, line.height, base, edges, perPixel);
    });
  }

  #row(row, track, y, base, [left, right], perPixel) {
    const { context, colours, tiles } = this;
    const isQueue = track.kind === "queue";
    const names = row[this.colourBy] ?? row.label;
    const offset = base - this.view.from;
    const height = ROW - 2;
    let last = null;
    for (let at = 0; at < row.begin.length; at++) {
      const trueX = (row.begin[at] + offset) / perPixel;
      if (trueX > right) break;
      const trueEnd = (row.end[at] + offset) / perPixel;
      if (trueEnd < left) continue;
      const x = Math.max(trueX, left);
      const end = Math.max(Math.min(trueEnd, right), x + 0.6);
      const length = row.end[at] - row.begin[at];
      const share = row.count[at] === 1 || length === 0 ? 1 : row.busy[at] / length;
      const name = isQueue ? tiles.text(row.label[at]) : tiles.text(names[at]) || tiles.text(row.label[at]);
      const colour = colours.slice(name, isQueue, share);
      if (colour !== last) context.fillStyle = last = colour;
      // A gap separates neighbours. It is at the end of a slice, not at the end of its tile.
      const gap = trueEnd <= right && end - x > 2 ? 0.5 : 0;
      context.fillRect(x, y, end - x - gap, height);
      // The tile in which the visible part begins collects the label. Labels are written after all tiles are drawn.
      const visible = Math.max(trueX, 0);
      const available = Math.min(trueEnd, this.canvas.clientWidth) - visible;
      if (row.count[at] === 1 && available > 26 && visible >= left && visible < right) {
        this.#labels.push({ text: tiles.text(row.label[at]), x: visible + 4, y: y + height / 2 + 0.5, widthMax: available - 8, isState: isQueue });
      }
    }
  }

  /** Writes as much of each label as fits. */
  #write() {
    const { context, colours } = this;
    for (const { text, x, y, widthMax, isState } of this.#labels) {
      const most = Math.floor(widthMax / 5.6);
      if (most < 2) continue;
      context.fillStyle = isState ? "#ffffff" : colours.of("text");
      context.fillText(text.length <= most ? text : `${text.slice(0, most - 1)}…`, x, y, widthMax);
    }
    this.#labels = [];
  }

  #marks(marks, y, base, [left, right], perPixel) {
    const { context, colours } = this;
    for (let at = 0; at < marks.at.length; at++) {
      const x = (marks.at[at] + base - this.view.from) / perPixel;
      if (x < left || x >= right) continue;
      const name = this.tiles.text(marks.label[at]);
      context.fillStyle = name === "preempted" || name.includes("lost") ? colours.of("suspended") : colours.of("accent");
      context.beginPath();
      context.moveTo(x, y + 3);
      context.lineTo(x + 5, y + 13);
      context.lineTo(x - 5, y + 13);
      context.fill();
    }
  }

  #counter(bins, track, y, height, base, [left, right], perPixel) {
    const { context, colours } = this;
    const [least, most] = [Math.min(0, track.range[0]), Math.max(1, track.range[1])];
    const tall = height - 10;
    const bottom = y + height - 4;
    const yOf = (value) => bottom - ((value - least) / (most - least)) * tall;
    const xOf = (at) => (bins.at[at] + base - this.view.from) / perPixel;
    context.fillStyle = colours.of("accent");
    for (let at = 0; at < bins.at.length; at++) {
      const x = Math.max(xOf(at), left);
      const end = Math.min(at + 1 < bins.at.length ? xOf(at + 1) : right, right);
      if (end < left || x > right) continue;
      const [last, top] = [yOf(bins.last[at]), yOf(bins.max[at])];
      context.globalAlpha = 0.3;
      context.fillRect(x, last, Math.max(end - x, 0.7), bottom - last);
      context.globalAlpha = 1;
      context.fillRect(x, last - 0.75, Math.max(end - x, 0.7), 1.5);
      context.fillRect(x, top, 1.2, yOf(bins.min[at]) - top);
    }
    context.fillStyle = colours.of("quiet");
    if (left <= 0) context.fillText(grouped(most), 4, y + 9);
  }

  #boxOf(position, perPixel) {
    const line = this.layout.lineOf.get(position.track);
    if (!line) return null;
    const x = (position.begin_ns - this.view.from) / perPixel;
    const y = AXIS + line.y - this.scroll + line.rowsAt + position.row * ROW;
    return { x, y, end: Math.max((position.end_ns - this.view.from) / perPixel, x + 2) };
  }

  #selection(width, perPixel) {
    if (!this.selected) return;
    const { context, colours } = this;
    const box = this.#boxOf(this.selected, perPixel);
    if (!box) return;
    context.strokeStyle = colours.of("text");
    context.lineWidth = 2;
    const left = Math.max(box.x - 1, -4);
    context.strokeRect(left, box.y - 1, Math.min(box.end + 1, width + 4) - left, ROW);
    context.strokeStyle = colours.of("accent");
    context.lineWidth = 1.6;
    for (const { position, isFrom } of this.links) {
      const other = this.#boxOf(position, perPixel);
      if (!other) continue;
      const [start, end] = isFrom ? [other, box] : [box, other];
      const [startY, endY] = [start.y + ROW / 2, end.y + ROW / 2];
      const bend = Math.max(24, Math.abs(end.x - start.x) / 3);
      context.beginPath();
      context.moveTo(start.x, startY);
      context.bezierCurveTo(start.x + bend, startY, end.x - bend, endY, end.x, endY);
      context.stroke();
      context.fillStyle = colours.of("accent");
      context.beginPath();
      context.moveTo(end.x + 1, endY);
      context.lineTo(end.x - 6, endY - 4);
      context.lineTo(end.x - 6, endY + 4);
      context.fill();
    }
  }

  #hover(width, height, perPixel) {
    this.tip.hidden = true;
    if (!this.#pointer || this.canvas.classList.contains("dragging")) return;
    const { x, y } = this.#pointer;
    this.context.fillStyle = this.colours.of("quiet");
    this.context.globalAlpha = 0.6;
    this.context.fillRect(x, AXIS, 1, height);
    this.context.globalAlpha = 1;
    const thing = this.#at(x, y);
    this.canvas.style.cursor = thing ? "pointer" : "default";
    if (!thing) return;
    const name = this.tiles.text(thing.label);
    const lines = [make("div", {}, name)];
    if (thing.isMark) {
      if (thing.count > 1) lines.push(make("div", { className: "quiet" }, `and ${grouped(thing.count - 1)} more here`));
    } else if (thing.count === 1) {
      lines.push(make("div", { className: "quiet" }, duration(thing.length)));
    } else {
      lines.push(make("div", { className: "quiet" }, `the longest of ${grouped(thing.count)} slices in ${duration(thing.length)}, busy ${duration(thing.busy)}`));
    }
    this.tip.replaceChildren(...lines);
    this.tip.hidden = false;
    const left = this.canvas.offsetLeft + x + 14;
    this.tip.style.left = `${Math.min(left, this.lanes.clientWidth - this.tip.offsetWidth - 8)}px`;
    this.tip.style.top = `${Math.min(y + 16, height - this.tip.offsetHeight - 6)}px`;
  }
}

/** The slice of a row at a moment, or within a distance that is too small to see. */
function sliceAt(row, at, perPixel) {
  if (!row) return null;
  let [low, high] = [0, row.begin.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.begin[middle] <= at) low = middle + 1;
    else high = middle;
  }
  let best = null;
  for (const entry of [low - 1, low]) {
    if (entry < 0 || entry >= row.begin.length) continue;
    const distance = Math.max(row.begin[entry] - at, at - row.end[entry], 0);
    if (distance <= 1.5 * perPixel && (!best || distance < best.distance)) {
      best = { distance, index: row.index[entry], count: row.count[entry], busy: row.busy[entry], length: row.end[entry] - row.begin[entry], label: row.label[entry] };
    }
  }
  return best;
}

/** The mark nearest to a moment. */
function markAt(marks, at, near) {
  let best = null;
  marks.at.forEach((moment, entry) => {
    const distance = Math.abs(moment - at);
    if (distance <= near && (!best || distance < best.distance)) {
      best = { distance, index: marks.index[entry], count: marks.count[entry], label: marks.label[entry], isMark: true };
    }
  });
  return best;
}
