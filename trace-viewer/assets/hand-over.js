// Gives the file to the Perfetto UI in another window, as Perfetto documents it: "PING" messages are sent until the UI
// answers "PONG", then the file is sent as a message. https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui

const UI = "https://ui.perfetto.dev";
const ASK_EVERY_MS = 100;
const PATIENCE_MS = 30_000;

/** Opens the UI; must be called by a click, or the browser refuses. Resolves once the file was sent to the UI. */
export async function handOver(title) {
  const ui = window.open(UI);
  if (!ui) throw new Error("The browser did not open a window for the Perfetto UI.");
  const ready = new Promise((resolve, reject) => {
    const asking = setInterval(() => ui.postMessage("PING", UI), ASK_EVERY_MS);
    const end = (finish, value) => {
      clearInterval(asking);
      clearTimeout(patience);
      removeEventListener("message", answered);
      finish(value);
    };
    const answered = (event) => {
      if (event.source === ui && event.origin === UI && event.data === "PONG") end(resolve);
    };
    const patience = setTimeout(() => end(reject, new Error("The Perfetto UI does not answer; it needs a network.")), PATIENCE_MS);
    addEventListener("message", answered);
  });
  const file = fetch("trace").then((answer) => {
    if (!answer.ok) throw new Error("The file does not exist any more.");
    return answer.arrayBuffer();
  });
  const [buffer] = await Promise.all([file, ready]);
  ui.postMessage({ perfetto: { buffer, title, fileName: title } }, UI, [buffer]);
}
