"""Notes as rows of an open store, and the index over them. Every change stands in a transaction of the caller.

The index is made of the notes and can be made again: an interpreter whose SQLite has no FTS5 or no trigrams writes
without it, and the next one that has them rebuilds it. Without it a search looks at all notes, at most 300.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agentctl.state.knowledge_note import Note, fold

if TYPE_CHECKING:
    from sqlite3 import Connection

SHORTEST_INDEXED = 3
"""Letters that a term needs for the index to find it."""
_COLUMNS = tuple(Note.fields)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM note"


def _note(row: Sequence[Any]) -> Note:
    return Note(**dict(zip(_COLUMNS, row, strict=True)))


def valid_notes(connection: Connection) -> list[Note]:
    """In the order in which they were recorded."""
    return [_note(row) for row in connection.execute(f"{_SELECT} WHERE closed = '' ORDER BY number")]


def count_valid(connection: Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM note WHERE closed = ''").fetchone()
    return int(count)


def closed_notes(connection: Connection) -> list[Note]:
    return [_note(row) for row in connection.execute(f"{_SELECT} WHERE closed != '' ORDER BY number")]


def meta(connection: Connection, name: str) -> str:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def set_meta(connection: Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def insert(connection: Connection, note: Note) -> None:
    names = ", ".join((*_COLUMNS, "folded"))
    marks = ", ".join("?" * (len(_COLUMNS) + 1))
    values = [getattr(note, name) for name in _COLUMNS]
    connection.execute(f"INSERT INTO note ({names}) VALUES ({marks})", (*values, fold(note.text)))


def update(connection: Connection, note: Note, **changes: object) -> None:
    said = ", ".join(f"{name} = ?" for name in changes)
    connection.execute(f"UPDATE note SET {said} WHERE id = ?", (*changes.values(), note.id))


def delete(connection: Connection, notes: Iterable[Note]) -> None:
    connection.executemany("DELETE FROM note WHERE id = ?", [(note.id,) for note in notes])


# --- the index --------------------------------------------------------------------------------------------------------


def reindex(connection: Connection) -> None:
    """Brings the index in step with the valid notes, or says that it is not. Ends every change."""
    import sqlite3

    was_in_step = meta(connection, "is_indexed") == "yes"
    set_meta(connection, "is_indexed", "no")
    connection.execute("SAVEPOINT reindex")
    try:
        if not was_in_step:
            connection.execute("DROP TABLE IF EXISTS note_index")
            connection.execute("CREATE VIRTUAL TABLE note_index USING fts5(folded, tokenize = 'trigram')")
        valid = "SELECT number, folded FROM note WHERE closed = ''"
        connection.execute("DELETE FROM note_index WHERE rowid NOT IN (SELECT number FROM note WHERE closed = '')")
        connection.execute(
            f"INSERT INTO note_index (rowid, folded) {valid} AND number NOT IN (SELECT rowid FROM note_index)"
        )
        set_meta(connection, "is_indexed", "yes")
    except sqlite3.Error:  # no FTS5, no trigrams, or a damaged index: a search looks at the notes themselves
        connection.execute("ROLLBACK TO reindex")
    connection.execute("RELEASE reindex")


def candidates(connection: Connection, terms: Sequence[str], *, needs_all: bool) -> list[Note]:
    """The valid notes that hold all of the terms, or one of them. May hold more; the caller looks at each."""
    import sqlite3

    long = [term for term in terms if len(term) >= SHORTEST_INDEXED]
    is_narrowing = bool(long) if needs_all else len(long) == len(terms)
    if not is_narrowing or meta(connection, "is_indexed") != "yes":
        return valid_notes(connection)
    said = (" AND " if needs_all else " OR ").join('"' + term.replace('"', '""') + '"' for term in long)
    found = "number IN (SELECT rowid FROM note_index WHERE note_index MATCH ?)"
    try:
        return [
            _note(row)
            for row in connection.execute(f"{_SELECT} WHERE closed = '' AND {found} ORDER BY number", (said,))
        ]
    except sqlite3.Error:
        return valid_notes(connection)
