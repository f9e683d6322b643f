"""`python -m ddprun …` becomes the program `ddprun`, which runs scripts by this Python."""

import os
import sys

from .places import program

if sys.executable and not os.environ.get("PYTHON_EXEC"):
    os.environ["PYTHON_EXEC"] = sys.executable
os.execv(program("ddprun"), ["ddprun", *sys.argv[1:]])
