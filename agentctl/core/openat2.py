"""openat2(2): the kernel itself keeps a path below a held folder. Python has no function for it.

A refusal carries no reason, because `_ctypes` does not hand on errno: who needs one walks the path folder by folder
(config/workspace.py), which is as strict and says what is wrong.
"""

from __future__ import annotations

import os
import sys

_SYSCALL = 437
"""The same number on every architecture."""
BENEATH = 0x08
NO_MAGICLINKS = 0x02
NO_SYMLINKS = 0x04

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NAME_ONLY = getattr(os, "O_PATH", 0) | os.O_CLOEXEC
"""Opens nothing: enough to look at what kind of thing a path leads to."""


class Openat2:
    """The call, found once. Every method takes a path without a leading slash and returns a descriptor or -1."""

    def __init__(self) -> None:
        import _ctypes  # loads in 0.6 ms; agentctl.core.prctl has mostly done it

        self._call = _ctypes.call_function
        self._syscall = _ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall")  # type: ignore[arg-type]  # the program itself
        self._how: dict[tuple[int, int], bytes] = {}

    def open(self, folder: int, path: str, flags: int, resolve: int = BENEATH | NO_MAGICLINKS) -> int:
        """`path` may run through symlinks as long as they stay below `folder`."""
        how = self._how.get((flags, resolve))
        if how is None:
            how = b"".join(number.to_bytes(8, sys.byteorder) for number in (flags, 0, resolve))
            self._how[flags, resolve] = how
        return int(self._call(self._syscall, (_SYSCALL, folder, os.fsencode(path), how, len(how))))

    def open_folder(self, folder: int, path: str) -> int:
        """`path` must not run through symlinks, so its names are the place."""
        return self.open(folder, path, FOLDER, BENEATH | NO_MAGICLINKS | NO_SYMLINKS)


_found: list[Openat2 | None] = []


def find_openat2() -> Openat2 | None:
    """The call when this kernel has it and lets us use it; tried once, at the first path that is looked at."""
    if not _found:
        _found.append(_probe())
    return _found[0]


def _probe() -> Openat2 | None:
    """Asks for what must work and for what must not: an emulation that ignores the limits is none."""
    if sys.platform != "linux":
        return None
    try:
        call = Openat2()
        root = os.open("/", FOLDER)
    except (ImportError, OSError):  # a Python built without libffi, a C library without syscall()
        return None
    try:
        inside, above = call.open(root, ".", NAME_ONLY), call.open(root, "..", NAME_ONLY)
    finally:
        os.close(root)
    for fd in (inside, above):
        if fd >= 0:
            os.close(fd)
    return call if inside >= 0 and above < 0 else None
