"""--budget-file: one budget for many runs of the installed command."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.types import Amount
from agentctl.state.ledger import BudgetLedger
from tests.cli.conftest import APIS, Ran, World, finish
from tests.server import Call, Counts, Turn

USED = Counts(input=1_000, output=500)
FLAGS = ("--json", "--ephemeral", "--price", "10,100", "--max-output-tokens", "600")
COST = 0.06
"""Of one answer: 1,000 tokens in, 500 out."""


def ledger(world: World, **row: Any) -> Path:
    path = world.home / "budget.json"
    path.write_text(json.dumps(row))
    return path


def spent(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(path.read_text())
    assert row["reserved"] == []
    amounts: dict[str, Any] = row["spent"]
    return amounts


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def endless(**more: Any) -> Turn:
    return Turn(calls=[Call("bash", {"command": "date +%N"})], usage=USED, repeat=-1, **more)


@pytest.mark.parametrize("api", APIS)
def test_runs_one_after_the_other_share_it(world: World, served: Any, api: str) -> None:
    path = ledger(world, max_cost=0.18)
    server = served([Turn(text="ok", usage=USED, repeat=-1)])
    words = ("-p", "go", *FLAGS, "--budget-file", str(path))
    for number in (1, 2, 3):
        assert world.run(*words, server=server, api=api).ended("completed", 0).done["cost_usd"] == COST
        assert spent(path)["cost_usd"] == pytest.approx(number * COST)
    ran = world.run(*words, "--max-cost", "9", server=server, api=api).ended("limit", 5)
    assert ran.done["limit"] == "cost"
    assert "of $0.1800 used by all runs" in ran.of("error")[0]["message"]
    assert len(server.requests) == 3


def test_parallel_runs_one_of_them_killed_spend_at_most_one_answer_more(world: World, served: Any) -> None:
    cap = 0.9
    path = ledger(world, max_cost=cap)
    server = served([endless(delay_s=0.05)])
    flags = ("-p", "go", *FLAGS, "--budget-file", str(path), "--allow", "bash")
    running = [world.start(*flags, server=server) for _ in range(6)]
    wait_for(lambda: len(server.requests) >= 4)
    running[0].send_signal(signal.SIGKILL)
    ran = [finish(process) for process in running]
    for one in ran[1:]:
        assert one.ended("limit", 5).done["limit"] == "cost"
    charged = len(server.requests) * COST
    assert charged <= cap + COST, "every request that the server saw"
    said = sum(one.done["cost_usd"] for one in ran[1:])
    world.run("-p", "x", *FLAGS, "--budget-file", str(path), server=server)  # settles what the killed run left
    assert said <= spent(path)["cost_usd"] + 1e-6 <= cap + 2 * COST


@pytest.mark.parametrize("ends", ["others settle", "a signal"])
def test_a_run_waits_for_what_others_have_reserved_and_says_so(world: World, served: Any, ends: str) -> None:
    path = ledger(world, max_cost=0.09)
    other = BudgetLedger(path)
    assert other.admit(Amount(), Amount(cost_usd=0.08))
    server = served([Turn(text="ok", usage=USED)])
    out = world.home / "out"
    with out.open("wb") as stdout:
        run = world.start("-p", "go", *FLAGS, "--budget-file", str(path), server=server, stdout=stdout)
    wait_for(lambda: b"budget-wait" in out.read_bytes())
    assert server.requests == []
    if ends == "a signal":
        run.send_signal(signal.SIGTERM)
        Ran(finish(run).code, out.read_bytes(), b"").ended("cancelled", 143)
    other.settle(Amount(cost_usd=0.08), Amount(cost_usd=0.01))
    if ends == "others settle":
        Ran(finish(run).code, out.read_bytes(), b"").ended("completed", 0)
    assert spent(path)["cost_usd"] == pytest.approx(0.01 + (COST if ends == "others settle" else 0))


def test_a_signal_in_the_middle_of_an_answer_settles_what_was_sent(world: World, served: Any) -> None:
    path = ledger(world, max_cost=5)
    server = served([Turn(text="slow", usage=USED, delay_s=5.0)])
    one = world.start("-p", "go", *FLAGS, "--budget-file", str(path), server=server)
    wait_for(lambda: server.requests)
    time.sleep(0.1)
    one.send_signal(signal.SIGTERM)
    finish(one).ended("cancelled", 143)
    assert 0 < spent(path)["cost_usd"] < COST
    assert spent(path)["tokens"] > 1_000


def test_the_model_cannot_raise_its_own_cap(world: World, served: Any) -> None:
    path = world.cwd / "budget.json"
    path.write_text('{"max_cost": 1}')
    calls = [
        Call("write_file", {"path": "budget.json", "content": '{"max_cost": 99}'}),
        Call("bash", {"command": "echo '{}' > budget.json"}),
        Call("bash", {"command": "rm budget.json.lock"}),
    ]
    server = served([Turn(calls=calls, usage=USED), Turn(text="no", usage=USED)])
    ran = world.run("-p", "go", *FLAGS, "--budget-file", "budget.json", "--yolo", server=server).ended("completed", 0)
    assert [denied["rule"] for denied in ran.of("tool-denied")] == ["guard:own-installation"] * 3
    assert spent(path)["cost_usd"] == pytest.approx(2 * COST)


@pytest.mark.parametrize(
    ("content", "flags", "said"),
    [
        (None, (), "does not exist"),
        ("{", (), "is no ledger: it is not JSON"),
        ('{"max_cots": 1}', (), "'max_cost'"),
        ('{"max_cost": 1}', ("--model", "openai/unknown-1"), "price of openai/unknown-1 is not known"),
    ],
)
def test_what_cannot_be_shared_is_usage(world: World, content: str | None, flags: tuple[str, ...], said: str) -> None:
    if content is not None:
        (world.cwd / "b").write_text(content)
    ran = world.run("-p", "x", "--json", "--budget-file", "b", *flags).ended("usage", 2)
    assert said in ran.of("error")[0]["message"] + ran.of("error")[0]["hint"]


def test_a_project_cannot_choose_the_budget(world: World, served: Any) -> None:
    (world.cwd / ".agentctl").mkdir()
    (world.cwd / ".agentctl" / "config.toml").write_text('budget_file = "mine.json"\n')
    ran = world.run("-p", "x", "--json", server=served([Turn(text="ok")])).ended("completed", 0)
    assert "budget_file" in str(ran.done["problems"])
    assert ran.events[0]["limits"]["budget_file"] is None


def test_a_replay_spends_nothing(world: World, served: Any) -> None:
    path = ledger(world, max_cost=5)
    words = ("-p", "go", "--json", "--ephemeral", "--budget-file", str(path))
    world.run(*words, "--record", "r", server=served([Turn(text="ok", usage=USED)])).ended("completed", 0)
    before = spent(path)
    world.run(*words, "--replay", "r").ended("completed", 0)
    assert spent(path) == before
