"""Puts the parts of a run together. The only module that knows every part, so that each can be replaced in a test."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.config.agents import AGENTS
from agentctl.config.settings import Settings
from agentctl.config.trust import WorkspaceReader
from agentctl.config.workspace import Workspace
from agentctl.core.errors import UsageError
from agentctl.core.events import SCHEMA_VERSION, Init, ModelUsed, PolicyUsed, SandboxUsed
from agentctl.core.ports import Clock, Tool
from agentctl.core.record import as_dict
from agentctl.core.redact import Redactor
from agentctl.core.types import Message, ModelInfo, Problem, RequestOptions, ToolSpec, Usage
from agentctl.engine.budget import Budget, Limits, NearLimits
from agentctl.engine.context import Context
from agentctl.engine.parts import LiveEvents, Parts
from agentctl.engine.prompt import Prompt
from agentctl.engine.repeat import RepeatGuard
from agentctl.engine.view import View
from agentctl.policy.engine import PolicyEngine
from agentctl.runner.answer_file import AnswerFile
from agentctl.runner.changes import Changes
from agentctl.runner.inputs import InputReader, Inputs, read_prompt_file, read_stdin
from agentctl.runner.people import People, goes_on
from agentctl.runner.plane import Needs
from agentctl.runner.planes import Planes
from agentctl.runner.policies import load_run_policy
from agentctl.runner.provider import run_model
from agentctl.runner.sandboxing import make_sandbox
from agentctl.runner.saving import Opened, open_journal
from agentctl.runner.secrets import run_secrets
from agentctl.runner.shared_budget import open_ledger
from agentctl.sandbox.environment import shell_argv
from agentctl.sandbox.process import ProcessRunner
from agentctl.state.journal import SavedSession
from agentctl.state.outputs import KeptOutputs
from agentctl.state.selection import Selected
from agentctl.tools.sets import make_tools
from agentctl.version import __version__

if TYPE_CHECKING:
    from agentctl.runner.tape import Tape


class Assembly:
    """Everything one run is made of."""

    def __init__(
        self,
        *,
        settings: Settings,
        parts: Parts,
        prompt: Prompt,
        runner: ProcessRunner,
        redactor: Redactor,
        planes: Planes,
        turns: tuple[Message, ...],
        init: Init,
        opened: Opened,
        people: People,
        cwd: Path,
        changes: Changes,
        answer_file: AnswerFile | None,
        closers: list[Callable[[], object]],
    ) -> None:
        self.settings = settings
        self.parts = parts
        self.prompt = prompt
        self.runner = runner
        self.redactor = redactor
        self.planes = planes
        self.turns = turns
        self.init = init
        self.selected = selected = opened.selected
        self.session = selected.id
        self.journal = opened.journal
        self.notices = opened.notices
        self.people = people
        saved = selected.saved
        self.history: list[Message] = list(saved.history) if saved else []
        self.earlier_turns = saved.turns if saved else 0
        self.earlier_usage = saved.usage if saved and selected.forked_from is None else Usage()
        self.changed_policy = saved is not None and saved.policy not in ("", init.policy.digest if init.policy else "")
        """The session went on under other rules so far; those of this run count."""
        self.changes = changes
        self.answer_file = answer_file
        self._cwd = cwd
        self._closers = closers

    def resume(self, *, pending: int = 0, questions: Sequence[str] = ()) -> str | None:
        """The command line that goes on with this session, from the folder the run was started in.

        `pending` calls wait for approval, and `questions`, by their ids, for an answer.
        """
        if self.journal is None:
            return None
        return self.people.resume_command(self.where, pending, questions)

    def forget_unbegun(self) -> None:
        """A session that this run would have begun, and did not, leaves no journal for a later one to go on with."""
        if self.journal is not None and (self.selected.saved is None or self.selected.forked_from is not None):
            with suppress(OSError):
                self.journal.path.unlink()
            self.journal = None

    @property
    def where(self) -> str:
        """The flags that a later command needs to find this session, from the folder the run was started in."""
        folder = "" if self.settings.root == self._cwd.resolve() else f" -C {shlex.quote(str(self.settings.root))}"
        is_named = self.settings.project and self.settings.origins["project"] == "--project"
        return folder + (f" --project {shlex.quote(str(self.settings.project))}" if is_named else "")

    def check_strict(self) -> None:
        """Raises UsageError under --strict when something was left out."""
        problems = self.init.problems or ()
        if self.settings.strict and problems:
            raise UsageError(
                f"--strict: {problems[0].what}: {problems[0].why}",
                hint=problems[0].fix or "Mend it, or leave --strict out.",
            )

    async def close(self) -> None:
        """Ends what the run has started: the watcher, connections, open folders."""
        await self.parts.provider.close()
        await self.runner.close()
        self.planes.close()
        for close in self._closers:
            close()


async def assemble(
    settings: Settings,
    selected: Selected,
    *,
    env: Mapping[str, str],
    cwd: Path,
    clock: Clock,
    hardening: Sequence[str] = (),
    is_demo: bool = False,
    is_preview: bool = False,
) -> Assembly:
    """Makes every part of a run and reads its prompts. Raises what ends a run before it starts.

    `hardening` is what could not be done to protect this process, see sandbox/levels.py. With `is_preview` nothing
    is saved: somebody only looks at what a run would be.
    """
    answer_file = AnswerFile(settings.output) if settings.output and not is_preview else None
    keeping = settings.replace(ephemeral=True) if is_preview else settings
    secrets, named = run_secrets(env, settings)
    redactor = Redactor(secrets)
    saved, session = selected.saved, selected.id
    tape = _tape(settings, session, redactor)
    for_model, model_env = tape.model_settings(env) if tape else (settings, env)
    model, provider = run_model(for_model, saved, model_env, clock, cwd, is_demo=is_demo)
    workspace = Workspace(settings.root, add_dirs=[Path(folder) for folder in settings.add_dir])
    outputs = KeptOutputs.for_session(settings.root, session, is_ephemeral=keeping.ephemeral, redactor=redactor)
    reader = WorkspaceReader(settings.root, settings.trust)
    policy = load_run_policy(settings, reader)
    inputs = await _inputs(settings, workspace, outputs, policy, redactor, reader, cwd, is_demo=is_demo)
    live = tape.live if tape else LiveEvents()
    planes = Planes(Needs.of(settings, selected, reader, redactor, live.emit, clock.now, tape))
    sandbox = await make_sandbox(settings, env, hardening)
    runner = sandbox.runner
    tools = _tools(settings, workspace, runner, outputs, live, policy, planes, redactor)
    stored, clarify = tape.stored if tape else redactor.text, planes.pin.clarify
    people = People(settings, selected, reader, policy.digest, env, clock.now, stored, live, clarify, tape)
    tools = people.with_ask(tools)
    if not inputs.turns:
        people.check_waits()
    if tape is not None:
        provider, tools = tape.around(model, provider, tools, outputs)
    ledger = open_ledger(settings, model, is_demo=is_demo)
    budget = Budget(_limits(settings), model.price, ledger)
    specs = [tool.spec for tool in tools.values()]
    sections = [*planes.sections, NearLimits(budget)]
    prompt = Prompt(tools=specs, appendix=AGENTS[settings.agent].appendix, sections=sections)
    changes = Changes(settings.root)
    name = f"{model.vendor}/{model.name}"
    facts = {"model": "" if is_demo else name, "agent": settings.agent, "policy": policy.digest}
    opened = open_journal(keeping, selected, redactor, clock, **facts)
    people.approvals.record_in(opened.journal.path if opened.journal else None)
    parts = Parts(
        provider=provider,
        context=_context(settings, opened.selected.saved, model, prompt, specs),
        tools=tools,
        policy=tape.policy(policy) if tape else policy,
        approvals=people.approvals,
        budget=budget,
        repeat=RepeatGuard(),
        outputs=outputs,
        live=live,
        redaction=tape.redaction(redactor) if tape else redactor,
        clock=clock,
    )
    problems = (
        *settings.problems,
        *named,
        *reader.problems,
        *policy.problems,
        *inputs.problems,
        *planes.problems,
        *people.approvals.problems,
        *opened.problems,
        *sandbox.problems,
    )
    return Assembly(
        settings=settings,
        parts=parts,
        prompt=prompt,
        runner=runner,
        redactor=redactor,
        planes=planes,
        turns=inputs.turns,
        init=_init(settings, model, tools, policy, planes, sandbox.used, inputs, problems),
        opened=opened,
        people=people,
        cwd=cwd,
        changes=tape.changes(changes) if tape else changes,
        answer_file=answer_file,
        closers=[
            workspace.close,
            outputs.close,
            opened.selected.release,
            *(part.close for part in (ledger, tape) if part),
        ],
    )


def _context(
    settings: Settings, saved: SavedSession | None, model: ModelInfo, prompt: Prompt, specs: Sequence[ToolSpec]
) -> Context:
    """With the view of a session that was compacted."""
    options = RequestOptions(
        think=settings.think, max_output_tokens=settings.max_output_tokens, show_reasoning=settings.show_reasoning
    )
    context = Context(model=model, prompt=prompt, tools=specs, options=options, max_context=settings.max_context)
    if saved is not None and saved.view is not None:
        context.view = View.from_row(saved.view)
    return context


def _tape(settings: Settings, session: str, redactor: Redactor) -> Tape | None:
    """None in most runs, which then load nothing of it."""
    if not settings.record and not settings.replay:
        return None
    from agentctl.runner.tape import Tape

    return Tape(settings, session, redactor)


async def _inputs(
    settings: Settings,
    workspace: Workspace,
    outputs: KeptOutputs,
    policy: PolicyEngine,
    redactor: Redactor,
    trusted: WorkspaceReader,
    cwd: Path,
    *,
    is_demo: bool,
) -> Inputs:
    prompts = [None if prompt == "-" else prompt for prompt in settings.prompt]
    if settings.prompt_file:
        prompts.insert(0, await _prompt_of_file(settings.prompt_file, cwd, trusted))
    if prompts.count(None) > 1:
        raise UsageError(f"stdin is named as a prompt {prompts.count(None)} times", hint="It can be read once.")
    is_going_on = goes_on(settings) and not is_demo
    if is_demo:
        prompts = prompts or ["Show what agentctl does in this folder."]
    mode = "append" if None in prompts else "none" if is_demo or is_going_on else settings.stdin
    piped = await read_stdin(mode)
    reader = InputReader(workspace=workspace, cwd=cwd, outputs=outputs, may_read=policy.may_read, redact=redactor.text)
    inputs = reader.read(prompts=prompts, files=settings.file, images=settings.image, piped=piped)
    if is_going_on:
        return inputs
    if not inputs.turns or not all(turn.text.strip() for turn in inputs.turns):
        raise UsageError(
            "there is no prompt: neither -p nor --prompt-file was given and stdin holds no text",
            hint="Try `agentctl -p 'What does this repository do?'`, or `agentctl --help`.",
        )
    return inputs


async def _prompt_of_file(path: str, cwd: Path, trusted: WorkspaceReader) -> str | None:
    """None: stdin is the prompt."""
    return None if path == "-" else await read_prompt_file(path, cwd, trusted)


def _tools(
    settings: Settings,
    workspace: Workspace,
    runner: ProcessRunner,
    outputs: KeptOutputs,
    live: LiveEvents,
    policy: PolicyEngine,
    planes: Planes,
    redactor: Redactor,
) -> dict[str, Tool]:
    """The tools that are offered, in wire order: those that were asked for and have something to work on."""
    made = make_tools(
        workspace=workspace,
        runner=runner,
        outputs=outputs,
        emit=live.emit,
        may_read=policy.may_read,
        redactor=redactor,
        shell=shell_argv()[0],
        default_timeout_s=settings.tool_timeout,
        extra=planes.tools,
    )
    return {name: made[name] for name in settings.tools if name in made}


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_steps=settings.max_steps,
        max_tool_calls=settings.max_tool_calls,
        max_denials=settings.max_denials,
        max_tokens=settings.max_tokens,
        max_cost=settings.max_cost,
    )


def _init(
    settings: Settings,
    model: ModelInfo,
    tools: Mapping[str, Tool],
    policy: PolicyEngine,
    planes: Planes,
    sandbox: SandboxUsed,
    inputs: Inputs,
    problems: tuple[Problem, ...],
) -> Init:
    return Init(
        schema=SCHEMA_VERSION,
        version=__version__,
        cwd=str(settings.root),
        model=ModelUsed(vendor=model.vendor, name=model.name, api=model.api, origin=model.origin),
        agent=settings.agent,
        think=settings.think,
        tools=tuple(tools),
        instructions=planes.instructions.files,
        skills=(),
        mcp=(),
        policy=PolicyUsed(digest=policy.digest, sources=policy.source_names, yolo=settings.yolo),
        sandbox=sandbox,
        limits=_shown_limits(settings),
        injection=settings.state_injection,
        stdin=inputs.stdin,
        problems=problems,
    )


def _shown_limits(settings: Settings) -> dict[str, object]:
    return {
        **as_dict(_limits(settings)),
        "timeout_s": settings.timeout,
        "tool_timeout_s": settings.tool_timeout,
        "max_context": settings.max_context,
        "budget_file": settings.budget_file,
        "max_output_tokens": settings.max_output_tokens,
    }
