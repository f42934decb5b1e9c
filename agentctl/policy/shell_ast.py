"""The syntax tree of shfmt as a Script. Every node that could hide a command is decoded; the unknown is Unreadable.

The JSON form is described at https://github.com/mvdan/sh (syntax/typedjson). A node type that is not in the tables
below makes the line Unreadable, so a newer shfmt can only make us stricter.
"""

from __future__ import annotations

import re
from typing import Any

from agentctl.policy.syntax import (
    Arithmetic,
    Assignment,
    Block,
    Chain,
    Command,
    Declaration,
    Function,
    Literal,
    Part,
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
from agentctl.policy.words import ansi_c, plain_text, unquote

MAX_DEPTH = 50


def decode(tree: dict[str, Any]) -> Script:
    """The JSON of shfmt as a Script. Raises Unreadable, or KeyError and TypeError for a shape it never makes."""
    reader = _Decoder()
    statements = reader.statements(tree.get("Stmts"))
    return Script(statements=statements, is_portable=reader.is_portable)


def decode_each(tree: dict[str, Any]) -> list[Script]:
    """Every top-level statement as a Script of its own. Raises as `decode` does."""
    return [decode({"Stmts": [node]}) for node in tree.get("Stmts") or ()]


Node = dict[str, Any]
_DQUOTE_SPECIALS = '$`"\\'
_HEREDOC_SPECIALS = "$`\\"
_PURE_NUMBERS = ("#", "?", "$", "!")


class _Decoder:
    """One walk over the tree. `is_portable` turns false at the first construct that only bash knows."""

    def __init__(self) -> None:
        self.is_portable = True
        self._depth = 0

    # --- statements

    def statements(self, nodes: list[Node] | None) -> tuple[Statement, ...]:
        if not nodes:
            return ()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable(f"it is nested more than {MAX_DEPTH} deep; send it in smaller pieces")
        found = tuple(self.statement(node) for node in nodes)
        self._depth -= 1
        return found

    def statement(self, node: Node) -> Statement:
        if node.get("Coprocess") or node.get("Disown"):
            raise Unreadable("it uses syntax that bash does not have")
        command = node.get("Cmd")
        return Statement(
            command=self._command(command) if command else None,
            redirects=tuple(self._redirect(item) for item in node.get("Redirs") or ()),
            is_background=bool(node.get("Background")),
        )

    def _command(self, node: Node) -> Command:
        kind = node["Type"]
        if kind not in _COMMANDS:
            raise Unreadable(f"it uses {kind}, which cannot be judged; use plain commands")
        if kind in _BASH_ONLY:
            self.is_portable = False
        found: Command = _COMMANDS[kind](self, node)
        return found

    def _call(self, node: Node) -> Command:
        return Simple(
            assignments=tuple(self._assignment(item) for item in node.get("Assigns") or ()),
            words=self._words(node.get("Args")),
        )

    def _declaration(self, node: Node) -> Command:
        options, assignments = [], []
        for item in node.get("Args") or ():
            if item.get("Name"):
                assignments.append(self._assignment(item))
            else:
                options.append(self.word(item["Value"]))
        variant = node["Variant"]["Value"]
        self.is_portable = self.is_portable and variant in ("export", "readonly", "local")
        return Declaration(variant=variant, options=tuple(options), assignments=tuple(assignments))

    def _binary(self, node: Node) -> Command:
        """Left spines are unrolled: `a && b && …` nests as deep as it is long."""
        is_pipe = node["Op"] in ("|", "|&")
        links: list[tuple[str, Node]] = []
        first: Node = {"Cmd": node}
        while _extends(first, is_pipe):
            inner = first["Cmd"]
            self.is_portable = self.is_portable and inner["Op"] != "|&"
            links.append((inner["Op"], inner["Y"]))
            first = inner["X"]
        links.reverse()
        if is_pipe:
            return Pipe(stages=(self.statement(first), *(self.statement(item) for _, item in links)))
        return Chain(first=self.statement(first), links=tuple((op, self.statement(item)) for op, item in links))

    def _group(self, node: Node) -> Command:
        return Block(kind=node["Type"], bodies=(self.statements(node.get("Stmts")),))

    def _if(self, node: Node) -> Command:
        bodies = []
        branch: Node | None = node
        while branch:
            bodies += [self.statements(branch.get("Cond")), self.statements(branch.get("Then"))]
            branch = branch.get("Else")
        return Block(kind="if", bodies=tuple(bodies))

    def _while(self, node: Node) -> Command:
        return Block(kind="while", bodies=(self.statements(node.get("Cond")), self.statements(node.get("Do"))))

    def _for(self, node: Node) -> Command:
        loop = node["Loop"]
        body = (self.statements(node.get("Do")),)
        if node.get("Select") or loop["Type"] != "WordIter":
            self.is_portable = False
        if loop["Type"] == "WordIter":
            return Block(kind="for", bodies=body, words=self._words(loop.get("Items")), variable=loop["Name"]["Value"])
        sums = tuple(self._arithmetic(loop[name]) for name in ("Init", "Cond", "Post") if loop.get(name))
        return Block(kind="while", bodies=body, sums=sums)

    def _case(self, node: Node) -> Command:
        words, bodies = [self.word(node["Word"])], []
        for item in node.get("Items") or ():
            words.extend(self.word(pattern) for pattern in item.get("Patterns") or ())
            bodies.append(self.statements(item.get("Stmts")))
        return Block(kind="case", bodies=tuple(bodies), words=tuple(words))

    def _test(self, node: Node) -> Command:
        words: list[Word] = []
        sums: list[Arithmetic] = []
        self._test_expression(node["X"], words, sums)
        return Block(kind="test", words=tuple(words), sums=tuple(sums))

    def _test_expression(self, node: Node, words: list[Word], sums: list[Arithmetic]) -> None:
        kind = node["Type"]
        if kind == "Word":
            words.append(self.word(node))
            return
        if kind not in ("BinaryTest", "UnaryTest", "ParenTest"):
            raise Unreadable(f"it uses {kind}, which cannot be judged; use plain commands")
        sides = [node[name] for name in ("X", "Y") if node.get(name)]
        if node.get("Op") in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"):
            sums.extend(self._arithmetic(side) for side in sides)
            return
        for side in sides:
            self._test_expression(side, words, sums)

    def _sum(self, node: Node) -> Command:
        return Block(kind="sum", sums=(self._arithmetic(node["X"]),))

    def _let(self, node: Node) -> Command:
        return Block(kind="sum", sums=tuple(self._arithmetic(item) for item in node.get("Exprs") or ()))

    def _inner(self, node: Node) -> Command:
        """time and coproc run one statement."""
        if not node.get("Stmt"):
            return Block(kind="time")
        kind = (node["Stmt"].get("Cmd") or {}).get("Type")
        if node.get("Name") and kind not in _NAMED_COPROCS:
            raise Unreadable("bash reads the name of this coproc as a command; use `coproc NAME { …; }`")
        name = (plain_text(self.word(node["Name"])) or _raw(node["Name"])) if node.get("Name") else ""
        return Block(kind=node["Type"], bodies=((self.statement(node["Stmt"]),),), variable=name)

    def _function(self, node: Node) -> Command:
        self.is_portable = self.is_portable and not node.get("RsrvWord")
        if not node.get("Name"):
            raise Unreadable("it uses syntax that bash does not have")
        self._depth += 1
        body = self.statement(node["Body"])
        self._depth -= 1
        return Function(name=node["Name"]["Value"], body=body)

    # --- redirections and assignments

    def _redirect(self, node: Node) -> Redirect:
        operator = node["Op"]
        self.is_portable = self.is_portable and operator in ("<", ">", ">>", ">|", "<>", "<&", ">&", "<<", "<<-")
        descriptor = (node.get("N") or {}).get("Value", "")
        target, body = self.word(node["Word"]), None
        if node.get("Hdoc"):
            specials = None if any(_is_quoted(part) for part in target.parts) else _HEREDOC_SPECIALS
            body = self.word(node["Hdoc"], specials=specials, is_heredoc=True)
        return Redirect(operator=operator, descriptor=descriptor, target=target, body=body)

    def _assignment(self, node: Node) -> Assignment:
        items: tuple[Word, ...] = ()
        index = [self._arithmetic(node["Index"])] if node.get("Index") else []
        if node.get("Array"):
            self.is_portable = False
            for item in node["Array"].get("Elems") or ():
                if item.get("Index"):
                    index.append(self._arithmetic(item["Index"]))
                if item.get("Value"):
                    items += (self.word(item["Value"]),)
        value = None if node.get("Naked") else self.word(node["Value"]) if node.get("Value") else Word(parts=())
        return Assignment(
            name=node["Name"]["Value"],
            value=value,
            is_array=bool(node.get("Array")),
            items=items,
            index=tuple(index),
        )

    # --- words

    def _words(self, nodes: list[Node] | None) -> tuple[Word, ...]:
        return tuple(self.word(node) for node in nodes or ())

    def word(self, node: Node, *, specials: str | None = None, is_heredoc: bool = False) -> Word:
        parts: list[Part] = []
        for part in node.get("Parts") or ():
            if is_heredoc and specials is None and part["Type"] == "Lit":
                parts.append(Literal(text=part["Value"], is_quoted=True))
            else:
                parts.extend(self._part(part, specials))
        return Word(parts=tuple(parts))

    def _part(self, node: Node, specials: str | None) -> list[Part]:
        kind = node["Type"]
        if kind not in _PARTS:
            raise Unreadable(f"it uses {kind}, which cannot be judged; use plain words")
        found: list[Part] = _PARTS[kind](self, node, specials)
        return found

    def _literal(self, node: Node, specials: str | None) -> list[Part]:
        return list(unquote(node["Value"], specials=specials))

    def _single(self, node: Node, _specials: str | None) -> list[Part]:
        if node.get("Dollar"):
            self.is_portable = False
            return [Literal(text=ansi_c(node.get("Value", "")), is_quoted=True)]
        return [Literal(text=node.get("Value", ""), is_quoted=True)]

    def _double(self, node: Node, _specials: str | None) -> list[Part]:
        self.is_portable = self.is_portable and not node.get("Dollar")
        inner = [part for item in node.get("Parts") or () for part in self._part(item, _DQUOTE_SPECIALS)]
        return inner or [Literal(text="", is_quoted=True)]

    def _variable(self, node: Node, specials: str | None) -> list[Part]:
        if node.get("NestedParam") or node.get("Flags") or node.get("IsSet") or node.get("Modifiers"):
            raise Unreadable("it uses syntax that bash does not have")
        name = (node.get("Param") or {}).get("Value", "")
        words, operator = self._operands(node)
        if node.get("Length") or node.get("Width"):
            operator = "#"
        index = node.get("Index")
        if index:
            self.is_portable = False
            subscript = _raw(index)
            if subscript in ("@", "*"):
                operator = f"[{subscript}]"
            else:
                words.append(Word(parts=(self._arithmetic(index),)))
        is_evaluated = (bool(node.get("Excl")) and not node.get("Names")) or (
            operator == "@" and _raw_word(words) != "Q"
        )
        if not name and not node.get("Excl"):
            raise Unreadable("it uses an expansion without a name")
        return [
            Variable(
                name=name,
                is_quoted=specials is not None,
                operator=operator,
                words=tuple(words),
                is_element=bool(index),
                is_evaluated=is_evaluated,
            )
        ]

    def _operands(self, node: Node) -> tuple[list[Word], str]:
        words: list[Word] = []
        operator = ""
        if node.get("Exp"):
            operator = node["Exp"]["Op"]
            words += [self.word(node["Exp"]["Word"])] if node["Exp"].get("Word") else []
        if node.get("Repl"):
            self.is_portable = False
            operator = "/"
            words += [self.word(node["Repl"][name]) for name in ("Orig", "With") if node["Repl"].get(name)]
        if node.get("Slice"):
            self.is_portable = False
            operator = ":"
            parts = [node["Slice"][name] for name in ("Offset", "Length") if node["Slice"].get(name)]
            words += [Word(parts=(self._arithmetic(item),)) for item in parts]
        return words, operator

    def _command_substitution(self, node: Node, specials: str | None) -> list[Part]:
        if node.get("TempFile") or node.get("ReplyVar"):
            self.is_portable = False
        return [Substitution(statements=self.statements(node.get("Stmts")), kind="$(", is_quoted=specials is not None)]

    def _process_substitution(self, node: Node, _specials: str | None) -> list[Part]:
        self.is_portable = False
        return [Substitution(statements=self.statements(node.get("Stmts")), kind=node["Op"], is_quoted=True)]

    def _arithmetic_part(self, node: Node, _specials: str | None) -> list[Part]:
        self.is_portable = self.is_portable and not node.get("Bracket")
        return [self._arithmetic(node["X"]) if node.get("X") else Arithmetic(names=(), words=())]

    def _extglob(self, node: Node, _specials: str | None) -> list[Part]:
        pattern = node["Pattern"]["Value"]
        if any(char in pattern for char in "$`("):
            raise Unreadable("an extended pattern holds an expansion; write it without")
        self.is_portable = False
        return [Literal(text="*", is_quoted=False)]

    # --- arithmetic

    def _arithmetic(self, node: Node) -> Arithmetic:
        names: list[str] = []
        words: list[Word] = []
        self._sum_expression(node, names, words)
        return Arithmetic(names=tuple(names), words=tuple(words))

    def _sum_expression(self, node: Node, names: list[str], words: list[Word]) -> None:
        kind = node["Type"]
        if kind != "Word":
            if kind not in ("BinaryArithm", "UnaryArithm", "ParenArithm"):
                raise Unreadable(f"it computes with {kind}, which cannot be judged")
            for name in ("X", "Y"):
                if node.get(name):
                    self._sum_expression(node[name], names, words)
            return
        word = self.word(node)
        words.append(word)
        for part in word.parts:
            if isinstance(part, Literal):
                names.extend(_NAME.findall(part.text))
                if any(char in part.text for char in "$`"):
                    raise Unreadable("arithmetic holds quoted code; compute with plain names and numbers")
            elif isinstance(part, Variable) and part.operator != "#" and part.name not in _PURE_NUMBERS:
                names.append(part.name)


_NAME = re.compile(r"[A-Za-z_]\w*")


def _extends(statement: Node, is_pipe: bool) -> bool:
    """Whether a left side is more of the same list and carries nothing of its own."""
    if statement.get("Redirs") or statement.get("Negated") or statement.get("Background"):
        return False
    inner = statement.get("Cmd") or {}
    return inner.get("Type") == "BinaryCmd" and (inner["Op"] in ("|", "|&")) is is_pipe


def _is_quoted(part: Part) -> bool:
    return isinstance(part, Literal) and part.is_quoted


def _raw(node: Node) -> str:
    parts = node.get("Parts") or ()
    return "".join(part.get("Value", "?") for part in parts if isinstance(part.get("Value", "?"), str))


def _raw_word(words: list[Word]) -> str:
    return "".join(part.text for word in words for part in word.parts if isinstance(part, Literal))


_NAMED_COPROCS = frozenset({"Block", "Subshell", "IfClause", "WhileClause", "ForClause", "CaseClause"})
_BASH_ONLY = frozenset({"ArithmCmd", "TestClause", "LetClause", "CoprocClause", "TimeClause"})
_COMMANDS: dict[str, Any] = {
    "CallExpr": _Decoder._call,
    "DeclClause": _Decoder._declaration,
    "BinaryCmd": _Decoder._binary,
    "Block": _Decoder._group,
    "Subshell": _Decoder._group,
    "IfClause": _Decoder._if,
    "WhileClause": _Decoder._while,
    "ForClause": _Decoder._for,
    "CaseClause": _Decoder._case,
    "TestClause": _Decoder._test,
    "ArithmCmd": _Decoder._sum,
    "LetClause": _Decoder._let,
    "TimeClause": _Decoder._inner,
    "CoprocClause": _Decoder._inner,
    "FuncDecl": _Decoder._function,
}
_PARTS: dict[str, Any] = {
    "Lit": _Decoder._literal,
    "SglQuoted": _Decoder._single,
    "DblQuoted": _Decoder._double,
    "ParamExp": _Decoder._variable,
    "CmdSubst": _Decoder._command_substitution,
    "ProcSubst": _Decoder._process_substitution,
    "ArithmExp": _Decoder._arithmetic_part,
    "ExtGlob": _Decoder._extglob,
}
