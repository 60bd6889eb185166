// The theme: dark, light, or the desktop's setting.

import { byId } from "./dom.js";

const KEY = "xsched-theme";
const NEXT = { auto: "dark", dark: "light", light: "auto" };

/** Sets the theme that was chosen last; `changed` is called whenever colours may have changed. */
export function followTheme(changed) {
  const root = document.documentElement;
  const button = byId("theme");
  const set = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = { auto: "◐", dark: "☾", light: "☀" }[theme];
    button.title = { auto: "Colours follow the desktop's setting", dark: "Dark", light: "Light" }[theme];
    changed();
  };
  let theme = localStorage.getItem(KEY);
  if (!(theme in NEXT)) theme = "auto";
  set(theme);
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    localStorage.setItem(KEY, theme);
    set(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
