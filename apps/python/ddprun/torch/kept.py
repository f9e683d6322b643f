"""Where an extension that was made is kept: in a folder of this user alone, opened once, whose files are asked by descriptors.

What is loaded here is executed, so that neither the folder nor the file may be anybody else's, or anybody else's to move away, whatever
the umask. Where the cache cannot have it, a folder in TMPDIR does.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import sys
import tempfile
import threading
import time

HINT = "XDG_CACHE_HOME names another folder"
LOCK_NOTICE = 2.0  # seconds


class Unfit(Exception):
    """The folder cannot keep an extension; the text says why."""


def say(text, by_all=False):
    """On stderr; by the first rank of a node, or by all."""
    if by_all or os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"ddprun: {text}", file=sys.stderr, flush=True)


def _check(descriptor, path):
    found = os.fstat(descriptor)
    if found.st_uid not in (0, os.geteuid()):
        raise Unfit(f"{path} is another user's")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unfit(f"others can write to {path}")


class Folder:
    """One that is open; `path` is what it was opened by. All calls raise OSError, too."""

    def __init__(self, path):
        self.path = path
        _make(path)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            # Its name is used, too: nobody else may move it away. A group with its owner's number is that user's alone.
            above = os.stat("..", dir_fd=self.descriptor)
            writers = stat.S_IWOTH | (stat.S_IWGRP if above.st_gid != above.st_uid else 0)
            if above.st_mode & writers and not above.st_mode & stat.S_ISVTX:
                raise Unfit(f"others can rename {path}")
            if os.fstat(self.descriptor).st_uid == os.geteuid():
                os.fchmod(self.descriptor, 0o700)
            _check(self.descriptor, path)
            if os.fstatvfs(self.descriptor).f_flag & os.ST_NOEXEC:
                raise Unfit(f"{path} is mounted noexec")
        except BaseException:
            self.close()
            raise

    def close(self):
        os.close(self.descriptor)

    def opened(self, name):
        """The file's descriptor, None where there is none. Raises Unfit where somebody else can have written it."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        try:
            _check(file, os.path.join(self.path, name))
        except Unfit:
            os.close(file)
            raise
        return file

    @contextlib.contextmanager
    def alone(self, name, limit):
        """One process at a time; raises TimeoutError after `limit` seconds."""
        file = os.open(f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=self.descriptor)
        try:
            _lock(file, os.path.join(self.path, f"{name}.lock"), limit)
            yield
        finally:
            os.close(file)

    def sweep(self, prefix, age):
        """Removes folders with such names that nothing has come into for `age` seconds: whoever made them was killed."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.name.startswith(prefix) or not entry.is_dir(follow_symlinks=False):
                    continue
                with contextlib.suppress(FileNotFoundError):  # Whoever made it has just ended.
                    if entry.stat().st_mtime < time.time() - age:
                        shutil.rmtree(entry.path, ignore_errors=True)

    def take(self, made, name):
        """Puts the file `made`, which lies below the folder, in the place of `name`: all of it or nothing."""
        os.chmod(made, 0o700)
        os.rename(os.path.relpath(made, self.path), name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)


def _make(path):
    """The folder and those above it, for this user alone."""
    if not os.path.isdir(path):
        _make(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def _lock(file, path, limit):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        pass
    refused = []

    def wait():
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            refused.append(error)

    # In a thread of its own, since a lock has no deadline.
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(LOCK_NOTICE)
    if waiting.is_alive():
        say(f"waiting for the process that has {path}: it makes the extension for this torch", by_all=True)
        waiting.join(limit)
    if waiting.is_alive():
        raise TimeoutError(f"{path} is not free after {limit} s; end the process that has it")
    if refused:
        raise refused[0]


def cache():
    said = os.environ.get("XDG_CACHE_HOME", "")
    above = said if os.path.isabs(said) else os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(above):
        raise Unfit("this user has no home")
    return os.path.join(above, "ddprun")


def in_a_folder(action, for_once):
    """What `action` gives for the first folder in which it can be had: the cache, this user's in TMPDIR, or one that nobody can have
    been in before and that goes with this call. Raises Unfit."""
    refusals = []
    places = [cache, lambda: os.path.join(tempfile.gettempdir(), f"ddprun-{os.geteuid()}")]
    with contextlib.ExitStack() as gone:
        for place in places + [lambda: gone.enter_context(tempfile.TemporaryDirectory(prefix="ddprun-"))] * for_once:
            path = "TMPDIR"
            try:
                path = place()
                with contextlib.closing(Folder(path)) as folder:
                    had = action(folder)
                    if refusals:
                        say(f"the extension for this torch is kept in {path}: {refusals[-1]}; {HINT}")
                    return had
            except Unfit as error:
                refusals.append(str(error))
            except OSError as error:
                refusals.append(f"{path}: {error.strerror or error}")
    raise Unfit("; ".join(refusals))
