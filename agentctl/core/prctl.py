"""The few attributes of a Linux process that Python has no function for. Elsewhere every call says no.

`_ctypes` loads in 0.6 ms, the `ctypes` package around it in 4; this module is imported by every run and by the
watcher of its commands.
"""

from __future__ import annotations

import os
import sys

try:
    import _ctypes
except ImportError:  # a Python built without libffi
    _ctypes = None  # type: ignore[assignment]  # stands for "not there"

GET_DUMPABLE = 3
SET_DUMPABLE = 4
CAPBSET_READ = 23
CAPBSET_DROP = 24
SET_CHILD_SUBREAPER = 36
CAP_AMBIENT = 47
CAP_AMBIENT_CLEAR_ALL = 4

FORBIDDEN_CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39}
"""With one of these a command that runs as root reads the memory or the environment of agentctl."""

_SYMBOLS: dict[str, int] = {}
_CAP_SETPCAP = 8
_CAPABILITY_VERSION = 0x20080522


def prctl(option: int, argument: int = 0, structure: bytes | int = 0) -> int:
    """The result of prctl(2); -1 when the kernel refused it or is not Linux. `structure` is a third argument."""
    if sys.platform != "linux" or _ctypes is None:
        return -1
    return int(_ctypes.call_function(_symbol("prctl"), (option, argument, structure, 0, 0)))


def kernel_call(number: int, *arguments: bytes | int | None) -> int:
    """The result of syscall(2) for a call that has the same number everywhere; -1 when refused or not Linux. Bytes go
    as a pointer to them, None as a null pointer."""
    if sys.platform != "linux" or _ctypes is None:
        return -1
    return int(_ctypes.call_function(_symbol("syscall"), (number, *arguments)))


def capability_sets() -> dict[str, int]:
    """CapInh, CapPrm, CapEff, CapBnd and CapAmb of this thread as bit sets; empty where /proc does not tell."""
    try:
        with open("/proc/thread-self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123  # pathlib costs the watcher 4 ms
            rows = [line.split() for line in status if line.startswith("Cap")]
    except OSError:
        return {}
    return {row[0].rstrip(":"): int(row[1], 16) for row in rows}


def drop_capabilities() -> None:
    """Takes the forbidden capabilities from every program that this process will execute; it keeps its own.

    A program that root executes gets the bounding set, so that is where they go; the ambient and the inheritable
    set would bring them back. What could not be dropped still stands in `capability_sets`.
    """
    for number in FORBIDDEN_CAPABILITIES.values():
        prctl(CAPBSET_DROP, number)
    prctl(CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL)
    sets = capability_sets()
    if sets.get("CapInh"):
        _set_capabilities(sets["CapEff"], sets["CapPrm"], 0)


def undroppable() -> list[str]:
    """The forbidden capabilities that programs keep in spite of `drop_capabilities`.

    Taking one from the bounding set needs CAP_SETPCAP, and a program gains from that set only when root executes it.
    """
    sets = capability_sets()
    if not sets or sets["CapEff"] >> _CAP_SETPCAP & 1 or os.geteuid() != 0:
        return []
    return [name for name, number in FORBIDDEN_CAPABILITIES.items() if sets["CapBnd"] >> number & 1]


def _set_capabilities(effective: int, permitted: int, inheritable: int) -> None:
    """capset(2): a header of version and thread, then three words for the low and three for the high half."""
    words = [bits >> shift & 0xFFFFFFFF for shift in (0, 32) for bits in (effective, permitted, inheritable)]
    header = b"".join(word.to_bytes(4, sys.byteorder) for word in (_CAPABILITY_VERSION, 0))
    data = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    _ctypes.call_function(_symbol("capset"), (header, data))


def _symbol(name: str) -> int:
    if name not in _SYMBOLS:
        _SYMBOLS[name] = _ctypes.dlsym(_ctypes.dlopen(None, 0), name)  # type: ignore[arg-type]  # None is the program itself
    return _SYMBOLS[name]
