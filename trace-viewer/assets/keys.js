// Keyboard controls, as in the Perfetto UI.

import { byId } from "./dom.js";

const HELD = {
  a: ["pan", -1], d: ["pan", 1], ArrowLeft: ["pan", -1], ArrowRight: ["pan", 1],
  w: ["zoom", -1], s: ["zoom", 1],
};

/** `actions` has a function for each key that is pressed once. */
export function listenToKeys(timeline, actions) {
  const isTyping = (event) => event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
  const isOther = (event) => event.ctrlKey || event.metaKey || event.altKey;
  addEventListener("keydown", (event) => {
    if (isTyping(event) || isOther(event) || byId("keys").open) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const held = HELD[key];
    if (held && !byId("timeline").hidden) {
      event.preventDefault();
      const [what, direction] = held;
      if (timeline.motion[what] !== direction) {
        timeline.motion[what] = direction;
        timeline.redraw();
      }
    } else if (actions[key] && !event.repeat) {
      event.preventDefault();
      actions[key]();
    }
  });
  addEventListener("keyup", (event) => {
    const held = HELD[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (held && timeline.motion[held[0]] === held[1]) timeline.motion[held[0]] = 0;
  });
  addEventListener("blur", () => { timeline.motion.pan = timeline.motion.zoom = 0; });
}
