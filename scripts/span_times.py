"""Prints, for each name in a time line of `haloport --trace FILE`, the number of its spans and their times in microseconds."""

import json
import statistics
import sys
from pathlib import Path

spans = {}
for event in json.loads(Path(sys.argv[1]).read_text())["traceEvents"]:
    if event.get("ph") == "X":
        spans.setdefault(event["name"], []).append(event["dur"])
print(f"{'span':40} {'number':>7} {'median':>10} {'longest':>10}")
for name, times in sorted(spans.items(), key=lambda one: -sum(one[1])):
    print(f"{name:40} {len(times):7} {statistics.median(times):10.1f} {max(times):10.1f}")
