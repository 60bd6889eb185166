// Talks to the program that serves this page.

/** An answer, or an error in words. */
export async function ask(name, query = {}) {
  let answer;
  try {
    answer = await fetch(`api/${name}?${new URLSearchParams(query)}`);
  } catch {
    throw new Error("The program that serves this page has ended; start it again.");
  }
  if (!answer.ok) throw new Error(`The program has no answer to ${name} (${answer.status}).`);
  return answer.json();
}

/** Tells the program that somebody looks, and when nobody does any more. */
export function stayInTouch() {
  const page = `page=${crypto.randomUUID()}`;
  const here = () => navigator.sendBeacon(`api/here?${page}`);
  here();
  setInterval(here, 30_000);
  addEventListener("pagehide", () => navigator.sendBeacon(`api/gone?${page}`));
  addEventListener("pageshow", (event) => { if (event.persisted) here(); });
}
