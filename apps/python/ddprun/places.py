"""Where the package's programs and its library are: as installed with it, or in the build of the checkout that it lies in.

The package's folder is resolved once, through every link. Beside it only what is its own is looked at: what the installer has noted
(RECORD), or the checkout's build; and of that, no file that somebody else could have put there, or could put there later. Where the
package itself is such (all of it is another user's, or everybody's to write), its programs are as good as its Python.
"""

import contextlib
import glob
import os
import shutil
import stat
import sys
from typing import Iterable, Optional

PACKAGE = os.path.dirname(os.path.realpath(__file__))
_SITE = os.path.dirname(PACKAGE)


def checkout() -> Optional[str]:
    """The source tree that the package lies in; None where it is installed."""
    root = os.path.dirname(os.path.dirname(_SITE))
    return root if all(map(os.path.isfile, (os.path.join(_SITE, "wheel_of_build.py"), os.path.join(root, "CMakePresets.json")))) else None


def _is_ours(found: os.stat_result) -> bool:
    """Whether it is root's, this user's or the package's installer's, and everybody's to write only if the package is."""
    package = os.stat(PACKAGE)
    return found.st_uid in (0, os.geteuid(), package.st_uid) and not found.st_mode & ~package.st_mode & stat.S_IWOTH


def first(paths: Iterable[str]) -> Optional[str]:
    """The first that is a file of ours, in a folder of ours: what has been looked at is what is used. One line says which is not."""
    for path in paths:
        with contextlib.suppress(OSError):
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):
                continue
            folders = {os.path.dirname(one) for one in (os.path.abspath(path), os.path.realpath(path))}
            if _is_ours(found) and all(_is_ours(os.stat(folder)) for folder in folders):
                return path
            if os.environ.get("LOCAL_RANK", "0") == "0":
                print(f"ddprun: {path} is not used: it, or its folder, is another user's or everybody's to write (chown, chmod o-w)",
                      file=sys.stderr, flush=True)
    return None


def _built(*names: str) -> Iterable[str]:
    if root := checkout():
        yield os.path.join(os.environ.get("DDPRUN_BUILD") or os.path.join(root, "build"), *names)


def _recorded(name: str) -> Iterable[str]:
    """The package's own file of this name among the installed programs."""
    for record in glob.glob(os.path.join(glob.escape(_SITE), "ddprun-*.dist-info", "RECORD")):
        with open(record, encoding="utf-8") as file:
            noted = [line.split(",")[0] for line in file]
        for path in noted:
            if path.endswith(f"/bin/{name}"):
                # pip install --target moves the folder of programs, and does not note it.
                yield os.path.join(_SITE, "bin", name)
                yield os.path.realpath(os.path.join(_SITE, path))


def program(name: str) -> str:
    """The path of `ddprun` or `ddpctl`. Raises FileNotFoundError."""
    found = first([*_recorded(name), *_built("bin", name)]) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"the program {name} is neither installed with {PACKAGE} nor on the PATH")
    return os.path.abspath(found)


def library() -> str:
    """The path of the shared library; its bare name, for the loader to find, where the package has none."""
    name = "libddprun_collectives.so"
    said = os.environ.get("DDPRUN_COLLECTIVES_LIBRARY", "")
    return said if os.path.isfile(said) else first([
        os.path.join(PACKAGE, "lib", name), *_built("apps", "python", name), *_built("collectives", "package", name)]) or name
