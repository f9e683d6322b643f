"""Where the package's programs and its library are: as installed with it, or in the build of the checkout that it lies in."""

import os
import shutil
import sys
import sysconfig
from typing import Iterable, Optional

_HERE = os.path.dirname(os.path.abspath(__file__))
_CHECKOUT = os.path.realpath(os.path.join(_HERE, "..", "..", ".."))


def _first(paths: Iterable[str]) -> Optional[str]:
    return next((path for path in paths if os.path.isfile(path)), None)


def _script_folders() -> Iterable[str]:
    yield sysconfig.get_path("scripts")
    # pip install --target, --prefix and --user.
    yield os.path.join(_HERE, "..", "bin")
    yield os.path.join(_HERE, "..", "..", "..", "..", "bin")
    yield os.path.join(os.path.dirname(sys.executable))
    yield os.path.join(_CHECKOUT, "build", "bin")


def program(name: str) -> str:
    """The path of `ddprun` or `ddpctl`. Raises FileNotFoundError."""
    found = _first(os.path.join(folder, name) for folder in _script_folders()) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"the program {name} is neither beside Python ({sysconfig.get_path('scripts')}) nor on the PATH")
    return os.path.abspath(found)


def library() -> str:
    """The path of the shared library; its bare name, for the loader to find, where the package has none."""
    name = "libddprun_collectives.so"
    return _first([os.environ.get("DDPRUN_COLLECTIVES_LIBRARY", ""), os.path.join(_HERE, "lib", name),
                   os.path.join(_CHECKOUT, "build", "apps", "python", name),
                   os.path.join(_CHECKOUT, "build", "collectives", "package", name)]) or name
