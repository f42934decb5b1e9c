"""Money and tokens that many runs share: a small JSON file that no two of them can spend twice.

    {"version": 1, "max_cost": 5.0, "max_tokens": null,
     "spent": {"cost_usd": 1.25, "tokens": 410000},
     "reserved": [{"run": "6f0c…", "cost_usd": 0.31, "tokens": 36000}]}

Before a request a run reserves the most that its answer can cost; afterwards it settles what it did cost. A request is
let through while what is spent, what others have reserved and what this request sends stay below the caps: so at most
one answer, the last one, can pass them. Where only reservations are in the way, a run waits for them to be settled.

All of it happens under a lock on `FILE.lock`, and each change replaces the whole file. A run also holds a byte of that
lock file, at a place that is its name, for as long as it lives: the kernel frees it when the run is killed, and the
next run then counts its reservation as spent, because the service may well charge for the answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agentctl.core.codec import dumps, loads
from agentctl.core.errors import LimitReached, UsageError
from agentctl.core.files import read_limited, replace_file
from agentctl.core.locks import RangeLock
from agentctl.core.record import Record, as_dict
from agentctl.core.text import did_you_mean
from agentctl.core.types import Amount

VERSION = 1
MAX_BYTES = 4 * 1024 * 1024
ASK_S, SETTLE_S, OPEN_S = 0.05, 2.0, 10.0
"""How long a request, a settlement and the start of a run wait for the lock. It is held for milliseconds."""
_TICK_S = 0.002
_DUST = 1e-9
"""USD that rounding may leave."""
_MUTEX = 0
_RUNS = 1 << 48
"""Places of the lock file that runs choose from."""
MAKE_ONE = 'Make it with its cap, such as {"max_cost": 5} (USD) or {"max_tokens": 2000000}, or add --max-cost 5.'


class Reservation(Record):
    """The most that the requests in flight of one run can use."""

    run: str
    cost_usd: float
    tokens: int

    @property
    def amount(self) -> Amount:
        return Amount(cost_usd=self.cost_usd, tokens=self.tokens)


class State(Record):
    """What the file says."""

    max_cost: float | None
    max_tokens: int | None
    spent: Amount = Amount()
    reserved: tuple[Reservation, ...] = ()


class _Busy(Exception):
    """Another run holds the lock."""


class BudgetLedger:
    """Implements core.ports.Ledger on a file."""

    def __init__(self, path: Path, *, new_caps: tuple[float | None, int | None] = (None, None)) -> None:
        """`new_caps` (USD, tokens) are those of a file that does not exist yet. Raises UsageError."""
        self._shown = str(path)
        self._path = Path(os.path.realpath(path))
        self._unsettled: list[tuple[Amount, Amount]] = []
        try:
            self._lock = RangeLock(Path(f"{self._path}.lock"))
            self._place = _free_place(self._lock)
        except OSError as error:
            raise UsageError(
                f"--budget-file {self._shown!r} cannot be locked: {error.strerror or error}",
                hint="Name a file in a folder that this run can write to.",
            ) from error
        try:
            state = self._opened(new_caps)
        except BaseException:
            self._lock.close()
            raise
        self.max_cost, self.max_tokens = state.max_cost, state.max_tokens

    def _opened(self, new_caps: tuple[float | None, int | None]) -> State:
        try:
            with self._held(OPEN_S):
                if not self._path.exists():
                    self._write(_first(self._shown, new_caps))
                return self._read()
        except _Busy:
            raise UsageError(f"--budget-file {self._shown!r} is locked for more than {OPEN_S:.0f} s") from None
        except OSError as error:
            raise UsageError(f"--budget-file {self._shown!r} cannot be used: {error.strerror or error}") from error

    def admit(self, least: Amount, most: Amount) -> bool:
        """As promised by the port."""
        try:
            with self._held(ASK_S), self._changed() as now:
                self._check_cap(now.spent, least, now)
                if _passes(sum((row.amount for row in now.reserved), now.spent + least), now):
                    return False
                now.reserve(self._name, most)
                return True
        except _Busy:
            return False
        except (OSError, UsageError) as error:
            raise self._unusable(error) from error

    def settle(self, most: Amount, spent: Amount) -> None:
        """As promised by the port."""
        self._unsettled.append((most, spent))
        with suppress(_Busy, OSError, UsageError), self._held(SETTLE_S), self._changed():
            pass

    def close(self) -> None:
        """Settles what could not be settled before, and lets go. A reservation that stays counts as spent."""
        if self._unsettled:
            with suppress(_Busy, OSError, UsageError), self._held(SETTLE_S), self._changed():
                pass
        self._lock.close()

    # --- the file -----------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return f"{self._place:012x}"

    @contextmanager
    def _held(self, wait_s: float) -> Iterator[None]:
        """The lock. Raises _Busy when it is not free in time."""
        end = time.monotonic() + wait_s
        while not self._lock.try_take(_MUTEX):
            if time.monotonic() >= end:
                raise _Busy
            time.sleep(_TICK_S)
        try:
            yield
        finally:
            self._lock.let_go(_MUTEX)

    @contextmanager
    def _changed(self) -> Iterator[_Draft]:
        """The state to be changed, without what is settled by now and what killed runs left; written if it changed."""
        before = self._read()
        draft = _Draft(before)
        for most, spent in self._unsettled:
            draft.spent += spent
            draft.reserve(self._name, Amount(cost_usd=-most.cost_usd, tokens=-most.tokens))
        for row in before.reserved:
            if row.run != self._name and not self._is_alive(row.run):
                draft.spent += row.amount
                draft.reserve(row.run, Amount(cost_usd=-row.cost_usd, tokens=-row.tokens))
        yield draft
        after = before.replace(spent=draft.spent, reserved=draft.reserved)
        if after != before:
            self._write(after)
        self._unsettled.clear()

    def _is_alive(self, run: str) -> bool:
        place = int(run, 16)
        if not self._lock.try_take(place):
            return True
        self._lock.let_go(place)
        return False

    def _read(self) -> State:
        return parse(read_limited(self._path, MAX_BYTES), self._shown)

    def _write(self, state: State) -> None:
        row = {"version": VERSION, **as_dict(state)}
        row["spent"]["cost_usd"] = round(row["spent"]["cost_usd"], 9)
        replace_file(self._path, dumps(row, indent=True) + b"\n")

    # --- caps ---------------------------------------------------------------------------------------------------

    def _check_cap(self, spent: Amount, least: Amount, caps: _Draft) -> None:
        if not _passes(spent + least, caps):
            return
        used = f"${spent.cost_usd:.4f} of ${caps.max_cost:.4f}" if caps.max_cost is not None else ""
        if caps.max_tokens is not None and (spent + least).tokens >= caps.max_tokens:
            used = f"{spent.tokens:,} of {caps.max_tokens:,} tokens"
        raise LimitReached(
            "tokens" if used.endswith("tokens") else "cost",
            f"limit reached: {used} used by all runs with --budget-file {self._shown!r}, "
            f"the next request sends about {least.tokens:,} tokens",
            hint="Raise the cap in the file, or use another file.",
        )

    def _unusable(self, error: Exception) -> LimitReached:
        """Nobody knows what is spent, so nothing more is."""
        return LimitReached(
            "cost" if self.max_cost is not None else "tokens",
            f"--budget-file {self._shown!r} can no longer be used: {error}",
            hint="Nothing is asked without it. Mend the file.",
        )


def _free_place(lock: RangeLock) -> int:
    while True:
        place = 1 + int.from_bytes(os.urandom(6), "big") % (_RUNS - 1)
        if lock.try_take(place):
            return place


class _Draft:
    """A state while it is being changed."""

    def __init__(self, state: State) -> None:
        self.max_cost = state.max_cost
        self.max_tokens = state.max_tokens
        self.spent = state.spent
        self.reserved = state.reserved

    def reserve(self, run: str, more: Amount) -> None:
        """Adds to what a run has reserved; less than nothing gives back."""
        now = sum((row.amount for row in self.reserved if row.run == run), more)
        others = tuple(row for row in self.reserved if row.run != run)
        is_left = now.tokens > 0 or now.cost_usd > _DUST
        mine = Reservation(run=run, cost_usd=max(0.0, round(now.cost_usd, 9)), tokens=max(0, now.tokens))
        self.reserved = (*others, mine) if is_left else others


def _passes(amount: Amount, caps: _Draft) -> bool:
    over_cost = caps.max_cost is not None and amount.cost_usd >= caps.max_cost
    return over_cost or (caps.max_tokens is not None and amount.tokens >= caps.max_tokens)


def _first(shown: str, caps: tuple[float | None, int | None]) -> State:
    if caps == (None, None):
        raise UsageError(f"--budget-file {shown!r} does not exist", hint=MAKE_ONE)
    return State(max_cost=caps[0], max_tokens=caps[1])


# --- parsing ----------------------------------------------------------------------------------------------------------

_KEYS = ("version", "max_cost", "max_tokens", "spent", "reserved")


def parse(data: bytes, shown: str) -> State:
    """The state that a file holds. Raises UsageError that names what is wrong with it."""
    try:
        row = loads(data)
    except ValueError:
        raise _wrong(shown, "it is not JSON") from None
    if not isinstance(row, dict):
        raise _wrong(shown, "it is not a JSON object")
    unknown = next((key for key in row if key not in _KEYS), None)
    if unknown is not None:
        raise _wrong(shown, f"{unknown!r} is not known", did_you_mean(unknown, _KEYS))
    if row.get("version", VERSION) != VERSION:
        raise _wrong(shown, f"version {row['version']!r} is not {VERSION}")
    caps = State(max_cost=_number(row, "max_cost", shown), max_tokens=_whole(row, "max_tokens", shown))
    if caps.max_cost is None and caps.max_tokens is None:
        raise _wrong(shown, "it has neither 'max_cost' nor 'max_tokens'", MAKE_ONE)
    rows = row.get("reserved", [])
    if not isinstance(rows, list):
        raise _wrong(shown, "'reserved' is not a list")
    return caps.replace(
        spent=_amount(row.get("spent", {}), "spent", shown),
        reserved=tuple(_reservation(item, shown) for item in rows),
    )


def _reservation(item: Any, shown: str) -> Reservation:
    if not isinstance(item, dict) or not isinstance(item.get("run"), str):
        raise _wrong(shown, "an item of 'reserved' has no 'run'")
    try:
        is_place = 0 < int(item["run"], 16) < _RUNS
    except ValueError:
        is_place = False
    if not is_place:
        raise _wrong(shown, f"{item['run']!r} is no run")
    amount = _amount({key: value for key, value in item.items() if key != "run"}, "reserved", shown)
    return Reservation(run=item["run"], cost_usd=amount.cost_usd, tokens=amount.tokens)


def _amount(item: Any, what: str, shown: str) -> Amount:
    if not isinstance(item, dict) or not item.keys() <= {"cost_usd", "tokens"}:
        raise _wrong(shown, f"{what!r} is not an object of 'cost_usd' and 'tokens'")
    return Amount(cost_usd=_number(item, "cost_usd", shown) or 0.0, tokens=_whole(item, "tokens", shown) or 0)


def _number(row: Mapping[str, Any], key: str, shown: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        raise _wrong(shown, f"{key!r} is {value!r} and no amount")
    return float(value)


def _whole(row: Mapping[str, Any], key: str, shown: str) -> int | None:
    value = row.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise _wrong(shown, f"{key!r} is {value!r} and no number of tokens")
    return value


def _wrong(shown: str, why: str, hint: str = "") -> UsageError:
    return UsageError(
        f"--budget-file {shown!r} is no ledger: {why}", hint=hint or "Mend it, or move it away and make a new one."
    )
