"""Which level the commands of a run get: the best whose attacks fail, tried from the top."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from agentctl.core.files import make_private_dir
from agentctl.sandbox.containment import Containment, KernelContainment, NamespaceContainment, Places, Unavailable
from agentctl.sandbox.private import choose_base
from agentctl.sandbox.probe import attack
from agentctl.sandbox.process import ProcessRunner
from agentctl.sandbox.remembered import Chosen

LEVELS: Mapping[int, Callable[..., Containment]] = {3: NamespaceContainment, 2: KernelContainment}
"""From the best to the last that is more than level 1."""

_APPARMOR = (
    "Allow bubblewrap user namespaces: write `abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap "
    "flags=(unconfined) { userns, }` to /etc/apparmor.d/bwrap and run `sudo apparmor_parser -r /etc/apparmor.d/bwrap`."
)
_USER_NAMESPACES = (
    "Allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1); in a container they "
    "need a seccomp profile that permits them."
)
_MENDS: tuple[tuple[str, str], ...] = (
    ("setting up uid map: Permission denied", _APPARMOR),
    ("Failed RTM_NEWADDR", _APPARMOR),
    ("No permissions to creat", _USER_NAMESPACES),
    ("Creating new namespace failed", _USER_NAMESPACES),
    ("No space left on device", _USER_NAMESPACES),
    ("Can't mount proc", "A container that masks /proc keeps bubblewrap from mounting its own; level 2 works there."),
    ("the workspace is not writable", "Run agentctl as the user that the workspace belongs to."),
)
CONTAINER = "Run agentctl in a container or as a user of its own when prompt or workspace are not trusted."


class Trial:
    """One look at what this machine can do. `faults` are, by level, the lines that keep it from that level."""

    def __init__(
        self,
        places: Places,
        env: Mapping[str, str],
        network: str,
        named: Collection[str] = (),
        levels: Mapping[int, Callable[..., Containment]] = LEVELS,
    ) -> None:
        """`env` is the environment of commands, `named` the variables that the user handed on by name. `levels` are
        tried in their order."""
        self._levels = levels
        self._places = places
        self._env = env
        self._network = network
        self._named = named
        self._reach = network
        self.faults: dict[int, tuple[str, ...]] = {}
        self.fixes: dict[int, str] = {}
        self.has_failed = False
        """A level could be tried and did not hold. Such an answer is not remembered."""

    def make(self, level: int) -> Containment:
        """Raises Unavailable."""
        return self._levels[level](self._places, self._env, self._network, self._named)

    async def best(self) -> Chosen | None:
        """The first level that holds, with what it does not hold; None when none does."""
        for level in self._levels:
            gaps = await self.holds(level)
            if gaps is not None:
                above = tuple(line for other, lines in self.faults.items() if other > level for line in lines)
                fix = next((text for other, text in self.fixes.items() if other > level and text), "")
                return Chosen(level=level, network=self._reach, missing=(*gaps, *above), fix=fix)
        return None

    async def holds(self, level: int) -> tuple[str, ...] | None:
        """The gaps of a level that was attacked in vain; None when it did not hold, and `faults` says why."""
        try:
            containment = self.make(level)
        except Unavailable as error:
            self.faults[level] = (error.why,)
            self.fixes[level] = error.fix
            return None
        runner = ProcessRunner(self._env, containment=lambda: containment)
        try:
            outside = self._outside()
            try:
                found = await attack(runner, containment, self._places, outside)
            finally:
                _clear(outside)
        finally:
            await runner.close()
            containment.close()
        self._reach = containment.network
        if not found:
            return containment.gaps
        self.has_failed = True
        self.faults[level] = tuple(f"level {level}: {fault}" for fault in found)
        self.fixes[level] = next((fix for words, fix in _MENDS if any(words in fault for fault in found)), "")
        return None

    def _outside(self) -> Path:
        """A folder that commands could write to if nothing kept them from it."""
        base = choose_base(self._places.temporary, self._places.roots)
        assert base is not None, "the containment found one"
        return make_private_dir(base / f"agentctl-outside-{os.getpid()}-{os.urandom(8).hex()}")

    def why(self) -> tuple[str, ...]:
        """All lines, the lowest level first."""
        return tuple(line for level in sorted(self.faults) for line in self.faults[level])

    def fix(self) -> str:
        texts = [self.fixes[level] for level in sorted(self.fixes) if self.fixes[level]]
        return " ".join(dict.fromkeys((*texts, CONTAINER)))


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    folder.rmdir()
