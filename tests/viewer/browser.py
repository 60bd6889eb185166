"""What the viewer's test and benchmark share: a browser that reaches this machine and nothing else."""

import contextlib
import math
import re
import time

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
WIDTH, HEIGHT = 1440, 900
PATIENCE_MS = 60_000


class Viewer:
    """The page, as a person has it before them."""

    def __init__(self, page, url: str):
        self.page, self.url = page, url
        self.troubles: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", self._said)
        page.on("request", self._asked)
        page.on("dialog", self._dialog)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.troubles.append(f"console: {message.text}")

    def _asked(self, request):
        if not request.url.startswith(self.url):
            self.troubles.append(f"asked for {request.url}")

    def _dialog(self, dialog):
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, tab: str = "overview"):
        self.page.goto(f"{self.url}#{tab}")
        # Not wait_for_function, which evaluates a text again and again: the page's policy forbids that.
        self.page.locator("html[data-ready=true]").wait_for(state="attached")

    def api(self, name: str, **query):
        """Asks the program what the page would ask."""
        return self.page.evaluate(
            "async ([name, query]) => (await fetch(`api/${name}?${new URLSearchParams(query)}`)).json()", [name, query]
        )

    def view(self) -> tuple[float, float]:
        """The time that is shown, nanoseconds from the begin."""
        # What was done before this is drawn with the next frame, and that is done with when another begins.
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shown = self.page.locator("#lanes").evaluate("lanes => [lanes.dataset.from, lanes.dataset.to]")
        return float(shown[0]), float(shown[1])

    def x(self, ns: float) -> float:
        """Where a moment is on the screen."""
        begin, end = self.view()
        box = self.page.locator("#canvas").bounding_box()
        return box["x"] + (ns - begin) / (end - begin) * box["width"]

    def y(self, name: str) -> float:
        """The height of the first line of a track."""
        label = self.page.locator("#label-list > *").filter(has_text=re.compile(f"^{re.escape(name)}")).first
        return label.bounding_box()["y"] + 11

    def until(self, is_so, what: str):
        """Waits for something to be true of the time that is shown; returns that."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not is_so(*(shown := self.view())):
            assert time.monotonic() < deadline, f"{what}: {shown}"
        return shown

    def zoom_to(self, ns: float, span_ns: float):
        """Turns the wheel over a moment that is shown until so little is shown around it."""
        box = self.page.locator("#canvas").bounding_box()
        begin, end = self.view()
        while end - begin > span_ns:
            assert begin <= ns <= end, f"{ns} is not between {begin} and {end}"
            # Whole pixels, as the page is told: rounded to the left, so that what is at the left edge stays in sight.
            offset = math.floor((ns - begin) / (end - begin) * box["width"])
            self.page.mouse.move(box["x"] + min(offset, box["width"] - 1), 400)
            self.page.keyboard.down("Control")
            self.page.mouse.wheel(0, -600)
            self.page.keyboard.up("Control")
            before = (begin, end)
            begin, end = self.until(lambda *shown: shown != before, "it did not zoom")


@contextlib.contextmanager
def viewer(url: str, scheme: str = "light", scale: float = 1):
    """Opens a browser for one page."""
    offline = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to run as root, and this page is our own.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", offline]
        )
        context = browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, device_scale_factor=scale
        )
        page = context.new_page()
        yield Viewer(page, url)
        page.goto("about:blank")  # A page that is closed from here is not told so; one that is left is.
        browser.close()
