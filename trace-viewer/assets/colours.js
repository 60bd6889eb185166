// The colours of slices: the same name has the same colour everywhere.

const STATES = ["running", "suspended", "buffered"];
const SHADES = 4;

export class Colours {
  #cache = new Map();
  #isDark = false;
  #fixed = {};

  /** Reads the style sheet's colours, which change with the theme. */
  refresh() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.#cache.clear();
    this.#isDark = style.colorScheme === "dark";
    for (const name of ["page", "surface", "raised", "line", "text", "quiet", "accent", "accent-soft", "shade", ...STATES]) {
      this.#fixed[name] = read(name);
    }
  }

  /** A colour of the style sheet. */
  of(name) {
    return this.#fixed[name];
  }

  /** The colour of a slice; paler if only a share of its time was busy. */
  slice(text, isQueue, share) {
    const shade = Math.max(1, Math.ceil(Math.min(share, 1) * SHADES));
    const key = `${isQueue ? "q" : "s"}${shade}${text}`;
    let colour = this.#cache.get(key);
    if (colour === undefined) {
      colour = this.#make(text, isQueue, shade);
      this.#cache.set(key, colour);
    }
    return colour;
  }

  #make(text, isQueue, shade) {
    const alpha = [0, 0.4, 0.6, 0.8, 1][shade];
    const page = parsed(this.#fixed.page);
    if (isQueue && STATES.includes(text)) return mixed(parsed(this.#fixed[text]), page, alpha);
    const hash = hashOf(text);
    const hue = hash % 360;
    const [saturation, lightness] = this.#isDark ? [34 + (hash >> 9) % 14, 36 + (hash >> 13) % 10] : [50 + (hash >> 9) % 16, 70 + (hash >> 13) % 10];
    return mixed(fromHsl(hue, saturation / 100, lightness / 100), page, alpha);
  }
}

// A canvas takes colours fastest in the form "#rrggbb".

function parsed(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mixed(colour, page, alpha) {
  return `#${colour.map((part, at) => Math.round(part * alpha + page[at] * (1 - alpha)).toString(16).padStart(2, "0")).join("")}`;
}

function fromHsl(hue, saturation, lightness) {
  const reach = saturation * Math.min(lightness, 1 - lightness);
  return [0, 8, 4].map((offset) => {
    const sector = (offset + hue / 30) % 12;
    return 255 * (lightness - reach * Math.max(-1, Math.min(sector - 3, 9 - sector, 1)));
  });
}

function hashOf(text) {
  let hash = 2166136261;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 16777619);
  hash ^= hash >>> 15;
  return Math.imul(hash, 2246822519) >>> 1;
}
