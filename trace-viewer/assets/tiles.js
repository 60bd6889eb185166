// What to draw, in tiles: a tile is a window of 512 bins, and at resolution n a bin is 2^n nanoseconds. Tiles of a
// resolution are adjacent, so panning needs new tiles only at the edge, and zooming needs new ones at each doubling. Until
// a tile has arrived, a coarser one is drawn.

import { ask } from "./server.js";

const BINS = 512;
const TILES_MAX = 600;
const REQUESTS_MAX = 3;
const TRACKS_PER_REQUEST = 64;
/** By how many doublings a tile may be coarser that is drawn in place of another. */
const COARSER = 40;

export class Tiles {
  /** By "resolution:index": a map from tracks to what is drawn of them. In order of use, the oldest first. */
  #tiles = new Map();
  #texts = new Map();
  #asked = new Set();
  #wanted = [];
  #requests = 0;

  constructor(arrived, failed) {
    this.arrived = arrived;
    this.failed = failed;
  }

  text(id) {
    return this.#texts.get(id) ?? "";
  }

  /** The resolution with bins that are one to two pixels wide. */
  static resolution(nsPerPixel) {
    return Math.max(0, Math.ceil(Math.log2(nsPerPixel)));
  }

  static span(resolution) {
    return BINS * 2 ** resolution;
  }

  /** Calls `visit(begin, end, things, thingsFrom)` for each tile of a window with what is loaded of a track. */
  cover(track, from, to, resolution, visit) {
    const span = Tiles.span(resolution);
    for (let index = Math.max(0, Math.floor(from / span)); index * span < to; index++) {
      const [begin, end] = [index * span, (index + 1) * span];
      for (let up = 0; up <= COARSER; up++) {
        const at = Math.floor(begin / Tiles.span(resolution + up));
        const things = this.#get(resolution + up, at)?.get(track);
        if (things) {
          visit(begin, end, things, at * Tiles.span(resolution + up));
          break;
        }
      }
    }
  }

  /** Requests the tiles that are missing; drops requests of earlier calls that were not sent yet. */
  want(tracks, from, to, resolution) {
    const span = Tiles.span(resolution);
    this.#wanted = [];
    for (let index = Math.max(0, Math.floor(from / span)); index * span < to; index++) {
      const have = this.#get(resolution, index);
      const missing = tracks.filter((track) => !have?.has(track) && !this.#asked.has(`${resolution}:${index}:${track}`));
      for (let first = 0; first < missing.length; first += TRACKS_PER_REQUEST) {
        this.#wanted.push({ resolution, index, tracks: missing.slice(first, first + TRACKS_PER_REQUEST) });
      }
    }
    this.#send();
  }

  #get(resolution, index) {
    const key = `${resolution}:${index}`;
    const tile = this.#tiles.get(key);
    if (tile) {
      this.#tiles.delete(key);
      this.#tiles.set(key, tile);
    }
    return tile;
  }

  async #send() {
    while (this.#requests < REQUESTS_MAX && this.#wanted.length > 0) {
      const { resolution, index, tracks } = this.#wanted.shift();
      const span = Tiles.span(resolution);
      const keys = tracks.map((track) => `${resolution}:${index}:${track}`);
      keys.forEach((key) => this.#asked.add(key));
      this.#requests++;
      ask("tiles", { tracks: tracks.join(","), from: index * span, to: (index + 1) * span, bins: BINS })
        .then((answer) => this.#put(resolution, index, answer), this.failed)
        .finally(() => {
          keys.forEach((key) => this.#asked.delete(key));
          this.#requests--;
          this.#send();
        });
    }
  }

  #put(resolution, index, answer) {
    for (const [id, text] of Object.entries(answer.texts)) this.#texts.set(Number(id), text);
    const key = `${resolution}:${index}`;
    const tile = this.#tiles.get(key) ?? new Map();
    for (const things of answer.tracks) tile.set(things.track, things);
    this.#tiles.set(key, tile);
    // The coarsest tile can be drawn in place of all others, so it is kept.
    for (const oldest of this.#tiles.keys()) {
      if (this.#tiles.size <= TILES_MAX) break;
      if (oldest !== this.kept) this.#tiles.delete(oldest);
    }
    this.arrived();
  }

  /** Loads the tile that covers the whole timeline, so that there is always something to draw. */
  async keepAll(length, tracks) {
    const resolution = Math.max(0, Math.ceil(Math.log2(Math.max(length, 1) / BINS)));
    this.kept = `${resolution}:0`;
    this.want(tracks, 0, 1, resolution);
  }
}
