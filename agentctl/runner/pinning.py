"""The pin of a run: made from the prompt alone before the first step; with --pin-mode model judged after the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from agentctl.config.settings import Settings
from agentctl.config.trust import WorkspaceReader
from agentctl.core.errors import LimitReached, UsageError
from agentctl.core.events import CriterionMet, PinUsed
from agentctl.core.ports import Degraded, Item, Saved
from agentctl.core.text import clean, one_line
from agentctl.core.types import JsonObject, Message, Problem, Text
from agentctl.engine.parts import Parts
from agentctl.runner.account import Account
from agentctl.runner.plane import Needs, Plane, Turn
from agentctl.state.pin import GIVEN_CHARS, Pin, PinTail, Recap, whole_lines


class PinPlane(Plane):
    def __init__(self, needs: Needs) -> None:
        settings, saved = needs.settings, needs.saved
        self._redact = needs.redactor.text
        self._wants_model = settings.pin_mode == "model"
        self._saved_row = saved.pin if saved else None
        if self._saved_row is not None:
            self.pin = Pin.from_row(self._saved_row)
        else:  # a session of a version without pins: its first prompt is what it was asked for
            self.pin = Pin(_first_prompt(saved.history) if saved else "")
        given = self._redact(clean(_given(settings, needs.reader)))
        self.pin.given = given or self.pin.given
        if settings.state_injection != "none":
            self.sections = (PinTail(self.pin), Recap(self.pin))
        self._criteria: tuple[CriterionMet, ...] = ()

    def begin(self, turn: Turn) -> None:
        self.pin.turn = turn.number
        self.pin.task = self.pin.task or turn.text.strip()

    async def before(self, turn: Turn, parts: Parts) -> AsyncGenerator[Item, None]:
        if self._wants_model and not self.pin.drafted:
            from agentctl.runner.pin_model import ask_draft, draft_lines  # most runs ask no model for it

            text = turn.text if turn.number == 1 else self.pin.task
            light = await ask_draft(parts, text)
            for spent in light.spent:
                yield spent
            self.pin.drafted = whole_lines(self._redact("\n".join(draft_lines(light.text))), self.pin.room_for_draft)
            if not self.pin.drafted:
                yield Degraded(problem=_NOT_DRAFTED)
        if (row := self.pin.row()) != self._saved_row:
            self._saved_row = row
            yield Saved(state={"pin": row})

    def clarify(self, text: str) -> JsonObject:
        """Adds the answer to a question (one with an id, never a later prompt). Returns what the journal keeps.

        The model sees it from the next turn on: in this one it has the answer as a result, and within a turn the
        system prompt stays as it is."""
        self.pin.clarify(self._redact(clean(text)))
        self._saved_row = self.pin.row()
        return {"pin": self._saved_row}

    async def after(self, account: Account, parts: Parts, seconds_left: float) -> AsyncGenerator[Item, None]:
        if not self._wants_model:
            return
        from agentctl.runner.pin_model import LINE_CHARS, ask_verdicts, verdicts

        asked = [line.removeprefix("- ") for line in self.pin.drafted.splitlines()]
        asked = asked or [one_line(self.pin.task, LINE_CHARS)]
        self._criteria = verdicts(asked, "")
        try:
            light = await ask_verdicts(parts, asked, account, seconds_left)
        except LimitReached:  # the answer is there; a cap only keeps it from being judged
            yield Degraded(problem=_NOT_JUDGED)
            return
        for spent in light.spent:
            yield spent
        self._criteria = verdicts(asked, self._redact(light.text))
        if not light.text:
            yield Degraded(problem=_NOT_JUDGED)

    @property
    def used(self) -> PinUsed | None:
        """For `done`; None in a run that never began a turn."""
        if not self.pin.task:
            return None
        return PinUsed(text=self.pin.text, mode="model" if self.pin.drafted else "text", criteria=self._criteria)


_NOT_DRAFTED = Problem(
    code="pin-not-drafted",
    what="--pin-mode model",
    why="the model gave no lines that could be pinned; the text of the prompt is pinned instead",
    fix="Run again, or use --pin-mode text.",
)
_NOT_JUDGED = Problem(
    code="pin-not-judged",
    what="--pin-mode model",
    why="the answer could not be checked against what was asked; done.pin.criteria says unknown",
    fix="Give the run more --max-tokens, --max-cost or --timeout, or run again.",
)


def _given(settings: Settings, reader: WorkspaceReader) -> str:
    """What --pin and --pin-file say. Raises UsageError when it is too long or the file cannot be read."""
    said = [settings.pin or "", _file(settings.pin_file, reader) if settings.pin_file else ""]
    text = "\n".join(row.strip() for row in said if row.strip())
    if len(text) > GIVEN_CHARS:
        flags = " and ".join(flag for flag, row in zip(("--pin", "--pin-file"), said, strict=True) if row.strip())
        raise UsageError(
            f"{flags}: {len(text):,} characters, at most {GIVEN_CHARS} can be pinned beside the task",
            hint="Keep what must stay in sight; the rest belongs in the prompt or in AGENTS.md.",
        )
    return text


def _file(path: str, reader: WorkspaceReader) -> str:
    """A file of the workspace counts under its trust, like everything else that a checkout may say."""
    from agentctl.core.files import read_limited

    inside = reader.inside(Path(path))
    try:
        data = read_limited(path, GIVEN_CHARS * 8)
        if inside is not None:
            data = reader.read(inside) or b""
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"--pin-file {path!r} cannot be read: {reason}", hint="Name a short text file.") from None


def _first_prompt(history: Sequence[Message]) -> str:
    first = next((message for message in history if message.role == "user"), None)
    parts = first.parts if first else ()
    return next((part.text for part in parts if isinstance(part, Text)), "")
