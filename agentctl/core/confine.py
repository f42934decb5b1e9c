"""Puts a process behind the walls of the kernel, between fork and exec: Landlock, seccomp, capabilities.

What the walls are is decided in sandbox/landlock.py and sandbox/seccomp.py; here it is plain data, a `Plan` as bytes,
so that the watcher of commands (core/watcher.py) needs nothing of the project but this module and prctl, and pays for
no other import. Everything that is put up is read back; the first thing that does not hold raises, and then the
command does not run.
"""

from __future__ import annotations

import errno
import marshal
import os
import sys

from agentctl.core.prctl import CAPBSET_DROP, CAPBSET_READ, kernel_call, prctl

GET_SECCOMP = 21
SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SET_NO_NEW_PRIVS = 38
GET_NO_NEW_PRIVS = 39

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
LANDLOCK_RULE_PATH_BENEATH = 1

FILTER_FD = 9
"""Where a program that builds its own walls (bubblewrap) finds the seccomp filter."""
_LAST_CAPABILITY = 40


class NotConfined(OSError):
    """A wall does not stand. `place` is the word that goes to the run: landlock, seccomp, capabilities, readback."""

    def __init__(self, place: str, number: int = errno.EPERM) -> None:
        super().__init__(number, place)
        self.place = place


def encode_plan(
    *,
    filter_program: bytes,
    is_filter_handed_on: bool = False,
    ruleset: bytes = b"",
    rules: tuple[tuple[bytes, int, bool], ...] = (),
    forbidden_folder: bytes = b"",
    kept_capabilities: tuple[int, ...] = (),
) -> bytes:
    """The plan as the watcher gets it.

    `ruleset` is a struct landlock_ruleset_attr, empty for no Landlock. `rules` are (path, rights below it, whether it
    must exist). `forbidden_folder` is the name of a folder that we could make now and must not be able to make then.
    With `is_filter_handed_on` the filter is not loaded but stands on FILTER_FD, and the other walls are left to the
    program as well. `kept_capabilities` are all that programs of root keep.
    """
    return marshal.dumps((filter_program, is_filter_handed_on, ruleset, rules, forbidden_folder, kept_capabilities))


class Confinement:
    """A plan made ready. Made once in the watcher; `enter` is called in each forked child. Raises NotConfined."""

    def __init__(self, plan: bytes) -> None:
        program, self._is_handed_on, ruleset, rules, self._forbidden, kept = marshal.loads(plan)
        self._program: bytes = program
        self._filter = Filter(program)
        self._ruleset = _make_ruleset(ruleset, rules) if ruleset else -1
        if not self._is_handed_on:
            _drop_capabilities(kept)

    @property
    def is_wrapped(self) -> bool:
        """Whether the command stands below a program that makes its own walls and its own process ids."""
        return bool(self._is_handed_on)

    def enter(self) -> None:
        """Confines the calling process for good. It has to be single-threaded and about to call exec."""
        if self._is_handed_on:
            self._hand_on()
            return
        if prctl(SET_NO_NEW_PRIVS, 1) != 0:
            raise NotConfined("no-new-privileges")
        if self._ruleset >= 0 and kernel_call(LANDLOCK_RESTRICT_SELF, self._ruleset, 0) != 0:
            raise NotConfined("landlock")
        self._filter.load()
        self._read_back()

    def _hand_on(self) -> None:
        """A file of its own for each command: the offset belongs to the open file."""
        fd = os.memfd_create("filter", 0)
        os.write(fd, self._program)
        os.lseek(fd, 0, os.SEEK_SET)
        os.dup2(fd, FILTER_FD, inheritable=True)
        if fd != FILTER_FD:
            os.close(fd)

    def _read_back(self) -> None:
        if prctl(GET_NO_NEW_PRIVS) != 1 or prctl(GET_SECCOMP) != SECCOMP_MODE_FILTER:
            raise NotConfined("readback")
        if self._ruleset >= 0 and not _is_refused(self._forbidden):
            raise NotConfined("readback")


class Filter:
    """A BPF program (struct sock_filter, 8 bytes each) at an address that forked children have as well."""

    def __init__(self, program: bytes) -> None:
        from array import array  # loads a library, which no child should do again

        self._code = array("B", program)
        address = self._code.buffer_info()[0]
        self._header = (len(program) // 8).to_bytes(8, sys.byteorder) + address.to_bytes(8, sys.byteorder)

    def load(self) -> None:
        """For the calling process. Raises NotConfined."""
        if prctl(SET_SECCOMP, SECCOMP_MODE_FILTER, self._header) != 0:
            raise NotConfined("seccomp")


def landlock_version() -> int:
    """The Landlock ABI of the running kernel, 0 where there is none or it is switched off."""
    return max(0, kernel_call(LANDLOCK_CREATE_RULESET, None, 0, 1))


def _make_ruleset(attributes: bytes, rules: tuple[tuple[bytes, int, bool], ...]) -> int:
    ruleset = kernel_call(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        raise NotConfined("landlock")
    for path, rights, is_required in rules:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            if is_required:
                raise NotConfined("landlock", error.errno or errno.EIO) from None
            continue
        rule = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        status = kernel_call(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0)
        os.close(fd)
        if status != 0:
            raise NotConfined("landlock")
    return ruleset


def _is_refused(path: bytes) -> bool:
    """Whether Landlock keeps us from making a folder that the file system would let us make."""
    try:
        os.mkdir(path)  # noqa: PTH102  # pathlib would cost the start of the watcher 4 ms
    except OSError as error:
        return error.errno == errno.EACCES
    try:  # noqa: SIM105  # contextlib would cost the start of the watcher
        os.rmdir(path)  # noqa: PTH106
    except OSError:
        pass
    return False


def _drop_capabilities(kept: tuple[int, ...]) -> None:
    """Takes all but `kept` from what root gets when it executes a program, also for what is forked from here."""
    if os.geteuid() != 0:
        return
    for number in range(_LAST_CAPABILITY + 1):
        if number not in kept:
            prctl(CAPBSET_DROP, number)
            if prctl(CAPBSET_READ, number) == 1:
                raise NotConfined("capabilities")
