"""The file of the notes: real SQLite, real processes, real damage."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import time
from pathlib import Path

import pytest

from agentctl.state import knowledge_rows as rows
from agentctl.state.knowledge import Knowledge
from agentctl.state.knowledge_store import (
    VERSION,
    StoreBusy,
    StoreFailure,
    StoreNewer,
    journal_of,
    opened,
    patiently,
    patiently_async,
    set_aside,
)
from tests.unit.state.knowledge_world import PROJECT, knowledge, process, store

NOBODY = 65534


def test_looking_makes_nothing(tmp_path: Path) -> None:
    notes = knowledge(tmp_path / "memory")
    assert (notes.valid(), notes.choose("boot", ""), notes.recall("x"), notes.forget("a long text").notes) == (
        [],
        [],
        [],
        (),
    )
    assert not (tmp_path / "memory").exists()


def test_a_project_without_notes_does_not_load_sqlite(tmp_path: Path) -> None:
    code = "knowledge.valid(); knowledge.choose('relevant', 'x'); print('sqlite3' in sys.modules)"
    out, err = process(tmp_path / "memory", code).communicate(timeout=20)
    assert out == b"False\n", err


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_files_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        knowledge(tmp_path / "memory").add("fact", "one", "model")
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "memory").iterdir()}
    assert (modes, stat.S_IMODE((tmp_path / "memory").stat().st_mode)) == ({0o600}, 0o700)


def test_a_store_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    notes = knowledge(tmp_path)
    notes.add("fact", "one", "model")
    store(tmp_path).chmod(0o644)
    notes.add("fact", "something else", "model")
    assert stat.S_IMODE(store(tmp_path).stat().st_mode) == 0o600


# --- damage ---------------------------------------------------------------------------------------------------------


def _overwrite(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[2000:9000] = os.urandom(7000)
    path.write_bytes(data)


DAMAGE = {
    "overwritten": _overwrite,
    "header overwritten": lambda path: path.write_bytes(os.urandom(100) + path.read_bytes()[100:]),
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2 + 100),
    "truncated to a page": lambda path: os.truncate(path, 4096),
    "no database": lambda path: path.write_bytes(b"these are no notes\n" * 400),
    "empty": lambda path: path.write_bytes(b""),
    "another database": lambda path: _other_database(path),
}


def _other_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE users (name TEXT)")
    other.close()


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_store_is_set_aside_named_and_begun_anew(tmp_path: Path, damage: object) -> None:
    notes = knowledge(tmp_path)
    for number in range(30):
        notes.add("fact", f"note {number} " + "text " * 60, "model")
    assert callable(damage)
    damage(store(tmp_path))
    broken = store(tmp_path).read_bytes()
    notes = knowledge(tmp_path)
    assert notes.valid() == []
    (problem,) = notes.file.problems
    assert (problem.code, problem.what) == ("memory-corrupt", str(store(tmp_path)))
    aside = store(tmp_path).with_name(f"{store(tmp_path).name}.corrupt-1")
    assert aside.name in problem.why
    assert aside.read_bytes() == broken
    notes.add("fact", "a new beginning", "model")
    assert [note.text for note in knowledge(tmp_path).valid()] == ["a new beginning"]
    damage(store(tmp_path))
    knowledge(tmp_path).valid()
    assert aside.with_name(aside.name.replace("-1", "-2")).exists()


def test_who_may_only_read_leaves_a_damaged_store_where_it_is(tmp_path: Path) -> None:
    knowledge(tmp_path).add("fact", "one", "model")
    store(tmp_path).write_bytes(b"x" * 5000)
    with pytest.raises(StoreFailure, match="damaged"):
        knowledge(tmp_path, writes=False).valid()
    assert store(tmp_path).read_bytes() == b"x" * 5000


def test_a_newer_store_is_left_as_it_is_and_named(tmp_path: Path) -> None:
    knowledge(tmp_path).add("fact", "one", "model")
    with sqlite3.connect(store(tmp_path)) as other:
        other.execute(f"PRAGMA user_version = {VERSION + 1}")
    other.close()
    before = store(tmp_path).read_bytes()
    for action in (lambda: knowledge(tmp_path).valid(), lambda: knowledge(tmp_path).add("fact", "two", "model")):
        with pytest.raises(StoreNewer, match="newer agentctl"):
            action()
    assert store(tmp_path).read_bytes() == before


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    target = store(tmp_path)
    {"fifo": lambda: os.mkfifo(target), "folder": target.mkdir, "link": lambda: target.symlink_to("/dev/zero")}[kind]()
    with pytest.raises(StoreFailure, match="not a regular file"):
        knowledge(tmp_path).valid()


def test_a_damaged_journal_goes_with_its_store(tmp_path: Path) -> None:
    """Left behind, it would be played into the store that comes next."""
    knowledge(tmp_path).add("fact", "one", "model")
    store(tmp_path).write_bytes(b"x" * 5000)
    journal_of(store(tmp_path)).write_bytes(b"y" * 600)
    knowledge(tmp_path).add("fact", "two", "model")
    assert not journal_of(store(tmp_path)).exists()
    assert [note.text for note in knowledge(tmp_path).valid()] == ["two"]


# --- many at once -----------------------------------------------------------------------------------------------------


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "for n in range(8):\n    patiently(lambda: knowledge.add('fact', f'writer {words[0]} says {n}', 'model'), 60)\n"
    )
    running = [process(tmp_path / "memory", code, str(number)) for number in range(6)]
    for one in running:
        assert one.communicate(timeout=60)[1] == b""
    texts = {note.text for note in knowledge(tmp_path / "memory").valid()}
    assert texts == {f"writer {number} says {n}" for number in range(6) for n in range(8)}
    assert list((tmp_path / "memory").glob("*.corrupt*")) == []


def test_processes_that_find_damage_at_once_begin_one_new_store(tmp_path: Path) -> None:
    knowledge(tmp_path).add("fact", "old", "model")
    store(tmp_path).write_bytes(b"x" * 5000)
    code = "patiently(lambda: knowledge.add('fact', f'writer {words[0]}', 'model'), 60)"
    running = [process(tmp_path, code, str(number)) for number in range(6)]
    for one in running:
        assert one.communicate(timeout=60)[1] == b""
    assert {note.text for note in knowledge(tmp_path).valid()} == {f"writer {number}" for number in range(6)}
    assert len(list(tmp_path.glob("*.corrupt*"))) == 1


def test_a_store_that_is_whole_is_not_set_aside(tmp_path: Path) -> None:
    """Another run saw to the damage between finding it and taking the lock."""
    knowledge(tmp_path).add("fact", "kept", "model")
    assert set_aside(store(tmp_path)) is None
    assert [note.text for note in knowledge(tmp_path).valid()] == ["kept"]


def test_a_process_killed_while_it_writes_loses_nothing_that_it_said(tmp_path: Path) -> None:
    code = (
        "for n in range(100000):\n"
        "    knowledge.add('fact', f'{words[0]} wrote number {n} ' + 'x' * 150, 'model')\n"
        "    print(n, flush=True)\n"
    )
    for round_number in range(6):
        writer = process(tmp_path, code, f"round {round_number}")
        assert writer.stdout is not None
        said = [writer.stdout.readline()]
        time.sleep(0.03 * round_number)
        writer.send_signal(signal.SIGKILL)
        said += writer.communicate(timeout=20)[0].splitlines()
        notes = knowledge(tmp_path)
        texts = {note.text for note in notes.valid()}
        acknowledged = {int(line) for line in said if line.strip()}
        assert {n for n in acknowledged if f"round {round_number} wrote number {n} {'x' * 150}" not in texts} == set()
        assert notes.file.problems == ()


def test_a_write_cut_short_is_undone_by_the_next_run_also_by_one_that_only_reads(tmp_path: Path) -> None:
    knowledge(tmp_path).add("fact", "kept", "model")
    code = (
        "import sqlite3, os\n"
        "other = sqlite3.connect(words[0], isolation_level=None)\n"
        "other.execute('PRAGMA cache_size = 1')\n"
        "other.execute('BEGIN IMMEDIATE')\n"
        "other.execute(\"UPDATE note SET text = 'torn', folded = 'torn'\")\n"
        "other.execute('CREATE TABLE filler (x)')\n"
        "[other.execute('INSERT INTO filler VALUES (?)', ('x' * 3000,)) for _ in range(50)]\n"
        "os.kill(os.getpid(), 9)\n"
    )
    process(tmp_path, code, str(store(tmp_path))).communicate(timeout=20)
    assert journal_of(store(tmp_path)).exists()
    assert [note.text for note in knowledge(tmp_path, writes=False).valid()] == ["kept"]


KILLED_AT_K = """
import os, sqlite3, sys
left = int(words[0])
def count(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)
def watch(event, args):
    if event in ("os.rename", "os.mkdir", "os.chmod", "os.remove", "sqlite3.connect"):
        count()
def connect(*args, real=sqlite3.connect, **named):
    connection = real(*args, **named)
    connection.set_trace_callback(count)
    return connection
sqlite3.connect = connect
import agentctl.state.knowledge_decay, agentctl.state.knowledge_likeness
sys.addaudithook(watch)
knowledge.add('fact', 'before ' + words[0], 'model')
print('first', flush=True)
knowledge.add('fact', 'and behind it ' + words[0], 'model')
print('second', 1_000_000 - left, flush=True)
"""


def killed_at(folder: Path, k: int) -> tuple[int, list[bytes]]:
    """The exit code of a process that dies at its kth operation, and what it had acknowledged."""
    running = process(folder, KILLED_AT_K, str(k))
    out, err = running.communicate(timeout=30)
    assert err == b""
    return running.returncode, out.split()


def test_a_process_killed_at_its_kth_operation_leaves_a_whole_store(tmp_path: Path) -> None:
    """Making the store, writing, and writing again: each SQL statement, those of the index too, and each new name.

    AGENTCTL_EVERY_K looks at every k instead of a few.
    """
    code, said = killed_at(tmp_path / "whole", 1_000_000)
    assert (code, said[:2]) == (0, [b"first", b"second"])
    operations = int(said[2])
    assert operations > 100
    for k in range(1, operations, 1 if os.environ.get("AGENTCTL_EVERY_K") else operations // 9):
        folder = tmp_path / str(k)
        code, said = killed_at(folder, k)
        assert code == -signal.SIGKILL
        notes = knowledge(folder)
        assert len(notes.valid()) >= len(said), k
        notes.add("fact", "life goes on", "model")
        assert notes.valid()[-1].text == "life goes on"
        assert notes.file.problems == (), k


def test_a_full_disk_is_said_and_the_notes_stay_as_they_were(tmp_path: Path) -> None:
    notes = knowledge(tmp_path)
    for number in range(5):
        notes.add("fact", f"entry {number} " + "x" * 300, "model")
    before = notes.valid()
    size = store(tmp_path).stat().st_size
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(words[0]), int(words[0])))\n"
        "try:\n"
        "    for n in range(40):\n        knowledge.add('fact', f'more {n} ' + 'y' * 380, 'model')\n        print(n)\n"
        "except StoreFailure as failure:\n    print(failure.problem().code)\n"
    )
    for limit in (0, 4096, size, size + 4096):
        out, err = process(tmp_path, code, str(limit)).communicate(timeout=30)
        *said, last = out.split()
        assert last == b"memory-unavailable", (limit, err)
        texts = {note.text for note in notes.valid()}
        assert {note.text for note in before} <= texts
        assert {f"more {n.decode()} {'y' * 380}" for n in said} <= texts
        assert notes.file.problems == ()


def test_a_locked_store_is_busy_at_once_and_given_up_in_time(tmp_path: Path) -> None:
    notes = knowledge(tmp_path)
    notes.add("fact", "one", "model")
    holder = sqlite3.connect(store(tmp_path), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    with pytest.raises(StoreBusy):
        notes.add("fact", "two", "model")
    with pytest.raises(StoreBusy):
        patiently(notes.valid, 0.3)
    assert time.monotonic() - started < 2
    holder.execute("ROLLBACK")
    holder.close()
    assert patiently(notes.valid, 0.3)[0].text == "one"


async def _never(_seconds: float) -> None:
    raise AssertionError("it waited although nothing was locked")


def test_waiting_between_other_work() -> None:
    import asyncio

    assert asyncio.run(patiently_async(lambda: 7, 1.0, _never)) == 7


# --- homes ------------------------------------------------------------------------------------------------------------


def as_nobody(folder: Path, code: str) -> tuple[bytes, bytes]:
    """In a process that may not write the folder, whoever runs the tests."""
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and len(path.parts) > 2:
            path.chmod(path.stat().st_mode | 0o055)
    folder.chmod(0o555)
    modules = "import os, sqlite3, datetime, agentctl.state.knowledge_decay\n"  # what nobody may not read later
    drop = f"if os.geteuid() == 0:\n    os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    try:
        return process(folder, modules + drop + code).communicate(timeout=20)
    finally:
        folder.chmod(0o700)


def test_a_read_only_home_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    knowledge(folder).add("fact", "known", "model")
    store(folder).chmod(0o444)
    out, err = as_nobody(folder, "print([note.text for note in knowledge.valid()], knowledge.can_write)")
    assert out == b"['known'] False\n", err


def test_a_read_only_home_says_so_when_something_is_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    code = (
        "try:\n    knowledge.add('fact', 'x', 'model')\n"
        "except StoreFailure as failure:\n    print(failure.problem().code, failure.why)\n"
    )
    out, err = as_nobody(folder, code)
    assert out.startswith(b"memory-unavailable Permission denied"), err


# --- the index --------------------------------------------------------------------------------------------------------


def test_the_index_finds_what_looking_at_every_note_finds(tmp_path: Path) -> None:
    notes = knowledge(tmp_path)
    texts = ["Tests run with make test", "默认端口是8080", "การทดสอบต้องเปิดฐานข้อมูล", 'a "quoted" word', "ABC-123 (x)"]
    for text in texts:
        notes.add("fact", text, "model")
    queries = ["make", "AKE TES", "端口", "8080", "ฐานข้อมูล", '"quoted"', "c-123", "(x)", "te ma", "zzz"]
    with_index = [[note.text for note in notes.recall(query)] for query in queries]
    with opened(store(tmp_path), writes=True) as connection:
        assert rows.meta(connection, "is_indexed") == "yes"
        rows.set_meta(connection, "is_indexed", "no")
    assert [[note.text for note in notes.recall(query)] for query in queries] == with_index
    assert with_index[:3] == [["Tests run with make test"], ["Tests run with make test"], ["默认端口是8080"]]


def test_an_interpreter_without_trigrams_writes_and_finds_and_the_next_one_indexes(tmp_path: Path) -> None:
    knowledge(tmp_path).add("fact", "first note", "model")
    code = (
        "import sqlite3\n"
        "real = sqlite3.connect\n"
        "class Old(sqlite3.Connection):\n"
        "    def execute(self, said, *more):\n"
        "        if 'note_index' in said:\n"
        "            raise sqlite3.OperationalError('no such module: fts5')\n"
        "        return super().execute(said, *more)\n"
        "sqlite3.connect = lambda *words, **named: real(*words, factory=Old, **named)\n"
        "knowledge.add('fact', 'second entry', 'model')\n"
        "print([note.text for note in knowledge.recall('second')])\n"
    )
    out, err = process(tmp_path, code).communicate(timeout=20)
    assert out == b"['second entry']\n", err
    with opened(store(tmp_path), writes=False) as connection:
        assert rows.meta(connection, "is_indexed") == "no"
    knowledge(tmp_path).add("fact", "third thing", "model")
    with opened(store(tmp_path), writes=False) as connection:
        found = connection.execute("SELECT folded FROM note_index ORDER BY rowid").fetchall()
    assert found == [("first note",), ("second entry",), ("third thing",)]


def test_purged_notes_leave_no_bytes_behind(tmp_path: Path) -> None:
    notes = knowledge(tmp_path)
    for text in ("PURPLE-ELEPHANT lives here", "something else"):
        notes.add("fact", text, "model")
    notes.forget("purple-elephant")
    assert b"PURPLE-ELEPHANT" in store(tmp_path).read_bytes()
    assert notes.purge() == 1
    assert b"purple-elephant" not in store(tmp_path).read_bytes().lower()
    assert [note.text for note in notes.valid()] == ["something else"]


def test_only_the_store_opens_sqlite() -> None:
    found = subprocess.run(
        ["grep", "-rlE", r"sqlite3\.connect", "agentctl"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert set(found.stdout.split()) <= {"agentctl/state/knowledge_store.py", "agentctl/state/index.py"}


def test_another_key_is_another_store(tmp_path: Path) -> None:
    knowledge(tmp_path).add("fact", "mine", "model")
    assert Knowledge(tmp_path, "other", now=lambda: "2030-01-01T00:00:00.000Z").valid() == []
