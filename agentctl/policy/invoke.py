"""One command with its words known: unwrapped, its shell text judged, its code, guards and files found."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agentctl.policy import guards
from agentctl.policy.behind import Behind, TextJudge
from agentctl.policy.carriers import (
    OTHER_SHELLS,
    SHELLS,
    dangerous_assignment,
    find_code,
    is_guarding,
    script_from_input,
)
from agentctl.policy.code import Code
from agentctl.policy.declarers import DECLARERS, computed_code, declared_code
from agentctl.policy.findings import Collector, Invocation, shown
from agentctl.policy.operand_reader import FileWord
from agentctl.policy.programs import file_words
from agentctl.policy.readings import Words, readings_of, views_of
from agentctl.policy.shell_state import ShellState
from agentctl.policy.shfmt import MAX_COMMANDS
from agentctl.policy.syntax import Unreadable
from agentctl.policy.words import UNKNOWN, Form
from agentctl.policy.wrappers import WRAPPERS, WrapperFault, unwrap

_TRUSTED_FOLDERS = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin"})
"""A program named with one of these folders is the program of that name; any other path is a file of its own."""
_SHELL_WORDS = frozenset({
    "--login", "--norc", "--noprofile", "--posix", "--noediting", "--restricted", "--verbose", "--version", "--help",
})  # fmt: skip


class Invoker:
    """Judges commands one by one. `judge_text` leads back into the walk for shell text."""

    def __init__(self, found: Collector, state: ShellState, judge_text: TextJudge) -> None:
        self._found = found
        self._state = state
        self._judge_text = judge_text
        self._behind = Behind(found, state, self, judge_text)
        self._count = 0

    def invoke(self, words: Words, codes: tuple[Code, ...] = (), *, is_direct: bool = True) -> None:
        """`codes` are what its assignments carry; `is_direct` is false behind a wrapper, where no function counts."""
        program = words[0]
        if not program.is_static or not program.text or not program.text.isascii():
            self._fault(f"its program {program.shown[:60]!r} is not known before it runs; write the name out")
            return
        if program.text.startswith("-"):
            self._fault(f"{program.text[:40]!r} is an option where a program is expected; send the command without it")
            return
        self._count += 1
        if self._count > MAX_COMMANDS:
            raise Unreadable(f"it holds more than {MAX_COMMANDS} commands; send it in smaller pieces")
        folder, _, last = os.path.normpath(program.text).rpartition("/")
        is_local = "/" in program.text and folder not in _TRUSTED_FOLDERS
        name = last if "/" in program.text and not is_local else program.text
        words = words if is_local or name == program.text else (Form(text=name), *words[1:])
        if is_direct and name in self._state.functions:
            self._record(Invocation(words=words, code=codes, is_covered=not codes))
        elif is_local:
            self._plain(words, codes, seen=(Form(text=last), *words[1:]))
        elif name in WRAPPERS:
            self._wrapper(name, words, codes)
        elif name in SHELLS or (self._state.is_guess and name in OTHER_SHELLS):
            self._shell(name, words, codes)
        elif name in ("eval", "trap"):
            self._eval(name, words, codes)
        else:
            self._plain(words, codes)

    # --- programs

    def _plain(self, words: Words, codes: tuple[Code, ...], seen: Words | None = None) -> None:
        """A program that is judged by its own words. `seen` is how refusals read them when that differs."""
        read = seen or words
        readings = readings_of(read)
        found = [code for item in readings if (code := find_code(self._numbered(item), self._state.input))]
        codes += self._builtin(words)
        views = (*(readings if seen else readings[1:]), *(view for item in readings for view in views_of(item)))
        self._record(Invocation(words=words, views=views, code=(*codes, *dict.fromkeys(found))))
        for reading in readings:
            self.guard(reading)
            if read[0].text == "find":
                self._find(reading)
        if read[0].text in ("cd", "pushd", "popd"):
            self._state.move(read)
        if read[0].text == "shopt":
            self._state.set_options(read[1:])
        self._behind.look(read)
        for item in _files(read, readings):
            self._state.file(item, words)

    def _builtin(self, words: Words) -> tuple[Code, ...]:
        """Builtins that the parser knows only by their bare name, in other spellings: `\\declare`, `command let`."""
        name = words[0].text
        if name in DECLARERS:
            self._state.reread(name, words[1:])
            return tuple(declared_code(name, words[1:]))
        code = computed_code(words[1:], self._state.variables.is_number) if name == "let" else None
        return (code,) if code else ()

    def _numbered(self, words: Words) -> Words:
        """The words with digits for the variables that always hold some: they are no code, wherever they stand."""
        is_digits = self._state.variables.is_digits
        return tuple(
            Form(text=word.text.replace(UNKNOWN, "0")) if word.names and all(map(is_digits, word.names)) else word
            for word in words
        )

    def guard(self, words: Words) -> None:
        row = guards.command_guard(words, self._state.input)
        if row:
            self._found.trip(row, shown(words))

    def _find(self, words: Words) -> None:
        at = 1
        while at < len(words):
            if words[at].text not in ("-exec", "-execdir", "-ok", "-okdir"):
                at += 1
                continue
            end = at + 1
            while end < len(words) and not _ends_exec(words, end):
                end += 1
            self._exec(words[at + 1 : end])
            at = end + 1

    def _exec(self, words: Words) -> None:
        """The command of `find -exec`: the files it reads lie below the start folders, which are judged already."""
        if not words or "{}" in words[0].text:
            self._fault("find runs a program that is not known before it runs; write the name out")
            return
        if any(not word.is_static for word in words):
            self._found.code(Code(what="find -exec runs words that are not known before it runs"))
        filled = tuple(Form(text=word.text.replace("{}", UNKNOWN), is_many=word.is_many) for word in words)
        with self._state.fed():
            self.invoke(filled, is_direct=False)

    # --- wrappers and shells

    def _wrapper(self, name: str, words: Words, codes: tuple[Code, ...]) -> None:
        try:
            inner = unwrap(name, words, self._state.feed)
        except WrapperFault as fault:
            self._record(Invocation(words=words, code=codes, is_covered=True))
            self._fault(f"{fault}; send the inner command itself")
            return
        runs_other = bool(inner.words or inner.code)
        is_covered = runs_other and not WRAPPERS[name].is_privileged
        own = () if is_covered else codes
        self._record(Invocation(words=words, views=views_of(words), is_covered=is_covered, code=own))
        found = [dangerous_assignment(key, value) for key, value in inner.assignments]
        codes += tuple(code for code in found if code)
        self._state.variables.set_outside(key for key, _ in inner.assignments)
        if inner.drops is None or any(map(is_guarding, inner.drops)):
            self._state.is_stripped = True
        kept = self._state.folders
        if inner.chdir is not None:
            self._state.enter(inner.chdir)
            self._state.folders, self._state.entered = self._state.entered, None
        if inner.code is not None:
            self._inner_text(inner.code, name)
        elif inner.words:
            with self._state.fed(WRAPPERS[name].appends):
                self.invoke(inner.words, codes, is_direct=False)
        self._state.folders = kept

    def _shell(self, name: str, words: Words, codes: tuple[Code, ...]) -> None:
        """sh and bash: `-c` text is judged, a script file is a program like any other, stdin is code."""
        rest = list(words[1:])
        try:
            options, values = _shell_options(name, rest)
        except WrapperFault as fault:
            self._record(Invocation(words=words, is_covered=True, code=codes))
            self._fault(f"{fault}; send the inner command itself")
            return
        self._state.set_options(values)
        is_check = options[-1:] == ["-n"]
        letters = "".join(options)
        if "c" in letters:  # +c is -c
            self._text_of(name, words, codes, rest)
        elif is_check or ("s" not in letters and rest and rest[0].is_static and not _is_stream(rest[0].text)):
            self._record(Invocation(words=words, code=codes))
            if is_check and not (rest and rest[0].is_static):
                return  # -n as the last option: nothing is run, whatever it reads
            self._state.file(FileWord(word=rest[0], access="read"), words)
        else:
            self._record(Invocation(words=words, code=(*codes, script_from_input(name))))
            if self._state.is_guess and self._state.input:
                self._behind.text(Form(text=self._state.input))

    def _text_of(self, name: str, words: Words, codes: tuple[Code, ...], rest: list[Form]) -> None:
        self._record(Invocation(words=words, is_covered=True, code=codes))
        if rest:
            self._inner_text(rest[0], name)
        else:
            self._fault(f"{name} -c lacks its text")

    def _inner_text(self, text: Form, name: str) -> None:
        """Text that another shell runs, from the folder of this one."""
        if self._state.is_guess:
            is_other = name in OTHER_SHELLS
            is_portable_only = not is_other and name not in ("bash", "rbash")
            self._behind.text(text, is_portable_only=is_portable_only, is_sure=not is_other)
            return
        if not text.is_static:
            self._fault(f"the text that {name} runs is not known before it runs; send the inner command itself")
            return
        with self._state.aside():
            self._state.functions = set()
            self._judge_text(text.text, is_portable_only=name not in ("bash", "rbash"))

    def _eval(self, name: str, words: Words, codes: tuple[Code, ...]) -> None:
        """eval runs its words here and now, trap runs its first word some time."""
        self._record(Invocation(words=words, is_covered=True, code=codes))
        args = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
        if name == "trap":
            if not args or args[0].text in ("", "-", "-l", "-p", "-P") or args[0].text.isdigit():
                return
            args = args[:1]
        if self._state.is_guess:
            self._behind.text(Form(text=" ".join(word.text for word in args)))
            return
        if not all(word.is_static for word in args):
            self._fault(f"the text that {name} runs is not known before it runs; send the inner command itself")
            return
        text = " ".join(word.text for word in args)
        if name == "eval" and text.strip():
            self._judge_text(text)
        elif text.strip():
            with self._state.aside():
                self._state.restart()
                self._judge_text(text)

    def _record(self, invocation: Invocation) -> None:
        self._found.invocations.append(invocation)

    def _fault(self, text: str) -> None:
        if not self._state.is_guess:
            self._found.faults.append(text)


def _shell_options(name: str, rest: list[Form]) -> tuple[list[str], list[Form]]:
    """Takes the options off the words of a shell, and the values of `o` and `O` in clusters. Raises WrapperFault."""
    found: list[str] = []
    values: list[Form] = []
    while rest and rest[0].text[:1] in ("-", "+") and not rest[0].is_many:
        option = rest.pop(0)
        if option.text in ("-", "--"):
            break
        if not option.is_static or (option.text.startswith("--") and option.text not in _SHELL_WORDS):
            raise WrapperFault(f"{name} is not known to have the option {option.shown[:40]!r}")
        if option.text.startswith("--"):
            found.append("--")
            continue
        found.append(option.text)
        count = sum(option.text.count(letter) for letter in "oO")  # -oc pipefail TEXT
        if any(word.is_many for word in rest[:count]):
            raise WrapperFault(f"{name} has a value that is not known before it runs")
        values += rest[:count]
        del rest[:count]
    return found, values


def _files(words: Words, readings: tuple[Words, ...]) -> Iterator[FileWord]:
    """The files of a command. Where a word is not known, the other readings only add what turns out to be an option."""
    guessed = {Form(text=word.text.replace(UNKNOWN, "")) for word in words if not word.is_static}
    seen = set()
    for reading in readings:
        for item in file_words(reading):
            if item not in seen and (reading is readings[0] or item.word not in guessed):
                seen.add(item)
                yield item


def _is_stream(text: str) -> bool:
    """A name of standard input or of a pipe, not of a file."""
    return text == "-" or text.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/"))


def _ends_exec(words: Words, at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")
