"""--budget-file: the ledger of a run, when it has one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.config.settings import Settings
from agentctl.core.errors import UsageError
from agentctl.core.types import ModelInfo

if TYPE_CHECKING:
    from agentctl.state.ledger import BudgetLedger


def open_ledger(settings: Settings, model: ModelInfo, *, is_demo: bool = False) -> BudgetLedger | None:
    """None without the flag, and where no model is asked: in a replay and in the demo.

    A file that does not exist is made with the caps of this run. Raises UsageError.
    """
    if settings.budget_file is None or settings.replay is not None or is_demo:
        return None
    from agentctl.state.ledger import BudgetLedger  # most runs have none

    ledger = BudgetLedger(Path(settings.budget_file), new_caps=(settings.max_cost, settings.max_tokens))
    if ledger.max_cost is not None and model.price is None:
        ledger.close()
        raise UsageError(
            f"--budget-file {settings.budget_file!r} has a cap in USD, and the price of {model.vendor}/{model.name} is "
            "not known",
            hint="Say it with --price IN,OUT, or use a file with max_tokens.",
        )
    return ledger
