"""Programs that run the command in their arguments, with their real option grammar.

An option that is not in the grammar makes the line unreadable: guessing where the inner command starts is how
wrapper rules are bypassed. Sources: the manual pages of coreutils 9, util-linux 2.38, findutils 4.9, sudo 1.9.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.core.record import Record
from agentctl.policy.words import UNKNOWN, Form


class Grammar(Record):
    """Options of one wrapper. Letters stand alone or in clusters; `values` letters take the rest or the next word."""

    letters: str = ""
    values: str = ""
    optional: str = ""
    """Letters whose value, if any, is attached."""
    words: tuple[str, ...] = ()
    """Long options without a value."""
    word_values: tuple[str, ...] = ()
    """Long options with `=value` or the next word as value."""
    word_optional: tuple[str, ...] = ()
    positional: int = 0
    """Operands before the command."""
    takes_assignments: bool = False
    takes_number: bool = False
    """-5 is a value of its own (nice)."""
    queries: str = ""
    """Letters that make it look something up instead of running the command."""
    is_privileged: bool = False
    """The wrapper changes what the command may do, so an allow rule has to name it."""
    chdir: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()
    """Options that empty the environment of the command."""
    drops: tuple[str, ...] = ()
    """Options whose value is a variable that the command does not get."""
    replaces: tuple[str, ...] = ()
    """Options whose value is a text that input replaces (xargs -I)."""
    refeeds: tuple[str, ...] = ()
    """Options that make its words something else than the lines of its input (xargs -a, -d)."""
    appends: bool = False
    """Input becomes further arguments (xargs)."""
    default: tuple[str, ...] = ()
    """The command when none is given."""
    code: tuple[str, ...] = ()
    """Options whose value is shell text (flock -c)."""


WRAPPERS: dict[str, Grammar] = {
    "env": Grammar(
        letters="i0v",
        values="uC",
        words=("--ignore-environment", "--null", "--debug", "--list-signal-handling"),
        word_values=("--unset", "--chdir"),
        word_optional=("--block-signal", "--default-signal", "--ignore-signal"),
        takes_assignments=True,
        chdir=("-C", "--chdir"),
        clears=("-i", "--ignore-environment"),
        drops=("-u", "--unset"),
    ),
    "timeout": Grammar(
        letters="v",
        values="ks",
        words=("--preserve-status", "--foreground", "--verbose"),
        word_values=("--kill-after", "--signal"),
        positional=1,
    ),
    "nice": Grammar(values="n", word_values=("--adjustment",), takes_number=True),
    "nohup": Grammar(),
    "setsid": Grammar(letters="cfw", words=("--ctty", "--fork", "--wait")),
    "stdbuf": Grammar(values="ioe", word_values=("--input", "--output", "--error")),
    "ionice": Grammar(letters="t", values="cn", words=("--ignore",), word_values=("--class", "--classdata")),
    "taskset": Grammar(letters="c", words=("--cpu-list",), positional=1),
    "time": Grammar(letters="pv", words=("--portability", "--verbose")),
    "command": Grammar(letters="p", queries="vV"),
    "builtin": Grammar(),
    "exec": Grammar(letters="cl", values="a", clears=("-c",)),
    "sudo": Grammar(
        letters="ABEHKknPSbN",
        values="ugprTtCDhR",
        words=("--preserve-env", "--set-home", "--non-interactive", "--background", "--stdin", "--reset-timestamp"),
        word_values=("--user", "--group", "--prompt", "--chdir", "--chroot", "--host", "--close-from", "--role"),
        word_optional=("--preserve-env",),
        takes_assignments=True,
        queries="lvV",
        is_privileged=True,
        chdir=("-D", "--chdir"),
    ),
    "doas": Grammar(letters="nL", values="uC", is_privileged=True),
    "xargs": Grammar(
        letters="0rtpxo",
        values="adEILnPs",
        optional="eil",
        words=("--null", "--no-run-if-empty", "--verbose", "--interactive", "--exit", "--open-tty"),
        word_values=(
            "--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars", "--process-slot-var",
        ),
        word_optional=("--eof", "--replace", "--max-lines"),
        replaces=("-I", "-i", "--replace"),
        refeeds=("-a", "--arg-file", "-d", "--delimiter"),
        appends=True,
        default=("echo",),
    ),
    "busybox": Grammar(),
    "toybox": Grammar(),
    "choom": Grammar(values="np", word_values=("--adjust", "--pid")),
    **dict.fromkeys(
        ("linux64", "linux32", "i386", "x86_64", "uname26"),
        Grammar(
            letters="BFILRSTXZ3v",
            optional="4",
            words=(
                "--32bit", "--fdpic-funcptrs", "--short-inode", "--addr-compat-layout", "--addr-no-randomize",
                "--whole-seconds", "--sticky-timeouts", "--read-implies-exec", "--mmap-page-zero", "--verbose",
                "--uname-2.6",
            ),
            default=("sh",),
        ),
    ),
    "flock": Grammar(
        letters="sxenuFvo",
        values="wE",
        words=("--shared", "--exclusive", "--nonblock", "--unlock", "--no-fork", "--verbose", "--close"),
        word_values=("--timeout", "--wait", "--conflict-exit-code"),
        positional=1,
        code=("-c", "--command"),
    ),
}  # fmt: skip


class WrapperFault(Exception):
    """The inner command cannot be found with certainty. The text says why."""


class Unwrapped(Record):
    """What a wrapper runs. `words` is empty when it runs nothing of its arguments."""

    words: tuple[Form, ...]
    assignments: tuple[tuple[str, Form], ...] = ()
    chdir: Form | None = None
    code: Form | None = None
    is_query: bool = False
    drops: frozenset[str] | None = frozenset()
    """Variables that it does not get; None for all, or for what is not known."""


def unwrap(name: str, words: Sequence[Form], feed: tuple[str, ...] = ()) -> Unwrapped:
    """Reads the options of the wrapper `name`; `words` are all words of the call, `feed` the words that its input
    holds, when they are known. Raises WrapperFault."""
    reader = _Reader(name, WRAPPERS[name], words, feed)
    return reader.read()


class _Reader:
    def __init__(self, name: str, grammar: Grammar, words: Sequence[Form], feed: tuple[str, ...]) -> None:
        self._name = name
        self._feed = feed
        self._grammar = grammar
        self._rest = list(words[1:])
        self._chdir: Form | None = None
        self._replaces: str | None = None
        self._code: Form | None = None
        self._is_query = False
        self._drops: frozenset[str] | None = frozenset()

    def read(self) -> Unwrapped:
        self._options()
        for _ in range(self._grammar.positional):
            if self._rest:
                self._value("operand")
        if self._grammar.positional and self._grammar.code:
            self._options()  # flock reads options again after the lock file
        assignments = []
        while self._grammar.takes_assignments and self._rest and _is_assignment(self._rest[0]):
            name, _, value = self._rest.pop(0).text.partition("=")
            assignments.append((name, Form(text=value)))
        words = tuple(self._rest) or tuple(Form(text=word) for word in self._grammar.default)
        return Unwrapped(
            words=() if self._is_query or self._code else self._filled(words),
            assignments=tuple(assignments),
            chdir=self._chdir,
            code=self._code,
            is_query=self._is_query,
            drops=self._drops,
        )

    def _filled(self, words: tuple[Form, ...]) -> tuple[Form, ...]:
        """Where input becomes words, the words are unknown."""
        if self._replaces:
            return tuple(
                word.replace(text=word.text.replace(self._replaces, UNKNOWN), choices=self._choices(word.text))
                if self._replaces in word.text
                else word
                for word in words
            )
        if self._grammar.appends and words:
            return (*words, Form(text=UNKNOWN, is_many=True, choices=self._feed))
        return words

    def _choices(self, text: str) -> tuple[str, ...]:
        is_known = UNKNOWN not in text and self._replaces is not None
        return tuple(text.replace(self._replaces or "", item) for item in self._feed) if is_known else ()

    def _options(self) -> None:
        while self._rest:
            word = self._rest[0]
            if word.is_many or word.text.startswith(UNKNOWN):
                raise WrapperFault(f"{self._name} has a word that is not known before it runs ({word.shown!r})")
            text = word.text
            if text == "--":
                self._rest.pop(0)
                return
            if text == "-" and self._name == "env":
                self._rest.pop(0)
                self._drops = None
                continue
            if not text.startswith("-") or text == "-":
                return
            if not word.is_static:
                raise WrapperFault(f"{self._name} has an option that is not known before it runs ({word.shown!r})")
            self._rest.pop(0)
            if text.startswith("--"):
                self._long(text)
            elif not (self._grammar.takes_number and text[1:].isdigit()):
                self._cluster(text)

    def _long(self, text: str) -> None:
        name, equals, value = text.partition("=")
        grammar = self._grammar
        if name in grammar.word_optional and (equals or name not in grammar.words):
            self._keep(name, Form(text=value or "{}"))
        elif name in grammar.words and not equals:
            self._clear(name)
        elif name in grammar.word_values or name in grammar.code:
            self._keep(name, Form(text=value) if equals else self._value(name))
        else:
            raise WrapperFault(f"{self._name} is not known to have the option {name!r}")

    def _cluster(self, text: str) -> None:
        for at, letter in enumerate(text[1:], 1):
            option, rest = f"-{letter}", text[at + 1 :]
            if letter in self._grammar.queries:
                self._is_query = True
            elif letter in self._grammar.values or option in self._grammar.code:
                self._keep(option, Form(text=rest) if rest else self._value(option))
                return
            elif letter in self._grammar.optional:
                self._keep(option, Form(text=rest or "{}"))
                return
            elif letter not in self._grammar.letters:
                raise WrapperFault(f"{self._name} is not known to have the option {option!r}")
            else:
                self._clear(option)

    def _clear(self, option: str) -> None:
        if option in self._grammar.clears:
            self._drops = None

    def _value(self, option: str) -> Form:
        if not self._rest:
            raise WrapperFault(f"{self._name} lacks the value of {option}")
        if self._rest[0].is_many:
            raise WrapperFault(f"{self._name} has a value that is not known before it runs")
        return self._rest.pop(0)

    def _keep(self, option: str, value: Form) -> None:
        if option in self._grammar.chdir:
            self._chdir = value
        elif option in self._grammar.code:
            self._code = value
        elif option in self._grammar.drops and self._drops is not None:
            self._drops = self._drops | {value.text} if value.is_static else None
        elif option in self._grammar.replaces:
            self._replaces = value.text
        elif option in self._grammar.refeeds:
            self._feed = ()


def _is_assignment(word: Form) -> bool:
    name, equals, _ = word.text.partition("=")
    return bool(equals) and UNKNOWN not in name and not word.text.startswith("=")
