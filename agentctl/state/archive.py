"""A session as one file: `.tar.gz` with `session.json`, `journal.jsonl` and the session's files of the workspace.

What is imported comes from somewhere else and is checked before anything is written: plain files alone, names that
stay below their folder, sizes that are bounded while they are unpacked, and a journal whose every record can be read.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import UsageError
from agentctl.core.files import create_file, make_private_dir, open_regular, read_all, replacing, write_all
from agentctl.core.record import Record, map_strings
from agentctl.core.types import JsonObject
from agentctl.state.copies import FILE_NAME, files_below
from agentctl.state.journal import read_session_log

MANIFEST, JOURNAL, STATE = "session.json", "journal.jsonl", "state/"
FORMAT = 1
MAX_FILE = 80_000_000
MAX_JOURNAL = 256_000_000
MAX_TOTAL = 1_000_000_000
MAX_MEMBERS = 10_000
_BLOCK = 512
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
DROPPED = "approval"
"""What was approved elsewhere does not count here."""


class Exported(Record):
    files: tuple[str, ...]
    """Of the workspace, relative to the session's folder there."""
    records: int
    left_out: int
    """Lines of the journal that cannot be read."""


class Archive(Record):
    """What an archive holds, checked. Its files are still in it."""

    session: str
    records: tuple[JsonObject, ...]
    files: tuple[str, ...]


def export_session(
    path: Path, session: str, folder: Path, target: Path, redact: Callable[[str], str], *, version: str
) -> Exported:
    """Writes the archive of a session; `folder` is its folder in the workspace, which may not exist.

    Texts are masked once more with the secrets of now. Raises UsageError for a journal that cannot be read and OSError
    for a target that cannot be written.
    """
    log = read_session_log(path)
    lines = [dumps(map_strings(row, redact)) + b"\n" for _, row in log.rows]
    manifest = {"format": FORMAT, "session": session, "version": version}
    names = list(files_below(folder))
    with (
        replacing(target) as file,
        tarfile.open(fileobj=file, mode="w:gz", format=tarfile.USTAR_FORMAT, compresslevel=6) as archive,
    ):
        _add(archive, MANIFEST, dumps(manifest) + b"\n")
        _add(archive, JOURNAL, b"".join(lines))
        for name in names:
            text = _read(folder / name).decode("utf-8", "surrogateescape")
            _add(archive, f"{STATE}{name}", redact(text).encode("utf-8", "surrogateescape"))
    return Exported(files=tuple(names), records=len(lines), left_out=len(log.damage))


def read_archive(source: Path) -> Archive:
    """Looks at all of an archive. Raises UsageError naming what is wrong with it; nothing was written then."""
    manifest: JsonObject | None = None
    journal: bytes | None = None
    files: dict[str, None] = {}
    for name, data in _members(source):
        if name == MANIFEST:
            manifest = _manifest(source, data)
        elif name == JOURNAL:
            journal = data
        elif name in files:
            raise _refused(source, f"it holds {name!r} twice")
        else:
            files[name] = None
    if manifest is None or journal is None:
        raise _refused(source, f"it has no {MANIFEST if manifest is None else JOURNAL}")
    session = str(manifest.get("session"))
    return Archive(session=session, records=_records(source, session, journal), files=tuple(files))


def unpack_files(source: Path, folder: Path) -> None:
    """Writes the files of a checked archive into the folder of the session in the workspace, all or none of them.

    Raises OSError, and UsageError when the archive is no longer what was checked.
    """
    made: list[Path] = []
    try:
        for name, data in _members(source):
            if name.startswith(STATE):
                path = folder / name.removeprefix(STATE)
                make_private_dir(path.parent)
                descriptor = create_file(path)
                made.append(path)
                try:
                    write_all(descriptor, data)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise


# --- writing ------------------------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    descriptor = open_regular(path, follow=False)
    try:
        return read_all(descriptor, MAX_FILE)
    finally:
        os.close(descriptor)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


# --- reading ------------------------------------------------------------------------------------------------------


def _members(source: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each member. tarfile's own reader would unpack headers of any size, links and devices."""
    try:
        descriptor = open_regular(source)
    except OSError as error:
        raise UsageError(f"the archive {str(source)!r} cannot be read: {error.strerror or error}") from error
    with os.fdopen(descriptor, "rb") as file, gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
        try:
            yield from _plain_members(source, unpacked)
        except (EOFError, OSError, zlib.error, tarfile.TarError, UnicodeError) as error:
            raise _refused(source, f"it is no archive of a session, or cut off ({error})") from None


def _plain_members(source: Path, unpacked: gzip.GzipFile) -> Iterator[tuple[str, bytes]]:
    total = count = 0
    while (block := _exactly(unpacked, _BLOCK)).strip(b"\0"):
        member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise _refused(source, f"{member.name!r} in it is no plain file")
        _check_name(source, member.name)
        total, count = total + member.size, count + 1
        limit = MAX_JOURNAL if member.name == JOURNAL else MAX_FILE
        if not 0 <= member.size <= limit or total > MAX_TOTAL or count > MAX_MEMBERS:
            raise _refused(source, f"with {member.name!r} it is larger than a session can be")
        data = _exactly(unpacked, member.size)
        _exactly(unpacked, -member.size % _BLOCK)
        yield member.name, data


def _check_name(source: Path, name: str) -> None:
    if name in (MANIFEST, JOURNAL):
        return
    if not name.startswith(STATE) or not FILE_NAME.fullmatch(name.removeprefix(STATE)):
        raise _refused(source, f"the name {name!r} in it is none that a session has")


def _exactly(unpacked: gzip.GzipFile, size: int) -> bytes:
    data = unpacked.read(size)
    if len(data) != size:
        raise EOFError("it ends too early")
    return data


def _manifest(source: Path, data: bytes) -> JsonObject:
    try:
        manifest = loads(data)
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or not _ID.fullmatch(str(manifest.get("session"))):
        raise _refused(source, f"its {MANIFEST} names no session")
    if manifest.get("format") != FORMAT:
        raise _refused(source, f"it has the format {manifest.get('format')!r}, this version reads {FORMAT}")
    return manifest


def _records(source: Path, session: str, journal: bytes) -> tuple[JsonObject, ...]:
    from agentctl.state.checks import check_record  # only for what comes from elsewhere

    records: list[JsonObject] = []
    for number, line in enumerate(journal.split(b"\n"), start=1):
        if not line:
            continue
        try:
            row = loads(line)
            check_record(row, session if not records else None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _refused(source, f"line {number} of its {JOURNAL} is no record ({error})") from None
        if row["record"] != DROPPED:
            records.append(row)
    if not records:
        raise _refused(source, f"its {JOURNAL} is empty")
    return tuple(records)


def _refused(source: Path, why: str) -> UsageError:
    return UsageError(f"the archive {str(source)!r} is refused: {why}", hint="Nothing was written.")
