"""The file of a project's notes: SQLite, made, checked, locked and, when it is damaged, set aside.

Rollback journal, not WAL: WAL shares memory between processes, which network home folders cannot, and needs to write
beside the file even to read it, which read-only homes cannot. The file is small and writes are rare, so that readers
who wait a few milliseconds for a writer are no loss. Nothing here waits, but a commit for readers: a locked store is
StoreBusy at once, and `patiently` tries again until its deadline. A store is opened for each use, because another run
may set it aside.
"""

from __future__ import annotations

import os
import random
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentctl.core.files import create_file, make_private_dir, sync_folder
from agentctl.core.locks import LockHeld, lock_file
from agentctl.core.types import Problem
from agentctl.state.knowledge_note import Note
from agentctl.state.knowledge_place import exists

if TYPE_CHECKING:
    from sqlite3 import Connection, Error

T = TypeVar("T")

VERSION = 1
APPLICATION_ID = 0x61676B6E
"""In the header of the file, so that a database of another program is never taken for notes."""
MAX_BYTES = 64 * 1024 * 1024
WRITE_WAIT_S = 20.0
READ_WAIT_S = 1.0
COMMIT_WAIT_MS = 500
CHECK_S, WORK_S = 5.0, 30.0
"""How long SQLite may look at a file, and then work on it; a crafted one could make it walk for ever."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.01, 0.5

SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE note (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, text TEXT NOT NULL, folded TEXT NOT NULL,
    subject TEXT NOT NULL, origin TEXT NOT NULL, session TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    recalled TEXT NOT NULL, recalls INTEGER NOT NULL CHECK (typeof(recalls) = 'integer'),
    shown INTEGER NOT NULL CHECK (typeof(shown) = 'integer'), closed TEXT NOT NULL, reason TEXT NOT NULL,
    successor TEXT NOT NULL
);
CREATE UNIQUE INDEX note_valid ON note (folded) WHERE closed = '';
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""

COLUMNS = frozenset(("name", "value", "number", "folded", *Note.fields))


class StoreFailure(Exception):
    """The notes cannot be used. Never ends a run."""

    code = "memory-unavailable"

    def __init__(self, path: Path, why: str, fix: str = "") -> None:
        super().__init__(why)
        self.path = path
        self.why = why
        self.fix = fix

    def problem(self) -> Problem:
        return Problem(code=self.code, what=str(self.path), why=self.why, fix=self.fix)


class StoreBusy(StoreFailure):
    """Another run is writing. Trying again helps."""

    code = "memory-busy"


class StoreCorrupt(StoreFailure):
    code = "memory-corrupt"


class StoreNewer(StoreFailure):
    code = "memory-newer"


# --- waiting ----------------------------------------------------------------------------------------------------------


def _pauses() -> Iterator[float]:
    """Longer and longer, by chance: many that wait must not keep the one that writes from its work."""
    pause = _FIRST_PAUSE_S
    while True:
        yield random.uniform(pause / 2, pause)
        pause = min(_LAST_PAUSE_S, pause * 1.5)


def patiently(action: Callable[[], T], seconds: float) -> T:
    """The result of `action`, tried again while the store is busy. Raises StoreBusy after `seconds`."""
    until, pauses = time.monotonic() + seconds, _pauses()
    while True:
        try:
            return action()
        except StoreBusy:
            if time.monotonic() > until:
                raise
        time.sleep(next(pauses))


async def patiently_async(action: Callable[[], T], seconds: float, sleep: Callable[[float], Awaitable[None]]) -> T:
    """The same between other work: a signal or a deadline is heard while it waits."""
    until, pauses = time.monotonic() + seconds, _pauses()
    while True:
        try:
            return action()
        except StoreBusy:
            if time.monotonic() > until:
                raise
        await sleep(next(pauses))


# --- the file ---------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, *, writes: bool) -> Iterator[Connection]:
    """A checked connection to a store that exists. Raises StoreFailure for everything that SQLite finds wrong."""
    import sqlite3  # 10 ms, and most runs have no notes

    _check_file(path, writes=writes)
    try:
        connection = _connect(path, writes=writes)
        try:
            _check_content(connection, path)
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _failure(error, path) from error


def sqlite_facts() -> tuple[str, bool]:
    """The version of SQLite, and whether it can index letter triples."""
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE found USING fts5(x, tokenize = 'trigram')")
    except sqlite3.Error:
        return sqlite3.sqlite_version, False
    finally:
        connection.close()
    return sqlite3.sqlite_version, True


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """All of it or nothing; on disk when it ends."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        # Readers that are still at it need a few milliseconds, and SQLite lets no new ones in while it waits for them.
        connection.execute(f"PRAGMA busy_timeout = {COMMIT_WAIT_MS}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_file(path: Path, *, writes: bool) -> None:
    """Before SQLite sees it, which would wait for a FIFO for ever."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise StoreBusy(path, "another run has just set it aside", "Run again.") from None
    except OSError as error:
        raise StoreFailure(path, error.strerror or str(error)) from None
    if not stat.S_ISREG(found.st_mode):
        raise StoreFailure(path, "it is not a regular file", "Move it away; notes are kept in a file of that name.")
    if found.st_size > MAX_BYTES:
        raise StoreFailure(path, f"it is larger than {MAX_BYTES:,} bytes", "Move it away, or run `agentctl memory gc`.")
    if found.st_size == 0:
        raise StoreCorrupt(path, "it is empty")
    if writes and found.st_mode & 0o077:
        with suppress(OSError):  # of another user; SQLite says whether it can be used
            path.chmod(0o600)


def _connect(path: Path, *, writes: bool) -> Connection:
    import sqlite3

    # A run that was killed while it wrote left a journal, and only who may write can undo it.
    mode = "rw" if writes or journal_of(path).exists() else "ro"
    connection = sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, timeout=0, isolation_level=None)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "secure_delete = ON"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _check_content(connection: Connection, path: Path) -> None:
    until = time.monotonic() + CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
    _check(connection, path)
    until = time.monotonic() + WORK_S


def _check(connection: Connection, path: Path) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found is None or found[0] != "ok":
        raise StoreCorrupt(path, f"it is damaged: {str(found[0] if found else 'no content')[:200]}")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StoreCorrupt(path, "it holds no notes of agentctl")
    if version > VERSION:
        raise StoreNewer(
            path,
            f"a newer agentctl wrote it (format {version}, this version knows {VERSION}); it was left as it is",
            "Use that version, or --project NAME for a store of its own.",
        )
    columns = {row[1] for name in ("meta", "note") for row in connection.execute(f"PRAGMA table_info({name})")}
    if version < 1 or not columns >= COLUMNS:
        raise StoreCorrupt(path, "its tables are not as they were made")


def _failure(error: Error, path: Path) -> StoreFailure:
    """What SQLite says, as what can be done about it."""
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    if code in (5, 6):  # SQLITE_BUSY, SQLITE_LOCKED
        return StoreBusy(path, "another run is writing to it", "Run again, or with fewer runs at once.")
    if code in (11, 26):  # SQLITE_CORRUPT, SQLITE_NOTADB
        return StoreCorrupt(path, f"it is damaged: {error}")
    return StoreFailure(path, f"{error}", "Check the folder's rights and the free space of its disk.")


def journal_of(path: Path) -> Path:
    """Where SQLite keeps what undoes an unfinished write."""
    return path.with_name(f"{path.name}-journal")


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Making a store and setting one aside: one process at a time, so that nobody renames a new one."""
    try:
        make_private_dir(path.parent)
        lock = lock_file(path.with_name(f"{path.name}.lock"))
    except LockHeld:
        raise StoreBusy(path, "another run is making it", "Run again.") from None
    except OSError as error:
        fix = "Set AGENTCTL_HOME to a folder that can be written, or pass --no-memory."
        raise StoreFailure(path, f"{error.strerror or error}: {error.filename}", fix) from None
    with lock:
        yield


def create(path: Path, remote: str) -> None:
    """A new store (0600, its folder 0700) under a name of its own, then in its place, so that nobody sees half of it.

    Leaves one that is there as it is. Raises StoreFailure.
    """
    import sqlite3

    with _guarded(path):
        if exists(path):
            return
        temp = path.with_name(f"{path.name}.new")
        try:
            for left in (temp, journal_of(temp)):
                left.unlink(missing_ok=True)  # of a run that was killed here
            os.close(create_file(temp))
            connection = sqlite3.connect(temp.as_uri() + "?mode=rw", uri=True, timeout=0, isolation_level=None)
            try:
                connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}COMMIT;")
                connection.execute("INSERT INTO meta VALUES ('remote', ?)", (remote,))
            finally:
                connection.close()
            temp.rename(path)
            _sync(path.parent)
        except OSError as error:
            raise StoreFailure(path, error.strerror or str(error), "Check the folder's rights.") from None
        except sqlite3.Error as error:
            raise _failure(error, path) from error


def _sync(folder: Path) -> None:
    """The new name is on disk before anything is acknowledged."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_folder(directory)
    finally:
        os.close(directory)


def set_aside(path: Path) -> Path | None:
    """Renames a damaged store, with its journal, to a name that is free. None when it is whole after all.

    Raises StoreFailure.
    """
    with _guarded(path):
        try:
            with opened(path, writes=True):
                return None
        except StoreCorrupt:
            pass
        number = 1
        while exists(aside := path.with_name(f"{path.name}.corrupt-{number}")):
            number += 1
        try:
            if journal_of(path).exists():  # left behind, it would be played into the next store
                journal_of(path).rename(journal_of(aside))
            path.rename(aside)
        except OSError as error:
            raise StoreFailure(path, error.strerror or str(error), "Move it away.") from None
        return aside
