"""One level of the sandbox, made ready for the commands of a run: the plan for the watcher, words, variables, files.

level 2   Landlock and seccomp, put up by the watcher between fork and exec
level 3   bubblewrap around each command, with the seccomp filter handed to it
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from agentctl.core.confine import encode_plan, landlock_version
from agentctl.core.record import Record
from agentctl.sandbox import bubblewrap, landlock, seccomp
from agentctl.sandbox.guarded import Guarded
from agentctl.sandbox.hints import Ends, hints
from agentctl.sandbox.private import TEMPORARY, PrivateFolder, choose_base
from agentctl.sandbox.repositories import link_files, shared_repository

KEPT_CAPABILITIES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)
"""What commands of root keep at level 2: ownership and modes of files (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER,
FSETID), KILL, SETGID, SETUID, SETPCAP and NET_BIND_SERVICE. A workspace often belongs to another user."""

LANDLOCK_LEVEL, NAMESPACE_LEVEL = 2, 3

GAPS_OF_LANDLOCK = (
    "chmod: mode, owner and times of files outside can be changed (level 3 stops it)",
    "guarded: changes of hooks, git config and policy in the workspace are undone after the command, not refused",
)


class Places(Record):
    """Where a run may write and what belongs to agentctl. Absolute, without symlinks."""

    roots: tuple[Path, ...]
    """The workspace first, then --add-dir."""
    temporary: tuple[Path, ...]
    """Where the private folder may be made, best first."""
    own_files: tuple[Path, ...] = ()
    own_folders: tuple[Path, ...] = ()
    """The installation of agentctl."""
    hidden: tuple[Path, ...] = ()
    """Settings and sessions of agentctl, which commands need not see."""


class Unavailable(OSError):
    """A level that cannot be tried here. `why` is a line for `missing`, `fix` says what mends it."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(errno.EPERM, f"the sandbox could not be put up ({why})")
        self.why = why
        self.fix = fix


class Containment(Protocol):
    """What sandbox/process.py asks for around each command."""

    @property
    def level(self) -> int: ...
    @property
    def network(self) -> str:
        """What commands can reach: off, loopback (their own) or on."""
        ...

    @property
    def gaps(self) -> tuple[str, ...]:
        """What this level does not hold, a line each."""
        ...

    @property
    def landlock(self) -> int:
        """The version that the file walls are built with; HIGHEST where they are of another kind."""
        ...

    @property
    def plan(self) -> bytes:
        """For core.spawn.Watcher."""
        ...

    @property
    def env(self) -> Mapping[str, str]: ...

    def words(self, program: str, argv: tuple[str, ...], cwd: str) -> tuple[str, ...]:
        """The argv that is started in place of `argv`, whose program stands at `program` (absolute)."""
        ...

    def is_outdated(self, message: str) -> bool:
        """Whether the command did not start because something went that the last `words` had named."""
        ...

    def before(self) -> None: ...

    def after(self, ends: Ends, *, has_failed: bool) -> tuple[str, ...]:
        """Notes for the result of the command. Nothing of it is alive any more."""
        ...

    def close(self) -> None: ...


class _Contained:
    """What both levels share: the private folder, guarded files, hints."""

    level = 0

    def __init__(self, places: Places, env: Mapping[str, str], network: str, named: Collection[str]) -> None:
        self.network = network
        self.places = places
        base = choose_base(places.temporary, places.roots)
        if base is None:
            raise Unavailable(
                "files: there is no folder for temporary files outside the workspace",
                "Set TMPDIR to a folder outside the workspace that can be written.",
            )
        try:
            self.private = PrivateFolder(base)
        except OSError as error:
            raise Unavailable(f"files: {base} cannot be written ({error.strerror})", "Set TMPDIR.") from None
        common = shared_repository(places.roots[0])
        shared = () if common is None else (common,)
        self.roots = (*places.roots, *shared)
        ties = () if common is None else link_files(places.roots[0], common)
        self._guarded = Guarded(
            places.roots, shared=shared, files=(*places.own_files, *ties), folders=places.own_folders
        )
        given = self.private.environment(env, is_network_on=network == "on")
        given.update(dict.fromkeys(TEMPORARY, self._temporary()))
        self.env = {name: value for name, value in given.items() if name not in named}
        self.whole_env = {**env, **self.env}

    def _temporary(self) -> str:
        """TMPDIR of commands."""
        return str(self.private.tmp)

    def words(self, program: str, argv: tuple[str, ...], cwd: str) -> tuple[str, ...]:
        return argv

    def is_outdated(self, message: str) -> bool:
        return False

    def before(self) -> None:
        self._guarded.before()

    def after(self, ends: Ends, *, has_failed: bool) -> tuple[str, ...]:
        undone = tuple(f"[sandbox] {line}" for line in self._guarded.after())
        return (*undone, *(hints(ends, level=self.level, network=self.network) if has_failed else ()))

    def close(self) -> None:
        self.private.remove()


class KernelContainment(_Contained):
    """Level 2. Raises Unavailable when the kernel or the machine is not one that it can be built for."""

    level = LANDLOCK_LEVEL

    def __init__(
        self,
        places: Places,
        env: Mapping[str, str],
        network: str,
        named: Collection[str] = (),
        at_most: int = landlock.HIGHEST,
    ) -> None:
        """`at_most` is the highest Landlock version that is used."""
        machine = _machine()
        version = min(landlock_version(), at_most)
        if version < 1:
            raise Unavailable(
                "files: this kernel has no Landlock, or a container forbids it",
                "Use Linux 5.13 or newer with Landlock switched on (`landlock` in the kernel's `lsm=` list), and a "
                "container runtime that allows its system calls.",
            )
        # Addresses cannot be told apart, so the host's loopback would be open as well.
        super().__init__(places, env, "on" if network == "on" else "off", named)
        self.landlock = version
        is_on = self.network == "on"
        rights = landlock.rights_of(version, is_network_on=is_on)
        writable = [str(path) for path in (*self.roots, *self.private.writable)]
        self.plan = encode_plan(
            filter_program=seccomp.build_filter(machine, seccomp.families(self.network, has_unix=False)),
            ruleset=landlock.ruleset(version, rights),
            rules=landlock.rules(rights, writable),
            forbidden_folder=str(self.private.forbidden).encode(errors="surrogateescape"),
            kept_capabilities=KEPT_CAPABILITIES,
        )
        loopback = ("loopback: there is none, because this level cannot tell addresses apart",)
        self.gaps = (*rights.gaps, *GAPS_OF_LANDLOCK, *(loopback if network == "loopback" else ()))


class NamespaceContainment(_Contained):
    """Level 3. Raises Unavailable when there is no bubblewrap on PATH."""

    level = NAMESPACE_LEVEL

    def __init__(self, places: Places, env: Mapping[str, str], network: str, named: Collection[str] = ()) -> None:
        machine = _machine()
        bwrap = bubblewrap.find_bwrap(env.get("PATH"), places.roots)
        if bwrap is None:
            raise Unavailable(
                "namespace: bubblewrap (bwrap) was not found on PATH outside the workspace",
                "Install bubblewrap: apt-get install bubblewrap, dnf install bubblewrap or apk add bubblewrap.",
            )
        super().__init__(places, env, network, named)
        # With the host's network, abstract sockets of its services are in reach; so there are no UNIX sockets then.
        allowed = seccomp.families(network, has_unix=network != "on")
        self.plan = encode_plan(filter_program=seccomp.build_filter(machine, allowed), is_filter_handed_on=True)
        self.gaps: tuple[str, ...] = ()
        self.landlock = landlock.HIGHEST
        self._outer = bubblewrap.outer_words(bwrap, network)
        self._sockets: list[str] = []
        self._shown = bubblewrap.shown_again(self.whole_env, network)
        self._files = bubblewrap.file_words(
            roots=self.roots,
            private=self.private.writable,
            env=self.whole_env,
            hidden=places.hidden,
            shown=self._shown,
        )

    def words(self, program: str, argv: tuple[str, ...], cwd: str) -> tuple[str, ...]:
        held, fixed = self._guarded.present()
        fixed = [path for path in fixed if not any(path.is_relative_to(other) and path != other for other in fixed)]
        protected = bubblewrap.protect_words(held, fixed)
        self._sockets = bubblewrap.sockets(self.roots, self._shown)
        covered = bubblewrap.cover_words(self._sockets)
        return (*self._outer, *self._files, *covered, *protected, "--chdir", cwd, "--", program, *argv[1:])

    def _temporary(self) -> str:
        """Short, because the path of a socket may have 107 bytes."""
        return "/tmp" if bubblewrap.covers("/tmp") else super()._temporary()

    def is_outdated(self, message: str) -> bool:
        return any(f"{path}{end}" in message for path in self._sockets for end in (": ", '"'))


def _machine() -> str:
    name = seccomp.machine()
    if name is None:
        raise Unavailable("seccomp: this processor is neither x86-64 nor AArch64", "Run on one of these.")
    return name
