"""The level that is reported is the level that holds: each broken wall takes it down, and it says which one broke."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.confine import encode_plan, landlock_version
from agentctl.sandbox import landlock, seccomp
from agentctl.sandbox.choose import LEVELS, Trial
from agentctl.sandbox.containment import Containment, KernelContainment, NamespaceContainment, Places
from agentctl.sandbox.remembered import Chosen, Remembered, circumstances
from tests.unit.sandbox.sandbox_world import World

if sys.platform != "linux":
    pytest.skip("Landlock, seccomp and namespaces are Linux's", allow_module_level=True)

Levels = Mapping[int, Callable[..., Containment]]
NO_FILTER = (0x06).to_bytes(2, "little") + b"\0\0" + seccomp.ALLOW.to_bytes(4, "little")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def tried(
    world: World, levels: Levels, network: str = "loopback", places: Places | None = None
) -> tuple[Chosen | None, Trial]:
    trial = Trial(places or world.places, world.env, network, (), levels)
    return asyncio.run(trial.best()), trial


def plan(containment: KernelContainment, **changes: Any) -> bytes:
    """The plan of level 2 with one wall changed."""
    version = landlock_version()
    rights = landlock.rights_of(version)
    name = seccomp.machine()
    assert name is not None
    roots = [str(path) for path in (*containment.places.roots, *containment.private.writable)]
    parts: dict[str, Any] = {
        "filter_program": seccomp.build_filter(name, ()),
        "ruleset": landlock.ruleset(version, rights),
        "rules": landlock.rules(rights, roots),
        "forbidden_folder": str(containment.private.forbidden).encode(),
        "kept_capabilities": (0, 1, 3),
    }
    for key, change in changes.items():
        parts[key] = change(parts[key])
    return encode_plan(**parts)


def mutant(**changes: Any) -> type[KernelContainment]:
    class Mutant(KernelContainment):
        def __init__(self, places: Places, env: Mapping[str, str], network: str, named: Collection[str] = ()) -> None:
            super().__init__(places, env, network, named)
            self.plan = plan(self, **changes)

    return Mutant


def _without(*numbers: int) -> Callable[[bytes], bytes]:
    """A ruleset in which these file rights are not handled."""

    def change(attributes: bytes) -> bytes:
        rights = int.from_bytes(attributes[:8], "little") & ~sum(numbers)
        return rights.to_bytes(8, "little") + attributes[8:]

    return change


def _only_handled(*numbers: int) -> Callable[[Any], Any]:
    return lambda rules: tuple((path, bits & ~sum(numbers), must) for path, bits, must in rules)


def _one_more(path: str) -> Callable[[Any], Any]:
    return lambda rules: (*rules, (os.fsencode(path), landlock.rights_of(1).fs, True))


def _families(*allowed: int) -> Callable[[bytes], bytes]:
    return lambda _: seccomp.build_filter(seccomp.machine() or "", allowed)


KERNEL_MUTANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "no Landlock": ("files", {"ruleset": lambda _: b""}),
    "writing is not handled": (
        "files",
        {"ruleset": _without(landlock.WRITE_FILE), "rules": _only_handled(landlock.WRITE_FILE)},
    ),
    "making folders is not handled": (
        "readback",
        {"ruleset": _without(landlock.MAKE_DIR), "rules": _only_handled(landlock.MAKE_DIR)},
    ),
    "deleting is not handled": (
        "files",
        {"ruleset": _without(landlock.REMOVE_FILE), "rules": _only_handled(landlock.REMOVE_FILE)},
    ),
    "truncating is not handled": (
        "truncate",
        {"ruleset": _without(landlock.TRUNCATE), "rules": _only_handled(landlock.TRUNCATE)},
    ),
    "a rule for everything": ("readback", {"rules": _one_more("/")}),
    "no scopes": ("signals", {"ruleset": lambda attributes: attributes[:16]}),
    "no filter": ("network", {"filter_program": lambda _: NO_FILTER}),
    "internet sockets": ("network", {"filter_program": _families(seccomp.AF_INET)}),
    "UNIX sockets": ("unix-sockets", {"filter_program": _families(seccomp.AF_UNIX)}),
    "no rule for the workspace": ("work", {"rules": lambda rules: rules[1:]}),
    "a rule for what is not there": ("landlock", {"rules": lambda rules: (*rules, (b"/not/there", 2, True))}),
    "a filter without an answer": ("seccomp", {"filter_program": lambda program: program[:-8]}),
    "a right that no kernel has": ("landlock", {"ruleset": lambda attributes: b"\xff" * len(attributes)}),
}


@pytest.mark.parametrize("name", KERNEL_MUTANTS)
def test_a_broken_wall_of_level_2_is_found(name: str, world: World) -> None:
    layer, changes = KERNEL_MUTANTS[name]
    chosen, trial = tried(world, {2: mutant(**changes)})
    assert chosen is None, name
    assert any(layer in line for line in trial.why()), trial.why()
    assert trial.has_failed


def _wrapped(change: Callable[[list[str]], list[str]]) -> type[NamespaceContainment]:
    class Mutant(NamespaceContainment):
        def words(self, program: str, argv: tuple[str, ...], cwd: str) -> tuple[str, ...]:
            return tuple(change(list(super().words(program, argv, cwd))))

    return Mutant


def _drop(word: str, count: int = 1) -> Callable[[list[str]], list[str]]:
    def change(words: list[str]) -> list[str]:
        at = words.index(word)
        return [*words[:at], *words[at + count :]]

    return change


def _swap(old: str, new: str) -> Callable[[list[str]], list[str]]:
    def change(words: list[str]) -> list[str]:
        at = words.index(old)
        return [*words[:at], new, *words[at + 1 :]]

    return change


NAMESPACE_MUTANTS: dict[str, tuple[str, Callable[[list[str]], list[str]]]] = {
    "the host's network": ("network", _drop("--unshare-net")),
    "the host's processes": ("signals", _drop("--unshare-pid")),
    "a writable root": ("files", _swap("--ro-bind", "--bind")),
    "no filter": ("seccomp", _drop("--seccomp", 2)),
    "no wrapper at all": ("files", lambda words: words[words.index("--") + 1 :]),
    "an unknown option": ("not be put up", lambda words: [words[0], "--no-such-option", *words[1:]]),
    "a program that does nothing": ("did not run", lambda words: ["/bin/true"]),
}


@pytest.mark.parametrize("name", NAMESPACE_MUTANTS)
def test_a_broken_wall_of_level_3_leaves_level_2(name: str, world: World) -> None:
    layer, change = NAMESPACE_MUTANTS[name]
    chosen, trial = tried(world, {3: _wrapped(change), 2: KernelContainment})
    assert chosen is not None
    assert (chosen.level, chosen.network) == (2, "off")
    assert any(layer in line for line in chosen.missing), chosen.missing
    assert trial.has_failed


def test_whole_walls_hold(world: World) -> None:
    """The control for all of the above."""
    for level, network in ((2, "off"), (3, "loopback")):
        chosen, trial = tried(world, {level: LEVELS[level]})
        assert chosen is not None, trial.why()
        assert (chosen.level, chosen.network, trial.has_failed) == (level, network, False)


@pytest.mark.parametrize("version", range(1, 7))
def test_older_landlock_versions(version: int, world: World) -> None:
    """The rulesets of older kernels hold what they can, on this kernel; what they cannot is named."""

    def older(places: Places, env: Mapping[str, str], network: str, named: Collection[str]) -> Containment:
        return KernelContainment(places, env, network, named, at_most=version)

    chosen, trial = tried(world, {2: older})
    assert chosen is not None, trial.why()
    said = {line.partition(":")[0] for line in chosen.missing}
    assert said >= {gap.partition(":")[0] for gap in landlock.rights_of(version).gaps}


def test_a_bwrap_of_the_workspace_is_not_taken(world: World) -> None:
    """Neither by its place nor behind a link from elsewhere."""
    fake = world.root / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\ntouch taken; while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    links = world.folder / "links"
    links.mkdir()
    (links / "bwrap").symlink_to(fake)
    for path in (f"{fake.parent}:/usr/bin:/bin", f"{links}:/usr/bin:/bin", "bin:/usr/bin:/bin"):
        world.env["PATH"] = path
        chosen, trial = tried(world, LEVELS)
        assert chosen is not None
        assert not (world.root / "taken").exists()
        if not Path("/usr/bin/bwrap").exists():
            assert (chosen.level, trial.has_failed) == (2, False)


def test_a_bwrap_that_lies_is_found_out(world: World) -> None:
    """One that only runs the command, from a trusted place."""
    place = world.folder / "bin"
    place.mkdir()
    (place / "bwrap").write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    (place / "bwrap").chmod(0o755)
    world.env["PATH"] = f"{place}:{os.environ['PATH']}"
    chosen, trial = tried(world, LEVELS)
    assert chosen is not None
    assert (chosen.level, trial.has_failed) == (2, True)
    assert any("level 3: files" in line for line in chosen.missing), chosen.missing


def test_apparmor_is_recognised_and_the_profile_named(world: World) -> None:
    """Ubuntu's restriction, by the words that bubblewrap has for it."""
    place = world.folder / "bin"
    place.mkdir()
    (place / "bwrap").write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    (place / "bwrap").chmod(0o755)
    world.env["PATH"] = f"{place}:{os.environ['PATH']}"
    chosen, _ = tried(world, LEVELS)
    assert chosen is not None
    assert chosen.level == 2
    assert "/etc/apparmor.d/bwrap" in chosen.fix
    assert any("setting up uid map" in line for line in chosen.missing)


def test_a_workspace_that_holds_everything_has_no_walls(world: World) -> None:
    chosen, trial = tried(world, LEVELS, places=Places(roots=(Path("/"),), temporary=(world.folder,)))
    assert chosen is None
    assert "outside the workspace" in " ".join(trial.why())


def test_what_was_proven_is_remembered_until_something_changes(tmp_path: Path) -> None:
    chosen = Chosen(level=2, network="off", missing=("a: b",), fix="c")
    memory = Remembered(tmp_path / "cache", ["x"])
    assert memory.get() is None
    memory.put(chosen)
    assert Remembered(tmp_path / "cache", ["x"]).get() == chosen
    assert Remembered(tmp_path / "cache", ["y"]).get() is None
    assert oct((tmp_path / "cache" / "sandbox.json").stat().st_mode) == "0o100600"
    memory.forget()
    assert memory.get() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\0" * 100, b"[" * 5000])
def test_a_broken_memory_is_no_memory(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "sandbox.json").write_bytes(content)
    memory = Remembered(tmp_path, ["x"])
    assert memory.get() is None
    memory.put(Chosen(level=2, network="off", missing=(), fix=""))
    assert memory.get() is not None


def test_the_circumstances_are_steady_and_tell_runs_apart(tmp_path: Path) -> None:
    assert circumstances(tmp_path, "off", None) == circumstances(tmp_path, "off", None)
    assert circumstances(tmp_path, "off", None) != circumstances(tmp_path, "on", None)
    assert circumstances(tmp_path, "off", None) != circumstances(tmp_path, "off", "/usr/bin/env")
