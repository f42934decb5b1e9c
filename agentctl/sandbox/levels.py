"""How well commands are contained on this machine, and said no better than it is.

Level 1 (process): scrubbed environment, stdin null, own session, whole tree killed, agentctl unreadable for its
children, no core dumps, no capability that reads other processes. Kernel and namespace isolation are not there.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence

from agentctl.core.ports import CommandRunner
from agentctl.core.prctl import (
    FORBIDDEN_CAPABILITIES,
    GET_DUMPABLE,
    SET_CHILD_SUBREAPER,
    SET_DUMPABLE,
    prctl,
    undroppable,
)
from agentctl.core.types import CommandLine, JsonObject

_NOT_THERE = (
    "files: commands can write wherever this user can",
    "network: commands reach what this machine reaches",
)
"""Missing at level 1, always."""

_UNAVAILABLE = (
    ()
    if sys.platform == "linux"
    else (
        "daemons: a command that leaves its process group is not killed",
        "dumpable: this system cannot hide the memory of a process from its children",
    )
)

_PROBE = r"""
echo pid=$$
echo stdin=$(readlink /proc/self/fd/0)
echo session=$(cut -d ' ' -f 6 /proc/$$/stat)
echo core=$(ulimit -c)
echo environ=$(head -c 1 /proc/$1/environ 2>/dev/null)
echo capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
"""


def harden_self() -> list[str]:
    """Makes this process unreadable for its children, the home of orphans, and free of core dumps.

    For the command line only: it changes the process for good. Call it before anything of the workspace is read.
    Returns what could not be done, a line each; inherited descriptors are kept from children as well.
    """
    failed = []
    _close_on_exec()
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError) as error:
        failed.append(f"core: core dumps could not be switched off ({error})")
    if sys.platform == "linux":
        if prctl(SET_CHILD_SUBREAPER, 1) != 0:
            failed.append("subreaper: the kernel does not hand orphans to this process")
        if prctl(SET_DUMPABLE, 0) != 0:
            failed.append("dumpable: children can read the memory and environment of this process")
    return failed


def report(failed: Sequence[str] = (), *, wanted: str = "auto") -> JsonObject:
    """The fields of core.events.SandboxUsed: what holds right now, read back from the kernel where it can be.

    `failed` comes from `harden_self`. Costs less than 1 ms, because no command is run for it; `probe` runs one.
    """
    named = {line.partition(":")[0] for line in failed}
    missing = (*failed, *(line for line in _read_back() if line.partition(":")[0] not in named))
    return {
        "wanted": wanted,
        "level": 0 if missing else 1,
        "network": "on",
        "missing": (*missing, *_UNAVAILABLE, *_NOT_THERE),
        "fix": "Run agentctl in a container or as a user of its own when prompt or workspace are not trusted.",
    }


async def probe(runner: CommandRunner) -> list[str]:
    """Runs a command that tries what level 1 forbids. Returns what it could do, a line each; only on Linux."""
    if sys.platform != "linux":
        return []
    output = bytearray()
    line = CommandLine(argv=("sh", "-c", _PROBE, "sh", str(os.getpid())), cwd="/", timeout_s=10)
    await runner.run(line, lambda _stream, chunk: output.extend(chunk))
    said = dict(row.split("=", 1) for row in output.decode(errors="replace").splitlines() if "=" in row)
    held = int(said.get("capabilities", "-1"), 16)
    reach = [name for name, number in FORBIDDEN_CAPABILITIES.items() if held >> number & 1]
    faults = {
        "stdin: a command can read the stdin of agentctl": said.get("stdin") != "/dev/null",
        "session: a command shares the session of agentctl": said.get("session") != said.get("pid"),
        "core: a command can dump core": said.get("core") != "0",
        "dumpable: a command reads the environment of agentctl": said.get("environ") != "",
        f"capabilities: commands keep {', '.join(reach)}": bool(reach),
    }
    return [text for text, is_so in faults.items() if is_so]


def _read_back() -> list[str]:
    missing = []
    if resource.getrlimit(resource.RLIMIT_CORE)[0] != 0:
        missing.append("core: core dumps are on")
    if sys.platform == "linux":
        if prctl(GET_DUMPABLE) != 0:
            missing.append("dumpable: children can read the memory and environment of this process")
        if kept := undroppable():
            missing.append(f"capabilities: commands keep {', '.join(kept)}")
    return missing


def _close_on_exec() -> None:
    """Descriptors that this process was started with stay out of its children."""
    try:
        fds = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208  # names, not paths
    except OSError:
        return
    for fd in fds:
        if fd > 2:
            try:
                os.set_inheritable(fd, False)
            except OSError:  # the descriptor of the listing itself
                continue
