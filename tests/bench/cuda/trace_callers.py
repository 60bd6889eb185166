"""The calling libraries of launches, by `trace` and by the compiler's unwinder (trace_callers.c): whether all counts are equal.

    trace_callers.py REPORT.json CALLERS.txt
"""

import collections
import json
import pathlib
import sys

report = json.loads(pathlib.Path(sys.argv[1]).read_text())
traced = collections.Counter({row["name"].rsplit("/", 1)[-1]: row["calls"] for row in report["by"]["library"]})
unwound = collections.Counter(pathlib.Path(sys.argv[2]).read_text().split())
print(f"{sum(unwound.values())} launches by the unwinder, {sum(traced.values())} by trace:", "equal" if traced == unwound else "DIFFERENT")
for name in sorted(traced | unwound, key=lambda name: -unwound[name]):
    print(f"    {name}: {unwound[name]} {traced[name]}")
