#!/usr/bin/env python3
"""Shows a recording whose every name is markup, and looks whether any of it became part of the page.

    hostile.py URL

Exit status: 0 all of it is text; 1 it is not, and what was seen is on standard error.
"""

import sys

from browser import viewer

#: Elements that neither the page nor its scripts ever make.
MARKUP = "img, iframe, object, embed, base, form[action], a, script:not([src='main.js'])"


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with viewer(words[0]) as v:
        v.open()
        name = "<img src=x onerror="
        assert name in v.page.locator("#overview").inner_text(), "the name is not shown"
        v.page.locator("tr[data-find]").first.click()
        v.page.locator("#details h2").wait_for()
        assert name in v.page.locator("#details").inner_text(), "the name is not among the details"
        assert name in v.page.locator("#label-list").inner_text(), "the name is not on a line"
        v.page.mouse.move(v.x(5_000), v.y("<img"))
        v.page.wait_for_timeout(300)
        found = v.page.locator(MARKUP).count()
        if found or v.page.title() == "executed":
            v.troubles.append(f"{found} elements of the recording's, title {v.page.title()!r}")
        for trouble in v.troubles:
            print(f"hostile.py: {trouble}", file=sys.stderr)
        return 1 if v.troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
