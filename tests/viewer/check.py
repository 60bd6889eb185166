#!/usr/bin/env python3
"""Uses the viewer as a person does, in headless chromium.

    check.py URL FOLDER [light|dark]

URL is what `xsched-ctl view` printed for a synthetic recording of two processes under priority; pictures go into
FOLDER. Exit status: 0 everything was as it should be; 1 it was not, and what was not is on standard error.
"""

import pathlib
import re
import socket
import sys
import time
import traceback
import urllib.parse

from browser import HEIGHT, WIDTH, Viewer, viewer

BATCH_THREAD = "python3 4711"
#: What the first urgent burst keeps waiting: a launch at this time, nanoseconds from the begin.
IN_THE_BURST_NS = 3_200_000


def the_overview_sums_up(v: Viewer):
    text = v.page.locator("#overview").inner_text()
    for expected in ("Launches over time", "Preemptions", "train.py (4711)", "librocblas.so.4"):
        assert expected in text, f"{expected!r} is not in the overview"
    assert v.page.locator(".plot rect").count() > 20


def a_row_of_a_table_leads_to_the_timeline(v: Viewer):
    v.page.locator("tr[data-find='librocblas.so.4']").first.click()
    v.page.locator("#details h2", has_text="hipLaunchKernel").wait_for()
    assert v.page.locator("#timeline").is_visible()
    v.page.locator("#word").fill("")
    v.page.keyboard.press("Escape")


def a_search_goes_from_match_to_match(v: Viewer):
    v.page.locator("#lanes").click(position={"x": 700, "y": 5})
    v.page.keyboard.press("f")
    v.page.keyboard.press("/")
    v.page.keyboard.type("LAYER_norm")
    v.page.locator("#hits", has_text=re.compile(r"\d")).wait_for()
    total = v.api("search", q="layer_norm")["total"]
    assert total > 20
    for number in (1, 2, 3):
        v.page.keyboard.press("Enter")
        v.page.locator("#hits", has_text=re.compile(f"^{number} of ")).wait_for()
    v.page.keyboard.press("Shift+Enter")
    v.page.locator("#hits", has_text=re.compile("^2 of ")).wait_for()
    assert "layer_norm" in v.page.locator("#details").inner_text()
    v.page.locator("#word").fill("there is no such thing")
    v.page.locator("#hits", has_text="nothing found").wait_for()
    v.page.locator("#word").fill("")
    v.page.keyboard.press("Escape")
    v.page.locator("#lanes").focus()
    v.page.keyboard.press("Escape")
    v.page.locator("#details").wait_for(state="hidden")


def keys_zoom_and_move(v: Viewer):
    v.page.keyboard.press("f")
    begin, end = v.view()
    v.page.mouse.move(WIDTH / 2, 300)
    zoomed = hold(v, "w", lambda shown_from, to: to - shown_from < 0.8 * (end - begin))
    moved = hold(v, "d", lambda shown_from, _: shown_from > zoomed[0])
    assert abs((moved[1] - moved[0]) / (zoomed[1] - zoomed[0]) - 1) < 1e-6
    before = hold(v, "a", lambda shown_from, _: shown_from < moved[0])
    v.page.mouse.down()
    v.page.mouse.move(WIDTH / 2 + 200, 300, steps=5)
    v.page.mouse.up()
    assert v.view()[0] < before[0], "dragging to the right shows what is earlier"
    v.page.keyboard.press("f")
    assert v.view()[1] - v.view()[0] > end - begin - 1


def hold(v: Viewer, key: str, is_done) -> tuple[float, float]:
    """Holds a key down until enough has happened; returns what is shown then."""
    v.page.keyboard.down(key)
    v.until(is_done, f"{key!r} does too little")
    v.page.keyboard.up(key)
    return v.view()


def the_wheel_reaches_the_begin_and_the_end(v: Viewer):
    length = v.view()[1]
    for moment in (0, length * 0.97):
        v.page.keyboard.press("f")
        v.zoom_to(moment, length / 1e4)
        begin, end = v.view()
        assert begin <= moment <= end, f"{moment} is not between {begin} and {end}"
    v.page.keyboard.press("f")


def a_wait_is_explained(v: Viewer):
    launch = next(
        hit["position"]
        for hit in (v.api("hit", q="Cijk", **{"from": IN_THE_BURST_NS + more}) for more in range(0, 300_000, 3_000))
        if hit["position"]["track_name"] == BATCH_THREAD
    )
    middle = (launch["begin_ns"] + launch["end_ns"]) / 2
    v.zoom_to(middle, 400_000)
    v.page.mouse.click(v.x(middle), v.y(BATCH_THREAD))
    why = v.page.locator("#why").inner_text()
    assert "was preempted by serve.py (4822)" in why, why
    details = v.page.locator("#details").inner_text()
    for expected in ("suspended", "level 2: more urgent work", "PyEval", "libtorch_hip.so", "ran as Cijk"):
        assert expected in details, f"{expected!r} is not in the details: {details}"
    v.page.keyboard.press("]")
    v.page.locator("#details .where", has_text="train.py 4711 stream").wait_for()
    v.page.keyboard.press("[")
    v.page.locator("#details .where", has_text=BATCH_THREAD).wait_for()
    v.page.keyboard.press(".")
    v.page.locator("#details .where", has_text=BATCH_THREAD).wait_for()
    v.page.keyboard.press(",")
    v.page.locator("#why", has_text="serve.py").wait_for()


def a_preemption_says_who_and_why(v: Viewer):
    v.page.keyboard.press("Escape")
    v.page.locator("#details").wait_for(state="hidden")
    v.page.keyboard.press("f")
    mark = v.api("mark", track=track(v, "train.py 4711 XQueue"), index=0)
    v.zoom_to(mark["at_ns"], 2_000_000)
    v.page.mouse.click(v.x(mark["at_ns"]), v.y("train.py 4711 XQueue") - 3)
    v.page.locator("#details h2", has_text="preempted").wait_for()
    details = v.page.locator("#details").inner_text()
    assert "serve.py" in details and "more urgent work" in details, details


def track(v: Viewer, name: str) -> int:
    tracks = v.api("tracks")["tracks"]
    return next(number for number, known in enumerate(tracks) if known["name"] == name)


def groups_fold_and_keys_are_listed(v: Viewer):
    v.page.keyboard.press("Escape")
    group = v.page.locator("button.group", has_text="train.py")
    group.click()
    assert group.get_attribute("aria-expanded") == "false"
    assert v.page.locator("#label-list", has_text=BATCH_THREAD).count() == 0
    group.click()
    assert v.page.locator("#label-list", has_text=BATCH_THREAD).count() == 1
    v.page.keyboard.press("?")
    v.page.locator("dialog[open]").wait_for()
    v.page.keyboard.press("Escape")
    v.page.locator("dialog[open]").wait_for(state="detached")


def the_switch_changes_the_colours(v: Viewer):
    colour = lambda: v.page.evaluate("getComputedStyle(document.body).backgroundColor")
    before = {colour()}
    for _ in range(2):
        v.page.locator("#theme").click()
        before.add(colour())
    assert len(before) == 2, before
    v.page.locator("#theme").click()


def the_perfetto_ui_gets_the_file(v: Viewer):
    """A page that stands in for the UI, under its address: it answers as the UI does, and counts bytes."""
    stand_in = """<!doctype html><title>stand-in</title><script>
        addEventListener("message", (event) => {
            if (event.data === "PING") event.source.postMessage("PONG", event.origin);
            else document.title = `${event.data.perfetto.buffer.byteLength} ${event.data.perfetto.title}`;
        });</script>"""
    context = v.page.context
    context.route("https://ui.perfetto.dev/**", lambda route: route.fulfill(body=stand_in, content_type="text/html"))
    with context.expect_page() as opened:
        v.page.locator("#hand-over").click()
    ui = opened.value
    ui.wait_for_function("document.title !== 'stand-in' && document.title !== ''")
    length = v.page.evaluate("async () => (await (await fetch('trace')).arrayBuffer()).byteLength")
    file = v.page.locator("#file").inner_text()
    assert ui.title() == f"{length} {file}", ui.title()
    assert ui.evaluate("document.referrer") == "", "the token went along"
    ui.close()


def the_program_ends_with_its_page(v: Viewer):
    """The browser stays, so that what the page says when it is left is not lost with it."""
    server = urllib.parse.urlsplit(v.page.url)
    v.page.goto("about:blank")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as asks:
            if asks.connect_ex((server.hostname, server.port)) != 0:
                return
        time.sleep(0.2)
    raise AssertionError("it still serves")


def show(v: Viewer, folder: pathlib.Path, scheme: str):
    """Pictures of what a person sees first, and of an explanation."""
    v.page.locator("#show-overview").click()
    v.page.screenshot(path=folder / f"{scheme}-overview.png")
    v.page.locator("#show-timeline").click()
    v.page.keyboard.press("f")
    v.page.wait_for_timeout(600)
    v.page.screenshot(path=folder / f"{scheme}-timeline.png")
    a_wait_is_explained(v)
    v.zoom_to(v.view()[0] + 200_000, 400_000)
    for _ in range(4):
        v.page.mouse.move(WIDTH / 2, 300)
        v.page.keyboard.down("Control")
        v.page.mouse.wheel(0, 480)
        v.page.keyboard.up("Control")
    v.page.mouse.move(WIDTH / 2, HEIGHT - 20)
    v.page.wait_for_timeout(600)
    v.page.screenshot(path=folder / f"{scheme}-wait.png")


STEPS = [
    the_overview_sums_up,
    a_row_of_a_table_leads_to_the_timeline,
    a_search_goes_from_match_to_match,
    keys_zoom_and_move,
    the_wheel_reaches_the_begin_and_the_end,
    a_wait_is_explained,
    a_preemption_says_who_and_why,
    groups_fold_and_keys_are_listed,
    the_switch_changes_the_colours,
]


def main(words: list[str]) -> int:
    if not 2 <= len(words) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    url, folder = words[0], pathlib.Path(words[1])
    scheme = words[2] if len(words) > 2 else "light"
    failed = False
    with viewer(url, scheme) as v:
        v.open()
        for step in STEPS:
            try:
                step(v)
            except Exception:  # every one is said, and the next is tried
                failed = True
                print(f"check.py: {step.__name__}:\n{traceback.format_exc()}", file=sys.stderr)
                v.page.screenshot(path=folder / f"failed-{step.__name__}.png")
        show(v, folder, scheme)
        for trouble in v.troubles:
            failed = True
            print(f"check.py: {trouble}", file=sys.stderr)
        the_perfetto_ui_gets_the_file(v)
        the_program_ends_with_its_page(v)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
