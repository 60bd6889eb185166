#!/usr/bin/env python3
"""Measures the viewer in headless chromium.

    measure.py URL

Prints one JSON object: seconds until the timeline is drawn, and milliseconds between frames while keys are held, over
everything, over a tenth, and over a thousandth of the recording.
"""

import json
import sys
import time

from browser import HEIGHT, WIDTH, viewer

HOLD_MS = 3_000
#: Collects the times of animation frames until it is told to stop.
COLLECT = """() => {
    const times = [];
    const frame = (now) => { times.push(now); if (!window.enough) requestAnimationFrame(frame); };
    window.enough = false;
    window.times = times;
    requestAnimationFrame(frame);
}"""
IS_DRAWN = """() => {
    const tiles = performance.getEntriesByType("resource").filter((entry) => entry.name.includes("tiles"));
    return tiles.length > 1 && tiles.every((entry) => entry.responseEnd > 0);
}"""
STOP = "() => { window.enough = true; return window.times; }"


def frames_ms(v, key: str) -> list[float]:
    """Milliseconds between frames while a key is held."""
    v.page.evaluate(COLLECT)
    v.page.keyboard.down(key)
    v.page.wait_for_timeout(HOLD_MS)
    v.page.keyboard.up(key)
    times = v.page.evaluate(STOP)
    return [later - earlier for earlier, later in zip(times, times[1:])]


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with viewer(words[0]) as v:
        started = time.monotonic()
        v.open("timeline")
        # Nothing is asked for any more: what is shown is there.
        while not v.page.evaluate(IS_DRAWN):
            v.page.wait_for_timeout(5)
        drawn_s = time.monotonic() - started
        begin, end = v.view()
        frames = []
        v.page.mouse.move(WIDTH / 2, HEIGHT / 2)
        for name, share in (("panning over a half", 2), ("panning over a tenth", 10), ("panning over a thousandth", 1000)):
            v.page.keyboard.press("f")
            v.zoom_to((begin + end) * 0.2, (end - begin) / share)
            frames.append((name, frames_ms(v, "d")))
        frames.append(("zooming out", frames_ms(v, "s")))
        frames.append(("zooming in", frames_ms(v, "w")))
        json.dump({"drawn_s": drawn_s, "frames_ms": frames}, sys.stdout)
        for trouble in v.troubles:
            print(f"measure.py: {trouble}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
