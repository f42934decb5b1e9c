from __future__ import annotations

import asyncio

import pytest

from agentctl.core.errors import InvalidArguments
from agentctl.core.events import Event, Todos
from agentctl.core.types import Todo
from agentctl.state.todo_tool import TodoWrite, TodoWriteArguments
from agentctl.state.todos import TodoList, todos_from_rows

DONE = {"content": "read", "status": "done"}
RUNNING = {"content": "write", "status": "in_progress"}
PENDING = {"content": "test", "status": "pending"}
BLOCKED = {"content": "deploy", "status": "blocked", "note": "no key"}


def write(*todos: dict[str, str]) -> tuple[str, TodoList, list[Event]]:
    kept, events = TodoList(), list[Event]()
    tool = TodoWrite(kept, events.append)
    result = asyncio.run(tool.run("c", TodoWriteArguments.parse({"todos": list(todos)})))
    return result.content, kept, events


def test_the_list_is_replaced_shown_and_sent() -> None:
    content, kept, events = write(DONE, RUNNING, BLOCKED)
    assert content == "Plan updated: 1/3 done.\n[x] read\n[~] write\n[!] deploy (no key)"
    assert [item.content for item in kept.items] == ["read", "write", "deploy"]
    assert events == [Todos(items=kept.items, done=1, total=3, blocked=1)]


@pytest.mark.parametrize(
    ("todos", "warning"),
    [
        ([RUNNING, {**PENDING, "status": "in_progress"}], "2 items are in progress"),
        ([DONE, PENDING], "Nothing is in progress"),
        ([{**BLOCKED, "note": ""}, RUNNING], "has no note"),
    ],
)
def test_a_list_that_is_no_plan_is_stored_with_a_warning(todos: list[dict[str, str]], warning: str) -> None:
    content, kept, _ = write(*todos)
    assert f"Warning: {warning}" in content.replace("A blocked item ", "")
    assert len(kept.items) == len(todos)


@pytest.mark.parametrize("todos", [[DONE], [BLOCKED], [DONE, RUNNING, PENDING], []])
def test_a_good_list_has_no_warning(todos: list[dict[str, str]]) -> None:
    assert "Warning" not in write(*todos)[0]


def test_the_section_is_empty_without_a_plan_and_counts_with_one() -> None:
    assert TodoList().render() == ""
    shown = TodoList((Todo(content="a", status="done"), Todo(content="b", status="blocked", note="why"))).render()
    assert shown == "Your plan (1/2 done, 1 blocked); keep it current with todo_write:\n[x] a\n[!] b (why)"


@pytest.mark.parametrize(
    "todos",
    [[{"content": "x", "status": "finished"}], [{"content": "", "status": "done"}], [DONE] * 51, [{**DONE, "due": 1}]],
)
def test_a_list_that_does_not_fit_is_refused(todos: list[dict[str, str]]) -> None:
    with pytest.raises(InvalidArguments):
        TodoWriteArguments.parse({"todos": todos})


def test_rows_of_a_journal_that_are_no_items_are_left_out() -> None:
    assert todos_from_rows([DONE, {"content": "x"}, {"content": "y", "status": "?"}, 7]) == (  # type: ignore[list-item]
        Todo(content="read", status="done"),
    )
