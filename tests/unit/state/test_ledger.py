"""A budget that runs share: no two of them can spend the same money, also when they are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import LimitReached, UsageError
from agentctl.core.types import Amount
from agentctl.state.ledger import BudgetLedger


def amount(cost: float, tokens: int = 0) -> Amount:
    return Amount(cost_usd=cost, tokens=tokens)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "budget.json").write_text('{"max_cost": 1}')
    return tmp_path / "budget.json"


def read(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(path.read_text())
    return row


def test_what_is_settled_is_spent_and_the_cap_ends_it(path: Path) -> None:
    ledger = BudgetLedger(path)
    assert ledger.admit(amount(0.1, 10), amount(0.5, 50))
    assert [row["cost_usd"] for row in read(path)["reserved"]] == [0.5]
    ledger.settle(amount(0.5, 50), amount(0.95, 90))
    assert read(path) == {
        "version": 1,
        "max_cost": 1.0,
        "max_tokens": None,
        "spent": {"cost_usd": 0.95, "tokens": 90},
        "reserved": [],
    }
    with pytest.raises(LimitReached, match=r"\$0\.9500 of \$1\.0000 used by all runs") as caught:
        ledger.admit(amount(0.1, 10), amount(0.5, 50))
    assert caught.value.limit == "cost"
    ledger.close()


def test_others_wait_while_a_reservation_covers_what_is_left(path: Path) -> None:
    one, two = BudgetLedger(path), BudgetLedger(path)
    assert one.admit(amount(0.1), amount(0.95))
    assert not two.admit(amount(0.1), amount(0.5))
    one.settle(amount(0.95), amount(0.2))
    assert two.admit(amount(0.1), amount(0.5))
    assert one.admit(amount(0.1), amount(0.5)), "as 0.2 + 0.5 + 0.1 stays below the cap"
    assert not one.admit(amount(0.1), amount(0.5)), "the worst case of what is under way is already above it"


def test_tokens_are_a_cap_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_text('{"max_tokens": 1000}')
    ledger = BudgetLedger(path)
    assert ledger.admit(amount(9.0, 100), amount(99.0, 500))
    ledger.settle(amount(99.0, 500), amount(9.0, 950))
    with pytest.raises(LimitReached, match="950 of 1,000 tokens") as caught:
        ledger.admit(amount(0.0, 60), amount(0.0, 70))
    assert caught.value.limit == "tokens"


def test_a_file_that_does_not_exist_is_made_with_the_caps_of_the_run(tmp_path: Path) -> None:
    BudgetLedger(tmp_path / "b", new_caps=(2.5, None)).close()
    assert read(tmp_path / "b")["max_cost"] == 2.5
    assert BudgetLedger(tmp_path / "b", new_caps=(99.0, None)).max_cost == 2.5
    with pytest.raises(UsageError, match="does not exist") as caught:
        BudgetLedger(tmp_path / "c")
    assert "max_cost" in caught.value.hint
    with pytest.raises(UsageError, match="cannot be locked"):
        BudgetLedger(tmp_path / "no" / "b", new_caps=(1.0, None))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not JSON"),
        ('{"max_cost": 5', "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "neither 'max_cost' nor 'max_tokens'"),
        ('{"max_cots": 5}', "'max_cots' is not known"),
        ('{"max_cost": "5"}', "'5' and no amount"),
        ('{"max_cost": -1}', "-1 and no amount"),
        ('{"max_cost": true}', "True and no amount"),
        ('{"max_tokens": 1.5}', "1.5 and no number of tokens"),
        ('{"max_cost": 5, "version": 2}', "version 2 is not 1"),
        ('{"max_cost": 5, "spent": 3}', "'spent' is not an object"),
        ('{"max_cost": 5, "spent": {"usd": 3}}', "'spent' is not an object"),
        ('{"max_cost": 5, "reserved": {}}', "'reserved' is not a list"),
        ('{"max_cost": 5, "reserved": [{"cost_usd": 1}]}', "no 'run'"),
        ('{"max_cost": 5, "reserved": [{"run": "xyz"}]}', "'xyz' is no run"),
        ('{"max_cost": 5, "reserved": [{"run": "-1"}]}', "'-1' is no run"),
    ],
)
def test_what_is_no_ledger_is_named(path: Path, content: str, why: str) -> None:
    path.write_text(content)
    with pytest.raises(UsageError, match="is no ledger") as caught:
        BudgetLedger(path)
    assert why in caught.value.message
    assert caught.value.hint
    assert path.read_text() == content, "nothing is written over it"


@pytest.mark.parametrize("damage", ["{", None])
def test_a_ledger_that_breaks_on_the_way_lets_nothing_through(path: Path, damage: str | None) -> None:
    ledger = BudgetLedger(path)
    assert ledger.admit(amount(0.1), amount(0.2))
    path.unlink() if damage is None else path.write_text(damage)
    ledger.settle(amount(0.2), amount(0.1))
    with pytest.raises(LimitReached, match="can no longer be used"):
        ledger.admit(amount(0.1), amount(0.2))
    path.write_text('{"max_cost": 1}')
    ledger.close()
    assert read(path)["spent"]["cost_usd"] == 0.1, "what could not be settled then is settled at the end"


def test_a_lower_cap_counts_at_once_and_the_links_and_the_mode_of_the_file_stay(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    ledger = BudgetLedger(tmp_path / "link")
    assert ledger.admit(amount(0.1), amount(0.3))
    ledger.settle(amount(0.3), amount(0.3))
    path.write_text(path.read_text().replace('"max_cost": 1.0', '"max_cost": 0.2'))
    with pytest.raises(LimitReached):
        ledger.admit(amount(0.1), amount(0.3))
    assert (tmp_path / "link").is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


# --- real processes -------------------------------------------------------------------------------------------------

RUN = """
import os, random, signal, sys, time
from pathlib import Path
from agentctl.core.errors import LimitReached
from agentctl.core.types import Amount
from agentctl.state.ledger import BudgetLedger

path, log, seed, dies_at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
chance = random.Random(seed)
ledger = BudgetLedger(path)
number = 0
while number < 400:
    most = chance.uniform(0.02, 0.06)
    try:
        if not ledger.admit(Amount(cost_usd=0.01), Amount(cost_usd=most)):
            time.sleep(0.002)
            continue
    except LimitReached:
        break
    number += 1
    if number == 1:  # each has its first one before any of them spends: those that are to die do so
        log.touch()
        while not Path(sys.argv[5]).exists():
            time.sleep(0.001)
    cost = chance.uniform(0.01, most)
    with log.open("a") as out:  # the service has charged for it now, whatever becomes of this process
        out.write(f"{cost}\\n")
    if number == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(chance.uniform(0, 0.01))
    ledger.settle(Amount(cost_usd=most), Amount(cost_usd=cost))
ledger.close()
"""
RUNS = int(os.environ.get("AGENTCTL_LEDGER_RUNS", "8"))
"""More for a longer campaign; a third of them is killed."""


def test_parallel_processes_that_are_killed_never_overspend(path: Path, tmp_path: Path) -> None:
    cap = RUNS / 8
    path.write_text(json.dumps({"max_cost": cap}))
    gate, logs = tmp_path / "gate", [tmp_path / f"log{n}" for n in range(RUNS)]
    dies_at = ["1" if n % 3 == 1 else "0" for n in range(RUNS)]
    running = [
        subprocess.Popen([sys.executable, "-c", RUN, path, log, str(n), dies_at[n], gate]) for n, log in enumerate(logs)
    ]
    while not all(log.exists() for log in logs):
        time.sleep(0.01)
    gate.touch()
    codes = [process.wait(timeout=60) for process in running]
    assert codes == [-signal.SIGKILL if dies == "1" else 0 for dies in dies_at]
    BudgetLedger(path).close()
    charged = sum(float(line) for log in logs for line in log.read_text().split())
    row = read(path)
    assert row["reserved"] == [], "what killed runs had reserved is spent by now"
    assert charged <= row["spent"]["cost_usd"] + 1e-6, "nothing that was charged is missing"
    assert cap * 0.9 < row["spent"]["cost_usd"] < cap + 0.06, "all is used, and at most one answer is above it"


def test_the_reservation_of_a_killed_run_counts_as_spent(path: Path, tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", RUN, path, tmp_path / "log", "1", "1", path], check=False, timeout=30)
    assert dead.returncode == -signal.SIGKILL
    (left,) = read(path)["reserved"]
    ledger = BudgetLedger(path)
    assert ledger.admit(amount(0.1), amount(0.2))
    row = read(path)
    assert row["spent"]["cost_usd"] == pytest.approx(left["cost_usd"])
    assert [reservation["cost_usd"] for reservation in row["reserved"]] == [0.2]
