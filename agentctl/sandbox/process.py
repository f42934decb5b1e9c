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
from typing import TYPE_CHECKING

from agentctl.core.spawn import DEFAULT_PATH, Launched, ProgramMissing, Watcher, find_program, kill_adopted
from agentctl.core.types import CommandEnd, CommandLine
from agentctl.core.watcher import GRACE_S, KILL, KILL_S, TERMINATE

if TYPE_CHECKING:
    from agentctl.sandbox.containment import Containment

Sink = Callable[[str, bytes], None]

DRAIN_S = 2.0
"""How long output is still read after the command has ended while something else holds its pipes open."""
END_S = GRACE_S + KILL_S + 0.5
"""A keeper that has not reported the end of its tree by then is given up; closing its socket is the last order."""
LAST_BYTES_S = 0.2
"""For what still stands in the pipes of a dead tree."""
CHUNK = 65536
PLACES = ("request", "cwd", "program", "process")
"""Where the start of a command fails for its own reasons; every other word is a wall of the sandbox."""
LAUNCHES = 3
"""A watcher that an earlier command has killed may take a launch with it while it dies."""


WRAPS = 5
CRASHES = frozenset({4, 6, 7, 8, 9, 11, 31})
"""ILL, ABRT, BUS, FPE, KILL, SEGV and SYS."""
MAX_COMPLAINT = 4096
COMPLAINT = b"bwrap: "
"""How bubblewrap begins to say why it does not start a command."""


class _Opening:
    """The first words on stderr, held back while they may be all there is and the wrapper's own."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._is_over = False
        self.held = b""

    def feed(self, stream: str, chunk: bytes) -> None:
        if not self._is_over and stream == "stderr" and _may_complain(self.held + chunk):
            self.held += chunk
            return
        self._is_over = True
        self.let_go()
        self._sink(stream, chunk)

    @property
    def complaint(self) -> str:
        """What the wrapper said, if nothing else was said."""
        return self.held.decode(errors="replace").strip() if self.held.startswith(COMPLAINT) else ""

    def let_go(self) -> None:
        if self.held:
            self._sink("stderr", self.held)
            self.held = b""


def _unwrapped(end: CommandEnd) -> CommandEnd:
    """The wrapper says 128 and the signal, as a shell would; for these no program has other uses."""
    number = (end.exit_code or 0) - 128
    return end.replace(exit_code=None, signal=number) if number in CRASHES else end


def _may_complain(words: bytes) -> bool:
    """Whether these may be the first bytes of a complaint; they come in small pieces."""
    return words.startswith(COMPLAINT[: len(words)]) and len(words) < MAX_COMPLAINT


class NotContained(OSError):
    """A wall of the sandbox did not stand, so the command did not run."""


class ProcessRunner:
    """Implements core.ports.CommandRunner. `env` is the whole environment that commands get.

    Commands may run at the same time; each is its own tree. Call `close` at the end of the run.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        adopts_orphans: bool = False,
        containment: Callable[[], Containment] | None = None,
        distrust: Callable[[], None] | None = None,
    ) -> None:
        """`adopts_orphans`: this process is the home of orphans (levels.harden_self) and has no children but ours.
        `containment` makes the walls around commands, when the first one is about to run; `distrust` is called when
        they did not stand after all."""
        self._env = dict(env)
        self._adopts_orphans = adopts_orphans
        self._make_containment = containment
        self._distrust = distrust or (lambda: None)
        self._containment: Containment | None = None
        self._watcher: Watcher | None = None
        self._running: set[_Command] = set()

    def prepare(self) -> None:
        """Starts the watcher in the background, so that the first command need not wait 15 ms for it."""
        self._ready().start()

    def _ready(self) -> Watcher:
        if self._watcher is None:
            if self._make_containment is not None:
                try:
                    self._containment = self._make_containment()
                except OSError:
                    self._distrust()
                    raise
                self._env.update(self._containment.env)
            self._watcher = Watcher(self._containment.plan if self._containment else b"")
        return self._watcher

    async def run(self, command: CommandLine, sink: Sink) -> CommandEnd:
        """As promised by the port. Raises ProgramMissing, ValueError for a word that no program can get (a NUL byte),
        and OSError when the system cannot start the command, for example because its folder is gone, or because a
        wall of the sandbox does not stand."""
        watcher = self._ready()
        if self._containment is None:
            return await self._run(watcher, command, sink)
        from agentctl.sandbox.hints import Ends  # only for commands in a sandbox

        ends = Ends()

        def tee(stream: str, chunk: bytes) -> None:
            ends.feed(chunk)
            sink(stream, chunk)

        self._containment.before()
        has_failed = True
        try:
            end = await self._run_inside(watcher, self._containment, command, tee)
            has_failed = end.exit_code != 0
        except NotContained:
            self._distrust()
            raise
        finally:
            notes = self._containment.after(ends, has_failed=has_failed)
        return end.replace(notes=notes)

    async def _run_inside(
        self, watcher: Watcher, containment: Containment, command: CommandLine, sink: Sink
    ) -> CommandEnd:
        """Once, or again when the wrapper stumbled over something that had just gone: then nothing has run yet."""
        complaint = ""
        for _ in range(WRAPS):
            opening = _Opening(sink)
            inside = self._inside(containment, command)
            end = await self._run(watcher, inside, sink if inside is command else opening.feed)
            complaint = opening.complaint
            if end.exit_code != 1 or not complaint:
                opening.let_go()
                return end if inside is command else _unwrapped(end)
            if not containment.is_outdated(complaint):
                break
        raise NotContained(errno.EPERM, f"the command was not run: the sandbox could not be put up ({complaint})")

    def _inside(self, containment: Containment, command: CommandLine) -> CommandLine:
        path = {**self._env, **command.env}.get("PATH", DEFAULT_PATH)
        program = find_program(command.argv[0], path, command.cwd)
        if program is None:
            raise ProgramMissing(command.argv[0])
        argv = containment.words(program, command.argv, command.cwd)
        return command if argv == command.argv else command.replace(argv=argv)

    async def _run(self, watcher: Watcher, command: CommandLine, sink: Sink) -> CommandEnd:
        for _ in range(LAUNCHES):
            running, end = await self._run_once(watcher, command, sink)
            if running.has_begun or end != CommandEnd(exit_code=None):
                return end
        raise OSError(errno.ECHILD, "the command could not be started: the process that starts commands was killed")

    async def _run_once(self, watcher: Watcher, command: CommandLine, sink: Sink) -> tuple[_Command, CommandEnd]:
        launched = watcher.launch(command.argv, cwd=command.cwd, env={**self._env, **command.env})
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
        if self._watcher is not None:
            self._watcher.close()
            if self._watcher.losses and self._adopts_orphans:
                kill_adopted()
        if self._containment is not None:
            self._containment.close()


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
            if place in PLACES:
                self._failure = OSError(code, f"the command could not be started ({place}): {os.strerror(code)}")
            else:
                why = f"the command was not run: the sandbox could not be put up ({place}: {os.strerror(code)})"
                self._failure = NotContained(code, why)

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
