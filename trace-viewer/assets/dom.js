// Makes elements. Whatever comes from a recording goes in as text: there is no way here to write markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties, and with elements or texts in it. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Shows a sentence for some seconds. */
export function say(text) {
  const message = byId("message");
  message.textContent = text;
  message.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { message.hidden = true; }, 6000);
}
