"""The command behind a runner: what `npx`, `uv run` or `docker exec` may start, for guards and deny rules alone.

Where in the arguments the command begins is a guess, so every place is looked at, and nothing found there allows
anything or needs to be allowed. What is a guess only adds refusals by guards and rules; shell text that the runner is
surely given is read as strictly as that of `sh -c`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from agentctl.policy.carriers import OTHER_SHELLS, SHELLS
from agentctl.policy.findings import Collector, Invocation
from agentctl.policy.readings import Words, readings_of, views_of
from agentctl.policy.runners import Runner, find_runner, is_runner
from agentctl.policy.shell_state import ShellState
from agentctl.policy.shfmt import MAX_COMMANDS
from agentctl.policy.syntax import Unreadable
from agentctl.policy.words import UNKNOWN, Form
from agentctl.policy.wrappers import WRAPPERS

_MAX_TAILS = 64
_MAX_REMOTE_WORDS = 10_000
"""Of a whole line, every reading counted."""
_MAX_PATTERN = 64
"""Words of a remote command that a rule is held against."""
_CARRIERS = SHELLS | OTHER_SHELLS | WRAPPERS.keys() | {"eval", "find"}
"""Programs whose arguments hold another command that their plain words do not show."""
_BETWEEN_WORDS = re.compile(r"[\s;&|()<>`'\"]+")


class TextJudge(Protocol):
    def __call__(self, text: str, *, is_portable_only: bool = False) -> None:
        """Parses shell text and walks it in the current state."""
        ...


class Judge(Protocol):
    """What is done with a command that is found."""

    def invoke(self, words: Words, *, is_direct: bool = True) -> None: ...
    def guard(self, words: Words) -> None: ...


class Behind:
    """Reads the words of runners. `judge` and `judge_text` lead back into the walk."""

    def __init__(self, found: Collector, state: ShellState, judge: Judge, judge_text: TextJudge) -> None:
        self._found = found
        self._state = state
        self._judge = judge
        self._judge_text = judge_text
        self._is_elsewhere = False
        self._is_exact = True
        """False while unknown words are taken for nothing."""
        self._count = self._remote_words = 0

    def look(self, words: Words) -> None:
        """Shows what a runner may start to refusals; for other programs nothing."""
        for view in (words, *views_of(words)) if is_runner(words[0].text) else ():
            runner = find_runner([word.text for word in view])
            if runner and runner.is_remote:
                self._remote(runner, view)
            elif runner:
                self._texts(runner, words)
                self._tails(runner, view)
            if runner:
                return

    # --- tails

    def _tails(self, runner: Runner, words: Words) -> None:
        if len(words) > _MAX_TAILS:
            program = " ".join(runner.words)
            self._found.faults.append(
                f"{program} has more than {_MAX_TAILS} words to find its command in; send it in pieces"
            )
            return
        reach = runner.reach
        for at in range(len(runner.words), len(words)):
            tail = _program_first(words[at:])
            if not tail[0].text or tail[0].text.startswith("-"):
                continue
            reach -= 1
            if tail[0].text.strip(UNKNOWN) or reach >= 0:
                self._found.invocations.append(Invocation(words=tail, is_covered=True, views=views_of(tail)))
                self._judge.guard(tail)
            self._tail(runner, words[at:])

    def _tail(self, runner: Runner, words: Words) -> None:
        """What the plain words of the tail do not show."""
        names = {text.rpartition("/")[2] for text in (words[0].text, *words[0].choices)}
        if not any(name in _CARRIERS or is_runner(name) or (runner.joins and _has_more(name)) for name in names):
            return
        found = readings_of(words)
        is_emptied = any(not (word.is_static or word.glob or word.choices) for word in words)
        for at, reading in enumerate(map(_program_first, found)):
            name = reading[0].text if reading else ""
            with self._guess(runner):
                if name in _CARRIERS:
                    self._is_exact = not is_emptied or at + 1 < len(found)
                    self._judge.invoke(reading, is_direct=False)
                    self._is_exact = True
                elif runner.joins and _has_more(name):
                    self.text(Form(text=" ".join(word.text for word in reading)), is_sure=False)
            inner = find_runner([word.text for word in reading]) if reading else None
            if inner and inner.is_remote:
                self._remote(inner, reading)
            elif inner:
                self._texts(inner, reading)

    def _remote(self, runner: Runner, words: Words) -> None:
        """A command of another machine: every place in its words, for rules alone."""
        split: Words = ()
        for reading in readings_of(words[len(runner.words) :]):
            split += _split(reading)
        self._remote_words += len(split)
        if self._remote_words > _MAX_REMOTE_WORDS:
            raise Unreadable(f"it runs more than {_MAX_REMOTE_WORDS:,} words elsewhere; send it in smaller pieces")
        for at in range(len(split)):
            tail = _program_first(split[at : at + _MAX_PATTERN])
            if tail[0].text.strip(UNKNOWN) and not tail[0].text.startswith("-"):
                self._found.invocations.append(Invocation(words=tail, is_covered=True, views=views_of(tail)))

    # --- texts

    def _texts(self, runner: Runner, words: Words) -> None:
        """The values of options that hold shell text."""
        has_operand = False
        for at in range(1, len(words) if runner.texts else 0):
            text, last = words[at].text, words[at - 1].text
            if not text.startswith("-"):
                if text in runner.words:
                    continue
                if not runner.is_permuted and not (last.startswith("-") and "=" not in last):
                    return
                has_operand = True
                continue
            value = _value(runner.texts, text, words[at + 1] if at + 1 < len(words) else None)
            if value:
                is_sure = not runner.is_elsewhere and (runner.is_permuted or not has_operand)
                with self._guess(runner):
                    self.text(value, is_sure=is_sure)

    def text(self, text: Form, *, is_portable_only: bool = False, is_sure: bool = True) -> None:
        """Shell text inside a guess. What is not sure to be text, or not known, is read as well as it can be."""
        is_sure = is_sure and self._is_exact and (text.is_static or bool(text.choices))
        known = (text.text,) if text.is_static else text.choices
        for item in dict.fromkeys(known) or (text.text.replace(UNKNOWN, '"$_"'),):
            if not item.strip():
                continue
            self._count += 1
            if self._count > MAX_COMMANDS:
                raise Unreadable(f"it holds more than {MAX_COMMANDS} commands; send it in smaller pieces")
            faults = list(self._found.faults)
            try:
                with self._state.guessing(is_guess=False, sees_files=is_sure and not self._is_elsewhere):
                    self._judge_text(item, is_portable_only=is_portable_only and not self._is_elsewhere)
            except Unreadable:
                if is_sure:
                    raise
            if not is_sure:
                self._found.faults[:] = faults

    @contextmanager
    def _guess(self, runner: Runner) -> Iterator[None]:
        """Whatever is found inside is for refusals alone."""
        start, kept = len(self._found.invocations), self._is_elsewhere
        self._is_elsewhere = kept or runner.is_elsewhere
        with self._state.guessing(is_guess=True, sees_files=False):
            try:
                yield
            finally:
                self._is_elsewhere = kept
                made = self._found.invocations
                made[start:] = map(_for_refusals, made[start:])


def _for_refusals(item: Invocation) -> Invocation:
    takes_input = item.takes_input or any(code.is_from_input for code in item.code)
    return item.replace(is_covered=True, code=(), takes_input=takes_input)


def _program_first(words: Words) -> Words:
    """The words with the program's bare name."""
    if not words:
        return ()
    return (Form(text=words[0].text.rpartition("/")[2], is_many=words[0].is_many), *words[1:])


def _has_more(name: str) -> bool:
    """Whether a word is more than the name of a program."""
    return _BETWEEN_WORDS.search(name) is not None


def _value(options: tuple[str, ...], text: str, following: Form | None) -> Form | None:
    """The value of the word `text` when it is one of the options, also when it is abbreviated or joined."""
    name, equals, value = text.partition("=")
    if text.startswith("--"):
        is_known = len(name) > 3 and any(option.startswith(name) for option in options)
        return (Form(text=value) if equals else following) if is_known else None
    if text in options:
        return following
    is_joined = any(len(option) == 2 and text.startswith(option) for option in options)
    return Form(text=text[2:]) if is_joined else None


def _split(words: Words) -> Words:
    """The words that a shell elsewhere makes of them."""
    return tuple(
        Form(text=text, is_many=word.is_many) for word in words for text in _BETWEEN_WORDS.split(word.text) if text
    )
