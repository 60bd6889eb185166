// What to draw, in pieces: a tile is a window of 512 bins, a power of two nanoseconds each. Tiles of the same size lie side
// by side, so panning needs new ones only at the edge, and zooming a new set at each doubling. Until a tile is there, a
// coarser one is drawn.

import { ask } from "./server.js";

const BINS = 512;
const TILES_MAX = 600;
const REQUESTS_MAX = 3;
const TRACKS_PER_REQUEST = 64;
/** How much coarser a tile may be that stands in for another. */
const COARSER = 40;

export class Tiles {
  /** By "level:index": a map from tracks to their things. In order of use, the oldest first. */
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

  /** The level whose bins are one to two pixels wide. */
  static level(nsPerPixel) {
    return Math.max(0, Math.ceil(Math.log2(nsPerPixel)));
  }

  static span(level) {
    return BINS * 2 ** level;
  }

  /** For each tile of a window what is there of a track: `{ from, to, things, thingsFrom }`. */
  cover(track, from, to, level, visit) {
    const span = Tiles.span(level);
    for (let index = Math.max(0, Math.floor(from / span)); index * span < to; index++) {
      const [begin, end] = [index * span, (index + 1) * span];
      for (let up = 0; up <= COARSER; up++) {
        const at = Math.floor(begin / Tiles.span(level + up));
        const things = this.#get(level + up, at)?.get(track);
        if (things) {
          visit(begin, end, things, at * Tiles.span(level + up));
          break;
        }
      }
    }
  }

  /** Sees to it that tiles come, those asked for last first. */
  want(tracks, from, to, level) {
    const span = Tiles.span(level);
    this.#wanted = [];
    for (let index = Math.max(0, Math.floor(from / span)); index * span < to; index++) {
      const have = this.#get(level, index);
      const missing = tracks.filter((track) => !have?.has(track) && !this.#asked.has(`${level}:${index}:${track}`));
      for (let first = 0; first < missing.length; first += TRACKS_PER_REQUEST) {
        this.#wanted.push({ level, index, tracks: missing.slice(first, first + TRACKS_PER_REQUEST) });
      }
    }
    this.#send();
  }

  #get(level, index) {
    const key = `${level}:${index}`;
    const tile = this.#tiles.get(key);
    if (tile) {
      this.#tiles.delete(key);
      this.#tiles.set(key, tile);
    }
    return tile;
  }

  async #send() {
    while (this.#requests < REQUESTS_MAX && this.#wanted.length > 0) {
      const { level, index, tracks } = this.#wanted.shift();
      const span = Tiles.span(level);
      const keys = tracks.map((track) => `${level}:${index}:${track}`);
      keys.forEach((key) => this.#asked.add(key));
      this.#requests++;
      ask("tiles", { tracks: tracks.join(","), from: index * span, to: (index + 1) * span, bins: BINS })
        .then((answer) => this.#put(level, index, answer), this.failed)
        .finally(() => {
          keys.forEach((key) => this.#asked.delete(key));
          this.#requests--;
          this.#send();
        });
    }
  }

  #put(level, index, answer) {
    for (const [id, text] of Object.entries(answer.texts)) this.#texts.set(Number(id), text);
    const key = `${level}:${index}`;
    const tile = this.#tiles.get(key) ?? new Map();
    for (const things of answer.tracks) tile.set(things.track, things);
    this.#tiles.set(key, tile);
    // The coarsest tile is the one that stands in for all others: it stays.
    for (const oldest of this.#tiles.keys()) {
      if (this.#tiles.size <= TILES_MAX) break;
      if (oldest !== this.kept) this.#tiles.delete(oldest);
    }
    this.arrived();
  }

  /** Loads the tile that holds everything, so that there is always something to draw. */
  async keepAll(length, tracks) {
    const level = Math.max(0, Math.ceil(Math.log2(Math.max(length, 1) / BINS)));
    this.kept = `${level}:0`;
    this.want(tracks, 0, 1, level);
  }
}
