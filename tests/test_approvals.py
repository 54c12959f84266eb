"""Approvals: what waits for a person, how it is answered, and what an answer is bound to."""

from __future__ import annotations

import random
import threading
from contextlib import nullcontext
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from june import (
    Agent,
    ApprovalRejected,
    ApprovalRequest,
    RunCancelled,
    RunFailed,
    StepTimeoutError,
    open_run,
    run,
    run_async,
    start,
    step,
    tool,
)
from june.messages import ToolCall
from june.testing import ScriptedModel


@step(id="deploy", approval="Deploy to production?")
async def deploy(service: str) -> str:
    return f"deployed {service}"


WEB = {"inputs": {"service": "web"}}


@tool(approval=True)
async def pay(amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount}"


def buyer(*amounts: int, **options: Any) -> Any:
    answers: list[Any] = [
        [
            ToolCall(id=str(number), name="pay", arguments=f'{{"amount": {amount}}}')
            for number, amount in enumerate(amounts)
        ],
        "done",
    ]

    @step(id="buy", agent=Agent(ScriptedModel(answers), tools=[pay]), **options)
    def buy() -> str:
        return "Buy it."

    return buy


def test_on_approval_answers():
    """It is asked with what the step is going to run with, and True lets it."""
    asked = []

    def on_approval(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    assert run(deploy, **WEB, on_approval=on_approval).result == "deployed web"
    (request,) = asked
    assert (request.id, request.step, request.tool) == ("deploy", "deploy", None)
    assert request.question == "Deploy to production?" and request.arguments == {"service": "web"}
    assert request.key.startswith("step:")


@pytest.mark.parametrize(
    ("answer", "message"), [(False, "was rejected"), ("too late", "was rejected: too late")]
)
def test_a_rejected_step_fails(answer: Any, message: str):
    """`ApprovalRejected` says which step, and why; it has not run."""
    with pytest.raises(RunFailed) as failed:
        run(deploy, **WEB, on_approval=lambda request: answer)
    (error,) = failed.value.exceptions
    assert isinstance(error, ApprovalRejected) and str(error) == f"step 'deploy' {message}"
    assert failed.value.trace.node("deploy").attempts == 0


@pytest.mark.parametrize("answer", [1, 0, {}, "yes", "Y ", "ok", "true"])
def test_what_is_neither_yes_nor_no_is_an_error(answer: Any):
    """A text says why not; one that means yes would be a no without anybody noticing."""
    with pytest.raises(RunFailed) as failed:
        run(deploy, **WEB, on_approval=lambda request: answer)
    (error,) = failed.value.exceptions
    assert isinstance(error, TypeError) and str(error) == (
        f"on_approval returned {answer!r}, which is neither True nor False, nor a text that says why not, nor "
        "None, which leaves it to the run's handle"
    )


@pytest.mark.parametrize("seed", range(5))
async def test_the_calls_of_one_answer_are_asked_for_in_their_order(autojump_clock, seed: int):
    """A person reads them as the model wrote them."""
    asked: list[str] = []

    async def on_approval(request: ApprovalRequest) -> bool:
        asked.append(request.id)
        await trio.sleep(1)
        return True

    await run_async(buyer(1, 2, 3, 4, 5), on_approval=on_approval)
    assert asked == [f"buy/pay[{number}]" for number in range(1, 6)]


async def test_what_on_approval_gives_after_the_handle_counts_for_nothing(autojump_clock):
    """The request is answered; whatever comes then is late."""

    async def late(request: ApprovalRequest) -> Any:
        handle.approve(request)
        return "yes"

    async with open_run(deploy, **WEB, on_approval=late) as handle:
        pass
    assert handle.trace.node("deploy").status == "done"


def test_with_nobody_to_leave_it_to_it_fails_at_once():
    """None is for runs that somebody has the handle of."""
    with pytest.raises(RunFailed) as failed:
        run(deploy, **WEB, on_approval=lambda request: None)
    assert str(failed.value.exceptions[0]).startswith(
        "step 'deploy' waits for approval, and on_approval left it to a handle that nobody has: return True or False"
    )


@pytest.mark.parametrize("is_tool", [False, True])
async def test_a_timeout_does_not_run_while_somebody_is_asked(autojump_clock, is_tool: bool):
    """It is for the step's work; how long a person takes is the run's deadline's business."""

    async def on_approval(request: ApprovalRequest) -> bool:
        await trio.sleep(1000)
        return True

    async def work() -> str:
        """Work."""
        await trio.sleep(4)
        return "done"

    def target(timeout: float) -> Any:
        if not is_tool:
            return step(id="ask", approval=True, timeout=timeout)(work)
        calls = [ToolCall(id=str(number), name="work", arguments="{}") for number in range(2)]
        agent = Agent(ScriptedModel([calls, calls[:1], "done"]), tools=[tool(approval=True)(work)])
        return step(id="ask", agent=agent, timeout=timeout)(lambda: "go")

    # Two calls at once and one after them take 8 seconds.
    enough, little = (10, 7) if is_tool else (5, 3)
    assert (await run_async(target(enough), on_approval=on_approval)).result == "done"
    with pytest.raises(RunFailed) as failed:
        await run_async(target(little), on_approval=on_approval)
    assert isinstance(failed.value.exceptions[0], StepTimeoutError)


def test_with_nobody_to_ask_it_fails_at_once():
    """A run that nobody has a handle of does not hang."""
    with pytest.raises(RunFailed) as failed:
        run(deploy, **WEB)
    assert str(failed.value.exceptions[0]) == (
        "step 'deploy' waits for approval, and there is nobody to ask: pass on_approval=, or start the run with "
        "start() or open_run() and answer with handle.approve()"
    )


def test_a_resumed_step_asks_nothing():
    """What was approved and finished is done."""
    first = run(deploy, **WEB, on_approval=lambda request: True)
    assert run(deploy, **WEB, snapshot=first).trace.node("deploy").resumed


def test_approval_is_in_no_key():
    """Whether a step waits for a person changes nothing in what it gives."""

    def declared(**options: Any) -> Any:
        @step(id="deploy", **options)
        async def deploy(service: str) -> str:
            return f"deployed {service}"

        return deploy

    first = run(declared(approval=True), **WEB, on_approval=lambda request: True)
    assert run(declared(), **WEB, snapshot=first).trace.node("deploy").resumed


async def test_a_waiting_step_holds_no_slot(autojump_clock):
    """Others run while it waits, with one slot for all; the handle answers, and an answer is used once."""

    @step(id="work")
    async def work() -> int:
        await trio.sleep(10)
        return 1

    async with open_run([deploy, work], **WEB, concurrency=1) as handle:
        await trio.sleep(5)
        assert {node.id: node.status for node in handle.trace} == {"deploy": "waiting", "work": "running"}
        (request,) = handle.approvals
        handle.approve(request)
        with pytest.raises(KeyError, match="no request 'deploy' waits for approval"):
            handle.approve(request)
        await trio.sleep(20)
        assert handle.trace.node("deploy").status == "done"
    assert handle.approvals == ()


def test_a_handle_answers_from_any_thread():
    """`start` gives a handle, whose ``approve`` and ``reject`` take a request or its id."""
    with start(deploy, **WEB) as handle:
        while not handle.approvals:
            pass
        handle.approve("deploy")
        assert handle.wait().result == "deployed web"
    handle = start(deploy, **WEB)
    while not handle.approvals:
        pass
    handle.reject(handle.approvals[0], "not today")
    with pytest.raises(RunFailed) as failed:
        handle.wait()
    assert str(failed.value.exceptions[0]) == "step 'deploy' was rejected: not today"


async def test_on_approval_may_leave_it_to_the_handle(autojump_clock):
    """None is no answer; it may be async, and other requests wait beside it."""
    told = []

    async def on_approval(request: ApprovalRequest) -> None:
        await trio.sleep(3)
        told.append(request.id)

    async with open_run(deploy, **WEB, on_approval=on_approval) as handle:
        await trio.sleep(5)
        assert told == ["deploy"]
        handle.approve("deploy")


async def test_cancelling_ends_the_wait_for_on_approval(autojump_clock):
    """The step was cancelled, whatever groups trio makes of that; it has not failed."""

    async def on_approval(request: ApprovalRequest) -> bool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
        return True

    for target in (deploy, buyer(3)):
        inputs = WEB["inputs"] if target is deploy else {}
        with trio.move_on_after(5):
            async with open_run(target, inputs=inputs, on_approval=on_approval) as handle:
                pass
        (node,) = handle.trace
        assert node.status == "aborted", node


async def test_cancelling_ends_the_wait():
    """Neither a cancelled run nor one that drains waits for a person."""

    @step(id="fails")
    async def fails() -> int:
        await wait_all_tasks_blocked()
        raise ValueError("no")

    with pytest.raises(RunFailed) as failed:
        async with open_run([deploy, fails], **WEB):
            pass
    assert failed.value.trace.node("deploy").status == "queued"

    async with open_run(deploy, **WEB) as handle:
        await wait_all_tasks_blocked()
        handle.cancel()
        with pytest.raises(Exception, match="the run was cancelled"):
            await handle


async def test_asking_takes_no_slot(autojump_clock):
    """A person is asked as soon as a step has all it takes, however long others hold the slots."""

    @step(id="slow")
    async def slow() -> int:
        await trio.sleep(100)
        return 1

    begun = trio.current_time()
    async with open_run([slow, approved("a", limit="one")], concurrency=1, limits={"one": 1}) as handle:
        await trio.sleep(1)
        handle.approve("a")
        await trio.sleep(1)
        assert handle.trace.node("a").status == "queued"
    assert trio.current_time() - begun == 100 and handle.trace.node("a").status == "done"


@pytest.mark.parametrize("how", ["cancel", "deadline", "failure"])
async def test_nothing_is_asked_once_the_run_is_over(autojump_clock, how: str):
    """Whatever ended it, there is nothing left to approve."""

    @step(id="fails")
    async def fails() -> int:
        if how != "failure":
            await trio.sleep_forever()
        raise ValueError("no")

    handles = []
    ends = {"cancel": RunCancelled, "failure": RunFailed}
    expected = pytest.raises(ends[how]) if how in ends else nullcontext()
    with trio.move_on_after(0 if how == "deadline" else 5) as scope, expected:
        async with open_run([deploy, buyer(3), fails], **WEB, on_error="cancel") as handle:
            handles.append(handle)
            if how == "cancel":
                handle.cancel()
    assert scope.cancelled_caught == (how == "deadline")
    assert handles[0].approvals == ()
    with pytest.raises(KeyError):
        handles[0].approve("deploy")


def test_what_is_shown_is_copied_if_it_is_data():
    """A resource, or an object that no key can be made of, is the one that the step works with."""
    to, client = ["bob"], Connection()

    @step(id="pay", approval=True)
    def pay(to: list[str], client: Any, other: Any = client) -> list[str]:
        return to

    def on_approval(request: ApprovalRequest) -> bool:
        assert request.arguments["client"] is client and request.arguments["other"] is client
        request.arguments["to"].append("eve")
        return True

    options: Any = {"inputs": {"to": to}, "resources": {"client": client}}
    assert run(pay, **options, on_approval=on_approval).result == ["bob"]


class Connection:
    """Something that there must be one of."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> Any:
        raise AssertionError("it was copied")


# -- Tools.


def test_a_tool_waits_for_approval():
    """Who is asked sees the exact arguments; True has it called."""
    asked = []

    def on_approval(request: ApprovalRequest) -> bool:
        asked.append((request.id, request.tool, dict(request.arguments)))
        return True

    assert run(buyer(3, 4), on_approval=on_approval).result == "done"
    assert sorted(asked) == [("buy/pay[1]", "pay", {"amount": 3}), ("buy/pay[2]", "pay", {"amount": 4})]


def test_what_is_asked_about_is_what_runs():
    """Nobody who is asked can change what a tool is called with, nor what a step runs with."""
    paid = []

    @tool(approval=True)
    def send(to: list[str]) -> str:
        """Send it."""
        paid.append(list(to))
        return "sent"

    model = ScriptedModel([[ToolCall(id="1", name="send", arguments='{"to": ["bob"]}')], "done"])

    @step(id="send", agent=Agent(model, tools=[send]), approval=True)
    def ask(to: list[str]) -> str:
        return f"Send it to {to}"

    def on_approval(request: ApprovalRequest) -> bool:
        assert request.arguments == {"to": ["bob"]}
        request.arguments["to"].append("eve")
        return True

    run(ask, inputs={"to": ["bob"]}, on_approval=on_approval)
    assert paid == [["bob"]] and model.requests[0].messages[0].text == "Send it to ['bob']"


def test_a_rejected_tool_fails_the_step():
    """A person's no is not the model's to argue with."""
    with pytest.raises(RunFailed) as failed:
        run(buyer(3), on_approval=lambda request: "too dear")
    assert str(failed.value.exceptions[0]) == "the call of tool 'pay' in step 'buy' was rejected: too dear"


async def test_an_answer_is_for_one_call(autojump_clock):
    """Two calls, even with equal arguments, are two requests; a step that waits for them holds no slot."""

    @step(id="work")
    async def work() -> int:
        await trio.sleep(10)
        return 1

    async with open_run([buyer(3, 3), work], concurrency=1) as handle:
        await trio.sleep(5)
        assert sorted(one.id for one in handle.approvals) == ["buy/pay[1]", "buy/pay[2]"]
        assert {node.id: node.status for node in handle.trace} == {"buy": "waiting", "work": "running"}
        handle.approve("buy/pay[1]")
        await trio.sleep(20)
        assert [one.id for one in handle.approvals] == ["buy/pay[2]"]
        assert handle.trace.node("buy").status in ("waiting", "running")
        handle.approve("buy/pay[2]")
    assert handle.trace.node("buy").status == "done"


async def test_a_step_is_asked_for_once_though_it_is_tried_again():
    """The answer is for the step in this run, its retries included."""
    from june import Retry

    asked = []
    attempts = []

    @step(id="moody", approval=True, retry=Retry(3, wait=0))
    async def moody() -> int:
        attempts.append(1)
        if len(attempts) < 3:
            raise ValueError("not yet")
        return 1

    await run_async(moody, on_approval=lambda request: asked.append(request.question) or True)
    assert asked == ["Run step moody?"] and len(attempts) == 3


async def test_a_no_is_not_asked_for_again():
    """A retry is for what may go well the next time; each would be billed, and a person be asked again."""
    from june import Retry

    answers = iter([False, True])
    target = buyer(3, retry=Retry(3, wait=0))
    with pytest.raises(RunFailed) as failed:
        await run_async(target, on_approval=lambda request: next(answers))
    assert isinstance(failed.value.exceptions[0], ApprovalRejected)
    (node,) = failed.value.trace
    assert node.usage is not None and (node.usage.requests, node.attempts) == (1, 1)


async def test_a_step_that_waits_holds_no_limit(autojump_clock):
    """Those of the same limit run while a tool waits for a person, and it comes first once it is approved."""
    order = []

    @step(id="work", limit="one", each={"n": "ns"})
    async def work(n: int) -> int:
        order.append(f"work {n}")
        await trio.sleep(10)
        return n

    def on_update(update: Any) -> None:
        if update.kind == "status" and update.node.id == "buy":
            order.append(update.node.status)

    async with open_run(
        [buyer(3, limit="one"), work], inputs={"ns": [1, 2]}, limits={"one": 1}, on_update=on_update
    ) as handle:
        await trio.sleep(5)
        handle.approve("buy/pay[1]")
    assert order == ["running", "waiting", "work 1", "running", "done", "work 2"]
    assert handle._executor.run.queues._limits == {"one": 1}


# -- Answers that cross.


def approved(id: str, **options: Any) -> Any:
    @step(id=id, approval=True, **options)
    async def asked() -> str:
        return id

    return asked


def test_two_rejections_at_once():
    """The first fails the run, the second is not asked for any more, and nothing else goes wrong."""
    with pytest.raises(RunFailed) as failed:
        run(approved("a"), approved("b"), on_approval=lambda request: False)
    assert [type(one) for one in failed.value.exceptions] == [ApprovalRejected]
    handle = start(approved("a"), approved("b"))
    while len(handle.approvals) < 2:
        pass
    for request in handle.approvals:
        try:
            handle.reject(request)
        except KeyError:
            pass
    with pytest.raises(RunFailed) as failed:
        handle.wait()
    assert {type(one) for one in failed.value.exceptions} == {ApprovalRejected}


@pytest.mark.parametrize(("first", "status"), [("reject", "failed"), ("approve", "done")])
def test_the_first_answer_counts(first: str, status: str):
    """What the handle has answered while ``on_approval`` thinks is the answer."""
    asking, answered = threading.Event(), threading.Event()

    def on_approval(request: ApprovalRequest) -> bool:
        asking.set()
        assert answered.wait(60)
        return first == "reject"

    handle = start(approved("a"), on_approval=on_approval)
    assert asking.wait(60)
    getattr(handle, first)("a")
    answered.set()
    try:
        handle.wait()
    except RunFailed:
        pass
    assert handle.trace.node("a").status == status


async def test_the_handle_need_not_wait_for_on_approval(autojump_clock):
    """A dialog that nobody looks at is closed when somebody answers otherwise."""
    closed = []

    async def on_approval(request: ApprovalRequest) -> bool:
        try:
            await trio.sleep_forever()
        finally:
            closed.append(request.id)
        return False

    async with open_run(approved("a"), on_approval=on_approval) as handle:
        await trio.sleep(1)
        handle.approve("a")
    assert closed == ["a"] and handle.trace.node("a").status == "done"


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("no"), BaseExceptionGroup("g", [SystemExit()])])
def test_what_on_approval_raises_fails_the_step(error: BaseException):
    """It is the step's failure, and ends nothing else."""

    def on_approval(request: ApprovalRequest) -> bool:
        raise error

    async def later(request: ApprovalRequest) -> bool:
        raise error

    for raises in (on_approval, later):
        with pytest.raises(RunFailed) as failed:
            run(approved("a"), on_approval=raises)
        assert failed.value.message == "1 step failed: 0 of 1 steps done"


async def test_an_update_finds_the_request():
    """When ``on_update`` hears that a step waits, its request can be answered."""

    def on_update(update: Any) -> None:
        if update.node.status == "waiting":
            update.handle.approve(update.handle.approvals[-1])

    async with open_run([approved("a"), buyer(3)], on_update=on_update) as handle:
        pass
    assert {node.status for node in handle.trace} == {"done"}


async def test_a_step_holds_no_slot_while_all_its_tools_wait(autojump_clock):
    """One tool is done, and the other waits for a person: so does the step, without a slot."""
    async with open_run([buyer(1, 2), approved("work")], concurrency=1) as handle:
        await trio.sleep(1)
        handle.approve("buy/pay[1]")
        await trio.sleep(1)
        handle.approve("work")
        await trio.sleep(1)
        assert {node.id: node.status for node in handle.trace} == {"buy": "waiting", "work": "done"}
        handle.approve("buy/pay[2]")
    assert handle._executor.run.queues.free == 1


@pytest.mark.parametrize("seed", range(60))
async def test_slots_are_whole_after_everything(autojump_clock, seed: int):
    """Whatever is approved, rejected, fails and is cancelled when, each slot is given back once."""
    rng = random.Random(seed)
    concurrency = rng.choice([1, 2, 3])
    running = threading.Semaphore(concurrency)
    limit = rng.choice([1, 2])
    limited = threading.Semaphore(limit)
    limits = {"few": limit}
    answers: dict[str, Any] = {}

    async def on_approval(request: ApprovalRequest) -> bool:
        await trio.sleep(rng.choice([0, 0, 1, 1, 2]))
        return answers.setdefault(request.id, rng.random() < 0.9)

    @step(id="work", each={"n": "ns"}, limit="few")
    async def work(n: int) -> int:
        assert running.acquire(blocking=False) and limited.acquire(blocking=False)
        await trio.sleep(rng.choice([0, 1, 1, 2]))
        limited.release()
        running.release()
        return n

    handles = []
    try:
        with trio.move_on_after(rng.choice([1, 3, 50])):
            async with open_run(
                [buyer(1, 2, 3, limit="few"), work, approved("a", limit="few"), approved("b", timeout=1)],
                limits=limits,
                inputs={"ns": [1, 2, 3, 4]},
                concurrency=concurrency,
                on_approval=on_approval,
                on_error="continue",
            ) as handle:
                handles.append(handle)
    except RunFailed:
        pass
    if not handles[0]._executor.run.cancelled:
        queues = handles[0]._executor.run.queues
        assert queues.free == concurrency and queues._limits == limits
