"""Prints the table of the tests that a system has run: what scripts/arm.sh got from it, and the names of all that it was to run.

usage: table.py LOG NAME...
"""

import re
import sys

SKIPPED = 77  # by a script, as a whole


def cases(said, status):
    """How many passed, failed and were skipped, by what Catch2 or unittest says at its end; a script is one."""
    reasons = re.findall(r"^\s*skipped: (.*)$", said, re.MULTILINE)
    if status == SKIPPED:
        return 0, 0, reasons or ["without a reason"]
    whole = re.search(r"^All tests passed \(.* in (\d+) test cases?\)$", said, re.MULTILINE)
    parts = re.search(r"^test cases: +(\d+) \|(?: +(\d+) passed)?", said, re.MULTILINE)
    ran = re.search(r"^Ran (\d+) tests? in", said, re.MULTILINE)
    if whole:
        count, failed = int(whole[1]), 0
    elif parts:
        count, failed = int(parts[1]), int(parts[1]) - int(parts[2] or 0)
    elif ran:
        bad = re.search(r"^FAILED \((.*)\)$", said, re.MULTILINE)
        count = int(ran[1])
        failed = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", bad[1]))) if bad else 0
    else:
        count, failed = 1, int(status != 0)
    if status != 0:
        failed = max(failed, 1)
    return max(count - failed - len(reasons), 0), failed, reasons


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        log = file.read()
    totals = [0, 0, 0]
    print(f"{'test':<26}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    why = []
    for name in sys.argv[2:]:
        run = re.search(rf"^=== begin {name}$(.*?)^=== end {name} (\d+) (\d+)$", log, re.MULTILINE | re.DOTALL)
        passed, failed, reasons = cases(run[1], int(run[2])) if run else (0, 1, [])
        row = [passed, failed, len(reasons)]
        totals = [total + count for total, count in zip(totals, row)]
        print(f"{name:<26}{row[0]:>8}{row[1]:>8}{row[2]:>9}{run[3] if run else 'no end':>9}")
        why += [f"{name}: {reason}" for reason in reasons]
    if why:
        print("skipped:", *why, sep="\n    ")
    print(f"{totals[0]} passed, {totals[1]} failed" + (f", {totals[2]} skipped" if totals[2] else ""))
    sys.exit(totals[1] > 0)


main()
