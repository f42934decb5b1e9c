"""The answers of a run, and the tool that gives them to the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentctl.config.settings import Settings
from agentctl.config.trust import MAX_BYTES, WorkspaceReader
from agentctl.core.errors import UsageError
from agentctl.core.ports import Emit, Tool
from agentctl.core.questions import question_id
from agentctl.core.text import did_you_mean
from agentctl.core.toolkit import Implementation, LazyTool
from agentctl.core.types import ToolCall

if TYPE_CHECKING:
    from agentctl.runner.tape import Tape

ASK = "ask"
SHOWN_IDS = 20
"""How many of the prepared ids the model is told."""


class Questions:
    """What was answered in advance, by --answers and --answer."""

    def __init__(
        self,
        settings: Settings,
        reader: WorkspaceReader,
        emit: Emit,
        on_answer: Callable[[str], None],
        tape: Tape | None = None,
    ) -> None:
        """`on_answer` hears the text of each answer that the model is given. In a replay the answers of the recorded
        run count. Raises UsageError.
        """
        given = {**_read_file(settings, reader), **_read_flags(settings.answer)}
        self.answers: dict[str, str] = tape.taken("answers", given) if tape else given
        self._is_offered = ASK in settings.tools
        self._given = tuple(_read_flags(settings.answer))
        self._fails = settings.on_question == "fail"
        self._emit = emit
        self._on_answer = on_answer

    def tool(self) -> Tool | None:
        """`ask`, which tells which questions have an answer, so that the model uses their ids; None in most runs."""
        if not self._is_offered:
            return None
        from agentctl.tools.sets import read_catalogue

        ask = LazyTool(read_catalogue()[ASK], self._load)
        if self.answers:
            known = ", ".join(sorted(self.answers)[:SHOWN_IDS])
            ask.spec = ask.spec.replace(description=f"{ask.spec.description} These ids have an answer: {known}.")
        return ask

    def _load(self) -> Implementation:
        from agentctl.tools.ask import Ask  # pydantic comes with the first question

        return Ask(answers=self.answers, fails=self._fails, emit=self._emit, on_answer=self._on_answer)

    def check(self, calls: Sequence[ToolCall]) -> None:
        """For a session whose questions are open: raises UsageError when --answer fits none of them."""
        ids = [name for call in calls if call.name == ASK for name in _ids_of(call)]
        if ids and self._given and not set(ids) & set(self.answers):
            raise UsageError(
                f"--answer {self._given[0]!r} is no question that waits; these do: {', '.join(dict.fromkeys(ids))}",
                hint=did_you_mean(self._given[0], ids),
            )


def _ids_of(call: ToolCall) -> list[str]:
    """The ids that answer the call: the one the model gave, and the one of its words."""
    from agentctl.core.codec import loads

    try:
        given = loads(call.arguments)
        said = [str(given.get(key) or "") for key in ("id", "question")]
    except (ValueError, AttributeError):
        return []
    return [question_id(words) for words in said if words]


def _read_flags(given: Sequence[str]) -> dict[str, str]:
    answers: dict[str, str] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise UsageError(f"--answer {item!r} is not ID=TEXT", hint="For example: --answer license=MIT")
        answers[question_id(name)] = text.strip()
    return answers


def _read_file(settings: Settings, reader: WorkspaceReader) -> dict[str, str]:
    """The answers of --answers. A file of a workspace that is not trusted is left out, and named."""
    if settings.answers is None:
        return {}
    path = Path(settings.answers)
    inside = reader.inside(path)
    if inside is None:
        return _parse(_read(path), settings.answers)
    data = reader.read(inside)
    if data is None and not os.path.lexists(settings.root / inside):
        raise UsageError(f"--answers {inside!r} does not exist", hint="Check the path.")
    return _parse(data, inside) if data is not None else {}


def _read(path: Path) -> bytes:
    from agentctl.core.files import read_limited

    try:
        return read_limited(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"--answers {str(path)!r} cannot be read: {error.strerror or error}") from None


def _parse(data: bytes, name: str) -> dict[str, str]:
    """JSON, or TOML by the name's ending: an object of id → text, or a list of texts where several were chosen."""
    try:
        rows = _loads(data, is_toml=name.endswith(".toml"))
    except ValueError as error:
        raise UsageError(f"--answers {name!r}: {error}", hint='Write JSON: {"license": "MIT"}') from None
    if not isinstance(rows, dict):
        raise UsageError(f"--answers {name!r} is not an object of id and text", hint='Like {"license": "MIT"}')
    return {question_id(str(key)): _text(value, key, name) for key, value in rows.items()}


def _loads(data: bytes, *, is_toml: bool) -> Any:
    """Raises ValueError."""
    if is_toml:
        import tomllib  # only for such a file

        return tomllib.loads(data.decode("utf-8-sig"))
    from agentctl.core.codec import loads

    return loads(data.removeprefix(b"\xef\xbb\xbf"))


def _text(value: object, key: str, name: str) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, list) and value and all(isinstance(item, str) and item.strip() for item in value):
        return ", ".join(item.strip() for item in value)
    if isinstance(value, (bool, int, float)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise UsageError(f"--answers {name!r}: the answer to {key!r} is no text", hint="Write a text, or a list of texts.")
