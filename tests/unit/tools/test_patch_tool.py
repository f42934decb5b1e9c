"""apply_patch: all or nothing, over several files."""

from __future__ import annotations

import os
import stat

import pytest

from agentctl.core.types import FileChange, ToolResult
from tests.unit.tools.file_tools import Desk, subjects

FILES = {"a.py": "def f():\n    return 1\n\ndef g():\n    return 1\n", "old": "x\n", "crlf": "a\r\nb\r\nc"}


@pytest.fixture
def filled(desk: Desk) -> Desk:
    for path, text in FILES.items():
        desk.put(path, text)
    return desk


def test_every_kind_of_change_in_one_patch(filled: Desk) -> None:
    (filled.root / "a.py").chmod(0o755)
    result = filled.result(
        "apply_patch",
        patch="""*** Begin Patch
*** Update File: a.py
*** Move to: lib/b.py
@@ def g():
-    return 1
+    return 2
+    # done
*** Add File: new/n.txt
+one
+
*** Delete File: old
*** Update File: crlf
-b
+B
+BB
*** End Patch""",
    )
    assert filled.files() == {
        "lib/b.py": b"def f():\n    return 1\n\ndef g():\n    return 2\n    # done\n",
        "new/n.txt": b"one\n\n",
        "crlf": b"a\r\nB\r\nBB\r\nc",
    }
    assert stat.S_IMODE((filled.root / "lib/b.py").stat().st_mode) == 0o755
    assert result == ToolResult(
        call_id="c1",
        content="Applied 4 change(s):\n  moved a.py to lib/b.py\n  added new/n.txt\n  deleted old\n  modified crlf",
        summary="Applied 4 change(s)",
        changed=(
            FileChange(
                path="a.py",
                kind="moved",
                moved_to="lib/b.py",
                diff="--- a/a.py\n+++ b/a.py\n@@ -2,4 +2,5 @@\n     return 1\n \n def g():\n-    return 1\n"
                "+    return 2\n+    # done\n",
            ),
            FileChange(
                path="new/n.txt", kind="added", diff="--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1,2 @@\n+one\n+\n"
            ),
            FileChange(path="old", kind="deleted", diff="--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"),
            FileChange(
                path="crlf",
                kind="modified",
                diff="--- a/crlf\n+++ b/crlf\n@@ -1,3 +1,4 @@\n a\r\n-b\r\n+B\r\n+BB\r\n c\n"
                "\\ No newline at end of file\n",
            ),
        ),
    )


@pytest.mark.parametrize(
    ("old", "body", "new"),
    [
        ("a\nb\nc\n", "-b\n+B", "a\nB\nc\n"),
        ("a\nb\nc\n", "-a\n+A\n-c\n+C", "A\nb\nC\n"),
        ("a\na\nb\n", "-a\n+A\n-b\n+B", "a\nA\nB\n"),
        ("a\nb\nc\n", " a\n+x\n b", "a\nx\nb\nc\n"),
        ("a\nb", "-b", "a"),
        ("a\nb", " b\n+c", "a\nb\nc"),
        ("a\r\nb", " b\n+c", "a\r\nb\r\nc"),
        ("a\n", "-a", ""),
        ("a\n\nb\n", " a\n\n-b\n+c", "a\n\nc\n"),
        ("x\nh\nx\n", "@@ h\n-x\n+y", "x\nh\ny\n"),
        ("x\nh\nx\n", "@@ -3,1 +3,1 @@ h\n-x\n+y", "x\nh\ny\n"),
        ("a\nb\n", "-a\n+$& \\1\n*** End of File", "$& \\1\nb\n"),
        ("é\u2028x\ny\n", "-y\n+z", "é\u2028x\nz\n"),
        ("caf\udce9\ny\n", "-y\n+z", "caf\udce9\nz\n"),
    ],
)
def test_how_hunks_meet_the_file(desk: Desk, old: str, body: str, new: str) -> None:
    desk.put("f", old.encode(errors="surrogateescape"))
    desk.call("apply_patch", patch=f"*** Update File: f\n{body}\n")
    assert desk.read("f") == new.encode(errors="surrogateescape")


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ("*** Add File: old\n+x", "Cannot add 'old': it exists already."),
        ("*** Add File: dangling\n+x", "Cannot add 'dangling': it exists already."),
        ("*** Update File: nope\n-x", "Cannot update 'nope': no such file."),
        ("*** Delete File: nope", "Cannot delete 'nope': no such file."),
        ("*** Delete File: dir", "'dir' is a folder."),
        ("*** Update File: bin\n-x", "'bin' is a binary file"),
        ("*** Update File: old\n-y\n+z", "Line 2 of the patch: its old lines, from 'y' on, do not match old."),
        ("*** Update File: a.py\n-    return 1", "Line 2 of the patch: its old lines, from '    return 1' on, appear"),
        ("*** Update File: a.py\n*** Move to: old\n-def f():", "Cannot move 'a.py': 'old' exists already."),
        ("*** Update File: a.py\n*** Move to: ../x\n-def f():", "'../x' leads out"),
        ("*** Add File: ../x\n+x", "'../x' leads out"),
        ("*** Update File: locked\n-x\n+y", "'locked' is read-only"),
        ("*** Delete File: link\n*** Delete File: ./dir/../link", "Line 2: './dir/../link' appears twice"),
        ("*** Update File: link\n-x\n+y\n*** Update File: old\n-x\n+z", "'old' appears twice in the patch."),
        ("*** Frob File: x", "Line 1 is no marker"),
    ],
)  # fmt: skip
def test_a_patch_that_does_not_fit_changes_nothing(filled: Desk, patch: str, error: str) -> None:
    filled.put("bin", b"\0")
    filled.put("dir/f")
    filled.put("locked", "x\n").chmod(0o400)
    (filled.root / "link").symlink_to("old")
    (filled.root / "dangling").symlink_to("nowhere")
    # a good section in front: it must not be written either
    assert filled.refusal("apply_patch", patch=f"{patch}\n").startswith(error)
    assert filled.refusal("apply_patch", patch=f"*** Add File: good\n+x\n{patch}\n")
    assert not (filled.root / "good").exists()


def test_a_write_that_fails_half_way_says_what_was_done(desk: Desk) -> None:
    desk.put("d/f", "x\n")
    patch = "*** Add File: d/one\n+1\n*** Add File: d/one/two\n+2\n"
    result = desk.result("apply_patch", patch=patch)
    assert result.is_error
    assert result.content.startswith("'d/one/two': 'd/one' is not a folder. Applied before that: 1.\n  added d/one")
    assert [change.path for change in result.changed] == ["d/one"]
    assert sorted(os.listdir(desk.root / "d")) == ["f", "one"]


def test_the_policy_sees_every_path_even_of_a_broken_patch() -> None:
    patch = "junk\n*** Update File: a\n*** Move to: b\n-x\n*** Delete File: .env\n*** Add File: c\nnot a line"
    assert subjects("apply_patch", patch=patch) == [(path, "write") for path in ("a", "b", ".env", "c")]
