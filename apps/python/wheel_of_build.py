"""Makes the wheel of ddprun (PEP 517) of a release build, which it brings up to date; no compiling where that is done. Also the one
that leads to the checkout (PEP 660), and the sources to make it of.

The build is the checkout's `build/`, or the folder that DDPRUN_BUILD names. What is in the wheel, CMake's component `python` says
(CMakeLists.txt beside this). Needs no more than Python, CMake and what builds ddprun.
"""

import base64
import gzip
import hashlib
import io
import os
import platform
import re
import stat
import subprocess
import tarfile
import tempfile
import zipfile

import sbom

try:
    import tomllib
except ImportError:
    import tomli as tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
OLDEST_GLIBC = 28  # where torch's own wheels run; glibc_2_28.cpp sees to it
# All that a build reads, and what tries it.
SOURCES = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "apps", "collectives", "launcher", "rendezvous", "scripts",
           "tests")
SOURCE_TIME = 315532800  # 1980, as in the wheel; ninja takes 0 for a file that is not there
PROCESSORS = {62: "x86_64", 183: "aarch64"}  # by the numbers that files of machine code have (elf.h): the build's, not this machine's


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _project():
    return tomllib.loads(_text(os.path.join(HERE, "pyproject.toml")))["project"]


def _version():
    return re.search(r"project\(ddprun VERSION ([\d.]+)", _text(os.path.join(ROOT, "CMakeLists.txt")))[1]


def _build():
    return os.environ.get("DDPRUN_BUILD") or os.path.join(ROOT, "build")


def _bring_up_to_date():
    """The build, which it gives back."""
    build = _build()
    if not os.path.exists(os.path.join(build, "CMakeCache.txt")):
        subprocess.run(["cmake", "--preset", "release", "-B", build, "-DDDPRUN_BUILD_TESTS=OFF"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", build, "--target", "ddprun_wheel"], check=True)
    return build


def _install(folder):
    """What the wheel is made of, as `cmake --install` lays it out."""
    subprocess.run(["cmake", "--install", _bring_up_to_date(), "--component", "python", "--prefix", folder, "--strip"], check=True)


def _files(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def _tag(folder):
    """The oldest glibc that all of it runs with is the youngest version that any of it names; the processor is that of the programs."""
    newest, processor = OLDEST_GLIBC, platform.machine()
    for name in _files(folder):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        if content.startswith(b"\x7fELF"):
            newest = max([newest, *map(int, re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", content))])
            processor = PROCESSORS.get(int.from_bytes(content[18:20], "little"), processor)
    return f"py3-none-manylinux_2_{newest}_{processor}"


def _metadata(project, version, licences):
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
             f"Requires-Python: {project['requires-python']}", f"License-Expression: {project['license']}",
             f"Keywords: {','.join(project['keywords'])}", *(f"Classifier: {one}" for one in project["classifiers"]),
             *(f"License-File: {one}" for one in licences)]
    for extra, requirements in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {one}; extra == "{extra}"' for one in requirements)]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", _text(os.path.join(HERE, project["readme"]))])


def _entry_points(groups):
    return "".join(f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items()) for group, points in groups.items())


def _place(name, stem):
    """Where a wheel has what CMake has put at `name`."""
    top, _, rest = name.partition("/")
    return {"scripts": f"{stem}.data/scripts/{rest}", "share": f"{stem}.data/data/{name}",
            "licenses": f"{stem}.dist-info/licenses/{rest}"}.get(top, name)


def _pack(wheel, contents):
    """Writes the zip; the same contents give the same bytes."""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, mode in contents:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def _make(wheel_directory, tag, contents, entry_points, **about):
    """Packs the contents with what a wheel says of itself; returns its file name."""
    project, version = _project(), _version()
    stem = f"{project['name']}-{version}"
    contents = [(_place(name, stem), content, mode) for name, content, mode in contents]
    licences = [name.split("/licenses/")[1] for name, _, _ in contents if ".dist-info/licenses/" in name]
    about = {"METADATA": _metadata(project, version, licences), "entry_points.txt": _entry_points(entry_points),
             "WHEEL": f"Wheel-Version: 1.0\nGenerator: ddprun {version}\nRoot-Is-Purelib: false\nTag: {tag}\n", **about}
    contents += [(f"{stem}.dist-info/{name}", text.encode(), 0o644) for name, text in about.items()]
    record = f"{stem}.dist-info/RECORD"
    lines = []
    for name, content, _ in contents:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    contents.append((record, "".join([*lines, f"{record},,\n"]).encode(), 0o644))
    wheel = f"{stem}-{tag}.whl"
    _pack(os.path.join(wheel_directory, wheel), contents)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517's hook; returns the wheel's file name."""
    contents = []
    with tempfile.TemporaryDirectory() as folder:
        _install(folder)
        tag = _tag(folder)
        for name in _files(folder):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                contents.append((name, file.read(), 0o755 if os.access(path, os.X_OK) else 0o644))
    bill = sbom.bill(_text(os.path.join(_build(), "apps", "ddprun.version")), "ddprun")
    return _make(wheel_directory, tag, contents, _project()["entry-points"], **{"sboms/ddprun.cdx.json": bill})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660's hook; returns the name of a wheel that leads here, and to the build's programs, as they are when they are called."""
    _bring_up_to_date()
    programs = {"ddprun": "ddprun.__main__:become", "ddpctl": "ddprun.__main__:become_ddpctl"}
    return _make(wheel_directory, "py3-none-any", [("ddprun_checkout.pth", f"{HERE}\n".encode(), 0o644)],
                 {**_project()["entry-points"], "console_scripts": programs})


def _sources():
    """Their names below ROOT."""
    for name in SOURCES:
        path = os.path.join(ROOT, name)
        for at, folders, names in os.walk(path):
            folders[:] = sorted(set(folders) - {"__pycache__", "dist"})
            yield from (os.path.relpath(os.path.join(at, one), ROOT) for one in sorted(names))
        if os.path.isfile(path):
            yield name


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517's hook; returns the name of an archive of the whole tree, of which any machine that builds ddprun makes the wheel."""
    project, version = _project(), _version()
    stem = f"{project['name']}-{version}"
    above = _text(os.path.join(HERE, "pyproject.toml"))
    for inner, outer in (('["."]', '["apps/python"]'), (f'"{project["readme"]}"', f'"apps/python/{project["readme"]}"')):
        above = above.replace(inner, outer)
    contents = [("PKG-INFO", _metadata(project, version, ["LICENSE"]).encode(), 0o644), ("pyproject.toml", above.encode(), 0o644)]
    for name in _sources():
        path = os.path.join(ROOT, name)
        with open(path, "rb") as file:
            contents.append((name, file.read(), 0o755 if os.access(path, os.X_OK) else 0o644))
    archive = f"{stem}.tar.gz"
    with open(os.path.join(sdist_directory, archive), "wb") as file, gzip.GzipFile("", "wb", mtime=SOURCE_TIME, fileobj=file) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, mode in contents:
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, SOURCE_TIME
            tar.addfile(entry, io.BytesIO(content))
    return archive
