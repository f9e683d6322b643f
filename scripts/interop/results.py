"""One line for each case, and the closing line."""

import sys


class Results:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def note(self, name, complaint, more=""):
        """A case is over: without a complaint it has passed. `more` is what helps to understand a complaint."""
        if complaint:
            self.failed += 1
            print(f"FAIL  {name}: {complaint}")
            for line in more.splitlines():
                print(f"      | {line}")
        else:
            self.passed += 1
            print(f"ok    {name}")
        sys.stdout.flush()

    def skip(self, name, reason):
        self.skipped += 1
        print(f"skip  {name}: {reason}", flush=True)

    def close(self):
        """Prints the closing line and returns the exit code."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        print(f"{self.passed} passed, {self.failed} failed{skipped}")
        return 0 if self.failed == 0 and self.passed > 0 else 1
