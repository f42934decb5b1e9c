"""Turns the events of a turn into lines, an ending and an exit code. The one asyncio.run of the project is here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

from agentctl.config.options import Options
from agentctl.config.paths import working_folder
from agentctl.config.settings import Settings, resolve
from agentctl.core.codec import encode_event
from agentctl.core.endings import ENDINGS
from agentctl.core.errors import AgentctlError, Cancelled, LimitReached, exit_code_of
from agentctl.core.events import (
    Done,
    Event,
    Notice,
    ReasoningDelta,
    Stamped,
    TextDelta,
    Todos,
    ToolCalled,
    TurnEnd,
)
from agentctl.core.ports import Clock, Degraded, Item, Pending
from agentctl.core.redact import Redactor
from agentctl.core.signals import hold_signals
from agentctl.core.types import Problem, Usage
from agentctl.engine.loop import run_turn
from agentctl.runner.account import Account
from agentctl.runner.answer_file import NotDelivered
from agentctl.runner.app import Assembly, assemble
from agentctl.runner.choice import choose_session
from agentctl.runner.clock import SystemClock
from agentctl.runner.entries import save
from agentctl.runner.failure import error_event, startup_init
from agentctl.runner.output import explain_failure
from agentctl.runner.plane import Turn
from agentctl.runner.saving import prune_after, write_rest
from agentctl.runner.secrets import redactor_of, startup_redactor
from agentctl.runner.show import LAST_LINE_S, Show
from agentctl.runner.stamp import Stamper
from agentctl.runner.stop import EarlySignals, Launcher, Stop, is_from_outside, stop_after
from agentctl.sandbox.levels import harden_self
from agentctl.state.selection import Selected

READER_CHECK_S = 0.5
AFTER_S = 1.0
"""What the wall clock keeps for the end: nothing behind the answer may turn it into a timeout."""
READER_S = 30.0
"""How long the last line of a turn that has ended by itself waits for whoever reads stdout."""
CLOSE_S = 2.0
"""How long connections and the watcher may take to close after the last line."""


class Run:
    """One run: its events in order, first `init`, last `done`, on every path."""

    def __init__(
        self,
        options: Options,
        *,
        env: Mapping[str, str],
        cwd: Path,
        clock: Clock,
        stop: Stop,
        hardening: Sequence[str] = (),
        is_demo: bool = False,
    ) -> None:
        self._options = options
        self._env = env
        self._cwd = cwd
        self._clock = clock
        self._stop = stop
        self._hardening = hardening
        self._is_demo = is_demo
        self._started = clock.monotonic()
        self._account = Account()
        self._assembly: Assembly | None = None
        self._turn = 0
        self._is_answered = False
        """The last answer is whole; what comes now never changes how the run ends."""
        self.stamper = Stamper(session=None, clock=clock, redactor=Redactor({}), position=self._position)
        self._selected: Selected | None = None
        self._has_begun = False
        """Whether the first line is on its way."""
        self.settings: Settings | None = None
        """None until they are known."""
        self.done: Done | None = None
        self.error: AgentctlError | None = None
        """What ended the run, when it did not complete."""

    def interrupt(self) -> None:
        """Stops the running commands; the turn goes on."""
        if self._assembly is not None:
            self._assembly.runner.interrupt()

    async def events(self) -> AsyncGenerator[Stamped, None]:
        """Everything the run says. It goes on only when the next item is asked for; leaving early ends it."""
        try:
            async with aclosing(self._said()) as said:
                async for stamped in said:
                    yield stamped
        finally:
            await self._close()

    async def _said(self) -> AsyncGenerator[Stamped, None]:
        error: AgentctlError | None = None
        try:
            async with aclosing(self._begin()) as begun:
                async for stamped in begun:
                    yield stamped
            async with aclosing(self._turns()) as turns:
                async for item in turns:
                    if isinstance(item, ToolCalled) and self._assembly:
                        await self._assembly.changes.before_call(item)
                    for stamped in self._pass_on(item):
                        yield stamped
                    self._stop.check()
            if self._assembly:
                await self._assembly.changes.finish()
        except asyncio.CancelledError:
            error = self._stop.take()
            if error is None:
                raise
        except AgentctlError as failure:
            error = failure
        except Exception as bug:  # noqa: BLE001  # the last line must come on every path
            error = AgentctlError(f"{type(bug).__name__}: {bug}", hint="This is a bug in agentctl. --debug shows more.")
            error.__cause__ = bug
        error = await self._stop.settle() or error
        self._stop.close()
        for stamped in self._end(error):
            yield stamped

    # --- begin --------------------------------------------------------------------------------------------------

    async def _begin(self) -> AsyncGenerator[Stamped, None]:
        try:
            self.settings = resolve(self._options, env=self._env, cwd=self._cwd)
            timeout = self.settings.timeout
            stop_after(self._stop, max(0.0, timeout - (self._clock.monotonic() - self._started)), timeout)
            self._selected, self.settings = await choose_session(
                self._options, self.settings, self._env, self._cwd, self._clock
            )
            self._assembly = await assemble(
                self.settings,
                self._selected,
                env=self._env,
                cwd=self._cwd,
                clock=self._clock,
                hardening=self._hardening,
                is_demo=self._is_demo,
            )
        except BaseException:  # whatever it was, the first line comes
            known = redactor_of(self.settings, self._env) if self.settings else None
            redactor = known or startup_redactor(self._env, self._options)
            self.stamper = Stamper(session=None, clock=self._clock, redactor=redactor, position=self._position)
            self._has_begun = True
            for stamped in self.stamper.stamp(startup_init(str(self._cwd))):
                yield stamped
            raise
        assembly = self._assembly
        self._account.todos = assembly.planes.plan.todos.items
        self._account.problems = list(assembly.init.problems or ())
        self.stamper = Stamper(
            session=assembly.session,
            clock=self._clock,
            redactor=assembly.redactor,
            position=self._position,
            joins=not (assembly.settings.record or assembly.settings.replay),
        )
        self._has_begun = True
        for stamped in self.stamper.stamp(assembly.init):
            yield stamped
        notices = list(assembly.notices)
        if assembly.changed_policy:
            text = "The policy is not the one this session went on with so far; the rules of this run count."
            notices.append(Notice(code="policy-changed", text=text))
        for notice in notices:
            for stamped in self.stamper.stamp(notice):
                yield stamped
        assembly.check_strict()

    def seconds_left(self, most: float) -> float:
        """Of the wall clock, with a moment for the last line in any case."""
        left = self.settings.timeout - (self._clock.monotonic() - self._started) if self.settings else most
        return min(most, max(LAST_LINE_S, left))

    def _position(self) -> tuple[int, int]:
        return max(1, self._turn), self._assembly.parts.budget.steps if self._assembly else 0

    # --- turns --------------------------------------------------------------------------------------------------

    async def _turns(self) -> AsyncGenerator[Item, None]:
        assembly = self._assembly
        assert assembly is not None
        for number, prompt in enumerate(assembly.turns or (None,), start=1):
            self._turn = number
            self._account.begin_turn()
            history = assembly.history
            if prompt is None:  # the session goes on with what it waits for
                turn = Turn.of_last(history, assembly.earlier_turns)
            else:
                history.append(prompt)
                turn = Turn(number=assembly.earlier_turns + number, prompt=prompt)
                if assembly.journal:
                    assembly.journal.turn(turn.number, prompt)
            for items in (assembly.planes.before(turn, assembly.parts), run_turn(assembly.parts, history)):
                async with aclosing(items):
                    async for item in items:
                        yield item
            if number < len(assembly.turns):
                yield TurnEnd(n=number, text=self._account.text)
        self._is_answered = True
        seconds_left = assembly.settings.timeout - (self._clock.monotonic() - self._started) - AFTER_S
        async with aclosing(assembly.planes.after(self._account, assembly.parts, seconds_left)) as items:
            async for item in items:
                yield item

    def _pass_on(self, item: Item) -> Iterator[Stamped]:
        """The journal first, then everybody else."""
        assembly = self._assembly
        assert assembly is not None
        assembly.planes.note(item)
        if isinstance(item, Degraded):
            self._account.problems.append(item.problem)
            item = Notice(code=item.problem.code, text=f"{item.problem.what}: {item.problem.why}")
        if not isinstance(item, Event):
            if isinstance(item, Pending):
                self._account.wait(item.call)
            if assembly.journal:
                save(assembly.journal, item)
            return
        if isinstance(item, ReasoningDelta) and not assembly.settings.show_reasoning:
            return
        if isinstance(item, (TextDelta, ReasoningDelta)) and assembly.settings.no_stream:
            return
        self._account.note(item)
        if isinstance(item, Todos) and assembly.journal:
            assembly.journal.todos(item.items)
        yield from self.stamper.stamp(item)

    # --- end ----------------------------------------------------------------------------------------------------

    def _end(self, error: AgentctlError | None) -> Iterator[Stamped]:
        """Outcomes of what was interrupted, the error, and `done`."""
        if self._assembly and not self._turn:
            self._assembly.forget_unbegun()
        if self._is_answered and error is not None and error is self._stop.reason and is_from_outside(error):
            problem = Problem(code="cut-short", what="what comes after the answer", why=error.message)
            yield from self._pass_on(Degraded(problem=problem))
            error = None
        for outcome in self._account.open_calls():
            self._account.note(outcome)
            yield from self.stamper.stamp(outcome)
        self.error = error = error or self._verdict() or self._deliver()
        if error is not None:
            if self._assembly:
                questions = self._account.waiting_questions
                self._assembly.people.explain(error, self._assembly.where, self._resume(), questions)
            yield from self.stamper.stamp(error_event(error))
        self.done = self._done(error)
        if self._assembly and self._assembly.journal:
            try:
                write_rest(self._assembly.journal, self._assembly.parts.budget)
                self._assembly.journal.end(self.done.ended, self.done.exit_code)
            except AgentctlError as failure:
                if error is None:
                    self.error = error = failure
                    yield from self.stamper.stamp(error_event(failure))
                self.done = self._done(error)
        yield from self.stamper.stamp(self.done)

    def _verdict(self) -> AgentctlError | None:
        """What the pipeline asked to be a failure although the turn completed."""
        assembly = self._assembly
        if assembly and "denied" in assembly.settings.fail_on and self._account.denials:
            return DeniedAtEnd(len(self._account.denials))
        return None

    def _deliver(self) -> AgentctlError | None:
        """Writes the answer to -o. Returns the failure instead of raising it."""
        assembly = self._assembly
        try:
            if assembly and assembly.answer_file:
                assembly.answer_file.write(assembly.redactor.text(self._account.text))
        except NotDelivered as failure:
            return failure
        return None

    def last_word(self, error: AgentctlError) -> list[bytes]:
        """The end as JSON lines, when cleaning up takes too long to get there in order; nothing when it was said."""
        if self.done is not None:
            return []
        first = () if self._has_begun else self.stamper.stamp(startup_init(str(self._cwd)))
        return list(map(encode_event, (*first, *self._end(error))))

    def _done(self, error: AgentctlError | None) -> Done:
        assembly, account = self._assembly, self._account
        ended = error.ending if error else "completed"
        budget = assembly.parts.budget if assembly else None
        if budget:
            budget.abandon()
        usage = budget.usage if budget else Usage()
        files = assembly.changes.paths(account.files) if assembly else []
        is_answer = error is None or isinstance(error, (DeniedAtEnd, NotDelivered))
        return Done(
            ended=ended,
            exit_code=exit_code_of(error) if error else 0,
            limit=error.limit if isinstance(error, LimitReached) else None,
            text=account.text if is_answer else "",
            steps=account.steps,
            tool_calls=account.tool_calls,
            usage=usage,
            usage_total=usage + assembly.earlier_usage if assembly else usage,
            cost_usd=budget.cost_usd if budget else None,
            duration_ms=round((self._clock.monotonic() - self._started) * 1000),
            denials=tuple(account.denials),
            files_changed=tuple(files),
            files_source=assembly.changes.source if assembly else "tools",
            commands=tuple(account.commands),
            todos=account.todos,
            pin=assembly.planes.pin.used if assembly else None,
            injected=assembly.prompt.injected if assembly else {},
            questions=tuple(account.questions.values()),
            approvals=account.approvals,
            retries=account.retries,
            resume=self._resume(),
            problems=tuple(account.problems),
        )

    def _resume(self) -> str | None:
        if self._assembly is None:
            return None
        return self._assembly.resume(pending=len(self._account.pending), questions=self._account.waiting_questions)

    async def _close(self) -> None:
        if self._assembly is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._assembly.close()
            if self._assembly.journal is not None:
                prune_after(self._assembly.settings, self._assembly.selected)
        elif self._selected is not None:
            self._selected.release()


class DeniedAtEnd(AgentctlError):
    """--fail-on denied: the turn completed, but calls were denied."""

    ending = "denied"
    kind = "denied"

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} {'call was' if count == 1 else 'calls were'} denied and --fail-on denied is set",
            hint="done.denials names each with the flag that would allow it.",
        )


def run(options: Options, *, is_demo: bool = False) -> int:
    """Runs once and prints as the options say. Returns the exit code."""
    early = EarlySignals()
    return asyncio.run(_main(options, early, is_demo=is_demo))


async def _main(options: Options, early: EarlySignals, *, is_demo: bool) -> int:
    stop = Stop()
    env = dict(os.environ)
    run = Run(
        options,
        env=env,
        cwd=working_folder(),
        clock=SystemClock(),
        stop=stop,
        hardening=harden_self(),
        is_demo=is_demo,
    )
    show = Show(options, env, run.stamper, stop.trigger)
    stop.bind(lambda error: show.give_up(run.last_word(error), run.done))
    early.hand_over(stop, run.interrupt)
    watch = asyncio.create_task(_watch_around(show, stop, Launcher(env)))
    unsaid: AgentctlError | None = None
    async with aclosing(run.events()) as events:
        async for stamped in events:
            show.stamper = run.stamper
            if run.settings is not None:
                show.adopt(run.settings)
            try:
                await show.show(stamped, LAST_LINE_S if stop.reason else run.seconds_left(READER_S))
            except asyncio.CancelledError:
                if stop.take() is None:
                    raise
            except AgentctlError as error:
                unsaid = error if stamped.event is run.done else None
                stop.note(error)
    watch.cancel()
    stop.finish()
    hold_signals()
    show.explain(run.error)
    code = run.done.exit_code if run.done else ENDINGS["error"].exit_code
    return explain_failure(unsaid, code) if unsaid else code


async def _watch_around(show: Show, stop: Stop, launcher: Launcher) -> None:
    """A reader that left ends the run also while nothing is written; so does, in CI, a step that is over."""
    while True:
        await asyncio.sleep(READER_CHECK_S)
        if show.is_reader_gone():
            stop.trigger(Cancelled("the reader of stdout is gone", exit_code=141))
            return
        if launcher.is_gone():
            stop.trigger(Cancelled("the process that started agentctl has ended", exit_code=129))
            return
