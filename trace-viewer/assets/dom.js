// Makes elements. Everything from a recording is inserted as text: no function here writes markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties, and with elements or texts as its children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Shows a message for some seconds. */
export function say(text) {
  const message = byId("message");
  message.textContent = text;
  message.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { message.hidden = true; }, 6000);
}
