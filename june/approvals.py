"""
Approvals: steps and tools that wait for a person.

An answer is bound to one request, for exactly what that request shows, and is used once.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from june._text import near, short_repr
from june.errors import ApprovalRejected

__all__ = ["ApprovalRequest"]


@attrs.frozen(kw_only=True, eq=False)
class ApprovalRequest:
    """
    Something that a person is to say yes or no to.

    Attributes:
        id: What names it: the step's id, or the step's id and the tool's name with a number.
        step: The id of the step.
        question: What to ask.
        tool: The name of the tool that a model wants to call, or None where it is the step itself.
        arguments: What the step, or the tool, is going to be called with, by parameter.
        key: The digest that the answer is bound to: the step's cache key, or the tool with its arguments.
    """

    id: str
    step: str
    question: str
    tool: str | None = None
    arguments: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    key: str = ""


OnApproval = Callable[[ApprovalRequest], Any]


_YES = frozenset({"y", "yes", "ok", "true"})
"""Texts that nobody means as a reason against something."""


class Pending:
    """
    A request that waits for its answer.

    Attributes:
        request: The request.
        answered: Set on the event loop some time after it is answered by a handle.
        asking: Around the wait for ``on_approval``, and cancelled then, too.
        verdict: None, True, or the rejection: the first answer counts.
    """

    __slots__ = ("answered", "asking", "request", "verdict")

    def __init__(self, request: ApprovalRequest) -> None:
        self.request = request
        self.answered = trio.Event()
        self.asking = trio.CancelScope()
        self.verdict: ApprovalRejected | bool | None = None

    def wake(self) -> None:
        """Have whoever waits look at the verdict."""
        self.answered.set()
        self.asking.cancel()


class Desk:
    """
    Where one run's requests wait for their answers. `requests` and `answer` are for any thread.

    Attributes:
        attended: Whether somebody has the run's handle, and could answer by it.
        on_approval: Asked first, or None.
    """

    def __init__(self, on_approval: OnApproval | None) -> None:
        self.attended = False
        self.on_approval = on_approval
        self._pending: dict[str, Pending] = {}
        self._lock = threading.Lock()
        self._token: trio.lowlevel.TrioToken | None = None

    @property
    def requests(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait, the oldest first."""
        with self._lock:
            return tuple(one.request for one in self._pending.values())

    def open(self, request: ApprovalRequest) -> Pending:
        """Take a request in; from here on it can be answered."""
        self._token = trio.lowlevel.current_trio_token()
        pending = Pending(request)
        with self._lock:
            self._pending[request.id] = pending
        return pending

    def withdraw(self, pending: Pending) -> None:
        """Take a request back that nobody need answer any more."""
        with self._lock:
            if self._pending.get(pending.request.id) is pending:
                del self._pending[pending.request.id]

    async def wait(self, pending: Pending) -> None:
        """
        Wait for the answer to a request.

        Raises:
            ApprovalRejected: If it is no, or there is nobody to ask.
            Exception: Whatever ``on_approval`` raises.
        """
        try:
            if self.on_approval is not None:
                await self._consult(pending, self.on_approval)
            if pending.verdict is None and not self.attended:
                nobody = "there is nobody to ask: pass on_approval="
                if self.on_approval is not None:
                    nobody = "on_approval left it to a handle that nobody has: return True or False"
                raise ApprovalRejected(
                    f"{_subject(pending.request)} waits for approval, and {nobody}, or start the run with "
                    "start() or open_run() and answer with handle.approve()"
                )
            if pending.verdict is None:
                await pending.answered.wait()
        finally:
            self.withdraw(pending)
        if isinstance(pending.verdict, ApprovalRejected):
            raise pending.verdict

    async def _consult(self, pending: Pending, on_approval: OnApproval) -> None:
        answer = on_approval(pending.request)
        if inspect.isawaitable(answer):
            found = None
            with pending.asking:
                try:
                    found = await answer
                except Exception:
                    if pending.verdict is None:
                        raise
            answer = found
        if answer is None or pending.verdict is not None:
            # The handle, too, may have answered.
            return
        says_yes = isinstance(answer, str) and answer.strip().lower() in _YES
        if says_yes or not isinstance(answer, (bool, str)):
            raise TypeError(
                f"on_approval returned {short_repr(answer)}, which is neither True nor False, nor a text "
                "that says why not, nor None, which leaves it to the run's handle"
            )
        reason = answer if isinstance(answer, str) else ""
        self._settle(pending, answer is True or _rejected(pending.request, reason))

    def _settle(self, pending: Pending, verdict: ApprovalRejected | bool) -> bool:
        """Answer a request, unless it is answered; an answer is used once."""
        with self._lock:
            if pending.verdict is not None:
                return False
            pending.verdict = verdict
            if self._pending.get(pending.request.id) is pending:
                del self._pending[pending.request.id]
            return True

    def answer(self, which: ApprovalRequest | str, yes: bool, reason: str = "") -> None:
        """
        Answer a request.

        Args:
            which: The request, or its id.
            yes: Whether to let it go on.
            reason: Why not.

        Raises:
            KeyError: If no such request waits, as one that was answered does not.
        """
        id = which.id if isinstance(which, ApprovalRequest) else which
        with self._lock:
            pending = self._pending.get(id)
        # A request that was asked anew under the same id is another one.
        if pending is not None and isinstance(which, ApprovalRequest) and pending.request is not which:
            pending = None
        if pending is None or not self._settle(pending, yes or _rejected(pending.request, reason)):
            hint = near(str(id), [one.id for one in self.requests])
            raise KeyError(
                f"no request {id!r} waits for approval" + (f"; did you mean {hint[0]!r}?" if hint else "")
            )
        assert self._token is not None  # set before anything waits
        try:
            self._token.run_sync_soon(pending.wake)
        except trio.RunFinishedError:
            pass


def _subject(request: ApprovalRequest) -> str:
    if request.tool is None:
        return f"step {request.step!r}"
    return f"the call of tool {request.tool!r} in step {request.step!r}"


def _rejected(request: ApprovalRequest, reason: str) -> ApprovalRejected:
    return ApprovalRejected(f"{_subject(request)} was rejected" + (f": {reason}" if reason else ""))
