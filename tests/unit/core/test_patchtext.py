"""Patch envelopes: what is understood, what is refused with its line, and which paths the policy sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.core.errors import ToolFailure
from agentctl.core.patchtext import Chunk, FilePatch, PatchLine, parse_patch, patch_paths


def lines(*texts: str) -> tuple[PatchLine, ...]:
    return tuple(PatchLine(sign=text[0], text=text[1:]) for text in texts)  # type: ignore[arg-type]  # test data


def test_a_whole_envelope() -> None:
    patch = """*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@ class A:
 def f():
-    return 1
+    return 2

 def g():
@@ -10,2 +11,3 @@ class B:
-x
\\ No newline at end of file
*** Add File: notes.txt
+first
+
+*** Delete File: not a marker
*** Delete File: old name.txt
*** End Patch
"""
    assert parse_patch(patch) == (
        FilePatch(
            kind="update",
            path="src/a.py",
            number=2,
            move_to="src/b.py",
            chunks=(
                Chunk(
                    lines=lines(" def f():", "-    return 1", "+    return 2", " ", " def g():"),
                    anchor="class A:",
                    number=5,
                ),
                Chunk(lines=lines("-x"), anchor="class B:", number=11),
            ),
        ),
        FilePatch(kind="add", path="notes.txt", number=13, lines=("first", "", "*** Delete File: not a marker")),
        FilePatch(kind="delete", path="old name.txt", number=17),
    )
    assert patch_paths(patch) == ("src/a.py", "src/b.py", "notes.txt", "old name.txt")


def test_without_the_envelope_and_with_carriage_returns() -> None:
    (section,) = parse_patch("*** Update File: a\r\n-old\r\n+new\r\n")
    assert section == FilePatch(
        kind="update", path="a", number=1, chunks=(Chunk(lines=lines("-old", "+new"), anchor="", number=2),)
    )


def test_a_chunk_knows_its_old_and_its_new_lines() -> None:
    chunk = Chunk(lines=lines(" a", "-b", "+c", "+d", " e"), anchor="", number=1)
    assert (chunk.old, chunk.new) == (("a", "b", "e"), ("a", "c", "d", "e"))


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ("", "The patch is empty"),
        ("*** Begin Patch\n*** End Patch\n", "The patch is empty"),
        ("hello\n*** Delete File: a", "Line 1 is no marker: 'hello'"),
        ("*** Rename File: a", "Line 1 is no marker"),
        ("*** Add File:  \n+x", "Line 1: '*** Add File:' names no file"),
        ("*** Update File: a\n*** Move to:\n-x", "Line 2: '*** Move to:' names no file"),
        ("*** Move to: b", "Line 1: '*** Move to:' may only stand right after '*** Update File:'"),
        ("*** Add File: a\n*** Move to: b\n+x", "Line 2: '*** Move to:' may only"),
        ("*** Delete File: a\n*** Move to: b", "Line 2: '*** Move to:' may only"),
        ("*** Update File: a\n-x\n*** Move to: b", "Line 3: '*** Move to:' may only"),
        ("*** Add File: a\n+x\n-y", "Line 3: '*** Add File:' cannot remove lines"),
        ("*** Add File: a\n+x\ny", "Line 3 of an added file must start with '+', got 'y'"),
        ("*** Update File: a\n-x\ny", "Line 3 starts with neither '+', '-' nor a space: 'y'"),
        ("*** Update File: a\n+x", "Line 2: this change names no line of the file"),
        ("*** Update File: a\n\n+x\n", "Line 2: this change names no line of the file"),
        ("*** Update File: a\n", "Line 1: the update of 'a' changes nothing"),
        ("*** Delete File: a\n-x", "Line 2: nothing may follow '*** Delete File:', got '-x'"),
        ("*** Delete File: a\n*** Add File: ./a\n+x", "Line 2: './a' appears twice"),
        ("*** Update File: a\n*** Move to: b/../a\n-x", "Line 1: 'b/../a' appears twice"),
    ],
)
def test_faults_name_their_line(patch: str, error: str) -> None:
    with pytest.raises(ToolFailure) as failure:
        parse_patch(patch)
    assert str(failure.value).startswith(error)


@pytest.mark.parametrize(
    ("patch", "paths"),
    [
        ("garbage\n*** Add File: a\n???\n  *** Delete File: .env\n", ("a", ".env")),
        ("*** Move to: x\n*** Move to: x", ("x",)),
        ("+*** Add File: content", ()),
        ("*** Update File: a\x85b\u2028c", ("a\x85b\u2028c",)),
        ("*** Update File: a\r\n*** Move to: b\r\n", ("a", "b")),
        ("*** Add File:", ()),
    ],
)
def test_the_paths_of_broken_patches(patch: str, paths: tuple[str, ...]) -> None:
    assert patch_paths(patch) == paths


WORDS = ["*** Add File: a", "*** Update File: b ", "*** Move to: c", "*** Delete File: d", "@@", "@@ x", "-x", "+y"]
WORDS += [" z", "", " ", "*** Begin Patch", "*** End Patch", "*** End of File", "*** Add File: a\r", "\x0b", "+*** Add"]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_whatever_is_applied_was_seen_by_the_policy(words: list[str]) -> None:
    patch = "\n".join(words)
    seen = set(patch_paths(patch))
    try:
        sections = parse_patch(patch)
    except ToolFailure:
        return
    touched = {path for section in sections for path in (section.path, section.move_to) if path is not None}
    assert sections
    assert touched <= seen
