"""Judging a shell line: every command it can run, every file it names, and what cannot be followed.

The walk goes over the parsed line once, in order, with the folders that `cd` can have led to. Shell text (`sh -c`,
`eval`, `trap`) is parsed and walked again. It decides nothing: engine.py holds the rules against what is found here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agentctl.policy import guards
from agentctl.policy.carriers import CODE_TAKERS, base_name, dangerous_assignment, dangerous_change, dangerous_number
from agentctl.policy.code import Code
from agentctl.policy.declarers import declared_code
from agentctl.policy.feeds import carried
from agentctl.policy.findings import Collector, Invocation, Judgement, shown
from agentctl.policy.invoke import Invoker
from agentctl.policy.places import Places
from agentctl.policy.recursion import find_bomb
from agentctl.policy.shell_state import ShellState, union
from agentctl.policy.syntax import (
    Arithmetic,
    Assignment,
    Block,
    Chain,
    Declaration,
    Function,
    Literal,
    Pipe,
    Redirect,
    Script,
    Simple,
    Statement,
    Substitution,
    Unreadable,
    Variable,
    Word,
)
from agentctl.policy.variables import prints_number
from agentctl.policy.words import UNKNOWN, Form, expand, plain_text

MAX_TEXTS = 20
"""How deep shell text may lie inside shell text."""
_DOWNLOADERS = frozenset({"curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "w3m", "ftp"})
_ASSIGNS = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.ASCII | re.DOTALL)
_STRIPPED = Code(what="git without the settings of its environment can run programs that a repository names")
_PRINTERS = frozenset({"echo", "printf"})
_REDIRECT_ACCESS = {"<": ("read",), "<&": ("read",), "<>": ("read", "write")}


def judge_line(line: str, parse: Callable[[str], Script], places: Places, *, is_bash: bool = True) -> Judgement:
    """Bounded to about 2 s; never raises for any text. Without bash only what every sh reads alike is judged."""
    try:
        walk = _Walk(parse, places)
        walk.text(line, is_portable_only=not is_bash)
        return walk.finish()
    except Unreadable as fault:
        return Judgement(faults=(str(fault),))
    except RecursionError:
        return Judgement(faults=("it is nested too deeply; send it in smaller pieces",))


class _Walk:
    def __init__(self, parse: Callable[[str], Script], places: Places) -> None:
        self._parse = parse
        self._found = Collector()
        self._state = ShellState(places, self._found)
        self._invoker = Invoker(self._found, self._state, self.text)
        self._bodies: list[Statement] = []
        self._depth = 0

    def finish(self) -> Judgement:
        for body in self._bodies:  # grows while functions define functions
            with self._state.aside():
                self._state.restart()
                self._statement(body)
        self._state.finish()
        made = self._found.invocations
        if self._state.is_stripped and any(item.name == "git" for item in made):
            self._found.code(_STRIPPED)
        if made and all(item.is_covered for item in made):
            made[0] = made[0].replace(is_covered=False)  # a wrapper that runs nothing is judged as it is
        return self._found.result()

    def text(self, text: str, *, is_portable_only: bool = False) -> None:
        """Parses and walks shell text in the current state. Raises Unreadable."""
        self._depth += 1
        try:
            self._text(text, is_portable_only=is_portable_only)
        finally:
            self._depth -= 1

    def _text(self, text: str, *, is_portable_only: bool) -> None:
        if self._depth > MAX_TEXTS:
            raise Unreadable("shell text is nested too deeply; send the inner command itself")
        script = self._parse(text)
        if is_portable_only and not script.is_portable:
            raise Unreadable("sh reads bash syntax in its own way; use `bash -c` or send the command itself")
        self._state.variables.note(script.statements)
        bomb = find_bomb(script.statements)
        if bomb:
            self._found.trip(guards.FORK_BOMB, f"{bomb}() …")
        if self._state.variables.moves_in_function:
            self._state.folders = None
        if self._state.variables.moves_input:
            self._state.input, self._state.feed = UNKNOWN, ()
        self._statements(script.statements)

    # --- statements

    def _statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        if statement.is_background:
            with self._state.aside():
                self._statement(statement.replace(is_background=False))
            return
        command = statement.command
        outer_input, outer_feed = self._state.input, self._state.feed
        if isinstance(command, Simple):
            self._simple(command, statement.redirects)
        elif isinstance(command, Declaration):
            self._declaration(command, statement.redirects)
        else:
            self._redirects(statement.redirects, ())
            self._compound(command, has_redirects=bool(statement.redirects))
        self._state.input, self._state.feed = outer_input, outer_feed
        if self._state.variables.moves_input:
            self._state.input, self._state.feed = UNKNOWN, ()

    def _compound(self, command: Pipe | Chain | Block | Function | None, *, has_redirects: bool) -> None:
        if isinstance(command, Pipe):
            self._pipe(command)
        elif isinstance(command, Chain):
            self._chain(command)
        elif isinstance(command, Block):
            self._block(command)
        elif isinstance(command, Function):
            self._function(command)
        elif has_redirects:
            self._found.invocations.append(Invocation(words=()))

    def _pipe(self, pipe: Pipe) -> None:
        has_download = False
        outer_input, outer_feed = self._state.input, self._state.feed
        for stage in pipe.stages:
            start = len(self._found.invocations)
            with self._state.aside():
                self._statement(stage)
            made = self._found.invocations[start:]
            takers = [item for item in made if item.takes_input or any(code.is_from_input for code in item.code)]
            if has_download and takers:
                self._found.trip(guards.PIPE_TO_SHELL, takers[0].shown)
            has_download = has_download or any(item.name in _DOWNLOADERS for item in made)
            self._state.input = _printed(made)
            self._state.feed = self._carried(stage, made)
        self._state.input, self._state.feed = outer_input, outer_feed

    def _carried(self, stage: Statement, made: Sequence[Invocation]) -> tuple[str, ...]:
        """File names that a stage writes into the pipe."""
        folder = self._state.folder
        is_plain = isinstance(stage.command, Simple) and all(item.descriptor == "2" for item in stage.redirects)
        if not folder or not is_plain or len(made) != 1 or made[0].name in self._state.variables.functions:
            return ()
        return carried(made[0].words, folder, self._state.feed)

    def _chain(self, chain: Chain) -> None:
        state = self._state
        state.entered = None
        self._statement(chain.first)
        possible = state.folders
        succeeded = state.entered or possible
        kept, state.is_certain = state.is_certain, False
        for operator, statement in chain.links:
            state.folders = succeeded if operator == "&&" else possible
            state.entered = None
            self._statement(statement)
            after = state.entered or state.folders
            possible = union(possible, state.folders)
            succeeded = after if operator == "&&" else possible
        state.is_certain = kept
        state.folders = possible
        state.entered = None

    def _block(self, block: Block) -> None:
        self._words(block.words)
        self._changes(block.variable)
        for total in block.sums:
            self._sum(total)
        if block.kind in ("Subshell", "CoprocClause"):
            with self._state.aside():
                self._bodies_of(block)
        elif block.kind in ("Block", "TimeClause"):
            self._bodies_of(block)
        else:
            self._branches(block)

    def _bodies_of(self, block: Block) -> None:
        for body in block.bodies:
            self._statements(body)

    def _branches(self, block: Block) -> None:
        """Loops and conditions: any body may run, a loop's more than once."""
        state = self._state
        kept, before, was_set = state.is_certain, state.folders, set(state.surely_set)
        state.is_certain = False
        if block.kind == "for":
            state.surely_set.add(block.variable)
        for body in block.bodies:
            self._statements(body)
            state.widen(before)
        if state.folders != before and block.kind in ("for", "while"):
            state.folders = None  # each round starts where the last one ended
            self._bodies_of(block)
            state.folders = None
        state.is_certain, state.surely_set, state.entered = kept, was_set, None

    def _function(self, function: Function) -> None:
        """Its body is walked at the end: it runs wherever it is called."""
        if function.name == "command_not_found_handle":
            self._found.code(Code(what="a handler for missing commands changes what words run"))
        self._bodies.append(function.body)
        if self._state.is_certain and not self._state.variables.unsets:
            self._state.functions.add(function.name)

    # --- words

    def _words(self, words: Sequence[Word]) -> None:
        for word in words:
            self._word(word)

    def _word(self, word: Word) -> None:
        for part in word.parts:
            if isinstance(part, Substitution):
                with self._state.aside():
                    self._statements(part.statements)
            elif isinstance(part, Arithmetic):
                self._sum(part)
            elif isinstance(part, Variable):
                if part.is_evaluated:
                    self._found.code(Code(what=f"the value of {part.name} is read as code"))
                if part.operator in ("=", ":="):
                    self._changes(part.name)
                self._words(part.words)

    def _changes(self, name: str) -> None:
        """The shell gives the variable a value."""
        code = dangerous_change(name)
        if code:
            self._found.code(code)

    def _sum(self, total: Arithmetic) -> None:
        for name in total.names:
            code = dangerous_number(name)
            if code:
                self._found.code(code)
            if not self._state.variables.is_number(name):
                self._found.code(Code(what=f"arithmetic evaluates the text of {name}"))
        for part in (part for word in total.words for part in word.parts):
            if isinstance(part, Substitution) and not prints_number(part):
                self._found.code(Code(what="arithmetic evaluates the output of a command"))
        self._words(total.words)

    def _forms(self, words: Sequence[Word]) -> tuple[Form, ...]:
        return tuple(form for word in words for form in expand(word, self._state.lookup))

    # --- assignments and redirections

    def _assignments(self, assignments: Sequence[Assignment], *, is_prefix: bool) -> tuple[Code, ...]:
        """Walks the values; gives back what the names do to later programs."""
        codes = []
        for item in assignments:
            if item.value is not None:
                forms = self._forms((item.value,)) or (Form(text=""),)
                code = dangerous_assignment(item.name, forms[0] if len(forms) == 1 else None)
                codes += [code] if code else []
                self._word(item.value)
            self._words(item.items)
            for total in item.index:
                self._sum(total)
            if self._state.is_certain and not is_prefix:
                self._state.surely_set.add(item.name)
        return tuple(codes)

    def _redirects(self, redirects: Sequence[Redirect], words: tuple[Form, ...]) -> None:
        for item in redirects:
            self._word(item.target)
            if item.descriptor.startswith("{"):
                self._changes(item.descriptor.strip("{}"))
            if item.operator.startswith("<"):
                self._state.feed = ()
            if item.body is not None:
                self._word(item.body)
                parts = item.body.parts
                self._state.input = "".join(part.text if isinstance(part, Literal) else UNKNOWN for part in parts)
            elif item.operator == "<<<":
                self._state.input = " ".join(form.text for form in self._forms((item.target,)))
            else:
                is_stream = item.operator == "<&" or any(isinstance(part, Substitution) for part in item.target.parts)
                if is_stream and item.operator.startswith("<"):
                    self._state.input = UNKNOWN
                self._redirect(item, words)

    def _redirect(self, item: Redirect, words: tuple[Form, ...]) -> None:
        forms = self._forms((item.target,))
        texts = (forms[0].text,) if forms and forms[0].is_static else forms[0].choices if forms else ()
        if len(forms) != 1 or not texts:
            if not self._state.sees_files:
                return
            self._found.faults.append(
                f"the target of {item.operator} is not known before it runs; write the file name out"
            )
            return
        if item.operator in ("<&", ">&") and all(text == "-" or text.rstrip("-").isdigit() for text in texts):
            return
        for text in texts:
            if text.startswith(("/dev/tcp/", "/dev/udp/")):
                self._found.trip(guards.NETWORK_REDIRECT, text)
            for access in _REDIRECT_ACCESS.get(item.operator, ("write",)):
                self._state.use(text, access, words)

    # --- commands

    def _simple(self, command: Simple, redirects: Sequence[Redirect]) -> None:
        start = len(self._found.invocations)
        codes = self._assignments(command.assignments, is_prefix=bool(command.words))
        if codes and command.words and self._only_reads(command):
            codes = ()
        self._words(command.words)
        has_download = any(item.name in _DOWNLOADERS for item in self._found.invocations[start:])
        words = self._forms(command.words)
        self._redirects(redirects, words)
        if not words:
            if redirects or codes:
                self._found.invocations.append(Invocation(words=(), code=codes))
            return
        if _ASSIGNS.match(words[0].text):
            # bash reads it as an assignment where the parser sees a program: `coproc A=1 rm`, `time -- A=1 rm`
            raise Unreadable(
                f"{words[0].text[:40]!r} stands where a program belongs; put the assignment on its own line"
            )
        made = len(self._found.invocations)
        self._invoker.invoke(words, codes)
        if has_download and any(base_name(item.name) in CODE_TAKERS for item in self._found.invocations[made:]):
            self._found.trip(guards.PIPE_TO_SHELL, shown(words))

    def _only_reads(self, command: Simple) -> bool:
        """`IFS= read x`: the builtin alone splits by it, once."""
        is_read = plain_text(command.words[0]) == "read" and "read" not in self._state.variables.functions
        return is_read and all(item.name == "IFS" for item in command.assignments)

    def _declaration(self, command: Declaration, redirects: Sequence[Redirect]) -> None:
        codes = list(self._assignments(command.assignments, is_prefix=False))
        self._words(command.options)
        self._redirects(redirects, ())
        options = self._forms(command.options)
        bare = [item.name for item in command.assignments if item.value is None]
        codes += declared_code(command.variant, options, bare)
        values = (
            Form(text=f"{item.name}={form.text}", choices=tuple(f"{item.name}={text}" for text in form.choices))
            for item in command.assignments
            if item.value is not None and not item.is_array
            for form in self._forms((item.value,))
        )
        self._state.reread(command.variant, (*options, *values))
        named = (f"{item.name}={UNKNOWN}" if item.value else item.name for item in command.assignments)
        words = (Form(text=command.variant), *options, *(Form(text=text) for text in named))
        self._found.invocations.append(Invocation(words=words, code=tuple(codes)))


def _printed(made: Sequence[Invocation]) -> str:
    """What commands write into a pipe, UNKNOWN where only running them would tell."""
    texts = [" ".join(word.text for word in item.words[1:]) for item in made if item.name in _PRINTERS]
    is_known = len(texts) == len(made) and not any(char in text for text in texts for char in "\\%")
    return "\n".join(texts if is_known else [*texts, UNKNOWN])
