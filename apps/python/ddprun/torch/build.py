"""The extension that fits this torch: shipped in the package, or made once and kept.

No stable interface covers torch's process groups, so that an extension fits one version of torch and of Python. Where the
package has none that fits, the first process of a node that needs it makes it, and the others wait for that one.
"""

import contextlib
import ctypes
import errno
import glob
import hashlib
import importlib.machinery
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import torch

from ddprun import places

from . import kept

NAME = "_ddprun_torch"
COMPILE_LIMIT = 900  # seconds; a hang guard
COMMAND = f"{shlex.quote(sys.executable)} -m ddprun.torch build"
NO_SPACE = "No space left on device"  # as the compiler says it, which is given no other language
_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCES = os.path.join(_HERE, "extension")


def version():
    """torch's, as numbers: (2, 15, 0)."""
    words = torch.__version__.split("+")[0].split(".")
    return tuple(int(re.match(r"\d*", word)[0] or 0) for word in words[:3])


def _header():
    """The library's, in the package or in the source tree."""
    name = "ddprun_collectives.h"
    root = places.checkout()
    return os.path.join(root, "collectives", name) if root else os.path.join(places.PACKAGE, "include", name)


def python_of(path=None):
    """Where the headers of that Python are, or of this one, and the name of its binary interface."""
    if path is None:
        return sysconfig.get_paths()["include"], own_interface()
    ask = "import sysconfig; print(sysconfig.get_paths()['include'], sysconfig.get_config_var('SOABI'), sep='\\n')"
    return subprocess.run([path, "-c", ask], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")[:2]


def own_interface():
    """The name of this Python's binary interface. (sysconfig would take half of the time in which a made extension is loaded.)"""
    return importlib.machinery.EXTENSION_SUFFIXES[0].split(".")[1]


def tag(interface):
    return f"torch-{'.'.join(map(str, version()))}-{interface}"


def _source_files():
    return sorted(glob.glob(os.path.join(_SOURCES, "*.[ch]pp")))


def kept_name():
    """The file that this torch's extension is kept in: another for each state of the sources, and for each build of torch."""
    digest = hashlib.sha256(f"{torch.__version__} {torch.compiled_with_cxx11_abi()}".encode())
    for path in [*_source_files(), _header()]:
        with open(path, "rb") as file:
            digest.update(file.read())
    return f"{tag(own_interface())}-{digest.hexdigest()[:12]}.so"


def shipped():
    return os.path.join(_HERE, "prebuilt", tag(own_interface()), f"{NAME}.so")


def compiler():
    return next(filter(None, map(shutil.which, [os.environ.get("CXX", ""), "g++", "clang++", "c++"])), None)


def _missing():
    """What it takes to make the extension and is not here; None where all is."""
    header = os.path.join(python_of()[0], "Python.h")
    return "C++ compiler (CXX, g++, clang++, c++)" if compiler() is None else None if os.path.exists(header) else header


def _inside():
    """Which ones the package has, for a sentence."""
    tags = [path.split(os.sep)[-2].split("-") for path in glob.glob(os.path.join(_HERE, "prebuilt", "*", f"{NAME}.so"))]
    torches, pythons = ({"-".join(tag[begin:end]) for tag in tags} for begin, end in ((1, 2), (2, 4)))
    return f" (the package has those for torch {', '.join(sorted(torches))} with {', '.join(sorted(pythons))})" if tags else ""


def _tree(folder):
    """Lays out below `folder` what the sources include, as the source tree has it; gives it back."""
    for path, what in (("apps/python/ddprun/torch/extension", _SOURCES), ("collectives/ddprun_collectives.h", _header())):
        os.makedirs(os.path.join(folder, os.path.dirname(path)))
        os.symlink(os.path.abspath(what), os.path.join(folder, path))
    return folder


# As the programs have them.
GUARDS = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_GLIBCXX_ASSERTIONS", "-Wl,-z,relro,-z,now",
          *(["-fcf-protection"] if os.uname().machine == "x86_64" else [])]


def _words(tree, include, linked, target):
    home = os.path.dirname(torch.__file__)
    includes = [os.path.join(home, "include"), os.path.join(home, "include", "torch", "csrc", "api", "include"), include]
    libraries = os.path.join(home, "lib")
    return [compiler(), "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-w", *GUARDS,
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", "-DTORCH_API_INCLUDE_EXTENSION_H",
            "-I", tree, *(f"-isystem{path}" for path in includes), *(f"-ffile-prefix-map={path}={name}" for path, name in ((tree, "."), (_SOURCES, "ddprun"), (home, "torch"))),
            *linked, "-x", "c++", "-", "-x", "none", "-L", libraries, "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10", "-o", target]


@contextlib.contextmanager
def made(below, python=None, linked=(), prefix="ddprun-"):
    """The file of the extension, compiled for that Python or for this one, in a folder below `below` that goes with it. Raises OSError where the
    system refuses, RuntimeError where it does not compile."""
    if compiler() is None:
        raise RuntimeError(f"ddprun: no C++ compiler (CXX, g++, clang++, c++) to make the extension for torch {torch.__version__}")
    with tempfile.TemporaryDirectory(dir=below, prefix=prefix) as folder:
        target = os.path.join(folder, f"{NAME}.so")
        # One unit, since most of the time goes into torch's headers.
        unit = "".join(f'#include "{path}"\n' for path in _source_files() if path.endswith(".cpp"))
        words = _words(_tree(folder), python_of(python)[0], linked, target)
        try:
            done = subprocess.run(words, input=unit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=COMPILE_LIMIT, check=False, env={**os.environ, "TMPDIR": folder, "LC_ALL": "C"})
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"ddprun: the extension for torch {torch.__version__} could not be made: {error}") from None
        if done.returncode != 0:
            if NO_SPACE in done.stdout:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), below)
            first = next((line for line in done.stdout.splitlines() if "error" in line), done.stdout.strip()[:500])
            raise RuntimeError(f"ddprun: the extension for torch {torch.__version__} does not compile ({compiler()} ended with "
                               f"{done.returncode}); perhaps this version of ddprun does not know this torch: "
                               f"{first or 'the compiler said nothing'}")
        yield target


def make(folder):
    """Makes the extension for this torch anew, in a kept.Folder."""
    prefix = f"{kept_name()}."
    folder.sweep(prefix, age=2 * COMPILE_LIMIT)
    with made(folder.path, prefix=prefix) as file:
        folder.take(file, kept_name())


def _ensured(folder):
    """The descriptor of the extension in this folder, which is made if it is not there."""
    name = kept_name()
    if (found := folder.opened(name)) is not None:
        return found
    if missing := _missing():
        raise RuntimeError(f"ddprun: there is no extension for torch {torch.__version__} and this Python in this package, and no {missing} here to "
                           f"make it (Debian: apt install g++ python3-dev); where there is one, make it by `{COMMAND}`, which writes "
                           f"{os.path.join(folder.path, name)}{_inside()}")
    with folder.alone(name, COMPILE_LIMIT):
        if (found := folder.opened(name)) is not None:
            return found
        kept.say(f"making the extension for torch {torch.__version__}, once on this node (half a minute)", by_all=True)
        make(folder)
    return folder.opened(name)


def in_a_folder(action, for_once=False):
    """kept.in_a_folder(); raises RuntimeError."""
    try:
        return kept.in_a_folder(action, for_once)
    except kept.Unfit as error:
        raise RuntimeError(f"ddprun: the extension for torch {torch.__version__} cannot be kept: {error}; {kept.HINT}") from None


def load():
    """The extension's module; raises RuntimeError."""
    try:
        # The extension takes the library's functions from the process.
        ctypes.CDLL(places.library(), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise RuntimeError(f"ddprun: {places.library()} cannot be loaded: {error}") from None
    path, reason = places.first([shipped()]), ""
    if path is not None:
        try:
            return _loaded(path, "one that fits is made here")
        except RuntimeError as error:
            reason = str(error)
            kept.say(reason[len("ddprun: "):])
    try:
        # What was asked is what is loaded, whatever has its name by then; the descriptor stays, so that no other file gets its number.
        return in_a_folder(lambda folder: _loaded(f"/proc/self/fd/{_ensured(folder)}"), for_once=True)
    except RuntimeError as error:
        if not reason:
            raise
        raise RuntimeError(f"{reason}; {error}") from None


def _loaded(path, remedy=f"make it anew by `{COMMAND}`"):
    try:
        loader = importlib.machinery.ExtensionFileLoader(NAME, path)
        spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError) as error:
        raise RuntimeError(f"ddprun: {os.path.realpath(path)} cannot be loaded: {error}; {remedy}") from None
    return module
