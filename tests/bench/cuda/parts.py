"""Each batch job's part of the device time that all used, in each second in which all of them ran.

    parts.py FILE..    as `load batch` writes them, one for each job, with the second and the milliseconds of its work in each line
"""

import sys


def seconds_of(path: str) -> dict[int, float]:
    with open(path) as lines:
        return {int(second): float(ms) for second, ms in map(str.split, lines)}


def main() -> None:
    jobs = [seconds_of(path) for path in sys.argv[1:]]
    common = sorted(set.intersection(*map(set, jobs)))
    if not common:
        sys.exit("no second in which all of them ran")
    together = {second: sum(job[second] for job in jobs) for second in common}
    for number, job in enumerate(jobs, 1):
        parts = [job[second] / together[second] for second in common]
        mean = sum(job[second] for second in common) / sum(together.values())
        print(f"job {number}: {mean:.3f} of what all used, {min(parts):.3f} to {max(parts):.3f} in {len(common)} single seconds")


main()
