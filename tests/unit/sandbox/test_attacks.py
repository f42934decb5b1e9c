"""What commands must not be able to do, with real tools: exit 0, or any effect outside, is a breach.

Each attack is first made without walls, where it has to succeed: an attack that cannot win proves nothing.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from tests.unit.sandbox.sandbox_world import PYTHON, SECRET, Target, World

if sys.platform != "linux":
    pytest.skip("Landlock, seccomp and namespaces are Linux's", allow_module_level=True)


class Attack(NamedTuple):
    """`script` runs in the workspace. It is refused from `level` on."""

    name: str
    script: str
    level: int = 2
    needs: str = "bash"
    only_effect: bool = False
    """The exit code says nothing: some tools fail when they get through, some succeed when nobody hears them."""
    may_lose: bool = False
    """Without walls, too: Yama or missing capabilities stand in the way on some machines."""


def _python(code: str) -> str:
    return f'{PYTHON} -I -c "{code}"'


NETWORK = (
    Attack("curl", "curl -sS -o /dev/null --max-time 3 http://127.0.0.1:{port}/", needs="curl"),
    Attack("wget", "wget -q -O /dev/null -T 3 -t 1 http://127.0.0.1:{port}/", needs="wget"),
    Attack("nc", "nc -z -w 2 127.0.0.1 {port}", needs="nc"),
    Attack("ssh", "ssh -oBatchMode=yes -oConnectTimeout=3 -p {port} 127.0.0.1 true", needs="ssh", only_effect=True),
    Attack("git", "git ls-remote http://127.0.0.1:{port}/x.git", needs="git", only_effect=True),
    Attack("dev-tcp", "exec 3<>/dev/tcp/127.0.0.1/{port}"),
    Attack("dev-udp", "echo x > /dev/udp/127.0.0.1/{udp}", only_effect=True),
    Attack("python-tcp", _python("import socket; socket.create_connection(('127.0.0.1', {port}), 3)")),
    Attack("python-tcp6", _python("import socket; socket.create_connection(('::1', {port6}), 3)")),
    Attack(
        "python-udp",
        _python("import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {udp}))"),
        only_effect=True,
    ),
    Attack("docker-sock", "curl -sS -o /dev/null --max-time 3 --unix-socket {socket} http://x/", needs="curl"),
    Attack("unix-python", _python("import socket; socket.socket(1).connect('{socket}')")),
    Attack("unix-datagram", _python("import socket; socket.socket(1, 2).sendto(b'x', '{log}')")),
    Attack("unix-pair", _python("import socket; socket.socketpair(1, 2)[0].sendto(b'x', '{log}')"), only_effect=True),
    Attack("unix-abstract", _python("import socket; socket.socket(1).connect('\\0{abstract}')")),
)
FILES = (
    Attack("write", "echo x > {outside}/victim"),
    Attack("append", "echo x >> {outside}/victim"),
    Attack("new", "echo x > {outside}/new"),
    Attack("home", "echo x > ~/.bashrc && cp ~/.bashrc {outside}/copied"),
    Attack("symlink", "ln -s {outside} link && echo x > link/victim"),
    Attack("dot-dot", "echo x > ../outside/victim"),
    Attack("proc-root", "echo x > /proc/self/root{outside}/victim"),
    Attack("proc-cwd", "echo x > /proc/self/cwd/../outside/victim"),
    Attack("rename-out", "echo x > mine && mv mine {outside}/victim"),
    Attack("rename-in", "mv {outside}/victim mine"),
    Attack("rename-folder", "mv {outside}/empty {outside}/other"),
    Attack("hard-link", "ln {outside}/victim mine && echo x > mine"),
    Attack("hard-link-out", "echo x > mine && ln mine {outside}/linked"),
    Attack("delete", "rm {outside}/victim"),
    Attack("rmdir", "rmdir {outside}/empty"),
    Attack("mkdir", "mkdir {outside}/folder"),
    Attack("truncate", "truncate -s 0 {outside}/victim"),
    Attack("truncate-call", _python("import os; os.truncate('{outside}/victim', 0)")),
    Attack("fifo", "mkfifo {outside}/pipe"),
    Attack("socket-file", _python("import socket; socket.socket(1).bind('{outside}/s')")),
    Attack("dd", "dd if=/dev/zero of={outside}/victim bs=1 count=4 conv=notrunc"),
    Attack("sed", "sed -i s/untouched/x/ {outside}/victim"),
    Attack("tar", "echo x > mine && tar -c mine | tar -x -C {outside}"),
    Attack("git-init", "git init -q {outside}/repo", needs="git", only_effect=True),
    Attack("tmpfile", _python("import os; os.open('{outside}', os.O_TMPFILE | os.O_RDWR)")),
    Attack("chmod", "chmod 777 {outside}/victim", level=3),
    Attack("touch", "touch -d 2001-01-01 {outside}/victim", level=3),
)
PROCESSES = (
    Attack("kill", "kill -9 {pid}"),
    Attack("environ", "grep -q {secret} /proc/{pid}/environ"),
    Attack("memory", _python("import os; os.pread(os.open('/proc/{pid}/mem', 0), 1, 0)"), may_lose=True),
    Attack("gdb", "gdb -batch -nx -p {pid} -ex 'info proc' 2>&1 | grep -q 'process {pid}'", needs="gdb", may_lose=True),
    Attack("strace", "timeout 3 strace -o /dev/null -e trace=none true", needs="strace"),
    Attack(
        "ptrace",
        _python("import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0x4206, {pid}, 0, 0) < 0)"),
        may_lose=True,
    ),
    Attack("renice", "renice -n 5 -p {pid}", level=3),
    Attack("score", "echo 500 > /proc/{pid}/oom_score_adj"),
    Attack("unshare", "unshare -Urm true", needs="unshare"),
    Attack("unshare-net", "unshare -Urn true", needs="unshare"),
)
ALL = (*NETWORK, *FILES, *PROCESSES)
PRESENT = tuple(attack for attack in ALL if shutil.which(attack.needs))
MISSING = sorted({attack.needs for attack in ALL} - {attack.needs for attack in PRESENT})


@pytest.fixture
def world() -> Iterator[World]:
    """Not below /tmp, which level 3 covers: there the read-only root has to hold."""
    base = Path(__file__).parents[3] / ".pytest_cache"
    base.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=base) as folder:
        yield World(Path(folder).resolve())


@pytest.fixture
def target(world: World, request: pytest.FixtureRequest) -> Iterator[Target]:
    attack = request.node.callspec.params["attack"]
    aim = Target(world.folder, has_sockets=attack in NETWORK)
    yield aim
    aim.close()


def breaches(
    world: World, target: Target, attack: Attack, level: int, network: str = "loopback", patience_s: float = 0.02
) -> list[str]:
    """What an attack achieved. Who was reached may be known a moment after the command has ended."""
    before, hits = world.outside_state(), target.hits
    score = Path(f"/proc/{target.process.pid}/oom_score_adj").read_text()
    words = {
        "outside": str(world.outside), "port": target.port, "port6": target.port6, "udp": target.udp,
        "socket": target.socket, "log": target.log, "abstract": target.abstract, "pid": target.process.pid,
        "secret": SECRET,
    }  # fmt: skip
    script = attack.script
    for word, value in words.items():
        script = script.replace(f"{{{word}}}", str(value))
    ran = world.run(level, script, network=network, timeout_s=8)
    deadline = time.monotonic() + patience_s
    while target.hits == hits and time.monotonic() < deadline and attack in NETWORK:
        time.sleep(0.005)
    found = {
        f"exit 0: {ran.out}{ran.err}": ran.is_ok and not attack.only_effect,
        "somebody was reached": target.hits != hits,
        "something outside has changed": world.outside_state() != before,
        "a process outside was killed": not target.is_alive(),
        "a process outside was changed": target.is_alive()
        and Path(f"/proc/{target.process.pid}/oom_score_adj").read_text() != score,
    }
    return [text for text, is_so in found.items() if is_so]


def test_the_tools_that_matter_are_here() -> None:
    assert not {"curl", "git", "ssh", "unshare"} & set(MISSING), f"attacks need {MISSING}"


@pytest.mark.parametrize("attack", PRESENT, ids=lambda attack: attack.name)
def test_an_attack_wins_without_walls_and_fails_behind_them(attack: Attack, world: World, target: Target) -> None:
    for level in (2, 3):
        if level >= attack.level:
            assert breaches(world, target, attack, level) == []
    (world.root / "link").unlink(missing_ok=True)
    (world.root / "mine").unlink(missing_ok=True)
    if not attack.may_lose:
        assert breaches(world, target, attack, 1, patience_s=1), "the attack cannot win at all"


@pytest.mark.parametrize("attack", [row for row in PRESENT if row in NETWORK], ids=lambda attack: attack.name)
def test_network_modes(attack: Attack, world: World, target: Target) -> None:
    """Off is off at level 3 too. With the network on, ports are reached, and sockets of services still are not."""
    assert breaches(world, target, attack, 3, "off") == []
    for level in (2, 3):
        is_port = "unix" not in attack.name and attack.name != "docker-sock"
        found = breaches(world, target, attack, level, "on", patience_s=1 if is_port else 0.02)
        assert bool(found) == is_port, (level, found)


@pytest.mark.parametrize("attack", [row for row in PRESENT if row.name in ("chmod", "touch")], ids=lambda row: row.name)
def test_the_gaps_of_level_2_are_those_that_it_names(attack: Attack, world: World, target: Target) -> None:
    """Documented, and reported by `init`; should one close, the table changes."""
    assert breaches(world, target, attack, 2)
