"""What is known about the shell while a line is walked: its possible folders, its functions, what is surely set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentctl.policy.declarers import hidden_array, reread_values
from agentctl.policy.findings import Collector, FileUse
from agentctl.policy.operand_reader import FileWord
from agentctl.policy.places import Places, matching_files
from agentctl.policy.syntax import Unreadable
from agentctl.policy.variables import Variables
from agentctl.policy.words import Form

_LOOKS = ("read", "list")
_PATTERN_OPTIONS = frozenset({"dotglob", "extglob", "globstar", "nocaseglob"})
"""Options of the shell by which a file name pattern stands for more files."""
MAX_FILES = 2000
MAX_NAME = 4096
MAX_FOLDERS = 16
"""Folders a line can have moved to before its folder counts as unknown."""

PossibleFolders = frozenset[str] | None
"""Where the shell can be; None when that is not known."""


class ShellState:
    """The state of one walk. `aside` walks what runs elsewhere or maybe not at all."""

    def __init__(self, places: Places, found: Collector) -> None:
        self._places = places
        self._found = found
        self.variables = Variables()
        self.is_certain = True
        """Whether what is walked surely runs, in this very shell."""
        self.folders: PossibleFolders = frozenset({places.root})
        self.entered: PossibleFolders = None
        """Where a `cd` that succeeded has led; None when the last command was none."""
        self.surely_set: set[str] = set()
        self.functions: set[str] = set()
        self.input = ""
        """What the next command reads, as far as the line shows it."""
        self.feed: tuple[str, ...] = ()
        """The file names that its input holds, when they are known."""
        self._has_patterns = self._has_more_files = False
        """A pattern was looked up; patterns may stand for more than what is looked up."""
        self.is_stripped = False
        """Some command of the line gets an environment without the settings that hold git back."""
        self.scalars: set[str] = set()
        """Variables that must be no arrays anywhere in the line: a value of theirs would be read as code."""
        self.is_guess = False
        """What is walked is one way to read the words of a runner: that it cannot be read means nothing."""
        self.sees_files = True
        """Files that are named are those of this machine."""
        self.is_fed = False
        """Words of the command come from another program's output (xargs, find -exec)."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Nothing that is set inside can be relied on afterwards."""
        kept = self.is_certain, self.folders, self.entered, set(self.surely_set), set(self.functions)
        self.is_certain = False
        try:
            yield
        finally:
            self.is_certain, self.folders, self.entered, self.surely_set, self.functions = kept

    @contextmanager
    def guessing(self, *, is_guess: bool, sees_files: bool) -> Iterator[None]:
        """Walks what a runner may start."""
        kept = self.is_guess, self.sees_files
        self.is_guess, self.sees_files = is_guess, sees_files
        try:
            with self.aside():
                self.functions = set()
                yield
        finally:
            self.is_guess, self.sees_files = kept

    @contextmanager
    def fed(self, is_fed: bool = True) -> Iterator[None]:
        kept, self.is_fed = self.is_fed, self.is_fed or is_fed
        yield
        self.is_fed = kept

    def lookup(self, name: str) -> tuple[str, ...] | None:
        """The values that the line gives a variable."""
        return self.variables.values(name, self._glob, is_surely_set=name in self.surely_set)

    def reread(self, variant: str, words: Sequence[Form]) -> None:
        """Values of a declaration that bash reads a second time, in which the line shows no command."""
        for item in reread_values(variant, words):
            if item.is_array:
                self._found.faults.append(hidden_array(item.name))
            else:
                self.scalars.add(item.name)

    def finish(self) -> None:
        """What only the whole line tells: an array may be made later, and the value set again by a loop."""
        self._found.faults += [hidden_array(name) for name in sorted(self.scalars) if self.variables.may_be_array(name)]

    @property
    def folder(self) -> str | None:
        """Where the shell is, when only one folder can be meant and names in it are what they seem."""
        if self._has_more_files:
            return None
        return next(iter(self.folders)) if self.folders is not None and len(self.folders) == 1 else None

    # --- folders

    def restart(self) -> None:
        """Back to the start, or to nowhere when the line moves about."""
        self.folders = None if self.variables.moves else frozenset({self._places.root})

    def widen(self, other: PossibleFolders) -> None:
        """It may also be there."""
        self.folders = union(self.folders, other)

    def enter(self, target: Form) -> None:
        """Sets `entered` to where `cd target` leads when it succeeds."""
        texts = (target.text,) if target.is_static else target.choices
        is_absolute = all(text.startswith("/") for text in texts)
        if not texts or (self.folders is None and not is_absolute):
            self.entered = None
            return
        starts = self.folders or frozenset({self._places.root})
        led = frozenset(_joined(start, text) for start in starts for text in texts)
        self.entered = led if len(led) <= MAX_FOLDERS else None

    def move(self, words: tuple[Form, ...]) -> None:
        """cd, pushd and popd: it may succeed or fail."""
        self.variables.moves = True
        args = [word for word in words[1:] if word.text not in ("-L", "-P", "-e", "-@", "--", "-LP")]
        is_swap = words[0].text != "cd" and not args  # pushd alone, popd
        if is_swap or words[0].text == "popd" or len(args) > 1 or (args and args[0].text.startswith(("-", "+"))):
            self.folders, self.entered = None, None
            return
        self.enter(args[0] if args else Form(text=os.path.expanduser("~")))  # noqa: PTH111  # bytes of HOME as they are
        self.folders = None if self.entered is None else union(self.folders, self.entered)

    # --- files

    def file(self, item: FileWord, words: tuple[Form, ...]) -> None:
        """A word of a command that names a file."""
        word = item.word
        if not self.sees_files or (word.text == "-" and not item.joined):
            return
        if item.is_folder and self.folders is None and item.access in _LOOKS:
            place = self._places.find("/", access=item.access)
            unknown = place.replace(shown="the folder that cd leads to when it runs", names=(), is_inside=False)
            self._found.files.append(FileUse(place=unknown, access=item.access, words=words))
            return
        texts: tuple[str, ...] = (word.text,) if word.is_static else word.choices
        if word.glob:
            texts = self._glob(word.glob) or ()
        folder = item.folder
        if item.is_rooted or (item.is_maybe and self.folders is None):
            folder = os.path.join(self._places.root, folder)  # noqa: PTH118  # as text
        for text in texts:
            name = _joined(text, item.joined) if item.joined else text
            name = os.path.join(folder, name)  # noqa: PTH118  # `..` stays behind symlinks
            if not item.is_maybe or item.access in _LOOKS or self._is_there(name):
                self.use(name, item.access, words)
        is_read = item.access in _LOOKS
        if not texts and not item.is_maybe and not (item.access == "list" or (is_read and self.is_fed)):
            name = words[0].text if words else "the line"
            self._found.faults.append(f"a file that {name} uses is not known before it runs; write its name out")

    def _is_there(self, text: str) -> bool:
        """What git takes for a branch unless there is a file of that name."""
        places = [self._places.find(text, folder) for folder in self.folders or (self._places.root,)]
        return any(os.path.lexists(place.full) for place in places)

    def use(self, text: str, access: str, words: tuple[Form, ...]) -> None:
        """A file by its name, relative to every folder the shell can be in."""
        if not self.sees_files:
            return
        if len(text) > MAX_NAME:
            raise Unreadable(f"a file name is longer than {MAX_NAME:,} characters, which no system takes; shorten it")
        if not text.startswith("/") and self.folders is None:
            advice = "use a path from the workspace root without cd"
            self._found.faults.append(f"the folder of {text[:60]!r} is not known before it runs; {advice}")
            return
        if len(self._found.files) >= MAX_FILES:
            raise Unreadable(f"it names more than {MAX_FILES:,} files; send it in smaller pieces")
        for folder in sorted(self.folders or (self._places.root,)):
            place = self._places.find(text, folder, access)
            self._found.files.append(FileUse(place=place, access=access, words=words))

    def set_options(self, words: Sequence[Form]) -> None:
        """The words behind `shopt` and `bash -O`."""
        if any(not word.is_static or word.text in _PATTERN_OPTIONS for word in words):
            self._has_more_files = True
            if self._has_patterns and not self.is_certain:  # in a loop or a function it may come first
                self._found.faults.append("shopt changes what file name patterns mean; put it first, or list files")

    def _glob(self, pattern: str) -> tuple[str, ...] | None:
        """The files that a pattern stands for now."""
        self._has_patterns = True
        if self.folders is None or self._has_more_files:
            return None
        groups = [matching_files(pattern, folder) for folder in sorted(self.folders)]
        known = [group for group in groups if group is not None]
        return tuple(dict.fromkeys(text for group in known for text in group)) if len(known) == len(groups) else None


def union(left: PossibleFolders, right: PossibleFolders) -> PossibleFolders:
    """Either of both."""
    if left is None or right is None:
        return None
    both = left | right
    return both if len(both) <= MAX_FOLDERS else None


def _joined(folder: str, name: str) -> str:
    """As `cd` reads it: `..` takes back what was written, whatever symlinks say."""
    return os.path.normpath(os.path.join(folder, name)) if name.startswith("/") or folder else name  # noqa: PTH118  # as text
