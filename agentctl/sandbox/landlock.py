"""The file walls of level 2 as the kernel takes them: which rights are handled, and where they are given.

Everything that changes files is handled as far as the kernel knows it; reading and executing is not. What a kernel is
too old for is said, never passed over. Constants: include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence

from agentctl.core.record import Record

WRITE_FILE = 1 << 1
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
REFER = 1 << 13
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12

BIND_TCP = 1 << 0
CONNECT_TCP = 1 << 1

SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0
SCOPE_SIGNAL = 1 << 1

_FIRST = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK
_FIRST |= MAKE_SYM
_DEVICES = MAKE_CHAR | MAKE_BLOCK
"""Rights that nobody gets, not even in the workspace: a device file is a way past every path."""
_ON_FILES = WRITE_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a rule on something else than a folder may give."""

HIGHEST = 1000
"""Above every version that there will be."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
SHARED_MEMORY = "/dev/shm"


class Gained(Record):
    """What a version of Landlock brought. `gap` is what commands can do on an older kernel."""

    version: int
    fs: int = 0
    net: int = 0
    scopes: int = 0
    gap: str


VERSIONS: tuple[Gained, ...] = (
    Gained(version=1, fs=_FIRST, gap="files: the kernel has no Landlock"),
    Gained(
        version=2,
        fs=REFER,
        gap="rename: files cannot be moved between folders, not even in the workspace (Landlock 1, Linux 5.19 has 2)",
    ),
    Gained(
        version=3,
        fs=TRUNCATE,
        gap="truncate: files outside can be emptied with truncate(2) (needs Landlock 3, Linux 6.2)",
    ),
    Gained(
        version=4,
        net=BIND_TCP | CONNECT_TCP,
        gap="tcp: only seccomp holds the network, Landlock does not (needs Landlock 4, Linux 6.7)",
    ),
    Gained(version=5, fs=IOCTL_DEV, gap="ioctl: devices can be controlled (needs Landlock 5, Linux 6.10)"),
    Gained(
        version=6,
        scopes=SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL,
        gap="signals: commands can signal other processes of this user (needs Landlock 6, Linux 6.12)",
    ),
)


class Rights(Record):
    """What a kernel handles."""

    fs: int
    net: int
    scopes: int
    gaps: tuple[str, ...]
    """What it does not, a line each."""


def rights_of(version: int, *, is_network_on: bool = False) -> Rights:
    """The rights that a ruleset for this Landlock version handles. With the network on TCP is left alone."""
    known = [row for row in VERSIONS if row.version <= version]
    return Rights(
        fs=sum(row.fs for row in known),
        net=0 if is_network_on else sum(row.net for row in known),
        scopes=sum(row.scopes for row in known),
        gaps=tuple(row.gap for row in VERSIONS if row.version > version and not (is_network_on and row.net)),
    )


def ruleset(version: int, rights: Rights) -> bytes:
    """struct landlock_ruleset_attr, as long as this version knows it."""
    fields = [rights.fs, *([rights.net] if version >= 4 else []), *([rights.scopes] if version >= 6 else [])]
    return b"".join(field.to_bytes(8, sys.byteorder) for field in fields)


def rules(rights: Rights, folders: Sequence[str]) -> tuple[tuple[bytes, int, bool], ...]:
    """(path, rights, whether it must exist): the whole of each folder, and the harmless devices.

    Shared memory counts as a folder where there is any.
    """
    inside = rights.fs & ~_DEVICES
    given = [(folder, inside, True) for folder in folders]
    given.append((SHARED_MEMORY, inside, False))
    given += [(device, rights.fs & _ON_FILES, False) for device in DEVICES if _is_device(device)]
    return tuple((os.fsencode(path), bits, must) for path, bits, must in given)


def _is_device(path: str) -> bool:
    """A rule with the rights of a device on something else would open a file."""
    try:
        return stat.S_ISCHR(os.lstat(path).st_mode)
    except OSError:
        return False
