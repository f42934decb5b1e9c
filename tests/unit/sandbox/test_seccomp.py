"""The filter of system calls: its program read by a second interpreter for both machines, and by this kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.sandbox.seccomp import (
    ABSENT,
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    ARCHITECTURES,
    CALLS,
    EPERM,
    REFUSED,
    build_filter,
    families,
    machine,
)
from tests.unit.sandbox.bpf import run_filter

ROOT = Path(__file__).parents[3]
ALLOWED, REFUSAL, MISSING = ("allow", 0), ("errno", EPERM), ("errno", 38)
ORDINARY = {
    "x86_64": {"read": 0, "openat": 257, "connect": 42, "execve": 59, "futex": 202, "statx": 332},
    "aarch64": {"read": 63, "openat": 56, "connect": 203, "execve": 221, "futex": 98, "statx": 291},
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_is_refused_and_what_is_not(name: str) -> None:
    arch, program = ARCHITECTURES[name], build_filter(name, ())
    number = {call: numbers[arch.column] for call, numbers in CALLS.items()}
    said = {call: run_filter(program, arch.audit, number[call]) for call in CALLS if number[call] >= 0}
    assert {said[call] for call in REFUSED if number[call] >= 0} == {REFUSAL}
    assert {said[call] for call in ABSENT} == {MISSING}
    assert {run_filter(program, arch.audit, call) for call in ORDINARY[name].values()} == {ALLOWED}
    known = set(number.values())
    others = [call for call in range(480) if call not in known]
    assert {run_filter(program, arch.audit, call) for call in others} == {ALLOWED}


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("clone", (0x01200011,), ALLOWED),  # fork
        ("clone", (0x3D0F00,), ALLOWED),  # a thread
        ("clone", (0x10000011,), REFUSAL),  # a user namespace
        ("clone", (0x40000011,), REFUSAL),  # a network namespace
        ("clone", (0x00020011,), REFUSAL),  # a mount namespace
        ("ioctl", (0, 0x5401), ALLOWED),
        ("ioctl", (0, 0x5412), REFUSAL),  # TIOCSTI types into the terminal of somebody else
        ("ioctl", (0, 0xFFFFFFFF00005412), REFUSAL),  # the kernel takes the low half only
        ("ioctl", (0, 0x541C), REFUSAL),
        ("socketpair", (AF_UNIX, 1), ALLOWED),
        ("socketpair", (AF_UNIX, 0x80801), ALLOWED),  # with flags
        ("socketpair", (AF_UNIX, 5), ALLOWED),
        ("socketpair", (AF_UNIX, 2), REFUSAL),  # a datagram socket reaches any path
        ("socketpair", (AF_UNIX, 0x80802), REFUSAL),
    ],
)
def test_calls_that_are_judged_by_their_arguments(
    name: str, call: str, arguments: tuple[int, ...], expected: tuple[str, int]
) -> None:
    arch = ARCHITECTURES[name]
    assert run_filter(build_filter(name, ()), arch.audit, CALLS[call][arch.column], arguments) == expected


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("has_unix", [False, True])
@pytest.mark.parametrize("network", ["off", "loopback", "on"])
def test_socket_families(name: str, network: str, has_unix: bool) -> None:
    arch, allowed = ARCHITECTURES[name], families(network, has_unix=has_unix)
    program = build_filter(name, allowed)
    number = CALLS["socket"][arch.column]
    passed = {family for family in range(46) if run_filter(program, arch.audit, number, (family, 1)) == ALLOWED}
    expected = {AF_UNIX} if has_unix else set()
    assert passed == (expected if network == "off" else expected | {AF_INET, AF_INET6, AF_NETLINK})
    pair = run_filter(program, arch.audit, CALLS["socketpair"][arch.column], (AF_UNIX, 2))
    assert pair == (ALLOWED if has_unix else REFUSAL)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_other_ways_to_count_calls_do_not_pass(name: str) -> None:
    """i386 on x86-64, ARM on AArch64, and x32, whose numbers have a bit of their own."""
    program = build_filter(name, ())
    for audit in (0x40000003, 0x40000028, *(a.audit for n, a in ARCHITECTURES.items() if n != name)):
        assert run_filter(program, audit, 0) == MISSING
    if ARCHITECTURES[name].has_x32:
        assert run_filter(program, ARCHITECTURES[name].audit, 0x40000000 + 41) == MISSING


def test_the_numbers_are_those_of_the_headers() -> None:
    """Against the headers of this machine, where a compiler is at hand."""
    name = machine()
    assert name is not None
    lines = "".join(f"#ifdef __NR_{call}\n{call} __NR_{call}\n#endif\n" for call in CALLS)
    source = f"#include <sys/syscall.h>\n{lines}"
    done = subprocess.run(["cc", "-E", "-P", "-"], input=source, capture_output=True, text=True, check=True)
    said = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2 and line[0].isalpha())
    numbers = {call: int(number) for call, number in said.items() if call in CALLS and number.isdigit()}
    assert len(numbers) > 40
    column = ARCHITECTURES[name].column
    assert numbers == {call: CALLS[call][column] for call in numbers}


def test_the_other_column_is_that_of_the_generic_headers() -> None:
    """AArch64 counts as include/uapi/asm-generic/unistd.h does; shown where that header is installed."""
    header = Path("/usr/include/asm-generic/unistd.h")
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    words = [line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR")]
    said = {row[1].removeprefix("__NR3264_").removeprefix("__NR_"): row[2] for row in words if len(row) > 2}
    numbers = {call: int(said[call]) for call in CALLS if said.get(call, "").isdigit()}
    assert len(numbers) > 35
    assert numbers == {call: CALLS[call][ARCHITECTURES["aarch64"].column] for call in numbers}


_TRY = """
import ctypes, json, os, sys
sys.path.append(sys.argv[1])
from agentctl.core.confine import Confinement, encode_plan
from agentctl.sandbox.seccomp import ABSENT, CALLS, REFUSED, ARCHITECTURES, build_filter, machine
name = machine()
column = ARCHITECTURES[name].column
libc = ctypes.CDLL(None, use_errno=True)
Confinement(encode_plan(filter_program=build_filter(name, ()))).enter()
def errno(call, *arguments):
    ctypes.set_errno(0)
    libc.syscall(CALLS[call][column], *arguments)
    return ctypes.get_errno()
harmless = [call for call in REFUSED if CALLS[call][column] >= 0 and call not in ("vhangup", "reboot")]
print(json.dumps({call: errno(call, -1, -1, -1, -1, -1) for call in (*harmless, *ABSENT)}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a filter of Linux")
def test_this_kernel_reads_it_the_same_way() -> None:
    import json

    done = subprocess.run([sys.executable, "-I", "-c", _TRY, str(ROOT)], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert {call for call, errno in said.items() if errno == 38} == set(ABSENT)
    assert {errno for call, errno in said.items() if call not in ABSENT} == {EPERM}
    assert len(said) > 35


def test_a_filter_that_the_kernel_does_not_take_fails_the_command() -> None:
    if sys.platform != "linux":
        pytest.skip("a filter of Linux")
    from agentctl.core.confine import Confinement, NotConfined, encode_plan

    broken = build_filter("x86_64", ())[:-8]  # no answer at the end
    pid = os.fork()
    if pid == 0:
        try:
            Confinement(encode_plan(filter_program=broken, kept_capabilities=tuple(range(41)))).enter()
        except NotConfined as error:
            os._exit(7 if error.place == "seccomp" else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
