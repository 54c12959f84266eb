"""The command line, in this process: what it prints, and its exit codes."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle  # noqa: F401 # is not to be imported first where sys.modules is not what it was
import queue
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import threading

import pytest
import trio
import trio.lowlevel

from june import ApprovalRequest, Snapshot, SnapshotError
from june.cli import main
from june.cli._run import _Asker

FLOWS = """
import datetime
from june import current, step

@step(id="plan")
def plan(service: str, when: datetime.date = datetime.date(2026, 1, 1)) -> str:
    return f"Plan {service} on {when}"

@step(id="words")
def words(plan: str) -> list[str]:
    return plan.split()

@step(id="half")
def half(number: int, loud: bool = False) -> float:
    current().note("halving")
    return number / 2

@step(id="broken")
def broken(words: list[str]) -> int:
    raise ValueError("out of words")
"""


@pytest.fixture
def flows(tmp_path, monkeypatch):
    """A file of steps in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    path = tmp_path / "flows_for_cli.py"
    path.write_text(textwrap.dedent(FLOWS))
    return path


def test_running_a_step_of_a_file(flows, capsys):
    """The result goes to standard output, progress to standard error."""
    assert main(["run", "flows_for_cli.py:words", "--input", "service=web"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == ["Plan", "web", "on", "2026-01-01"]
    lines = said.err.splitlines()
    assert lines[0].startswith("plan: done in ")
    assert lines[-1] == "done: 2 of 2 steps ran, 0 reused"


def test_a_text_is_printed_as_it_is(flows, capsys):
    """A result that is a string is printed plainly, and --quiet shows nothing else."""
    assert main(["run", "flows_for_cli:plan", "--input", "service=web", "--quiet"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("Plan web on 2026-01-01\n", "")


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["--input", "service=7", "--input", "when=2026-02-03"], "Plan 7 on 2026-02-03\n"),
        (["--input", 'service="a"'], 'Plan "a" on 2026-01-01\n'),
        (["--input", "service=a=b"], "Plan a=b on 2026-01-01\n"),
    ],
)
def test_inputs_are_read_by_the_types_of_their_parameters(flows, capsys, arguments, out):
    """A ``str`` is taken as it stands; a date is read as one."""
    assert main(["run", "flows_for_cli.py:plan", "--quiet", *arguments]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flows_for_cli.py:half", "--input", "number=x"],
         "june run: --input number=x: this does not read as int\n"),
        (["flows_for_cli.py:half", "--input", "number"], "june run: --input takes NAME=VALUE, not 'number'"),
        (["flows_for_cli.py:half"], "june run: step 'half' (flows_for_cli.py:13) asks for 'number', but no step"),
        (["flows_for_cli.py:half", "--input", "number=1", "--input", "numbr=1"],
         "june run: inputs has 'numbr', which no step asks for; did you mean 'number'?"),
        (["flows_for_cli.py:haff"], "june run: flows_for_cli.py has no step 'haff'; did you mean 'half'?"),
        (["nothing.py"], "june run: there is no file 'nothing.py'"),
        (["no_such_module"], "june run: there is no module 'no_such_module', and no file of that name"),
        (["json"], "june run: json has no steps; put @step(id=...) above a function"),
        (["flows_for_cli.py:half", "--input", "number=1", "--resume", "no/where.json"],
         "june run: no/where.json cannot be written: there is no folder "),
        (["flows_for_cli.py:half", "--input", "number=1", "--resume", "."], "june run: . is a folder"),
        (["flows_for_cli.py:half", "--input", "number=1", "--keep"],
         "june run: --keep goes with --resume PATH, which says what to keep"),
        (["flows_for_cli.py:half", "--input", "number=1", "--concurrency", "0"],
         "june run: concurrency must be a whole number from 1, not 0"),
        (["flows_for_cli.py:half", "--input", "number=1", "--refresh", "hlf"],
         "june run: refresh names 'hlf', but the graph has no such step. Did you mean 'half'?"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(flows, capsys, arguments, message):
    """What is wrong is said in a line, without a traceback, before anything runs."""
    assert main(["run", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(message)
    assert "Traceback" not in said.err


def test_a_broken_snapshot_is_named(flows, capsys):
    """--resume with a file that is no snapshot says so and leaves it alone."""
    flows.with_name("run.json").write_text("{")
    assert main(["run", "flows_for_cli.py:half", "--input", "number=1", "--resume", "run.json"]) == 2
    assert capsys.readouterr().err.startswith("june run: run.json: this is not a snapshot: ")
    assert flows.with_name("run.json").read_text() == "{"


def test_a_failure_says_what_is_lost(flows, capsys):
    """A failed run is exit code 1; it shows the step's own traceback, and how to keep what was done."""
    assert main(["run", "flows_for_cli.py:broken", "--input", "service=web"]) == 1
    err = capsys.readouterr().err
    assert "ValueError: out of words" in err
    assert 'raise ValueError("out of words")' in err
    assert "in step 'broken' (flows_for_cli.py:18)" in err
    assert "_trampoline" not in err
    assert err.splitlines()[-1] == "2 finished steps are lost; pass --resume PATH to keep them the next time"


def test_a_failure_with_resume_keeps_what_was_done(flows, capsys):
    """The command that it prints goes on from there."""
    arguments = ["run", "flows_for_cli.py:broken", "--input", "service=web", "--resume", "run.json"]
    assert main(arguments) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"1 step failed: 2 of 3 steps done; resume with: june {' '.join(arguments)}"
    assert list(Snapshot.load("run.json")) == ["plan", "words"]
    flows.write_text(flows.read_text().replace('raise ValueError("out of words")', "return len(words)"))
    sys.modules.pop("flows_for_cli")
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert said.out == "4\n"
    assert said.err.splitlines()[-1] == "done: 1 of 3 steps ran, 2 reused"
    assert not list(flows.parent.glob("run.json*"))


def test_the_command_to_go_on_refreshes_what_has_not_run(flows, capsys):
    """A step that was to be refreshed and has run is not named again; one that did not get to run is."""
    flows.write_text(flows.read_text().replace('raise ValueError("out of words")', "return len(words)"))
    arguments = ["run", "flows_for_cli.py:broken", "--input", "service=web", "--resume", "run.json", "--keep"]
    assert main(arguments) == 0
    capsys.readouterr()
    flows.write_text(flows.read_text().replace("return plan.split()", 'raise ValueError("no")'))
    sys.modules.pop("flows_for_cli")
    assert main([*arguments, "--refresh", "plan", "--refresh", "broken"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        "1 step failed: 1 of 3 steps done; resume with: june run flows_for_cli.py:broken --input service=web "
        "--refresh broken --resume run.json --keep"
    )


def test_the_command_to_go_on_refreshes_the_instances_that_are_left(flows, capsys):
    """Of an each step that is refreshed, those instances are named again that have not run."""
    flows.write_text(
        """
import os
from june import step

@step(id="pay", each={"n": "ns"})
def pay(n: int) -> int:
    if n > 2 and os.path.exists("broken"):
        raise ValueError("no")
    return n
"""
    )
    arguments = ["run", "flows_for_cli.py", "--input", "ns=[1, 2, 3, 4]", "--concurrency", "1"]
    arguments += ["--resume", "run.json", "--keep"]
    assert main(arguments) == 0
    flows.with_name("broken").touch()
    capsys.readouterr()
    assert main([*arguments, "--refresh", "pay"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "--refresh 'pay[3]' --refresh 'pay[4]' --concurrency 1 --resume run.json --keep" in last
    assert "--refresh pay " not in last


def test_progress_that_cannot_be_shown_stops_nothing(flows, capsys, monkeypatch):
    """A terminal that has gone is no reason to stop what is paid for."""
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["run", "flows_for_cli.py:words", "--input", "service=web"]) == 0
    assert json.loads(capsys.readouterr().out) == ["Plan", "web", "on", "2026-01-01"]


def test_keep_leaves_the_file_after_success(flows, capsys):
    """With --keep, the next run finds what this one has finished."""
    arguments = ["run", "flows_for_cli.py:words", "--input", "service=web", "--resume", "run.json", "--keep"]
    assert main(arguments) == 0
    assert [path.name for path in flows.parent.glob("run.json*")] == ["run.json"]
    capsys.readouterr()
    assert main(arguments) == 0
    assert capsys.readouterr().err.splitlines() == ["done: 0 of 2 steps ran, 2 reused"]


def test_a_result_that_cannot_be_printed_is_not_lost(flows, capsys, monkeypatch):
    """The file is removed when the result has been printed, not before; the command that is shown prints it."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            # Meanwhile it is nobody else's.
            with pytest.raises(SnapshotError, match="in use"):
                Snapshot.load("run.json").save("run.json")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    arguments = ["run", "flows_for_cli.py:words", "--input", "service=web", "--resume", "run.json"]
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Full())
        assert main(arguments) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "june run: the result could not be printed: No space left on device; to print it, run: june "
        + " ".join(arguments)
    )
    assert list(Snapshot.load("run.json")) == ["plan", "words"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == ["Plan", "web", "on", "2026-01-01"]
    assert said.err.splitlines() == ["done: 0 of 2 steps ran, 2 reused"]
    assert not list(flows.parent.glob("run.json*"))


def test_what_cannot_be_saved_is_saved_elsewhere(flows, capsys, monkeypatch):
    """Where the disk is full, what finished goes to another, and the command that is shown finds it there."""
    from june import _disk

    def write(descriptor: int, data: bytes) -> int:
        if broken and b"entry" in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data)

    def rename(source: str, target: str) -> None:
        if broken and target.endswith("run.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.replace(source, target)

    broken = [True]
    monkeypatch.setattr(_disk, "write", write)
    monkeypatch.setattr(_disk, "rename", rename)
    monkeypatch.setattr(tempfile, "tempdir", str(flows.parent))
    assert main(["run", "flows_for_cli.py:words", "--input", "service=web", "--resume", "run.json"]) == 1
    *_, first, last = capsys.readouterr().err.splitlines()
    assert first == (
        "run.json.journal cannot be written: No space left on device (0 of 2 steps done; the error's snapshot() "
        "has all that finished)"
    )
    shown = re.fullmatch(
        r"what finished is saved in (.*); once run.json can be written: mv (.*) run.json && june (.*)", last
    )
    assert shown is not None
    assert list(Snapshot.load(shown[1])) == ["plan"]
    broken.clear()
    os.replace(shlex.split(shown[2])[0], "run.json")
    assert main(shlex.split(shown[3])) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "done: 1 of 2 steps ran, 1 reused"


def test_a_snapshot_to_start_from_is_left_as_it_is(flows, capsys):
    """--snapshot is read, and not written to."""
    arguments = ["run", "flows_for_cli.py:plan", "--input", "service=web"]
    assert main([*arguments, "--resume", "run.json", "--keep"]) == 0
    before = flows.with_name("run.json").read_bytes()
    capsys.readouterr()
    assert main([*arguments, "--snapshot", "run.json"]) == 0
    assert capsys.readouterr().err.splitlines() == ["done: 0 of 1 steps ran, 1 reused"]
    assert flows.with_name("run.json").read_bytes() == before
    assert main([*arguments, "--snapshot", "no.json"]) == 2
    assert capsys.readouterr().err == "june run: --snapshot no.json: No such file or directory\n"


def test_a_file_in_use_is_left_alone(flows, capsys):
    """While one run saves to a file, another one with it ends at once, and says who has it."""
    flows.write_text(
        flows.read_text()
        + """
@step(id="again")
def again(number: int) -> int:
    from june.cli import main
    return main(["run", "flows_for_cli.py:half", "--input", "number=1", "--resume", "run.json"])
"""
    )
    assert main(["run", "flows_for_cli.py:again", "--input", "number=1", "--resume", "run.json"]) == 0
    said = capsys.readouterr()
    assert said.out == "2\n"
    assert (
        f"june run: run.json is in use by another run in this process, {os.getpid()}; wait for it, or save to another file\n"
        in said.err
    )


def test_a_whole_file_runs_what_nothing_else_needs(flows, capsys):
    """Without a step, the steps are run that no other step takes from."""
    flows.write_text(flows.read_text().split('@step(id="broken")')[0])
    assert main(["run", "flows_for_cli.py", "--input", "service=web", "--input", "number=3"]) == 0
    said = capsys.readouterr()
    assert said.out == '[\n  "Plan",\n  "web",\n  "on",\n  "2026-01-01"\n]\n1.5\n'
    assert "half: halving" in said.err


def test_help_and_nothing(capsys):
    """--help is exit code 0, and no command is wrong usage."""
    assert main(["--help"]) == 0
    assert main([]) == 2
    assert main(["run"]) == 2


def test_it_can_be_started_as_a_module(flows):
    """``python -m june`` is the same command."""
    done = subprocess.run(
        [sys.executable, "-m", "june", "run", "flows_for_cli.py:half", "--input", "number=3", "--quiet"],
        capture_output=True, text=True, check=True, cwd=flows.parent,
    )  # fmt: skip
    assert done.stdout == "1.5\n"


ASKING = """
from june import Agent, step, tool
from june.messages import ToolCall, Usage
from june.testing import ScriptedModel

@tool(approval=True)
def pay(amount: int) -> str:
    \"\"\"Pay.\"\"\"
    return "paid"

model = ScriptedModel(
    [[ToolCall(id="1", name="pay", arguments='{"amount": 3}')], "done"],
    usage=Usage(requests=1, input_tokens=20, output_tokens=1),
)

@step(id="buy", agent=Agent(model, tools=[pay]), approval="Really?")
def buy(what: str) -> str:
    return what
"""


@pytest.fixture
def asking(flows):
    """A file with a step and a tool that ask."""
    flows.write_text(ASKING)
    return ["run", "flows_for_cli.py:buy", "--input", "what=tea"]


def test_yes_approves_all(asking, capsys):
    """--yes says what it approved; the line of a prompt step has its tokens."""
    assert main([*asking, "--yes"]) == 0
    said = capsys.readouterr()
    assert said.out == "done\n"
    lines = said.err.splitlines()
    assert lines[:2] == ["buy: Really? yes, as --yes says", "buy/pay[1]: Call pay? yes, as --yes says"]
    assert re.fullmatch(r"buy: done in .*, 42 tokens", lines[2])


def test_without_a_terminal_it_is_no(asking, capsys, monkeypatch):
    """Nobody can be asked where input is no terminal."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert main(asking) == 1
    assert (
        "step 'buy' was rejected: there is no terminal to ask at; --yes approves all"
        in capsys.readouterr().err
    )


def test_all_that_a_yes_is_for_is_shown(asking, capsys, monkeypatch):
    """However long, and whatever letters it has, nothing of what will run is hidden."""
    long = "ls " + "-" * 5000 + "\x1b[2K; rm"
    asking[-1] = f"what={long}"
    terminal = io.StringIO("yes\nyes\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert main(asking) == 0
    assert f"\n  what = {long!r}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "code", "rejected"),
    [
        ("yes\ny\n", 0, ""),
        ("y\nno\n", 1, "the call of tool 'pay'"),
        ("N\n", 1, "step 'buy'"),
        ("", 1, "step 'buy'"),
        ("\nof course\nYes\ny\n", 0, ""),
    ],
)
def test_the_terminal_is_asked(asking, capsys, monkeypatch, typed, code, rejected):
    """Each request is shown with what it is about, until the answer is yes or no; the end of input is no."""
    terminal = io.StringIO(typed)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert main(asking) == code
    err = capsys.readouterr().err
    assert "buy asks: Really?\n  what = 'tea'\nyes or no? " in err
    assert err.count("yes or no? ") == max(1, len(typed.splitlines()))
    if rejected:
        assert rejected in err and "was rejected: no was the answer" in err
    else:
        assert "buy/pay[1] asks: Call pay?\n  amount = 3\nyes or no? " in err


async def test_a_question_that_is_taken_back_takes_no_answer_with_it(capsys, monkeypatch):
    """The thread that still reads for it hands on what is typed for the next one."""

    class Terminal:
        """Gives lines as they are typed."""

        def __init__(self) -> None:
            self.typed: queue.SimpleQueue[str] = queue.SimpleQueue()
            self.waits = threading.Semaphore(0)

        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            raise io.UnsupportedOperation

        def readline(self) -> str:
            self.waits.release()
            return self.typed.get(timeout=30)

    def about(id: str) -> ApprovalRequest:
        return ApprovalRequest(id=id, step=id, question="Really?", arguments={}, key="")

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdin", terminal)
    asker = _Asker()

    async def answer(id: str, line: str) -> None:
        while f"{id} asks" not in capsys.readouterr().err:
            await trio.lowlevel.checkpoint()
        terminal.typed.put(line)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(asker.ask, about("first"))
        await trio.to_thread.run_sync(terminal.waits.acquire, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, "second", "yes\n")
        assert await asker.ask(about("second")) is True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, "third", "no\n")
        assert await asker.ask(about("third")) == "no was the answer"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_what_was_typed_before_a_question_is_no_answer(asking, tmp_path):
    """A second key press, or a pasted line, approves nothing that has not been shown."""
    import pty

    ours, theirs = pty.openpty()
    os.write(ours, b"y\ny\n")
    command = [sys.executable, "-m", "june", *asking]
    process = subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stderr is not None
        said = b""
        for typed in (b"yes\n", b"no\n"):
            while not said.endswith(b"yes or no? "):
                said += process.stderr.read(1)
            os.write(ours, typed)
            said += b"\n"
        assert (
            b"the call of tool 'pay' in step 'buy' was rejected: no was the answer" in process.stderr.read()
        )
        assert process.wait() == 1
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
        os.close(theirs)
