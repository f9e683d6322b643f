"""`python -m ddprun …` becomes the program `ddprun`, which runs scripts by this Python."""

import os
import sys

from .places import program

if sys.executable and not os.environ.get("PYTHON_EXEC"):
    os.environ["PYTHON_EXEC"] = sys.executable
launcher = program("ddprun")
try:
    os.execv(launcher, ["ddprun", *sys.argv[1:]])
except OSError as error:
    print(f"ddprun: {launcher} cannot be executed: {error.strerror}; the wheel is for glibc 2.28 or newer, and for the processor "
          "that its name tells", file=sys.stderr)
    sys.exit(71)
