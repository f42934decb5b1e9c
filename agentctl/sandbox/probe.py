"""What a level is worth on this machine, found out by attacking it: a command of the real profile tries it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agentctl.core.files import create_file, write_all
from agentctl.core.ports import CommandRunner
from agentctl.core.prctl import FORBIDDEN_CAPABILITIES
from agentctl.core.record import Record
from agentctl.core.types import CommandLine
from agentctl.sandbox.containment import LANDLOCK_LEVEL, Containment, Places

TIMEOUT_S = 10.0

_PROGRAM = r"""
import _socket, errno, os, sys
parent, outside, network_space, workspace = sys.argv[1:5]
tmp = os.environ["TMPDIR"]

def attack(name, act):
    try:
        act()
        print(name, "done", flush=True)
    except OSError as error:
        print(name, "refused", error.errno, flush=True)

def write(path):
    with open(path, "a") as file:
        file.write("x")

def environ():
    with open(f"/proc/{parent}/environ", "rb") as file:
        if not file.read(1):
            raise OSError(0, "empty")

def work():
    write(f"{tmp}/probe")
    os.mkdir(f"{tmp}/probe-folder")
    try:
        os.rename(f"{tmp}/probe", f"{tmp}/probe-folder/probe")
    except OSError as error:
        if error.errno != errno.EXDEV:  # the first Landlock keeps files in their folders
            raise
    if not os.access(workspace, os.W_OK):
        raise OSError(errno.EACCES, "the workspace is not writable")
    try:
        os.close(os.open(workspace, os.O_TMPFILE | os.O_RDWR))
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):  # file systems without files that have no name
            raise

with open(f"{tmp}/mine", "w") as file:
    file.write("mine")
attack("work", work)
attack("chmod", lambda: os.chmod(f"{outside}/victim", 0o640))
attack("link", lambda: os.link(f"{outside}/victim", f"{tmp}/linked"))
attack("rename", lambda: os.rename(f"{tmp}/mine", f"{outside}/moved"))
attack("make", lambda: os.mkdir(f"{outside}/folder"))
attack("write", lambda: write(f"{outside}/victim"))
attack("truncate", lambda: os.truncate(f"{outside}/victim", 0))
attack("remove", lambda: os.unlink(f"{outside}/victim"))
attack("signal", lambda: os.kill(int(parent), 0))
attack("environ", environ)
for name in ("AF_INET", "AF_INET6", "AF_UNIX"):
    attack(name, lambda: _socket.socket(getattr(_socket, name), _socket.SOCK_STREAM))
attack("pair", lambda: _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_DGRAM))
if os.readlink("/proc/self/ns/net") != network_space:
    print("network-space own")
with open("/proc/self/status") as status:
    for line in status:
        name, _, value = line.partition(":")
        if name in ("NoNewPrivs", "Seccomp", "CapEff"):
            print(name, value.strip())
for name in ("probe-folder/probe", "probe", "mine", "linked"):
    if os.path.exists(f"{tmp}/{name}"):
        os.unlink(f"{tmp}/{name}")
if os.path.exists(f"{tmp}/probe-folder"):
    os.rmdir(f"{tmp}/probe-folder")
print("root", "read-only" if os.statvfs("/").f_flag & os.ST_RDONLY else "writable")
with open("/proc/self/limits") as limits:
    print("core", *(line.split()[4] for line in limits if line.startswith("Max core file size")))
print("stdin", os.readlink("/proc/self/fd/0"))
print("end")
"""


class Effect(Record):
    """What an attack on files leaves behind outside, and from which level and which Landlock on it must not."""

    name: str
    layer: str
    what: str
    level: int = LANDLOCK_LEVEL
    version: int = 1


EFFECTS: tuple[Effect, ...] = (
    Effect(name="content", layer="files", what="a command writes to files outside the workspace"),
    Effect(name="new", layer="files", what="a command makes files outside the workspace"),
    Effect(name="gone", layer="files", what="a command deletes files outside the workspace"),
    Effect(name="linked", layer="files", what="a command links files of outside"),
    Effect(name="empty", layer="truncate", what="a command empties files outside", version=3),
    Effect(name="mode", layer="chmod", what="a command changes the mode of files outside", level=3),
)
VICTIM = "victim"
_CONTENT = b"untouched"


async def attack(runner: CommandRunner, containment: Containment, places: Places, outside: Path) -> list[str]:
    """Runs the attacks as a command. Returns what is wrong, a line each; empty when the level holds.

    `outside` is an empty folder of ours that could be written but for the sandbox.
    """
    victim = outside / VICTIM
    fd = create_file(victim)
    write_all(fd, _CONTENT)
    os.close(fd)
    output, errors = bytearray(), bytearray()
    argv = (
        sys.executable, "-I", "-S", "-c", _PROGRAM, str(os.getpid()), str(outside), _network_space(),
        str(places.roots[0]),
    )  # fmt: skip
    line = CommandLine(argv=argv, cwd=str(places.roots[0]), timeout_s=TIMEOUT_S)
    try:
        await runner.run(line, lambda stream, chunk: (output if stream == "stdout" else errors).extend(chunk))
    except OSError as error:
        return [f"sandbox: {error.strerror or error}"]
    if not output.endswith(b"end\n"):
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["no answer"]
        return [f"sandbox: the test command did not run: {last[0]}"]
    said = dict(row.split(" ", 1) for row in output.decode(errors="replace").splitlines() if " " in row)
    left = _left_behind(victim)
    faults = [
        f"{row.layer}: {row.what}"
        for row in EFFECTS
        if row.level <= containment.level and row.version <= containment.landlock and row.name in left
    ]
    return [*faults, *(text for text, is_so in _facts(said, containment).items() if is_so)]


def _left_behind(victim: Path) -> set[str]:
    """Names of EFFECTS that are there."""
    left = {"new"} if [path for path in victim.parent.iterdir() if path != victim] else set()
    try:
        found = victim.stat()
    except OSError:
        return {*left, "gone"}
    facts = {
        "content": found.st_size not in (0, len(_CONTENT)),
        "empty": found.st_size == 0,
        "linked": found.st_nlink != 1,
        "mode": found.st_mode & 0o777 != 0o600,
    }
    return {*left, *(name for name, is_so in facts.items() if is_so)}


def _facts(said: Mapping[str, str], containment: Containment) -> dict[str, bool]:
    held = int(said.get("CapEff", "-1"), 16)
    reach = [name for name, number in FORBIDDEN_CAPABILITIES.items() if held >> number & 1]
    is_open = said.get("AF_INET") == "done" or said.get("AF_INET6") == "done"
    network = containment.network
    shares = said.get("network-space") != "own"
    return {
        f"work: commands cannot write to the workspace or TMPDIR ({said.get('work')})": said.get("work") != "done",
        "files: the root is not read-only": containment.level > LANDLOCK_LEVEL and said.get("root") != "read-only",
        "signals: a command signals agentctl": containment.landlock >= 6 and said.get("signal") == "done",
        "environ: a command reads the environment of agentctl": said.get("environ") == "done",
        "network: a command opens sockets": network == "off" and is_open,
        "network: a command shares the network of this machine": network == "loopback" and shares,
        "network: a command cannot open sockets although the network is on": network == "on" and not is_open,
        "unix-sockets: a command opens UNIX sockets": said.get("AF_UNIX") == "done"
        and (containment.level == LANDLOCK_LEVEL or network == "on"),
        "seccomp: there is no filter": said.get("Seccomp") != "2",
        "no-new-privileges: a command can gain privileges": said.get("NoNewPrivs") != "1",
        f"capabilities: commands keep {', '.join(reach)}": bool(reach),
        "core: a command can dump core": said.get("core") != "0",
        "stdin: a command can read the stdin of agentctl": said.get("stdin") != "/dev/null",
    }


def _network_space() -> str:
    try:
        return os.readlink("/proc/self/ns/net")  # noqa: PTH115  # a name of the kernel, no path
    except OSError:
        return ""
