"""The extension that fits this torch: shipped in the package, or made once and kept.

No stable interface covers torch's process groups, so that an extension fits one version of torch and of Python. Where the
package has none that fits, the first process of a node that needs it makes it, and the others wait for that one.
"""

import contextlib
import ctypes
import fcntl
import glob
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import torch

from ddprun.places import library

NAME = "_ddprun_torch"
COMPILE_LIMIT = 900  # seconds; a hang guard
COMMAND = "python -m ddprun.torch build"
_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCES = os.path.join(_HERE, "extension")


def version():
    """torch's, as numbers: (2, 15, 0)."""
    words = torch.__version__.split("+")[0].split(".")
    return tuple(int("".join(filter(str.isdigit, word)) or 0) for word in words[:3])


def _first(paths):
    return next((path for path in paths if os.path.exists(path)), None)


def _header():
    """The library's, in the package or in the source tree."""
    name = "ddprun_collectives.h"
    return _first([os.path.join(_HERE, "..", "include", name), os.path.join(_HERE, "..", "..", "..", "..", "collectives", name)])


def _tag():
    return f"torch-{'.'.join(map(str, version()))}-{sysconfig.get_config_var('SOABI')}"


def _source_files():
    return sorted(glob.glob(os.path.join(_SOURCES, "*.[ch]pp")))


def kept():
    """The file that this torch's extension is kept in, whether it is there or not: another for each state of the sources."""
    digest = hashlib.sha256()
    for path in [*_source_files(), _header()]:
        with open(path, "rb") as file:
            digest.update(file.read())
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "ddprun", f"{_tag()}-{digest.hexdigest()[:12]}", f"{NAME}.so")


def shipped():
    return os.path.join(_HERE, "prebuilt", _tag(), f"{NAME}.so")


def compiler():
    return next(filter(None, map(shutil.which, [os.environ.get("CXX", ""), "g++", "clang++", "c++"])), None)


def _tree(folder):
    """Lays out below `folder` what the sources include, as the source tree has it; gives it back."""
    for path, what in (("apps/python/ddprun/torch/extension", _SOURCES), ("collectives/ddprun_collectives.h", _header())):
        os.makedirs(os.path.join(folder, os.path.dirname(path)))
        os.symlink(os.path.abspath(what), os.path.join(folder, path))
    return folder


def _words(tree, target):
    home = os.path.dirname(torch.__file__)
    includes = [os.path.join(home, "include"), os.path.join(home, "include", "torch", "csrc", "api", "include"),
                sysconfig.get_paths()["include"]]
    libraries = os.path.join(home, "lib")
    return [compiler(), "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", "-DTORCH_API_INCLUDE_EXTENSION_H",
            "-I", tree, *(f"-isystem{path}" for path in includes),
            "-x", "c++", "-", "-L", libraries, "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10", "-o", target]


def compile_to(target):
    """Makes the extension; raises RuntimeError. Whoever reads `target` sees all of it or nothing."""
    if compiler() is None:
        raise RuntimeError(f"ddprun: no C++ compiler (CXX, g++, clang++, c++) to make the extension for torch {torch.__version__}")
    with _kept_there(target), tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as folder:
        made = os.path.join(folder, "made.so")
        # One unit, since most of the time goes into torch's headers.
        unit = "".join(f'#include "{path}"\n' for path in _source_files() if path.endswith(".cpp"))
        try:
            done = subprocess.run(_words(_tree(folder), made), input=unit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=COMPILE_LIMIT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"ddprun: the extension for torch {torch.__version__} could not be made: {error}") from None
        if done.returncode != 0:
            first = next((line for line in done.stdout.splitlines() if "error" in line), done.stdout.strip()[:500])
            raise RuntimeError(f"ddprun: the extension for torch {torch.__version__} does not compile ({compiler()} ended with "
                               f"{done.returncode}); perhaps this version of ddprun does not know this torch: "
                               f"{first or 'the compiler said nothing'}")
        os.replace(made, target)


@contextlib.contextmanager
def _kept_there(target):
    """Makes the folder; a system's refusal of it, or in it, is a RuntimeError."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        yield
    except OSError as error:
        raise RuntimeError(f"ddprun: the extension for torch {torch.__version__} cannot be kept: {error}; XDG_CACHE_HOME names "
                           "another folder") from None


@contextlib.contextmanager
def _alone(target):
    """One process of this node at a time; the others wait."""
    with _kept_there(target), open(target + ".lock", "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure():
    """The file with the extension for this torch, which is made if it is not there; raises RuntimeError."""
    if (found := _first([shipped(), kept()])) is not None:
        return found
    if compiler() is None or not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        raise RuntimeError(f"ddprun: there is no extension for torch {torch.__version__} in this package, and no C++ compiler or no "
                           f"Python.h here to make it; where both are, make it by `{COMMAND}`, which writes {kept()}")
    target = kept()
    with _alone(target):
        if not os.path.exists(target):
            print(f"ddprun: making the extension for torch {torch.__version__}, once on this node (half a minute)",
                  file=sys.stderr, flush=True)
            compile_to(target)
    return target


def load():
    """The extension's module; raises RuntimeError."""
    path = ensure()
    try:
        # The extension takes the library's functions from the process.
        ctypes.CDLL(library(), mode=ctypes.RTLD_GLOBAL)
        loader = importlib.machinery.ExtensionFileLoader(NAME, path)
        spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError) as error:
        raise RuntimeError(f"ddprun: {path} cannot be loaded: {error}; make it anew by `{COMMAND}`") from None
    return module
