"""What `trace` recorded beside what CUPTI counted: a line for each run of `trace.sh` in a folder."""

import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
for file in sorted(folder.glob("*.cupti.json")):
    mode = file.name.split(".")[0]
    cupti = json.loads(file.read_text() or "{}")
    report = json.loads((folder / f"{mode}.report.json").read_text() or "{}")
    same = report.get("launches") == cupti.get("launches")
    print(f"{mode}: trace {report.get('launches')} launches, CUPTI {cupti.get('launches')}:", "equal" if same else "DIFFERENT")
    print(f"    CUPTI: {cupti.get('calls')}, on the device: {cupti.get('done')}")
    functions = {row["name"]: row["calls"] for row in report.get("by", {}).get("api", [])}
    print("    trace:", {name: calls for name, calls in functions.items() if "Launch" in name})
