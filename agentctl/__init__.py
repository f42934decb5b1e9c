"""A headless automation agent for pipelines. `run(Options(...))` and `events(Options(...))` are the Python face."""

from __future__ import annotations

from agentctl.version import __version__

TYPE_CHECKING = False  # type checkers take it for true; importing it would double the time of --version
if TYPE_CHECKING:
    from agentctl.config.options import Options
    from agentctl.runner.face import Outcome, events, run

__all__ = ["Options", "Outcome", "__version__", "events", "run"]

_HOMES = {"Options": "agentctl.config.options", "Outcome": "agentctl.runner.face"}


def __getattr__(name: str) -> object:
    """Loads a public name when it is asked for: `agentctl --version` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module 'agentctl' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "agentctl.runner.face")), name)
