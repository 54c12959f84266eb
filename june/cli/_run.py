"""
``june run``.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import tempfile
import threading
from typing import Any

import msgspec
import trio

from june._text import duration
from june.approvals import ApprovalRequest
from june.cli._targets import UsageError, find, own_traceback, parse_inputs
from june.errors import GraphError, InputError, RunCancelled, RunFailed, RunInterrupted, SnapshotError
from june.handles import RunResult
from june.interrupts import LeftAtOnce, sigterm_as_ctrl_c
from june.running import RunOptions, run, run_resumable_then
from june.snapshots import Snapshot
from june.traces import SETTLED, Trace, Update


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run", help="run the steps of a file or module", description="Run the steps of a file or module."
    )
    parser.add_argument(
        "target", metavar="FILE.py[:STEP]|MODULE[:STEP]", help="what to run; without STEP, all that it has"
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=VALUE", help="give an input (repeatable)"
    )
    parser.add_argument(
        "--resume",
        metavar="PATH",
        help="reuse finished steps from PATH if it exists, and save there as steps finish; "
        "a run that succeeds removes it",
    )
    parser.add_argument("--keep", action="store_true", help="keep PATH of --resume after success, too")
    parser.add_argument(
        "--snapshot", metavar="PATH", help="reuse finished steps from PATH, too, and leave it as it is"
    )
    parser.add_argument(
        "--refresh", action="append", default=[], metavar="ID", help="run a step again (repeatable)"
    )
    parser.add_argument("--concurrency", type=int, default=16, metavar="N", help="steps at once (16)")
    parser.add_argument("--yes", action="store_true", help="approve whatever asks for approval")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run what was asked for, print its result, and give the exit code."""
    try:
        with sigterm_as_ctrl_c():
            _run(arguments)
    except (GraphError, InputError, SnapshotError, UsageError, ValueError) as error:
        # The library speaks of its own arguments.
        _say("june run: " + re.sub(r"pass inputs=\{'(\w+)': \.\.\.\}", r"pass --input \1=VALUE", str(error)))
        return 2
    except (RunFailed, RunCancelled) as error:
        return _ended(error, arguments)
    except _NotPrinted as error:
        return _not_printed(error, arguments)
    except KeyboardInterrupt:
        _say("interrupted before anything ran")
        return 130
    return 0


def _run(arguments: argparse.Namespace) -> None:
    wanted = find(arguments.target)
    if arguments.keep and arguments.resume is None:
        raise UsageError("--keep goes with --resume PATH, which says what to keep")
    options: RunOptions = {
        "inputs": parse_inputs(arguments.input, wanted),
        "refresh": arguments.refresh,
        "concurrency": arguments.concurrency,
        "on_update": None if arguments.quiet else _show,
        "on_approval": _approve_all if arguments.yes else _Asker().ask,
    }
    if arguments.snapshot is not None:
        options["snapshot"] = _load(arguments.snapshot)

    def hand_over(result: RunResult[Any]) -> None:
        if not arguments.quiet:
            _say(_summary(result))
        try:
            _print(result.result if not wanted.single else (result.result,))
            if sys.stdout is not None:
                sys.stdout.flush()
        except KeyboardInterrupt:
            raise _NotPrinted("interrupted", result.trace, 130) from None
        except Exception as error:
            _silence_output()
            reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            raise _NotPrinted(reason, result.trace, 1) from None

    if arguments.resume is None:
        hand_over(run(wanted, **options))
    else:
        # The file goes, if it is to, when the result is printed.
        run_resumable_then(hand_over, wanted, path=arguments.resume, keep=arguments.keep, options=options)


class _NotPrinted(Exception):
    """The result is there, and could not be printed."""

    def __init__(self, reason: str, trace: Trace, code: int) -> None:
        super().__init__(reason)
        self.trace = trace
        self.code = code


def _not_printed(error: _NotPrinted, arguments: argparse.Namespace) -> int:
    if arguments.resume is None:
        _say(f"june run: the result could not be printed: {error}. {_lost(error.trace)}")
    else:
        again = _same_command(arguments, error.trace)
        _say(f"june run: the result could not be printed: {error}; to print it, run: {again}")
    return error.code


def _silence_output() -> None:
    """Keep Python from trying once more, at its end, to write what could not be written."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        # It is no file.
        pass


def _load(path: str) -> Snapshot:
    try:
        return Snapshot.load(path)
    except OSError as error:
        raise UsageError(f"--snapshot {path}: {error.strerror}") from None


def _approve_all(request: ApprovalRequest) -> bool:
    _say(f"{request.id}: {request.question} yes, as --yes says")
    return True


def _whole(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class _Asker:
    """Asks for approvals at the terminal, one after the other."""

    def __init__(self) -> None:
        self._turn = trio.Lock()
        self._question: object = None
        # One thread at a time reads. One whose question was taken back still does, and what it reads then is
        # the answer to the question after that.
        self._reading = threading.Lock()
        self._line: str | None = None

    async def ask(self, request: ApprovalRequest) -> bool | str:
        if sys.stdin is None or not sys.stdin.isatty():
            return "there is no terminal to ask at; --yes approves all"
        async with self._turn:
            # All of it: a yes is for what is shown.
            _forget_typed()
            self._question, self._line = request, None
            shown = "".join(f"\n  {name} = {_whole(value)}" for name, value in request.arguments.items())
            _say(f"{request.id} asks: {request.question}{shown}")
            answer = await trio.to_thread.run_sync(self._read_answer, request, abandon_on_cancel=True)
        return answer or "no was the answer"

    def _read_answer(self, question: object) -> bool:
        """Ask until there is an answer; the end of the input is no."""
        while True:
            sys.stderr.write("yes or no? ")
            sys.stderr.flush()
            line = self._read_line(question)
            answer = line.strip().lower()
            if not line:
                sys.stderr.write("\n")
            if not line or answer in ("y", "yes", "n", "no"):
                return answer in ("y", "yes")

    def _read_line(self, question: object) -> str:
        with self._reading:
            line, self._line = self._line, None
            if line is None and self._question is question:
                line = sys.stdin.readline()
                if self._question is not question:
                    self._line = line
        return line or ""


def _forget_typed() -> None:
    """Throw away what was typed before there was a question: it is no answer to it."""
    try:
        import termios
    except ImportError:  # not on Windows
        return
    try:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    except (OSError, ValueError, termios.error):
        pass  # it is no terminal any more


def _show(update: Update) -> None:
    """Write a line to standard error for each step that ends, and for each note."""
    node = update.node
    if update.kind == "note":
        _say(f"{node.id}: {update.text}")
    elif update.kind == "status" and node.status in SETTLED and not node.resumed:
        took = "" if node.duration is None else f" in {duration(node.duration)}"
        if node.usage is not None:
            took += f", {node.usage.input_tokens + node.usage.output_tokens} tokens"
        # That there is nothing saved is no news, above all where no snapshot was given.
        tells = node.status in ("skipped", "blocked", "done") and node.reason != "no saved result"
        _say(f"{node.id}: {node.status}{took}" + (f" ({node.reason})" if tells and node.reason else ""))


def _summary(result: RunResult[Any]) -> str:
    nodes = result.trace.nodes
    ran = sum(1 for node in nodes if node.status == "done" and not node.resumed)
    resumed = sum(1 for node in nodes if node.resumed)
    return f"done: {ran} of {len(nodes)} steps ran, {resumed} reused"


def _print(values: tuple[Any, ...]) -> None:
    for one in values:
        if isinstance(one, str):
            print(one)
        elif one is not None:
            try:
                print(msgspec.json.format(msgspec.json.encode(one), indent=2).decode())
            except (TypeError, ValueError):
                print(repr(one))


def _ended(error: RunFailed | RunCancelled, arguments: argparse.Namespace) -> int:
    """Say how a run ended that did not succeed, and what became of what had finished."""
    text = error.message if isinstance(error, RunFailed) else str(error)
    unwritten = False
    failures = error if isinstance(error, RunFailed) else error.__cause__
    for one in failures.exceptions if isinstance(failures, RunFailed) else ():
        # That the file cannot be written stands in the text.
        if isinstance(one, SnapshotError):
            unwritten = True
        elif isinstance(error, RunFailed):
            _say(own_traceback(one))
    if arguments.resume is None:
        _say(text)
        if lost := _lost(error.trace):
            _say(lost)
    elif unwritten:
        _say(text)
        _rescue(error, arguments)
    else:
        # That it is saved goes without saying here.
        text = text.removesuffix(f", saved in {arguments.resume}")
        _say(f"{text}; resume with: {_same_command(arguments, error.trace)}")
    if isinstance(error.__cause__, LeftAtOnce):
        # Without waiting for threads that steps have started, or for what they would still do or say.
        sys.stdout.flush()
        os._exit(130)
    return 130 if isinstance(error, RunInterrupted) else 1


def _lost(trace: Trace) -> str:
    done = sum(1 for node in trace if node.status == "done")
    steps = "1 finished step is" if done == 1 else f"{done} finished steps are"
    return f"{steps} lost; pass --resume PATH to keep them the next time" if done else ""


def _rescue(error: RunFailed | RunCancelled, arguments: argparse.Namespace) -> None:
    """Put what finished somewhere else, where it could not be saved where it was to be."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="june-", suffix=".json")
        os.close(descriptor)
        error.snapshot().save(path)
    except OSError as problem:
        _say(f"nor can it be saved elsewhere: {problem.strerror or problem}")
        return
    moved = shlex.join(["mv", path, arguments.resume])
    again = _same_command(arguments, error.trace)
    _say(f"what finished is saved in {path}; once {arguments.resume} can be written: {moved} && {again}")


def _same_command(arguments: argparse.Namespace, trace: Trace) -> str:
    """The command that goes on from there; what was to be refreshed and has run is not run again."""
    words = ["june", "run", arguments.target]
    for one in arguments.input:
        words += ["--input", one]
    for id in arguments.refresh:
        named = [node for node in trace if id in (node.id, node.step)]
        left = [node for node in named if node.status != "done" or node.resumed]
        for one in [id] if len(left) == len(named) else [node.id for node in left]:
            words += ["--refresh", one]
    if arguments.concurrency != 16:
        words += ["--concurrency", str(arguments.concurrency)]
    words += ["--resume", arguments.resume]
    if arguments.snapshot is not None:
        words += ["--snapshot", arguments.snapshot]
    words += ["--yes"] * arguments.yes
    words += ["--keep"] * arguments.keep + ["--quiet"] * arguments.quiet
    return shlex.join(words)


def _say(text: str) -> None:
    # In one piece, as other threads may write there too.
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # The terminal is gone, say, or there is none. The steps are worth more than what is said of them.
        pass
