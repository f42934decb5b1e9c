"""The system calls that commands do not get, as a BPF program for the kernel. For x86-64 and AArch64.

A list of refusals and not of permissions: an unknown call of tomorrow should not break a compiler of today. What the
refusals protect is named in the table. Sockets are told apart by family only, because a filter cannot see addresses.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

from agentctl.core.record import Record

EPERM = 1
ENOSYS = 38

ALLOW = 0x7FFF0000
_ERRNO = 0x00050000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_DGRAM = 2
_SOCKET_TYPE = 0xF
NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET of clone(2)."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE = 0, 4


class Architecture(Record):
    """One way to count system calls."""

    audit: int
    column: int
    """Its place in the rows of CALLS."""
    has_x32: bool


ARCHITECTURES = {
    "x86_64": Architecture(audit=0xC000003E, column=0, has_x32=True),
    "aarch64": Architecture(audit=0xC00000B7, column=1, has_x32=False),
}
_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}

CALLS: dict[str, tuple[int, int]] = {
    "socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29), "clone": (56, 220), "clone3": (435, 435),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "perf_event_open": (298, 241),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "open_by_handle_at": (304, 265), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "swapon": (167, 224), "swapoff": (168, 225), "fanotify_init": (300, 262),
    "bpf": (321, 280), "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "syslog": (103, 116),
    "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
    "iopl": (172, -1), "ioperm": (173, -1),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
"""Numbers on x86-64 and AArch64; -1 where there is no such call."""

ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Answered as an old kernel would, so that libraries fall back: clone3 hides its flags from a filter, and what is
asked through io_uring passes every filter."""

_BY_ARGUMENT = ("socket", "socketpair", "ioctl", "clone")

REFUSED = tuple(name for name in CALLS if name not in (*ABSENT, *_BY_ARGUMENT))
"""Refused whatever their arguments: other processes' memory, namespaces and mounts, the kernel itself, the clock."""


def machine() -> str | None:
    """The name of this machine in ARCHITECTURES, or None."""
    name = platform.machine().lower()
    name = _OTHER_NAMES.get(name, name)
    return name if name in ARCHITECTURES else None


def families(network: str, *, has_unix: bool) -> tuple[int, ...]:
    """The socket families that commands get. `network` is off, loopback or on; whether loopback is only the
    sandbox's own is up to the network namespace."""
    return (*((AF_UNIX,) if has_unix else ()), *((AF_INET, AF_INET6, AF_NETLINK) if network != "off" else ()))


def build_filter(name: str, allowed_families: Sequence[int]) -> bytes:
    """The program for the architecture `name` as struct sock_filter: code, two jumps, a word; 8 bytes each."""
    arch = ARCHITECTURES[name]
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, arch.audit),
        (_RETURN, 0, 0, _ERRNO | ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if arch.has_x32:
        lines += [(_AT_LEAST, 0, 1, X32), (_RETURN, 0, 0, _ERRNO | ENOSYS)]
    for names, number in ((REFUSED, EPERM), (ABSENT, ENOSYS)):
        for call in names:
            if CALLS[call][arch.column] >= 0:
                lines += [(_EQUAL, 0, 1, CALLS[call][arch.column]), (_RETURN, 0, 0, _ERRNO | number)]
    for call, block in _blocks(allowed_families).items():
        lines += [(_EQUAL, 0, len(block), CALLS[call][arch.column]), *block]
    lines.append((_RETURN, 0, 0, ALLOW))
    return b"".join(
        code.to_bytes(2, "little") + bytes((yes, no)) + word.to_bytes(4, "little") for code, yes, no, word in lines
    )


def _blocks(allowed_families: Sequence[int]) -> dict[str, list[tuple[int, int, int, int]]]:
    """What is done for a call that is judged by its arguments. Each block ends with an answer."""
    refuse, allow = (_RETURN, 0, 0, _ERRNO | EPERM), (_RETURN, 0, 0, ALLOW)
    of_family = [(_EQUAL, len(allowed_families) - at, 0, family) for at, family in enumerate(allowed_families)]
    pair = [allow]
    if AF_UNIX not in allowed_families:
        # A datagram socket of a pair can be sent to any path; a stream socket stays with its other end.
        pair = [(_LOAD, 0, 0, _argument(1)), (_AND, 0, 0, _SOCKET_TYPE), (_EQUAL, 0, 1, SOCK_DGRAM), refuse, allow]
    return {
        "socket": [(_LOAD, 0, 0, _argument(0)), *of_family, refuse, allow],
        "socketpair": pair,
        "clone": [(_LOAD, 0, 0, _argument(0)), (_ANY_BIT, 0, 1, NEW_NAMESPACES), refuse, allow],
        "ioctl": [
            (_LOAD, 0, 0, _argument(1)),
            (_EQUAL, 1, 0, TIOCSTI),
            (_EQUAL, 0, 1, TIOCLINUX),
            refuse,
            allow,
        ],
    }


def _argument(index: int) -> int:
    """Where the low half of an argument stands in struct seccomp_data, on machines with the low byte first."""
    return 16 + 8 * index
