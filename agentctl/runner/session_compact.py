"""`sessions compact`: a session goes on with less. Its journal gets a view; what it holds stays."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from agentctl.config.options import Options
from agentctl.config.paths import working_folder
from agentctl.config.settings import Settings
from agentctl.config.trust import WorkspaceReader
from agentctl.core.errors import AuthError, ProviderError, TimedOut, UsageError
from agentctl.core.ports import Provider, Spent, Standing, StreamItem, Viewed
from agentctl.core.record import as_dict
from agentctl.core.redact import Redactor
from agentctl.core.streams import closing
from agentctl.core.types import Decision, JsonObject, ModelInfo, PendingCall, Request, RequestOptions, ToolCall, Usage
from agentctl.engine.budget import Budget, Limits
from agentctl.engine.compaction import compact_all
from agentctl.engine.context import Context
from agentctl.engine.parts import LiveEvents, Parts
from agentctl.engine.prompt import Prompt
from agentctl.engine.repeat import RepeatGuard
from agentctl.engine.view import View, apply, left_out
from agentctl.runner.clock import SystemClock
from agentctl.runner.document import settings_of, show, verb
from agentctl.runner.policies import load_run_policy
from agentctl.runner.provider import run_model
from agentctl.runner.saving import leased, sessions_of
from agentctl.runner.secrets import redactor_of
from agentctl.state.journal import Journal, SavedSession, load
from agentctl.state.outputs import KeptOutputs

KEPT = 8
"""Messages at the end that stay as they are."""
TIMEOUT_S = 300.0


class NoModel:
    """Stands for the model of a machine that has none: the summary is then made without one."""

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        raise ProviderError("there is no model to ask")
        yield  # makes it a stream

    async def close(self) -> None:
        return


class NothingWaits:
    """There are no calls in a summary."""

    def standing(self, call: ToolCall, args: JsonObject | None = None) -> Standing:
        return Standing(state="unknown")

    def request(self, call: ToolCall, args: JsonObject, decision: Decision) -> PendingCall | str:
        return ""


@verb
def sessions_compact(options: Options, session: str) -> int:
    """Sums up all but the last messages of a session, with its model or without one."""
    settings = settings_of(options)
    sessions = sessions_of(settings)
    session_id = sessions.find(session, "session")
    path = sessions.path(session_id)
    redactor = redactor_of(settings, os.environ)
    with leased(path, session_id):
        saved = load(path)
        made = asyncio.run(_compact(settings, saved, redactor))
    document = {"session": session_id, **made}
    if not made["is_done"]:
        return show(options, document, [f"Nothing to do: {made['why']}."])
    head = f"{made['messages_before']} messages before, {made['messages_after']} from now on"
    by = f", summed up by {made['by']}" if made["by"] else ""
    return show(options, document, [f"{head}{by}", "", str(made["summary"])])


async def _compact(settings: Settings, saved: SavedSession, redactor: Redactor) -> JsonObject:
    model, provider, why = _model(settings, saved)
    parts = _parts(settings, saved, model, provider, redactor)
    earlier = parts.context.view
    before = len(apply(saved.history, earlier))
    viewed: Viewed | None = None
    journal = Journal(saved.path, SystemClock().now, redactor.text)
    try:
        async with asyncio.timeout(min(TIMEOUT_S, settings.timeout)):
            async with closing(compact_all(parts, saved.history, KEPT)) as items:
                async for item in items:
                    if isinstance(item, Spent):
                        journal.usage(item.usage, item.cost_usd)
                    elif isinstance(item, Viewed):
                        journal.view(item.view)
                        viewed = item
    except TimeoutError:
        raise TimedOut("the model did not answer in time; the session is as it was") from None
    finally:
        await provider.close()
    usage: JsonObject = {"usage": as_dict(parts.budget.usage), "cost_usd": parts.budget.cost_usd}
    if viewed is None:
        why = f"nothing is left to sum up beside the first turn, the last turns and the last {KEPT} messages"
        return {"is_done": False, "why": why, **usage}
    view = parts.context.view
    is_summed_up = left_out(saved.history, earlier, view) != []
    by = "a list of its calls" if parts.budget.usage == Usage() else f"{model.vendor}/{model.name}"
    return {
        "is_done": True,
        "messages_before": before,
        "messages_after": len(apply(saved.history, view)),
        "by": by if is_summed_up else "",
        "why": why,
        "summary": view.summary,
        **usage,
    }


def _model(settings: Settings, saved: SavedSession) -> tuple[ModelInfo, Provider, str]:
    """The model of a run that goes on, and why there is none. Raises UsageError for one that was asked for."""
    try:
        model, provider = run_model(settings, saved, dict(os.environ), SystemClock(), working_folder(), is_demo=False)
    except (AuthError, UsageError) as error:
        if settings.model is not None:
            raise
        nobody = ModelInfo(vendor="no", name="model", api="openai-chat", base_url="", origin="", profile="")
        return nobody, NoModel(), error.message
    return model, provider, ""


def _parts(settings: Settings, saved: SavedSession, model: ModelInfo, provider: Provider, redactor: Redactor) -> Parts:
    """What a summary needs of a turn; there are no tools in it."""
    context = Context(
        model=model,
        prompt=Prompt(tools=[], appendix=""),
        tools=[],
        options=RequestOptions(),
        max_context=settings.max_context,
    )
    if saved.view is not None:
        context.view = View.from_row(saved.view)
    limits = Limits(
        max_steps=1, max_tool_calls=1, max_denials=1, max_tokens=settings.max_tokens, max_cost=settings.max_cost
    )
    return Parts(
        provider=provider,
        context=context,
        tools={},
        approvals=NothingWaits(),
        policy=load_run_policy(settings, WorkspaceReader(settings.root, settings.trust)),
        budget=Budget(limits, model.price),
        repeat=RepeatGuard(),
        outputs=KeptOutputs.for_session(settings.root, saved.id, is_ephemeral=False, redactor=redactor),
        live=LiveEvents(),
        redaction=redactor,
        clock=SystemClock(),
    )
