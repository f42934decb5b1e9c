"""What a project's runs know: notes in one store, added, found, forgotten, chosen for a prompt, and let go.

Every method opens the store for itself and either does all of its work or raises StoreFailure; StoreBusy is worth
another try. A project without a store costs one look at the folder. A damaged store is set aside and named in
`problems`, and a new one is begun.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.core.record import Record
from agentctl.core.types import Problem
from agentctl.state import knowledge_decay as decay
from agentctl.state import knowledge_rows as rows
from agentctl.state import knowledge_search as search
from agentctl.state.knowledge_likeness import compare, subject_of
from agentctl.state.knowledge_note import Note, clean_text, cut_text, fold
from agentctl.state.knowledge_place import exists, is_writable, store_of
from agentctl.state.knowledge_store import (
    StoreCorrupt,
    StoreFailure,
    create,
    opened,
    set_aside,
    transaction,
)

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
        remote: Callable[[], str] = lambda: "",
        writes: bool = True,
        session: str = "",
    ) -> None:
        """`key` names the project, `remote` says where its repository comes from (asked only when there is a store).

        Without `writes` nothing is changed, recovery of a killed write aside.
        """
        self._folder = folder
        self._key = key
        self.now = now
        self._redact = redact
        self._ask_remote = remote
        self._writes = writes
        self._session = session
        self._remote: str | None = None
        self._path: Path | None = None
        self._problems: dict[str, Problem] = {}
        self._told: set[str] = set()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What went wrong so far, each thing once."""
        return tuple(self._problems.values())

    def note_problem(self, problem: Problem) -> None:
        self._problems.setdefault(problem.code, problem)

    def take_untold(self) -> list[Problem]:
        """The problems that nobody took so far."""
        untold = [problem for code, problem in self._problems.items() if code not in self._told]
        self._told.update(problem.code for problem in untold)
        return untold

    @property
    def can_write(self) -> bool:
        """Whether a note could be recorded: asked for, and the folder can be written."""
        return self._writes and is_writable(self._folder)

    # --- looking ------------------------------------------------------------------------------------------------

    def valid(self) -> list[Note]:
        """Every valid note, the oldest first."""
        with self._reading() as store:
            return rows.valid_notes(store) if store else []

    def closed(self) -> list[Note]:
        with self._reading() as store:
            return rows.closed_notes(store) if store else []

    def has_notes(self) -> bool:
        with self._reading() as store:
            return store is not None and rows.count_valid(store) > 0

    def choose(self, injection: str, prompt: str) -> list[Note]:
        """The notes for a prompt, the best first. `injection` is relevant or boot."""
        with self._reading() as store:
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
        with self._writing() as store:
            added = self._merge(store, draft)
            self._sweep(store, keep=added.note.id)
            count = rows.count_valid(store)
        return added.replace(is_cut=len(said) > len(draft.text), count=count)

    def recall(self, query: str) -> list[Note]:
        """The newest notes that hold every word of the query."""
        terms = search.query_terms(query)
        with self._reading() as store:
            some = rows.candidates(store, terms, needs_all=True) if store else []
        found = [note for note in some if search.has_all(fold(note.text), terms)]
        found.sort(key=lambda note: note.updated, reverse=True)
        return _shown(found, search.RECALLED)

    def count_recalled(self, notes: Sequence[Note]) -> None:
        """Somebody asked for these; that protects them."""
        with self._writing() as store:
            for note in notes:
                store.execute("UPDATE note SET recalls = recalls + 1, recalled = ? WHERE id = ?", (self.now(), note.id))

    def forget(self, what: str) -> Forgotten:
        """Closes the note of this id, or the at most MAX_FORGET ones that hold this text. Raises ValueError.

        What is closed is kept for a while and can be listed; `purge` deletes it.
        """
        if not exists(self._place()):
            return Forgotten(notes=(), is_done=True)
        with self._writing() as store:
            notes = rows.valid_notes(store)
            named = [note for note in notes if note.id == what.strip().lower()]
            found = named or self._holding(notes, what)
            is_done = len(found) <= MAX_FORGET
            self._close(store, found if is_done else (), "forgotten")
        return Forgotten(notes=tuple(found), is_done=is_done)

    def count_shown(self, ids: Sequence[str]) -> None:
        """Notes were put into a prompt, once for each time their id stands here. Sweeps once a day."""
        with self._writing() as store:
            for note_id, times in Counter(ids).items():
                store.execute("UPDATE note SET shown = shown + ? WHERE id = ?", (times, note_id))
            if rows.meta(store, _SWEPT)[:10] != self.now()[:10]:
                self._sweep(store)

    def sweep(self) -> Swept:
        """Closes what has expired, keeps to the limits, and deletes what was closed long ago."""
        with self._writing() as store:
            return self._sweep(store)

    def purge(self) -> int:
        """Deletes every closed note now, and its bytes in the file. Returns how many."""
        with self._writing() as store:
            gone = rows.closed_notes(store)
            rows.delete(store, gone)
            rows.set_meta(store, "is_indexed", "no")  # made again: an index keeps words of what it has deleted
        with self._opened(writes=True) as store:
            if store is not None:
                store.execute("VACUUM")
        return len(gone)

    def replace(self, old: Sequence[Note], new: Sequence[tuple[str, str]]) -> list[Note] | None:
        """Closes notes as compacted and records (kind, text) in their place, all or nothing.

        None, and nothing changed, when one of the old ones was recalled, changed or closed in between.
        """
        with self._writing() as store:
            now = {note.id: note for note in rows.valid_notes(store)}
            if any(note.id not in now or _state(now[note.id]) != _state(note) for note in old):
                return None
            self._close(store, old, "compacted")
            origin = "person" if all(note.origin == "person" for note in old) else "model"
            return [
                self._merge(
                    store,
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
        with self._writing() as store:
            taken = 0
            for note in notes:
                said = cut_text(self._redact(clean_text(self._redact(note.text))))
                draft = note.replace(id=os.urandom(4).hex(), text=said, subject=subject_of(note.kind, said))
                taken += self._merge(store, draft, counts=False).is_new
            self._sweep(store)
        return taken

    # --- inside a transaction -----------------------------------------------------------------------------------

    def _merge(self, store: Connection, draft: Note, *, counts: bool = True, replaces: bool = True) -> Added:
        """Inserts a note, or renews the one that says the same; closes those that it replaces."""
        replaced = []
        for note in rows.valid_notes(store):
            likeness = compare(note.text, draft.text)
            if likeness == "same":
                return self._renew(store, note, draft, counts=counts)
            may_replace = replaces and (draft.is_confirmed or not note.is_confirmed)
            is_answered = bool(draft.subject) and draft.subject == note.subject
            if may_replace and (likeness in ("fuller", "contrary") or is_answered):
                replaced.append(note)
        self._close(store, replaced, "superseded", successor=draft.id)
        inherited = sum(note.recalls for note in replaced)
        draft = draft.replace(recalls=max(draft.recalls, inherited))
        rows.insert(store, draft)
        return Added(note=draft, is_new=True, is_cut=False, replaced=tuple(replaced))

    def _renew(self, store: Connection, note: Note, draft: Note, *, counts: bool) -> Added:
        """A note that is recorded again is confirmed by whoever has more authority, and its time begins anew."""
        if not draft.is_confirmed or (not counts and draft.updated <= note.updated):
            return Added(note=note, is_new=False, is_cut=False)
        origin = "person" if "person" in (note.origin, draft.origin) else "model"
        renewed = note.replace(origin=origin, updated=draft.updated, recalls=note.recalls + counts)
        rows.update(store, note, origin=origin, updated=renewed.updated, recalls=renewed.recalls)
        return Added(note=renewed, is_new=False, is_cut=False)

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

    # --- the store ----------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        with self._opened(writes=False) as store:
            yield store

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction. Makes the store when there is none."""
        if not self._writes:
            raise StoreFailure(self._place(), "the notes may only be read in this run")
        with self._opened(writes=True) as store:
            if store is None:  # it was damaged again and again
                raise StoreFailure(self._place(), "it cannot be made", "Check the disk.")
            with transaction(store):
                yield store
                if self._remote and not rows.meta(store, "remote"):
                    rows.set_meta(store, "remote", self._remote)
                rows.reindex(store)

    @contextmanager
    def _opened(self, *, writes: bool) -> Iterator[Connection | None]:
        """None when there is no store and none is to be made."""
        with ExitStack() as stack:
            store = None
            for _ in range(3):  # damaged, set aside, made anew
                path = self._place()
                if not exists(path):
                    if not writes:
                        break
                    create(path, self._remote_now())
                try:
                    store = stack.enter_context(opened(path, writes=writes))
                    break
                except StoreCorrupt as damage:
                    self._set_aside(path, damage)
            yield store

    def _set_aside(self, path: Path, damage: StoreCorrupt) -> None:
        if not self.can_write:
            raise damage
        aside = set_aside(path)
        if aside is not None:
            fix = "The file holds what can be saved of the notes; `agentctl memory import` takes in an export."
            why = f"{damage.why}; it was set aside as {aside.name} and a new store is begun"
            self.note_problem(Problem(code=damage.code, what=str(path), why=why, fix=fix))

    def _place(self) -> Path:
        """The file of this project: of this path, and when its repository is another one, of this repository."""
        if self._path is not None:
            return self._path
        path = store_of(self._folder, self._key)
        if not exists(path):
            return path
        remote = self._remote_now()
        recorded = self._recorded_remote(path) if remote else ""
        if recorded and recorded != remote:
            path = store_of(self._folder, f"{self._key}-{sha256(remote.encode()).hexdigest()[:16]}")
            if not exists(path):
                why = f"the notes of this folder belong to {recorded}, and this is {remote}: they are not used"
                fix = "Nothing to do for a new repository; `agentctl memory export` and `import` carry notes over."
                self.note_problem(Problem(code="memory-other-remote", what=str(path), why=why, fix=fix))
        self._path = path
        return path

    def _remote_now(self) -> str:
        if self._remote is None:
            self._remote = self._ask_remote()
        return self._remote

    @staticmethod
    def _recorded_remote(path: Path) -> str:
        try:
            with opened(path, writes=False) as store:
                return rows.meta(store, "remote")
        except StoreCorrupt:  # the caller opens it again and sees to it
            return ""


def _state(note: Note) -> tuple[object, ...]:
    return note.text, note.recalls, note.updated


def _shown(notes: Sequence[Note], limit: int) -> list[Note]:
    """The first ones that a model may see."""
    return list(islice((note for note in notes if not note.is_quarantined), limit))
