"""Asking a person: ask. Answers are given before the run or in a later one; nobody is ever waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import Field

from agentctl.core.arguments import Arguments
from agentctl.core.errors import NoAnswerYet, QuestionOpen
from agentctl.core.events import Question
from agentctl.core.ports import Emit
from agentctl.core.questions import NOBODY, question_id
from agentctl.core.toolkit import ToolDefinition, no_subjects
from agentctl.core.types import AskedOption, ToolResult

MAX_OPTIONS = 12


class Choice(Arguments):
    label: str = Field(min_length=1, max_length=200)
    detail: str = Field(default="", max_length=500)


class AskArguments(Arguments):
    question: str = Field(min_length=1, max_length=2_000)
    options: list[Choice] = Field(
        default_factory=list, max_length=MAX_OPTIONS, description="Your recommendation first; none for free text."
    )
    multiple: bool = Field(default=False, description="Several options may be chosen.")
    id: str = Field(default="", max_length=100, description="A short name, such as `license`.")


class Ask:
    definition = ToolDefinition(
        name="ask",
        description="Ask a person what decides the task and cannot be found out here. One question a call.",
        arguments=AskArguments,
        effect="state",
        set="session",
        subjects=no_subjects,
    )

    def __init__(
        self,
        *,
        answers: Mapping[str, str],
        fails: bool,
        emit: Emit,
        on_answer: Callable[[str], None],
    ) -> None:
        """`answers` by id of the question; `fails`: without an answer the run ends; `on_answer` hears each one used."""
        self._answers = answers
        self._fails = fails
        self._emit = emit
        self._on_answer = on_answer

    async def run(self, call_id: str, args: AskArguments) -> ToolResult:
        """Raises NoAnswerYet."""
        name = question_id(args.id or args.question)
        answer = self._answers.get(name, self._answers.get(question_id(args.question)))
        self._emit(
            Question(
                id=name,
                question=args.question,
                options=tuple(AskedOption(label=choice.label, detail=choice.detail) for choice in args.options),
                multiple=args.multiple,
                answered=answer is not None,
            )
        )
        if answer is not None:
            self._on_answer(answer)
            return ToolResult(call_id=call_id, content=f"Answer: {answer}", summary=f"{name}: answered")
        if self._fails:
            raise NoAnswerYet(QuestionOpen(f"the question {name!r} has no answer: {args.question}"), otherwise=NOBODY)
        return ToolResult(call_id=call_id, content=NOBODY, summary=f"{name}: nobody answered")
