"""The store of one project: which file it is, whose repository it belongs to, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.core.types import Problem
from agentctl.state import knowledge_rows as rows
from agentctl.state.knowledge_place import exists, is_writable, store_of
from agentctl.state.knowledge_store import StoreCorrupt, StoreFailure, create, set_aside, transaction
from agentctl.state.knowledge_store import opened as open_store

if TYPE_CHECKING:
    from sqlite3 import Connection


class KnowledgeFile:
    """Opens the store for each use. What is damaged is set aside, named in `problems`, and begun anew."""

    def __init__(self, folder: Path, key: str, *, remote: str, writes: bool) -> None:
        self._folder = folder
        self._key = key
        self._remote = remote
        self._writes = writes
        self._path: Path | None = None
        self._problems: dict[str, Problem] = {}
        self._told: set[str] = set()

    @property
    def exists(self) -> bool:
        return exists(self._place())

    @property
    def can_write(self) -> bool:
        """Whether a note could be recorded: asked for, and the folder can be written."""
        return self._writes and is_writable(self._folder)

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

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        with self.opened(writes=False) as store:
            yield store

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction. Makes the store when there is none."""
        if not self._writes:
            raise StoreFailure(self._place(), "the notes may only be read in this run")
        with self.opened(writes=True) as store:
            if store is None:  # it was damaged again and again
                raise StoreFailure(self._place(), "it cannot be made", "Check the disk.")
            with transaction(store):
                yield store
                if self._remote and not rows.meta(store, "remote"):
                    rows.set_meta(store, "remote", self._remote)
                rows.reindex(store)

    @contextmanager
    def opened(self, *, writes: bool) -> Iterator[Connection | None]:
        """None when there is no store and none is to be made."""
        with ExitStack() as stack:
            store = None
            for _ in range(3):  # damaged, set aside, made anew
                path = self._place()
                if not exists(path):
                    if not writes:
                        break
                    create(path, self._remote)
                try:
                    store = stack.enter_context(open_store(path, writes=writes))
                    break
                except StoreCorrupt as damage:
                    self._put_aside(path, damage)
            yield store

    def _put_aside(self, path: Path, damage: StoreCorrupt) -> None:
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
        recorded = self._recorded_remote(path) if self._remote else ""
        if recorded and recorded != self._remote:
            path = store_of(self._folder, f"{self._key}-{sha256(self._remote.encode()).hexdigest()[:16]}")
            if not exists(path):
                why = f"the notes of this folder belong to {recorded}, and this is {self._remote}: they are not used"
                fix = "Nothing to do for a new repository; `agentctl memory export` and `import` carry notes over."
                self.note_problem(Problem(code="memory-other-remote", what=str(path), why=why, fix=fix))
        self._path = path
        return path

    @staticmethod
    def _recorded_remote(path: Path) -> str:
        try:
            with open_store(path, writes=False) as store:
                return rows.meta(store, "remote")
        except StoreCorrupt:  # the caller opens it again and sees to it
            return ""
