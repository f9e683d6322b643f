"""`python -m ddprun …` becomes the program `ddprun`."""

import os
import sys

from .places import program

os.execv(program("ddprun"), ["ddprun", *sys.argv[1:]])
