"""Runs a command in which the kernel kills whoever asks for a socket that is not local to the machine's files.

    python without_sockets.py COMMAND ARGUMENT…

A seccomp filter on socket(2), inherited by every child: no part of the command can reach a network, nor try to.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

SOCKET = {"x86_64": 41, "aarch64": 198}
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NUMBER, _FIRST_ARGUMENT = 0, 16
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2


def refuse_sockets() -> None:
    lines = (
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 3, SOCKET[platform.machine()]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 1, 0, 1),  # AF_UNIX
        (_RETURN, 0, 0, _KILL),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = b"".join(struct.pack("HBBI", *line) for line in lines)
    buffer = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxQ", len(lines), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for order in ((_NO_NEW_PRIVS, 1, 0, 0, 0), (_SECCOMP, _FILTER, ctypes.create_string_buffer(head), 0, 0)):
        if libc.prctl(*order) != 0:
            raise OSError(ctypes.get_errno(), "seccomp is not possible here")


if __name__ == "__main__":
    refuse_sockets()
    os.execv(sys.argv[1], sys.argv[1:])
