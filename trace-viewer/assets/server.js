// Requests to the program that serves this page.

/** The answer to a request; throws an error with a message for people. */
export async function ask(name, query = {}) {
  let answer;
  try {
    answer = await fetch(`api/${name}?${new URLSearchParams(query)}`);
  } catch {
    throw new Error("The program that serves this page has ended; start it again.");
  }
  if (!answer.ok) throw new Error(`The program refused the request for ${name} (status ${answer.status}).`);
  return answer.json();
}

/** Sends heartbeats while the page is open, and a notice when it is closed. */
export function reportPresence() {
  const page = `page=${crypto.randomUUID()}`;
  const here = () => navigator.sendBeacon(`api/here?${page}`);
  here();
  setInterval(here, 30_000);
  addEventListener("pagehide", () => navigator.sendBeacon(`api/gone?${page}`));
  addEventListener("pageshow", (event) => { if (event.persisted) here(); });
}
