"""
Ctrl-C once, Ctrl-C twice and SIGTERM, in processes of their own.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from june import Snapshot

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.slow,  # each test starts other processes
    pytest.mark.skipif(os.name != "posix", reason="signals are sent"),
]

FLOW = """
import sys
import time
import trio
from june import run_resumable, step

def say(text):
    print(text, flush=True)

@step(id="quick")
async def quick() -> int:
    return 1

@step(id="slow")
async def slow(quick: int, how: str) -> int:
    try:
        say("ready")
        await trio.sleep_forever()
    finally:
        say("cancelled")
        with trio.CancelScope(shield=how != "willing"):
            if how == "blocking":
                await trio.to_thread.run_sync(time.sleep, 3600)
            elif how == "spinning":
                while True:
                    pass
            await trio.sleep_forever()

@step(id="blind")
def blind(quick: int) -> int:
    say("ready")
    time.sleep(0.3)
    return 1

@step(id="stuck", when=lambda how: say("ready") or time.sleep(3600))
async def stuck(how: str) -> int:
    return 1

@step(id="end")
def end(slow: int) -> int:
    return 1
"""

# Signals are let in again, which a pytest that a shell started in the background hands down as ignored.
START = """
import signal, sys
signal.signal(signal.SIGINT, signal.{handler})
sys.path.insert(0, "")
"""

JUNE = START + "from june.cli import main; sys.exit(main())"

SCRIPT = (
    START.replace("{handler}", "default_int_handler")
    + """
from flow import *
from june import RunInterrupted
try:
    run_resumable(end, path="run.json", inputs={"how": sys.argv[1]})
except RunInterrupted as interrupted:
    say(f"{interrupted}, {signal.getsignal(signal.SIGINT) is signal.default_int_handler}")
    say(run_resumable(quick, path="run.json").trace.node("quick").resumed)
"""
)


class Process:
    """A process that is sent signals when it says that it is ready for them."""

    def __init__(self, folder: Path, program: str, *arguments: str) -> None:
        (folder / "flow.py").write_text(textwrap.dedent(FLOW))
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def send_when(self, line: str, number: signal.Signals) -> None:
        assert self.line() == f"{line}\n"
        self.process.send_signal(number)

    def send_until_over(self, number: signal.Signals) -> None:
        """Send it again and again: nothing tells when one has arrived, and two at once are one."""
        while True:
            self.process.send_signal(number)
            try:
                self.process.wait(timeout=0.12)
                return
            except subprocess.TimeoutExpired:
                pass

    def end(self) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        return self.process.returncode, out, err


def june(folder: Path, how: str, *more: str, handler: str = "default_int_handler") -> Process:
    """Start ``june run``."""
    target = "flow.py:stuck" if how == "stuck" else "flow.py:end"
    return Process(folder, JUNE.replace("{handler}", handler), "run", target, "--input", f"how={how}", *more)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_once_saves_and_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    """What runs is cancelled, what has finished is in the file, and the exit code is 130."""
    process = june(tmp_path, "willing", "--resume", "my run.json")
    process.send_when("ready", number)
    code, out, err = process.end()
    assert (code, out) == (130, "cancelled\n")
    shown = re.search(
        r"^interrupted: 1 of 3 steps done; resume with: june run (.*)$", err, flags=re.MULTILINE
    )
    assert shown is not None
    assert shlex.split(shown[1]) == ["flow.py:end", "--input", "how=willing", "--resume", "my run.json"]
    assert sorted(path.name for path in tmp_path.glob("my*")) == ["my run.json"]
    assert list(Snapshot.from_json((tmp_path / "my run.json").read_bytes())) == ["quick"]


@pytest.mark.parametrize("attempt", range(4))
def test_once_saves_where_a_thread_runs(tmp_path: Path, attempt: int) -> None:
    """The interrupt finds the event loop waiting for a thread, and the file is brought up to date all the same."""
    process = Process(
        tmp_path,
        JUNE.replace("{handler}", "default_int_handler"),
        "run",
        "flow.py:blind",
        "--resume",
        "run.json",
    )
    process.send_when("ready", signal.SIGINT)
    code, _, err = process.end()
    assert (code, err.splitlines()[-1]) == (
        130, "interrupted: 1 of 2 steps done; resume with: june run flow.py:blind --resume run.json",
    )  # fmt: skip
    assert [path.name for path in tmp_path.glob("run*")] == ["run.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["unwilling", "blocking", "spinning"])
def test_twice_leaves_at_once(tmp_path: Path, how: str, number: signal.Signals) -> None:
    """Whatever a step does to hold on, the second one ends the process, and what was saved is intact."""
    process = june(tmp_path, how, "--resume", "run.json")
    process.send_when("ready", number)
    assert process.line() == "cancelled\n"
    process.send_until_over(number)
    code, _, err = process.end()
    assert code == 130
    assert err.splitlines()[-1].startswith(
        "interrupted: 1 of 3 steps done; resume with: june run flow.py:end "
    )
    assert "Traceback" not in err
    assert list(Snapshot.load(tmp_path / "run.json")) == ["quick"]


def test_two_at_once_are_one(tmp_path: Path) -> None:
    """``timeout`` signals a process and then its group: that is one interrupt, which is seen through."""
    process = june(tmp_path, "willing", "--resume", "run.json")
    process.send_when("ready", signal.SIGTERM)
    process.process.send_signal(signal.SIGINT)
    code, out, err = process.end()
    assert (code, out) == (130, "cancelled\n")
    assert [path.name for path in tmp_path.glob("run*")] == ["run.json"], err


def test_a_condition_that_blocks_is_left_too(tmp_path: Path) -> None:
    """``when`` and the like run on the event loop itself, which hears of nothing meanwhile."""
    process = june(tmp_path, "stuck", "--resume", "run.json")
    process.send_when("ready", signal.SIGINT)
    process.send_until_over(signal.SIGINT)
    code, _, err = process.end()
    assert code == 130
    assert err.splitlines()[-1].startswith("interrupted: 0 of 1 steps done")


def test_sigterm_is_heard_where_ctrl_c_is_not(tmp_path: Path) -> None:
    """A shell's background jobs ignore Ctrl-C; they still stop in good order."""
    process = june(tmp_path, "willing", "--resume", "run.json", handler="SIG_IGN")
    process.send_when("ready", signal.SIGTERM)
    code, out, err = process.end()
    assert (code, out) == (130, "cancelled\n")
    assert "interrupted: 1 of 3 steps done" in err
    assert list(Snapshot.from_json((tmp_path / "run.json").read_bytes())) == ["quick"]


def test_before_anything_ran_it_says_so(tmp_path: Path) -> None:
    """While the file of the steps is imported, an interrupt is no traceback."""
    process = june(tmp_path, "willing")
    (tmp_path / "flow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(3600)\n")
    process.send_when("ready", signal.SIGTERM)
    assert process.end() == (130, "", "interrupted before anything ran\n")


def test_without_a_file_it_says_what_is_lost(tmp_path: Path) -> None:
    """Plain ``june run`` says how to keep finished steps the next time."""
    process = june(tmp_path, "willing")
    process.send_when("ready", signal.SIGTERM)
    code, _, err = process.end()
    assert code == 130
    assert err.splitlines()[-2:] == [
        "interrupted: 1 of 3 steps done",
        "1 finished step is lost; pass --resume PATH to keep them the next time",
    ]


@pytest.mark.parametrize("how", ["willing", "unwilling", "blocking", "spinning"])
def test_a_script_goes_on_after_it(tmp_path: Path, how: str) -> None:
    """In a program of the user's, the error comes at once, the file is free, and Ctrl-C is what it was."""
    process = Process(tmp_path, SCRIPT, how)
    process.send_when("ready", signal.SIGINT)
    if how != "willing":
        assert process.line() == "cancelled\n"
        process.send_until_over(signal.SIGINT)
    _, out, _ = process.end()
    lines = [line for line in out.splitlines() if line != "cancelled"]
    # Whether there was still time to write the file anew depends on where a step is hit.
    saved = ["interrupted: 1 of 3 steps done, saved in run.json, True", "True"]
    assert lines == saved or (how != "willing" and lines == ["interrupted: 1 of 3 steps done, True", "True"])
