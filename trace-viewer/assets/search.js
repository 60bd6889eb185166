// Search: the number of slices that match a word, and steps from one match to the next.

import { byId } from "./dom.js";
import { grouped } from "./numbers.js";
import { ask } from "./server.js";

const PAUSE_MS = 160;

export class Search {
  #total = 0;
  #at = -1;
  #timer = 0;
  #asked = 0;
  #steps = Promise.resolve();

  /** `found` gets the matches over time, `go` the position of one match; `from` returns the time at which to begin. */
  constructor({ found, go, from, failed }) {
    Object.assign(this, { found, go, from, failed });
    this.word = byId("word");
    this.word.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#search(), PAUSE_MS);
    });
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.step(1);
    });
    this.word.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.shiftKey) {
        event.preventDefault();
        this.step(-1);
      } else if (event.key === "Escape") {
        this.word.blur();
      }
    });
    byId("next-hit").addEventListener("click", () => this.step(1));
    byId("previous-hit").addEventListener("click", () => this.step(-1));
  }

  /** Searches for a word that another part of the page sets. */
  async look(word) {
    this.word.value = word;
    await this.#search();
    await this.step(1);
  }

  async #search() {
    clearTimeout(this.#timer);
    const asked = ++this.#asked;
    const word = this.word.value.trim();
    this.searched = word;
    this.#at = -1;
    try {
      const { total, parts } = word ? await ask("search", { q: word }) : { total: 0, parts: [] };
      if (asked !== this.#asked) return;
      this.#total = total;
      this.found(parts);
      this.#show();
    } catch (error) {
      this.failed(error);
    }
  }

  /** Goes to the next or the previous match. Steps run one after the other, however fast they are requested. */
  step(by) {
    this.#steps = this.#steps.then(() => this.#step(by));
    return this.#steps;
  }

  async #step(by) {
    if (this.word.value.trim() !== (this.searched ?? "")) await this.#search();
    if (this.#total === 0) return;
    const q = this.searched;
    const query = this.#at < 0 ? { q, from: Math.max(0, Math.floor(this.from())) } : { q, n: (this.#at + by + this.#total) % this.#total };
    try {
      const hit = await ask("hit", query);
      this.#at = hit.n;
      this.#show();
      this.go(hit.position);
    } catch (error) {
      this.failed(error);
    }
  }

  #show() {
    const isEmpty = !this.word.value.trim();
    const count = this.#at < 0 ? grouped(this.#total) : `${grouped(this.#at + 1)} of ${grouped(this.#total)}`;
    byId("hits").textContent = isEmpty ? "" : this.#total === 0 ? "nothing found" : count;
    for (const id of ["next-hit", "previous-hit"]) byId(id).hidden = isEmpty || this.#total === 0;
  }
}
