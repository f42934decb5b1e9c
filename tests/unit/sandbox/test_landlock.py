"""What a kernel of each Landlock version is asked for, and what is said about the older ones."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from agentctl.core.confine import landlock_version
from agentctl.sandbox import landlock

if sys.platform != "linux":
    pytest.skip("Landlock is Linux's", allow_module_level=True)

HIGHEST_FS = {1: 12, 2: 13, 3: 14, 4: 14, 5: 15, 6: 15, 7: 15, 9: 15}
"""The highest bit of the file rights of each version, from the kernel's header."""


@pytest.mark.parametrize("version", HIGHEST_FS)
def test_only_what_the_version_knows_is_asked_for(version: int) -> None:
    rights = landlock.rights_of(version)
    assert rights.fs.bit_length() - 1 == HIGHEST_FS[version]
    assert rights.fs & 0b1101 == 0, "executing and reading are not handled"
    assert (rights.net, rights.scopes) == (3 if version >= 4 else 0, 3 if version >= 6 else 0)
    data = landlock.ruleset(version, rights)
    fields = struct.unpack(f"={len(data) // 8}Q", data)
    assert fields == (rights.fs, rights.net, rights.scopes)[: 1 if version < 4 else 2 if version < 6 else 3]


def test_what_is_missing_is_said() -> None:
    named = {version: [gap.partition(":")[0] for gap in landlock.rights_of(version).gaps] for version in range(1, 8)}
    assert named == {
        1: ["rename", "truncate", "tcp", "ioctl", "signals"],
        2: ["truncate", "tcp", "ioctl", "signals"],
        3: ["tcp", "ioctl", "signals"],
        4: ["ioctl", "signals"],
        5: ["signals"],
        6: [],
        7: [],
    }
    assert "tcp" not in str(landlock.rights_of(3, is_network_on=True).gaps)
    assert landlock.rights_of(7, is_network_on=True).net == 0


def test_rules_give_no_devices_and_files_only_what_files_have() -> None:
    rights = landlock.rights_of(7)
    rules = {path.decode(): (bits, must) for path, bits, must in landlock.rules(rights, ["/w"])}
    assert rules["/w"] == (rights.fs & ~(landlock.MAKE_CHAR | landlock.MAKE_BLOCK), True)
    assert rules["/dev/shm"] == (rules["/w"][0], False)
    on_files = landlock.WRITE_FILE | landlock.TRUNCATE | landlock.IOCTL_DEV
    assert all(bits & ~on_files == 0 for path, (bits, _) in rules.items() if path in landlock.DEVICES)
    assert "/dev/null" in rules


def test_a_device_that_is_no_device_gets_no_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rules = landlock.rules(landlock.rights_of(7), [str(tmp_path)])
    assert {path for path, *_ in rules} <= {
        str(tmp_path).encode(),
        b"/dev/shm",
        *(d.encode() for d in landlock.DEVICES),
    }


def test_this_machine_is_known() -> None:
    """Not shown on kernels without it: then level 2 is not to be had, and the sandbox tests say so by failing."""
    assert landlock_version() >= 0
