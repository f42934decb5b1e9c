"""A session as a file: what goes in comes out, and what others made is refused before anything is written."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctl.core.codec import dumps
from agentctl.core.errors import UsageError
from agentctl.core.types import JsonObject
from agentctl.state.archive import MAX_FILE, export_session, read_archive, unpack_files
from agentctl.state.journal import load

SESSION = "01998f3e-0000-7000-8000-000000000001"
HEADER: JsonObject = {"record": "header", "format": 1, "session": SESSION, "cwd": "/w", "model": "m/n"}
TURN: JsonObject = {
    "record": "turn",
    "n": 1,
    "message": {"role": "user", "parts": [{"part": "text", "text": "hunter2"}]},
}
MANIFEST = {"format": 1, "session": SESSION}


def lines(*rows: JsonObject) -> bytes:
    return b"".join(dumps(row) + b"\n" for row in rows)


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info, data


def packed(folder: Path, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.USTAR_FORMAT) -> Path:
    path = folder / "in.tar.gz"
    with tarfile.open(path, "w:gz", format=form) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return path


GOOD = (member("session.json", dumps(MANIFEST)), member("journal.jsonl", lines(HEADER, TURN)))


def test_what_is_exported_is_imported_again_without_secrets_and_links(tmp_path: Path) -> None:
    journal, folder = tmp_path / "s.jsonl", tmp_path / "state"
    journal.write_bytes(lines(HEADER, TURN, {"record": "future", "x": "hunter2"}) + b"damaged\n" + b'{"record":"torn')
    (folder / "output").mkdir(parents=True)
    (folder / "notebook.md").write_text("found hunter2 \u2028")
    (folder / "output" / "1.txt").write_bytes(b"\xff hunter2")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "dirlink").symlink_to("/etc")
    target = tmp_path / "out.tar.gz"
    made = export_session(journal, SESSION, folder, target, lambda text: text.replace("hunter2", "***"), version="0")
    assert (made.files, made.records, made.left_out) == (("notebook.md", "output/1.txt"), 3, 1)
    assert b"hunter2" not in gzip.decompress(target.read_bytes())
    assert target.stat().st_mode & 0o777 == 0o600
    archive = read_archive(target)
    assert (archive.session, len(archive.records)) == (SESSION, 3)
    unpack_files(target, tmp_path / "new")
    assert (tmp_path / "new" / "notebook.md").read_text() == "found *** \u2028"
    assert (tmp_path / "new" / "output" / "1.txt").read_bytes() == b"\xff ***"


def test_an_export_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        export_session(tmp_path / "no", SESSION, tmp_path / "no", tmp_path / "out", str, version="0")
    journal = tmp_path / "s.jsonl"
    journal.write_bytes(lines(HEADER, TURN))

    def fails(text: str) -> str:
        raise OSError("no space")

    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "a").write_text("x")
    with pytest.raises(OSError, match="no space"):
        export_session(journal, SESSION, tmp_path / "state", tmp_path / "out", fails, version="0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.jsonl", "state"]


def test_what_was_approved_elsewhere_does_not_count_here(tmp_path: Path) -> None:
    journal = lines(
        HEADER, TURN, {"record": "approval", "id": "a", "state": "approved"}, {"record": "end", "ended": "x"}
    )
    archive = read_archive(packed(tmp_path, GOOD[0], member("journal.jsonl", journal)))
    assert [row["record"] for row in archive.records] == ["header", "turn", "end"]


def long_name(folder: Path) -> Path:
    return packed(folder, *GOOD, member("state/" + "x" * 300), form=tarfile.PAX_FORMAT)


def huge_header(folder: Path) -> Path:
    """A header that says it is followed by more than fits into memory."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 8_000_000_000
    path = folder / "in.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1_000_000)))
    return path


def bomb(folder: Path) -> Path:
    info = tarfile.TarInfo("state/output/1.txt")
    info.size = MAX_FILE + 1
    path = folder / "in.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1_000_000)))
    return path


def many(folder: Path) -> Path:
    return packed(folder, *(member(f"state/{number}") for number in range(10_001)))


def cut(folder: Path) -> Path:
    path = packed(folder, *GOOD)
    path.write_bytes(path.read_bytes()[:-60])
    return path


def other(data: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "in").write_bytes(data)
        return folder / "in"

    return write


HOSTILE: list[tuple[str, Callable[[Path], Path]]] = [
    *(
        (f"name {name!r}", lambda folder, name=name: packed(folder, *GOOD, member(name, b"x")))  # type: ignore[misc]
        for name in (
            "state/../../../etc/cron.d/x",
            "/etc/passwd",
            "../x",
            "state/",
            "state/.hidden",
            "state/a/../b",
            "state//x",
            "state/a/b/c/d/e",
            "state/a\nb",
            "state/\u202ex",
            "other/x",
            "state/C:\\x",
            "policy.toml",
        )
    ),
    *(
        (f"type {kind!r}", lambda folder, kind=kind: packed(folder, *GOOD, member("state/x", b"", kind, "/etc/passwd")))  # type: ignore[misc]
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"S", b"?")
    ),
    ("the same name twice", lambda folder: packed(folder, *GOOD, member("state/x", b"1"), member("state/x", b"2"))),
    ("a name in a header of its own", long_name),
    ("a huge header", huge_header),
    ("a bomb", bomb),
    ("too many", many),
    ("cut off", cut),
    ("no archive", other(b"hello")),
    ("empty", other(b"")),
    ("gzip of something else", other(gzip.compress(b"hello" * 500))),
    ("no manifest", lambda folder: packed(folder, GOOD[1])),
    ("no journal", lambda folder: packed(folder, GOOD[0])),
]
"""What is wrong → a function that writes it."""


@pytest.mark.parametrize("make", [make for _, make in HOSTILE], ids=[name for name, _ in HOSTILE])
def test_a_hostile_archive_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(UsageError, match="is refused"):
        read_archive(make(tmp_path))


@pytest.mark.parametrize(
    "journal",
    [
        b"",
        b"?\n",
        b"{}\n",
        lines(TURN),
        lines({**HEADER, "session": "01998f3e-0000-7000-8000-00000000000f"}, TURN),
        lines({**HEADER, "format": 2}),
        lines(HEADER, {**TURN, "message": {"role": "system", "parts": []}}),
        lines(HEADER, {**TURN, "message": {"role": "user", "parts": [{"part": "text", "text": 5}]}}),
        lines(HEADER, {**TURN, "message": {"role": "user", "parts": [{"part": "other", "text": "x"}]}}),
        lines(HEADER, {**TURN, "message": {"role": "user", "parts": [{"part": "text", "text": "x", "y": 1}]}}),
        lines(HEADER, {"record": "usage", "usage": {"input": -5}}),
        lines(HEADER, {"record": "usage", "usage": {}, "cost_usd": -5}),
        lines(HEADER, {"record": "view", "start": "0", "reasons_from": 0}),
    ],
)
def test_a_journal_that_is_not_as_we_write_it_is_refused(tmp_path: Path, journal: bytes) -> None:
    with pytest.raises(UsageError, match="is refused"):
        read_archive(packed(tmp_path, GOOD[0], member("journal.jsonl", journal)))


@pytest.mark.parametrize("session", ["", "../../x", "s1", SESSION.upper(), 5, None, SESSION + "\n"])
def test_a_name_of_a_session_that_is_no_id_is_refused(tmp_path: Path, session: object) -> None:
    manifest = member("session.json", dumps({"format": 1, "session": session}))
    with pytest.raises(UsageError, match="is refused"):
        read_archive(packed(tmp_path, manifest, GOOD[1]))


def test_files_are_unpacked_all_or_none(tmp_path: Path) -> None:
    path = packed(tmp_path, *GOOD, member("state/a", b"1"), member("state/b", b"2"))
    folder = tmp_path / "to"
    folder.mkdir()
    (folder / "b").write_text("mine")
    with pytest.raises(FileExistsError):
        unpack_files(path, folder)
    assert [entry.name for entry in folder.iterdir()] == ["b"]
    assert (folder / "b").read_text() == "mine"


def test_a_good_archive_is_taken(tmp_path: Path) -> None:
    archive = read_archive(packed(tmp_path, *GOOD, member("state/output/1.txt", b"x")))
    path = tmp_path / "s.jsonl"
    path.write_bytes(lines(*archive.records))
    assert (load(path).id, archive.files) == (SESSION, ("state/output/1.txt",))
