"""Snapshots: reading, writing, what they hold, and what is refused."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from june import RunFailed, Snapshot, SnapshotError, graph, run, step


@step(id="plan")
def plan(service: str) -> str:
    return f"Plan {service}"


@step(id="words")
def words(plan: str) -> list[str]:
    return plan.split()


@step(id="none")
def none() -> None:
    return None


WEB = {"service": "web"}


def taken() -> Snapshot:
    return run(words, none, inputs=WEB).snapshot()


def statuses(record) -> dict[str, str]:
    return {node.id: "resumed" if node.resumed else node.status for node in record.trace}


def rewritten(change) -> bytes:
    """Give the JSON of a snapshot after *change* has changed it as data."""
    data = taken().to_dict()
    change(data)
    return json.dumps(data).encode()


def test_the_format_is_as_promised():
    """Version, scheme, and for each step its key, result, digest, parts and meta, in graph order."""
    data = json.loads(taken().to_json())
    assert (data["version"], data["scheme"]) == (1, 1)
    assert list(data["steps"]) == ["plan", "words", "none"]
    entry = data["steps"]["plan"]
    assert set(entry) == {"cacheKey", "result", "digest", "parts", "meta"}
    assert entry["result"] == "Plan web"
    assert entry["cacheKey"].startswith("step:")
    assert len(entry["cacheKey"]) == 5 + 32
    assert set(entry["parts"]) == {"code", "output", "inputs"}
    assert set(entry["parts"]["inputs"]) == {"service"}
    assert set(entry["meta"]) == {"finishedAt", "seconds"}
    assert entry["meta"]["finishedAt"].endswith("Z")
    assert data["steps"]["none"]["result"] is None
    # Each code digest is spelled out once, so that a miss can name the piece that changed.
    assert set(data["code"]) == {data["steps"][id]["parts"]["code"] for id in data["steps"]}
    assert data["code"][entry["parts"]["code"]].keys() == {"step code"}


def test_an_entry_is_a_line():
    """A snapshot kept in git has small diffs."""
    lines = taken().to_json().decode().splitlines()
    assert [line.split(":")[0] for line in lines[1:4]] == ['"plan"', '"words"', '"none"']


def test_json_and_back():
    """What is written reads as it was, byte for byte."""
    first = taken()
    again = Snapshot.from_json(first.to_json())
    assert again.to_json() == first.to_json()
    assert again == first
    assert Snapshot.from_json(first.to_json().decode()) == first
    assert Snapshot.from_dict(first.to_dict()) == first
    assert len(again) == 3
    assert list(again) == ["plan", "words", "none"]
    assert "plan" in again
    assert "plain" not in again
    assert repr(again) == "<Snapshot of 3 steps>"


def test_a_file_and_back(tmp_path):
    """A snapshot is saved atomically, for its owner only, and follows a link."""
    first = taken()
    path = tmp_path / "run.json"
    first.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Snapshot.load(path) == first
    assert os.listdir(tmp_path) == ["run.json"]
    link = tmp_path / "link.json"
    link.symlink_to(path)
    first.without(["plan"]).save(link)
    assert link.is_symlink()
    assert len(Snapshot.load(path)) == 2


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path):
    """A failed save leaves the old file, and no other."""
    path = tmp_path / "run.json"
    taken().save(path)
    broken = Snapshot.from_json(b'{"version": 1, "steps": {}}')
    broken.contents.extra["bad"] = object()  # what to_json cannot write
    with pytest.raises(TypeError):
        broken.save(path)
    assert len(Snapshot.load(path)) == 3
    assert os.listdir(tmp_path) == ["run.json"]
    with pytest.raises(FileNotFoundError):
        taken().save(tmp_path / "no" / "folder.json")


def test_a_snapshot_is_only_made_by_its_makers():
    """There is no public constructor."""
    with pytest.raises(TypeError, match=r"^a Snapshot is made by Snapshot.from_json"):
        Snapshot()


# -- Written by hand, by others, or re-indented.


@pytest.mark.parametrize("indent", [None, 2])
def test_a_reindented_file_counts_by_what_it_holds(indent):
    """Where the bytes are not June's own, results are decoded and encoded again, and nothing runs."""
    for data in (taken().to_json(indent=indent), json.dumps(taken().to_dict(), indent=indent)):
        assert statuses(run(words, none, inputs=WEB, snapshot=Snapshot.from_json(data))) == {
            "plan": "resumed",
            "words": "resumed",
            "none": "resumed",
        }


def test_an_entry_by_hand_needs_a_key_and_a_result():
    """cacheKey and result are all that is required."""

    def change(data):
        data["steps"] = {
            id: {"cacheKey": entry["cacheKey"], "result": entry["result"]}
            for id, entry in data["steps"].items()
        }
        del data["code"], data["scheme"]

    snapshot = Snapshot.from_json(rewritten(change))
    assert statuses(run(words, none, inputs=WEB, snapshot=snapshot))["words"] == "resumed"
    again = run(words, none, inputs={"service": "api"}, snapshot=snapshot)
    assert again.trace.node("plan").reason == "the saved cache key differs, and its entry does not say why"


def test_an_edited_result_counts_by_what_it_holds():
    """A result changed by hand is what its consumers see, and they run again for it."""

    def change(data):
        data["steps"]["plan"]["result"] = "Plan by hand"

    result = run(words, inputs=WEB, snapshot=Snapshot.from_json(rewritten(change)))
    assert result.steps == {"plan": "Plan by hand", "words": ["Plan", "by", "hand"]}
    assert statuses(result) == {"plan": "resumed", "words": "done"}


def test_unknown_fields_are_kept():
    """What another program added, at the top or in an entry, survives a run."""

    def change(data):
        data["note"] = {"by": "me"}
        data["steps"]["plan"]["cost"] = 4.5
        data["steps"]["words"]["june extra"] = "mine"

    snapshot = Snapshot.from_json(rewritten(change))
    after = run(words, inputs=WEB, snapshot=snapshot).snapshot()
    for one in (snapshot, after, Snapshot.from_json(after.to_json())):
        data = one.to_dict()
        assert data["note"] == {"by": "me"}
        assert data["steps"]["plan"]["cost"] == 4.5


def test_a_result_that_no_longer_decodes_is_a_miss_with_a_reason():
    """A saved result that today's type cannot hold is never substituted."""

    def change(data):
        data["steps"]["plan"]["result"] = 7

    result = run(plan, inputs=WEB, snapshot=Snapshot.from_json(rewritten(change)))
    assert statuses(result) == {"plan": "done"}
    assert result.trace.node("plan").reason == (
        "the saved result no longer decodes: result: expected str, found 7"
    )


def test_another_key_scheme_says_so():
    """A snapshot of another key scheme is not taken for changed code."""

    def change(data):
        data["scheme"] = 7
        data["steps"]["plan"]["cacheKey"] = "step:" + "0" * 32

    result = run(plan, inputs=WEB, snapshot=Snapshot.from_json(rewritten(change)))
    assert result.trace.node("plan").reason == (
        "the snapshot's keys are of scheme 7, and this June computes scheme 1"
    )


# -- What is not a snapshot.


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this is not a snapshot: not a JSON object (Input data was truncated after byte 0)"),
        (b"[]", "this is not a snapshot: not a JSON object (Expected `object`, got `array`)"),
        (b"{}", 'this is not a snapshot: no "version": 1'),
        (b'{"version": 1}', 'this is not a snapshot: no "steps"'),
        (b'{"version": "1", "steps": {}}', 'this is not a snapshot: no "version": 1'),
        (b'{"version": true, "steps": {}}', 'this is not a snapshot: no "version": 1'),
        (b'{"version": 2, "steps": {}}', '"version" is 2, so a newer June wrote it; this one reads version 1'),
        (b'{"version": 1, "steps": {"plan": {"cacheKey": "step:1"}}}', 'steps.plan: no "result"'),
        (b'{"version": 1, "steps": {"plan": {"result": 1}}}', 'steps.plan: no "cacheKey"'),
        (b'{"version": 1, "steps": {"plan": 7}}', "steps.plan: not an object with a cacheKey and a result"),
        (b'{"version": 1, "steps": {"plan": {"cacheKey": 7, "result": 1}}}',
         'steps.plan: "cacheKey" is 7, not a string'),
        (b'{"version": 1, "steps": []}', "steps: not an object of entries (Expected `object`, got `array`)"),
        (b"\xff{}", "this is not a snapshot: not valid UTF-8 ('utf-8' codec can't decode byte 0xff in position 0: "
         "invalid start byte)"),
    ],
)  # fmt: skip
def test_what_is_not_a_snapshot_says_where(data, message):
    """Each malformed file is a SnapshotError that says where, before anything runs."""
    with pytest.raises(SnapshotError) as caught:
        Snapshot.from_json(data)
    assert str(caught.value) == message


def test_a_lone_surrogate_in_the_text_is_refused():
    """Text that is no UTF-8 is no snapshot."""
    with pytest.raises(SnapshotError, match="^this is not a snapshot: not valid UTF-8"):
        Snapshot.from_json('{"version": 1, "steps": {"\ud800": 1}}')


def test_loading_names_the_file(tmp_path):
    """A broken file is named."""
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(SnapshotError) as caught:
        Snapshot.load(path)
    assert str(caught.value).startswith(f"{path}: this is not a snapshot: not a JSON object")
    with pytest.raises(FileNotFoundError):
        Snapshot.load(tmp_path / "none.json")


@pytest.mark.parametrize("depth", [1_000, 100_000, 5_000_000])
@pytest.mark.parametrize("where", ["top", "result", "parts"])
def test_deep_nesting_ends(depth, where):
    """A file nested a million levels deep ends in a SnapshotError, or in a miss, and in no crash."""
    deep = b"[" * depth + b"]" * depth
    data = {
        "top": b'{"version": 1, "steps": {}, "x": ' + deep + b"}",
        "result": b'{"version": 1, "steps": {"none": {"cacheKey": "step:0", "result": ' + deep + b"}}}",
        "parts": b'{"version": 1, "steps": {"none": {"cacheKey": "step:0", "result": 1, "parts": '
        + deep
        + b"}}}",
    }[where]
    try:
        snapshot = Snapshot.from_json(data)
    except SnapshotError:
        return
    assert run(none, snapshot=snapshot).result is None


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes_end_in_a_snapshot_or_a_snapshot_error(data):
    """Nothing that is given as a snapshot ends in another error."""
    try:
        Snapshot.from_json(data).to_json()
    except SnapshotError:
        pass


@functools.cache
def one_snapshot() -> bytes:
    """The same bytes for every example, as their number of digits varies with the clock."""
    return taken().to_json()


@settings(max_examples=300)
@given(st.data())
def test_any_damage_ends_in_a_snapshot_or_a_snapshot_error(data):
    """Bytes of a real snapshot that were cut, changed or doubled end in one of the two, and runs stay right."""
    whole = bytearray(one_snapshot())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(whole) - 1))
        kind = data.draw(st.sampled_from(["cut", "change", "double"]))
        if kind == "cut":
            del whole[position : position + data.draw(st.integers(1, 50))]
        elif kind == "change":
            whole[position] = data.draw(st.integers(0, 255))
        else:
            whole[position:position] = whole[position : position + 20]
        if not whole:
            break
    try:
        snapshot = Snapshot.from_json(bytes(whole))
    except SnapshotError:
        return
    json.loads(snapshot.to_json())
    result = run(none, snapshot=snapshot)
    assert result.result is None


# -- What a run's snapshot holds.


def test_entries_that_the_run_did_not_reach_are_kept():
    """Steps behind a branch not taken are not lost, and stand in graph order, then by id."""
    first = run(words, none, inputs=WEB)

    @step(id="other")
    def other() -> int:
        return 1

    result = run(other, none, snapshot=first)
    assert list(result.snapshot()) == ["other", "none", "plan", "words"]


def test_an_entry_with_another_key_is_dropped_even_if_the_step_fails():
    """What renders with another key is gone at that moment; what did not render stays."""
    first = run(words, inputs=WEB)

    @step(id="plan")
    def broken(service: str) -> str:
        raise ValueError("broken")

    with pytest.raises(RunFailed) as caught:
        run(words.bind(id="words", plan=broken), inputs=WEB, snapshot=first)
    assert list(caught.value.snapshot()) == ["words"]


def test_snapshots_compare_step_by_step():
    """``diff`` tells what was added, removed, rekeyed and changed."""
    first = run(words, inputs=WEB).snapshot()
    second = run(words, none, inputs={"service": "api"}).snapshot()
    difference = first.diff(second)
    assert difference.added == ("none",)
    assert difference.removed == ()
    assert difference.rekeyed == ("plan", "words")
    assert difference.changed == ("plan", "words")
    assert str(difference) == "+ none\n~ plan (key and result)\n~ words (key and result)"
    assert not first.diff(first)
    assert str(first.diff(first)) == "no difference"


def test_without_and_prune():
    """Entries can be left out by id, or but those of a graph kept; an ``each`` step's id takes its instances."""

    @step(id="double", each={"number": "numbers"})
    def double(number: int) -> int:
        return 2 * number

    snapshot = run(double, none, inputs={"numbers": [1, 2]}).snapshot()
    assert list(snapshot.without(["double"])) == ["none"]
    assert list(snapshot.without(["double[1]"])) == ["double[2]", "none"]
    assert list(snapshot.prune(graph(double))) == ["double[1]", "double[2]"]
    with pytest.raises(TypeError):
        snapshot.without("double")


def test_the_code_table_forgets_what_no_entry_refers_to():
    """A snapshot that lives through many edits does not grow with them."""
    names: dict = {"step": step, "__name__": "flows"}
    snapshot = None
    for number in range(5):
        exec(f"@step(id='one')\ndef one() -> int: return {number}", names)
        snapshot = run(names["one"], none, snapshot=snapshot).snapshot()
        snapshot = Snapshot.from_json(snapshot.to_json())
    assert len(snapshot.to_dict()["code"]) == 2


def test_a_snapshot_is_strict_json():
    """Other parsers can read it: no NaN, no duplicate names."""

    def once(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def refuse(constant):
        raise AssertionError(constant)

    json.loads(taken().to_json(), object_pairs_hook=once, parse_constant=refuse)
    msgspec.json.decode(taken().to_json())


def test_any_id_can_stand_in_a_snapshot():
    """Quotes, backslashes, emoji and very long ids survive."""
    steps = []
    for id in ['a"b', "a\\b", "été", "😀", "x" * 1000, "a b", "1", "%41", "a~2"]:

        @step(id=id)
        def one() -> int:
            return 1

        steps.append(one)
    first = run(steps)
    again = run(steps, snapshot=Snapshot.from_json(first.snapshot().to_json()))
    assert set(statuses(again).values()) == {"resumed"}


@pytest.mark.parametrize("result", [7, [7] * 2000], ids=["small", "large"])
def test_a_forged_digest_is_found_out(result):
    """A result that is not of its type is a miss, or where it is large fails who takes it, with the cure."""
    written = msgspec.json.encode(result)
    digest = hashlib.blake2b(written, digest_size=16).hexdigest()

    def change(data):
        data["steps"]["plan"].update(result=result, digest=digest)
        del data["steps"]["words"]

    # As June writes it, so that the digest fits.
    snapshot = Snapshot.from_json(msgspec.json.encode(json.loads(rewritten(change))))
    if result == 7:
        other = step(id="other", needs={"plan": plan})(lambda plan: plan)
        again = run(words, other, inputs=WEB, snapshot=snapshot)
        # What takes the step's own result is keyed by that, and not by what was forged.
        keys, whole = (
            again.snapshot().to_dict()["steps"],
            run(words, other, inputs=WEB).snapshot().to_dict()["steps"],
        )
        assert [keys[id]["cacheKey"] for id in whole] == [whole[id]["cacheKey"] for id in whole]
        again = run(words, inputs=WEB, snapshot=snapshot)
        assert again.result == ["Plan", "web"]
        assert again.trace.node("plan").reason == (
            "the saved result no longer decodes: result: expected str, found 7"
        )
        return
    with pytest.raises(RunFailed) as caught:
        run(words, inputs=WEB, snapshot=snapshot)
    [error] = caught.value.exceptions
    line = plan.__wrapped__.__code__.co_firstlineno
    assert isinstance(error, SnapshotError)
    assert str(error) == (
        f"the saved result of step 'plan' (test_snapshots.py:{line}) does not decode, though its digest fits "
        "(result: expected str, found a list of 2000). Leave it out with snapshot.without(['plan']), or refresh it"
    )
    assert run(words, inputs=WEB, snapshot=snapshot.without(["plan"])).result == ["Plan", "web"]
    with pytest.raises(SnapshotError):
        _ = run(plan, inputs=WEB, snapshot=snapshot).result


def test_a_field_of_any_name_survives():
    """What a field that June does not know is called is up to whoever wrote it."""
    written = b'{"version":1,"scheme":1,"steps":{\n"z":{"cacheKey":"k","result":1,"june extra":{"cacheKey":"x"},"extra":2}\n}}\n'
    assert Snapshot.from_json(written).to_json() == written
