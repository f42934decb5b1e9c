"""What a project's runs know: notes in one store, added, found, forgotten, chosen for a prompt, and let go.

Every method opens the store for itself and either does all of its work or raises StoreFailure; StoreBusy is worth
another try. A project without a store costs one look at the folder. A damaged store is set aside and named in
`problems`, and a new one is begun.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentctl.core.record import Record
from agentctl.state import knowledge_decay as decay
from agentctl.state import knowledge_rows as rows
from agentctl.state import knowledge_search as search
from agentctl.state.knowledge_file import KnowledgeFile
from agentctl.state.knowledge_likeness import compare, prepare, subject_of
from agentctl.state.knowledge_note import Note, clean_text, cut_text, fold

if TYPE_CHECKING:
    from sqlite3 import Connection

MIN_FORGET = 8
"""Letters of a text that names notes to forget; one of a wide script counts twice."""
MAX_FORGET = 5
_SWEPT = "swept"


class Added(Record):
    """What became of a note that was to be recorded."""

    note: Note
    is_new: bool
    """False when it was known: then `note` is the one that was there."""
    is_cut: bool
    replaced: tuple[Note, ...] = ()
    """Notes that are no longer valid, because this one says more or something else."""
    count: int = 0
    """Valid notes afterwards."""


class Forgotten(Record):
    """Notes that were forgotten; or, when the text fits too many, the ones it fits."""

    notes: tuple[Note, ...]
    is_done: bool


class Swept(Record):
    """What a cleaning did."""

    expired: int = 0
    evicted: int = 0
    purged: int = 0


class Knowledge:
    """The notes of one project."""

    def __init__(
        self,
        folder: Path,
        key: str,
        *,
        now: Callable[[], str],
        redact: Callable[[str], str] = lambda text: text,
        remote: str = "",
        writes: bool = True,
        session: str = "",
    ) -> None:
        """`key` names the project, `remote` says where its repository comes from; empty when nothing does.

        Without `writes` nothing is changed, recovery of a killed write aside.
        """
        self.file = KnowledgeFile(folder, key, remote=remote, writes=writes)
        self.now = now
        self._redact = redact
        self._session = session
        self._is_prepared = False

    @property
    def can_write(self) -> bool:
        return self.file.can_write

    # --- looking ------------------------------------------------------------------------------------------------

    def valid(self) -> list[Note]:
        """Every valid note, the oldest first."""
        with self.file.reading() as store:
            return rows.valid_notes(store) if store else []

    def closed(self) -> list[Note]:
        with self.file.reading() as store:
            return rows.closed_notes(store) if store else []

    def has_notes(self) -> bool:
        with self.file.reading() as store:
            return store is not None and rows.count_valid(store) > 0

    def choose(self, injection: str, prompt: str) -> list[Note]:
        """The notes for a prompt, the best first. `injection` is relevant or boot."""
        with self.file.reading() as store:
            if store is None:
                return []
            if injection == "boot":
                return _shown(search.most_recalled(rows.valid_notes(store)), search.BOOT)
            terms = search.prompt_terms(prompt)
            some = rows.candidates(store, terms, needs_all=False) if terms else []
            found = search.relevant(some, prompt, total=rows.count_valid(store))
            found = found or search.most_recalled(search.unsaid(rows.valid_notes(store), prompt))
            return _shown(found, search.BOOT)

    # --- changing -----------------------------------------------------------------------------------------------

    def add(self, kind: str, text: str, origin: str) -> Added:
        """Records a note, or finds that it is known. Its text is masked, made one line and cut."""
        said = self._redact(clean_text(self._redact(text)))
        draft = Note(
            id=os.urandom(4).hex(),
            kind=kind,
            text=cut_text(said),
            origin=origin,
            session="" if origin == "person" else self._session,
            subject=subject_of(kind, said),
            created=self.now(),
            updated=self.now(),
        )
        self._prepare()
        with self.file.writing() as store:
            added = self._merge(store, rows.valid_notes(store), draft)
            self._sweep(store, keep=added.note.id)
            count = rows.count_valid(store)
        return added.replace(is_cut=len(said) > len(draft.text), count=count)

    def recall(self, query: str) -> list[Note]:
        """The newest notes that hold every word of the query."""
        terms = search.query_terms(query)
        with self.file.reading() as store:
            some = rows.candidates(store, terms, needs_all=True) if store else []
        found = [note for note in some if search.has_all(fold(note.text), terms)]
        found.sort(key=lambda note: note.updated, reverse=True)
        return _shown(found, search.RECALLED)

    def count_recalled(self, notes: Sequence[Note]) -> None:
        """Somebody asked for these; that protects them."""
        with self.file.writing() as store:
            for note in notes:
                store.execute("UPDATE note SET recalls = recalls + 1, recalled = ? WHERE id = ?", (self.now(), note.id))

    def forget(self, what: str, *, by: Literal["id", "text", "either"] = "either") -> Forgotten:
        """Closes the note of this id, or the at most MAX_FORGET ones that hold this text. Raises ValueError.

        What is closed is kept for a while and can be listed; `purge` deletes it.
        """
        if not self.file.exists:
            return Forgotten(notes=(), is_done=True)
        with self.file.writing() as store:
            notes = rows.valid_notes(store)
            named = [note for note in notes if note.id == what.strip().lower()] if by != "text" else []
            found = named or (self._holding(notes, what) if by != "id" else [])
            is_done = len(found) <= MAX_FORGET
            self._close(store, found if is_done else (), "forgotten")
        return Forgotten(notes=tuple(found), is_done=is_done)

    def count_shown(self, ids: Sequence[str]) -> None:
        """Notes were put into a prompt, once for each time their id stands here. Sweeps once a day."""
        with self.file.writing() as store:
            for note_id, times in Counter(ids).items():
                store.execute("UPDATE note SET shown = shown + ? WHERE id = ?", (times, note_id))
            if rows.meta(store, _SWEPT)[:10] != self.now()[:10]:
                self._sweep(store)

    def sweep(self) -> Swept:
        """Closes what has expired, keeps to the limits, and deletes what was closed long ago."""
        with self.file.writing() as store:
            return self._sweep(store)

    def purge(self) -> int:
        """Deletes every closed note now, and its bytes in the file. Returns how many."""
        with self.file.writing() as store:
            gone = rows.closed_notes(store)
            rows.delete(store, gone)
            rows.set_meta(store, "is_indexed", "no")  # made again: an index keeps words of what it has deleted
        with self.file.opened(writes=True) as store:
            if store is not None:
                store.execute("VACUUM")
        return len(gone)

    def replace(self, old: Sequence[Note], new: Sequence[tuple[str, str]]) -> list[Note] | None:
        """Closes notes as compacted and records (kind, text) in their place, all or nothing.

        None, and nothing changed, when one of the old ones was recalled, changed or closed in between.
        """
        with self.file.writing() as store:
            now = {note.id: note for note in rows.valid_notes(store)}
            if any(note.id not in now or _state(now[note.id]) != _state(note) for note in old):
                return None
            self._close(store, old, "compacted")
            kept = rows.valid_notes(store)
            origin = "person" if all(note.origin == "person" for note in old) else "model"
            return [
                self._merge(
                    store,
                    kept,
                    Note(
                        id=os.urandom(4).hex(),
                        kind=kind,
                        text=cut_text(self._redact(clean_text(text))),
                        origin=origin,
                        subject=subject_of(kind, text),
                        created=self.now(),
                        updated=self.now(),
                    ),
                    counts=False,
                    replaces=False,
                ).note
                for kind, text in new
            ]

    def take_in(self, notes: Sequence[Note]) -> int:
        """Adds notes of an export with their times and counts, all or nothing. Returns how many were not known."""
        with self.file.writing() as store:
            taken, valid = 0, rows.valid_notes(store)
            for note in notes:
                said = cut_text(self._redact(clean_text(self._redact(note.text))))
                draft = note.replace(id=os.urandom(4).hex(), text=said, subject=subject_of(note.kind, said))
                taken += self._merge(store, valid, draft, counts=False).is_new
            self._sweep(store)
        return taken

    def _prepare(self) -> None:
        """Other runs wait while this one writes: what can be reckoned before is, once."""
        if not self._is_prepared:
            for note in self.valid():
                prepare(note.text)
            self._is_prepared = True

    # --- inside a transaction -----------------------------------------------------------------------------------

    def _merge(
        self, store: Connection, valid: list[Note], draft: Note, *, counts: bool = True, replaces: bool = True
    ) -> Added:
        """Inserts a note, or renews the one that says the same; closes those that it replaces. Keeps `valid` in step.

        `counts`: saying it again counts as a recall. `replaces`: it may close others.
        """
        replaced = []
        for place, note in enumerate(valid):
            likeness = compare(note.text, draft.text)
            if likeness == "same":
                valid[place] = self._renew(store, note, draft, counts=counts)
                return Added(note=valid[place], is_new=False, is_cut=False)
            may_replace = replaces and (draft.is_confirmed or not note.is_confirmed)
            is_answered = bool(draft.subject) and draft.subject == note.subject
            if may_replace and (likeness in ("fuller", "contrary") or is_answered):
                replaced.append(note)
        self._close(store, replaced, "superseded", successor=draft.id)
        draft = draft.replace(recalls=max(draft.recalls, sum(note.recalls for note in replaced)))
        rows.insert(store, draft)
        valid[:] = [*(note for note in valid if note not in replaced), draft] if replaced else [*valid, draft]
        return Added(note=draft, is_new=True, is_cut=False, replaced=tuple(replaced))

    def _renew(self, store: Connection, note: Note, draft: Note, *, counts: bool) -> Note:
        """A note that is recorded again is confirmed by whoever has more authority, and its time begins anew."""
        if not draft.is_confirmed or (not counts and draft.updated <= note.updated):
            return note
        origin = "person" if "person" in (note.origin, draft.origin) else "model"
        renewed = note.replace(origin=origin, updated=draft.updated, recalls=note.recalls + counts)
        rows.update(store, note, origin=origin, updated=renewed.updated, recalls=renewed.recalls)
        return renewed

    def _close(self, store: Connection, notes: Sequence[Note], reason: str, *, successor: str = "") -> None:
        for note in notes:
            rows.update(store, note, closed=self.now(), reason=reason, successor=successor)

    def _sweep(self, store: Connection, *, keep: str = "") -> Swept:
        now = self.now()
        valid = rows.valid_notes(store)
        gone = decay.expired(valid, now)
        self._close(store, gone, "expired")
        over = decay.evicted([note for note in valid if note not in gone] if gone else valid, now, keep=keep)
        self._close(store, over, "evicted")
        purged = decay.due_for_purge(rows.closed_notes(store), now)
        rows.delete(store, purged)
        rows.set_meta(store, _SWEPT, now)
        return Swept(expired=len(gone), evicted=len(over), purged=len(purged))

    @staticmethod
    def _holding(notes: Sequence[Note], what: str) -> list[Note]:
        said = fold(what)
        if sum(2 if ord(char) > 0x2E7F else 1 for char in said) < MIN_FORGET:
            raise ValueError(
                f"{what.strip()!r} is no id of a note, and a text needs at least {MIN_FORGET} characters to name notes"
            )
        return [note for note in notes if said in fold(note.text)]


def _state(note: Note) -> tuple[object, ...]:
    return note.text, note.recalls, note.updated


def _shown(notes: Sequence[Note], limit: int) -> list[Note]:
    """The first ones that a model may see."""
    return list(islice((note for note in notes if not note.is_quarantined), limit))
