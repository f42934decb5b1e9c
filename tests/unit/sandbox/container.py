"""Runs a command where the kernel's walls are not to be had, as in some containers.

    python container.py no-landlock,no-namespaces COMMAND …

A seccomp filter answers for the kernel: Landlock's calls do not exist, user namespaces are not permitted.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))

from agentctl.core.confine import Filter
from agentctl.core.prctl import prctl
from agentctl.sandbox.seccomp import ALLOW, ARCHITECTURES, CALLS, machine

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_EPERM, _ENOSYS = 0x50001, 0x50026


def program(words: list[str]) -> bytes:
    name = machine()
    assert name is not None
    column = ARCHITECTURES[name].column
    lines = [(_LOAD, 0, 0, 0)]
    if "no-landlock" in words:
        for number in (444, 445, 446):
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ENOSYS)]
    if "no-namespaces" in words:
        lines += [(_EQUAL, 0, 1, CALLS["unshare"][column]), (_RETURN, 0, 0, _EPERM)]
        lines += [(_EQUAL, 0, 1, CALLS["clone3"][column]), (_RETURN, 0, 0, _ENOSYS)]
        lines += [(_EQUAL, 0, 3, CALLS["clone"][column]), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, 0x7E020000)]
        lines.append((_RETURN, 0, 0, _EPERM))
    lines.append((_RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


if __name__ == "__main__":
    prctl(38, 1)
    Filter(program(sys.argv[1].split(","))).load()
    os.execv(sys.argv[2], sys.argv[2:])
