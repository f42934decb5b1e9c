"""Commands of the model and of extensions: own session, stdin null, scrubbed environment, and the whole tree killed.

Each command is held by a keeper process below the run's watcher (core/watcher.py). The keeper adopts every orphan of
its command, so a tree is dead when the keeper says so, and it kills at once when its socket closes: also after
kill -9 of agentctl.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping

from agentctl.core.spawn import Launched, Watcher, kill_adopted
from agentctl.core.types import CommandEnd, CommandLine
from agentctl.core.watcher import GRACE_S, KILL, KILL_S, TERMINATE

Sink = Callable[[str, bytes], None]

DRAIN_S = 2.0
"""How long output is still read after the command has ended while something else holds its pipes open."""
END_S = GRACE_S + KILL_S + 0.5
"""A keeper that has not reported the end of its tree by then is given up; closing its socket is the last order."""
LAST_BYTES_S = 0.2
"""For what still stands in the pipes of a dead tree."""
CHUNK = 65536
LAUNCHES = 3
"""A watcher that an earlier command has killed may take a launch with it while it dies."""


class ProcessRunner:
    """Implements core.ports.CommandRunner. `env` is the whole environment that commands get.

    Commands may run at the same time; each is its own tree. Call `close` at the end of the run.
    """

    def __init__(self, env: Mapping[str, str], *, adopts_orphans: bool = False) -> None:
        """`adopts_orphans`: this process is the home of orphans (levels.harden_self) and has no children but ours."""
        self._env = dict(env)
        self._adopts_orphans = adopts_orphans
        self._watcher = Watcher()
        self._running: set[_Command] = set()

    def prepare(self) -> None:
        """Starts the watcher in the background, so that the first command need not wait 15 ms for it."""
        self._watcher.start()

    async def run(self, command: CommandLine, sink: Sink) -> CommandEnd:
        """As promised by the port. Raises ProgramMissing, ValueError for a word that no program can get (a NUL byte),
        and OSError when the system cannot start the command, for example because its folder is gone."""
        for _ in range(LAUNCHES):
            running, end = await self._run_once(command, sink)
            if running.has_begun or end != CommandEnd(exit_code=None):
                return end
        raise OSError(errno.ECHILD, "the command could not be started: the process that starts commands was killed")

    async def _run_once(self, command: CommandLine, sink: Sink) -> tuple[_Command, CommandEnd]:
        launched = self._watcher.launch(command.argv, cwd=command.cwd, env={**self._env, **command.env})
        running = _Command(launched, sink)
        self._running.add(running)
        try:
            return running, await running.finish(command.timeout_s)
        except asyncio.CancelledError:
            await asyncio.shield(running.end(TERMINATE))
            raise
        finally:
            self._running.discard(running)
            running.close()

    def interrupt(self) -> int:
        """As promised by the port."""
        return sum(running.interrupt() for running in self._running)

    async def close(self) -> None:
        """Ends what still runs, then the watcher. Nothing of any command is alive afterwards."""
        await asyncio.gather(*(running.end(KILL) for running in self._running))
        for running in list(self._running):
            running.close()
        self._watcher.close()
        if self._watcher.losses and self._adopts_orphans:
            kill_adopted()


class _Command:
    """One running command, seen from the run: two pipes that are drained and a socket that tells how it goes."""

    def __init__(self, launched: Launched, sink: Sink) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._control = launched.control
        self._unsent = memoryview(launched.request)
        self._heard = b""
        self._pipes = {launched.stdout: "stdout", launched.stderr: "stderr"}
        self._status: int | None = None
        self._failure: OSError | None = None
        self.has_begun = False
        """When false, the command has done nothing yet, not even in part."""
        self._exited, self._interrupted, self._drained, self._dead = (self._loop.create_future() for _ in range(4))
        self._loop.add_writer(self._control, self._send)
        self._loop.add_reader(self._control, self._hear)
        for fd in self._pipes:
            self._loop.add_reader(fd, self._read, fd)

    async def finish(self, timeout_s: float) -> CommandEnd:
        """Until the command has ended or has to be ended; afterwards nothing of its tree is alive."""
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait({self._exited, self._interrupted}, timeout=timeout_s, return_when=first)
        is_interrupted = self._interrupted.done() and not self._exited.done()
        is_timed_out = not is_interrupted and not self._exited.done()
        if is_interrupted or is_timed_out:
            await self.end(TERMINATE)
        else:
            await asyncio.wait({self._drained, self._interrupted}, timeout=DRAIN_S, return_when=first)
            await self.end(KILL)
        if self._failure is not None:
            raise self._failure
        code = self._status
        return CommandEnd(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            is_timed_out=is_timed_out,
            is_interrupted=is_interrupted,
        )

    def interrupt(self) -> bool:
        """Whether there was something to stop."""
        if self._exited.done() or self._interrupted.done():
            return False
        self._interrupted.set_result(None)
        return True

    async def end(self, order: bytes) -> None:
        """Has the tree killed, gently or at once, and reads what it has left in the pipes."""
        if not self._dead.done():
            self._unsent = memoryview(bytes(self._unsent) + order)
            self._send()
            await asyncio.wait({self._dead}, timeout=END_S)
        if not self._drained.done():
            await asyncio.wait({self._drained}, timeout=LAST_BYTES_S)

    def close(self) -> None:
        """Lets go of everything; a tree that is still alive is killed by its keeper."""
        for fd in list(self._pipes):
            self._close_pipe(fd)
        if self._control >= 0:
            self._loop.remove_writer(self._control)
            self._loop.remove_reader(self._control)
            os.close(self._control)
            self._control = -1
        for future in (self._exited, self._dead):
            _settle(future)

    def _send(self) -> None:
        try:
            while self._unsent and self._control >= 0:
                self._unsent = self._unsent[os.write(self._control, self._unsent) :]
        except BlockingIOError:
            self._loop.add_writer(self._control, self._send)
            return
        except OSError:
            self._unsent = memoryview(b"")  # the keeper is gone; _hear says so
        if self._control >= 0:
            self._loop.remove_writer(self._control)

    def _hear(self) -> None:
        try:
            data = os.read(self._control, 4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._understand(*line.decode().split(" "))
        if not data:
            self._loop.remove_reader(self._control)
            self._unsent = memoryview(b"")
            _settle(self._exited)
            _settle(self._dead)

    def _understand(self, word: str, number: str, place: str = "") -> None:
        if word == "starting":
            self.has_begun = True
        elif word == "exited":
            self._status = int(number)
            _settle(self._exited)
        elif word == "dead":
            _settle(self._dead)
        elif word == "failed":
            code = int(number) or errno.EIO
            self._failure = OSError(code, f"the command could not be started ({place}): {os.strerror(code)}")

    def _read(self, fd: int) -> None:
        """One chunk a turn of the loop, so that a flood delays neither signals nor the deadline."""
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        if chunk:
            self._sink(self._pipes[fd], chunk)
        else:
            self._close_pipe(fd)

    def _close_pipe(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        os.close(fd)
        del self._pipes[fd]
        if not self._pipes:
            _settle(self._drained)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
