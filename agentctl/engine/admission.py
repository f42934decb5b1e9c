"""Before each request to a model, whoever makes it: do the caps allow it?"""

from __future__ import annotations

from collections.abc import AsyncIterator

from agentctl.core.events import Notice
from agentctl.core.ports import Item
from agentctl.core.types import Request
from agentctl.engine.parts import Parts

POLL_S = 0.1
"""How often a run looks again whether others have given back what they had reserved. Its own clock bounds the wait."""
WAITING = "Other runs have reserved what is left of the budget; waiting until they have settled."


async def admitted(parts: Parts, request: Request) -> AsyncIterator[Item]:
    """Returns when the request may be sent. Raises LimitReached when a cap stands against it."""
    for notice in parts.budget.notices():
        yield notice
    has_said = False
    while not parts.budget.admit(request, parts.context.expected):
        if not has_said:
            has_said = True
            yield Notice(code="budget-wait", text=WAITING)
        await parts.clock.sleep(POLL_S)
