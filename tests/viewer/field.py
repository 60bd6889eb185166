#!/usr/bin/env python3
"""Opens a report of the field kit as a file, and looks whether it is whole and needs nothing else.

    field.py PAGE SECTIONS

SECTIONS is how many it has: the machine, and one for each step.

Exit status: 0 it is; 1 it is not, and what was seen is on standard error.
"""

import pathlib
import sys

from browser import CHROMIUM, Viewer
from playwright.sync_api import sync_playwright


def main(words: list[str]) -> int:
    if len(words) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    url = pathlib.Path(words[0]).resolve().as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        v = Viewer(browser.new_page(), url)
        v.page.goto(url)
        sections = v.page.locator("h2").count()
        assert sections == int(words[1]), f"{sections} sections"
        v.page.locator("#overview a").first.click()
        box = v.page.locator("h2#preemption").bounding_box()
        assert box and box["width"] > 100, "the section is not shown"
        assert v.page.locator("svg circle").count() > 10, "no points in the plots"
        with v.page.expect_download() as download:
            v.page.locator("a[download='field.json']").click()
        assert '"format": 1' in pathlib.Path(download.value.path()).read_text(), "the JSON is not the report"
        # A file inside of the page is no request to elsewhere.
        troubles = [trouble for trouble in v.troubles if not trouble.startswith("asked for data:")]
        browser.close()
    for trouble in troubles:
        print(f"field.py: {trouble}", file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
