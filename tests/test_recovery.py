"""What can be read of a damaged file is kept, and nothing that is not as it was written."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from june import ResultWarning, RunFailed, Snapshot, SnapshotError, run, run_resumable, step
from june.cli import main
from june.recovery import recover, salvage
from june.snapshots import journal_of


@step(id="plan")
def plan(service: str) -> str:
    return f"deploy {service}"


@step(id="hosts")
def hosts(plan: str) -> list[dict[str, int]]:
    return [{"web": 1}, {"api": 2}]


@step(id="odd")
def odd(plan: str) -> tuple[float, ...]:
    return (1.5, 2.5)


@pytest.fixture
def saved() -> Snapshot:
    """A snapshot of three steps."""
    return run([hosts, odd], inputs={"service": "wéb"}).snapshot()


def results(snapshot: Snapshot) -> dict[str, tuple[str, object]]:
    return {id: (entry["cacheKey"], entry["result"]) for id, entry in snapshot.to_dict()["steps"].items()}


def test_an_undamaged_file_is_left_alone(tmp_path: Path, saved: Snapshot) -> None:
    """There is nothing to recover, so nothing is written, and nothing put aside."""
    path = tmp_path / "a.json"
    saved.save(path)
    before = path.read_bytes()
    done = recover(path)
    assert (done.lost, done.kept) == ((), ()) and results(done.snapshot) == results(saved)
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_cut_short_keeps_its_whole_entries(
    tmp_path: Path, saved: Snapshot, indent: int | None
) -> None:
    """Wherever a file breaks off, entries before are kept as they were, and the one it breaks off in is named."""
    path = tmp_path / "a.json"
    whole = saved.to_json(indent)
    names = []
    for length in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(
            SnapshotError, match=r"(after byte|in position) \d+.*\); to keep what can still be read: june"
        ):
            Snapshot.load(path)
        try:
            done = recover(path)
        except SnapshotError:
            assert path.read_bytes() == whole[:length]
            continue
        found = results(Snapshot.load(path))
        assert found == {id: results(saved)[id] for id in list(saved)[: len(found)]}
        assert Path(done.kept[0]).read_bytes() == whole[:length]
        names.append(len(found))
    assert names == sorted(names) and set(names) == {1, 2, 3}


def test_a_changed_byte_costs_the_entry_that_it_is_in(saved: Snapshot) -> None:
    """Whatever byte changes to whatever, what is recovered is as it was written, and nearly all of it."""
    whole = saved.to_json()
    before = results(saved)
    for position in range(len(whole)):
        for byte in {whole[position] ^ 1, whole[position] ^ 0x80, 0, ord('"'), ord("}")} - {whole[position]}:
            data, lost = salvage(whole[:position] + bytes([byte]) + whole[position + 1 :])
            if lost:
                found = results(Snapshot.of(data))
                # An id or a key that changed is another step's; it will not be taken for this one's.
                same = [id for id, (key, _) in found.items() if id in before and before[id][0] == key]
                assert all(found[id] == before[id] for id in same), position
                assert len(same) >= 2, (position, byte)


def test_what_is_lost_is_named_and_the_damaged_file_kept(tmp_path: Path, saved: Snapshot, capsys) -> None:
    """``june snapshot recover`` says what it could not read, and where the file as it was is now."""
    path = tmp_path / "a.json"
    data = saved.to_json().replace(b'"result":[{"web":1}', b'"result":[{"web":1')
    path.write_bytes(data)
    assert main(["snapshot", "recover", str(path)]) == 0
    said = capsys.readouterr()
    at = data.index(b'"hosts":')
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{path}: this is not a snapshot: not a JSON object (JSON is malformed: ")
    assert lines[1].startswith(f'{path}: the entry "hosts", at byte {at}, is damaged: JSON is malformed: ')
    assert lines[2] == f"{path} has 2 steps now; as it was: {path}.damaged"
    assert (tmp_path / "a.json.damaged").read_bytes() == data
    assert list(Snapshot.load(path)) == ["plan", "odd"]
    assert main(["snapshot", "recover", str(path)]) == 0
    assert capsys.readouterr().out == f"nothing is damaged: {path} has 2 steps\n"
    path.write_bytes(data)
    main(["snapshot", "recover", str(path)])
    assert (tmp_path / "a.json.damaged-2").read_bytes() == data


def test_a_result_that_does_not_fit_its_digest_is_left_out(tmp_path: Path, saved: Snapshot) -> None:
    """In a damaged file, a result that was changed is not taken for somebody's edit."""
    path = tmp_path / "a.json"
    path.write_bytes(saved.to_json().replace(b'{"api":2}', b'{"api":3}')[:-4])
    done = recover(path)
    assert "hosts" not in done.snapshot and "its result does not fit its digest" in done.lost[1]


def test_unsaved_steps_and_pieces_of_code_are_recovered_too(tmp_path: Path) -> None:
    """What explains a miss, and what keeps unsaved steps from running, stands behind the damage."""

    @step(id="frame", save=False)
    def frame() -> int:
        return 1

    @step(id="loose")
    def loose(frame: int) -> float:
        return float("nan")

    path = tmp_path / "a.json"
    with pytest.warns(ResultWarning):
        snapshot = run([plan, loose], inputs={"service": "a"}).snapshot()
    path.write_bytes(snapshot.to_json().replace(b'{"version"', b'{version"'))
    recover(path)
    assert Snapshot.load(path).to_dict() == snapshot.to_dict()


def leave_a_journal(path: Path) -> bytes:
    """Leave what a killed run leaves: a journal without a file."""

    @step(id="fails", after=[hosts])
    def fails(service: str) -> int:
        journal.append(Path(journal_of(str(path))).read_bytes())
        raise ValueError("no")

    journal: list[bytes] = []
    with pytest.raises(RunFailed):
        run_resumable([hosts, odd, fails], path=path, inputs={"service": "a"}, concurrency=1)
    path.unlink()
    Path(journal_of(str(path))).write_bytes(journal[0])
    return journal[0]


def test_a_damaged_line_of_a_journal_is_left_out(tmp_path: Path, capsys) -> None:
    """Everything but the line is kept, in the file, and the journal as it was beside it."""
    path = tmp_path / "a.json"
    journal = leave_a_journal(path)
    lines = journal.splitlines()
    number = next(number for number, line in enumerate(lines) if b"entry" in line)
    Path(journal_of(str(path))).write_bytes(journal.replace(b'"deploy a"', b'"deploy b"'))
    with pytest.raises(
        SnapshotError,
        match=rf"^{path}.journal: line {number + 1} is damaged: its checksum does not fit; "
        rf"to keep what can still be read: june snapshot recover {path}$",
    ):
        run_resumable(plan, path=path, inputs={"service": "a"})
    assert main(["snapshot", "recover", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}.journal: line {number + 1} is damaged: its checksum does not fit",
        f"{path} has 2 steps now; as it was: {path}.journal.damaged",
    ]
    assert sorted(Snapshot.load(path)) == ["hosts", "odd"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.json", "a.json.journal.damaged"]
    ran = run_resumable(hosts, path=path, inputs={"service": "a"}).trace
    assert {node.id: node.resumed for node in ran} == {"plan": False, "hosts": True}


def test_a_recovery_keeps_off_a_file_in_use(tmp_path: Path) -> None:
    """While a run saves to a file, there is nothing to mend in it."""
    path = tmp_path / "a.json"

    @step(id="looks")
    def looks() -> str:
        with pytest.raises(SnapshotError) as caught:
            recover(path)
        return str(caught.value)

    assert run_resumable(looks, path=path).result.startswith(
        f"{path} is in use by another run in this process"
    )


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (None, 2, "june snapshot recover: there is no file {path}\n"),
        (
            b"hello",
            1,
            "june snapshot recover: no entry in {path} can be read: {path}: this is not a snapshot: ",
        ),
        (
            b'{"version": 9, "steps": {}}',
            1,
            'june snapshot recover: "version" is 9, so a newer June wrote it',
        ),
    ],
)
def test_what_cannot_be_recovered_is_said(tmp_path: Path, capsys, content, code: int, message: str) -> None:
    """Where nothing can be read, nothing is written."""
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["snapshot", "recover", str(path)]) == code
    assert capsys.readouterr().err.startswith(message.format(path=path))
    assert [one.name for one in tmp_path.iterdir()] == ([] if content is None else ["a.json"])


def test_a_result_that_looks_like_an_entry_is_none(tmp_path: Path) -> None:
    """What stands in a step's result is not taken for a step, where that step's entry is whole."""

    @step(id="copy")
    def copy() -> dict[str, dict[str, str]]:
        return {"plan": {"cacheKey": "step:0", "result": "fake"}}

    path = tmp_path / "a.json"
    path.write_bytes(run(copy).snapshot().to_json()[:-3])
    assert list(recover(path).snapshot) == ["copy"]
    assert json.loads(path.read_bytes())["version"] == 1


@pytest.mark.parametrize(
    ("text", "kept", "lost"),
    [
        # A result's own "version" is not the file's.
        ('{"versioo":1,"steps":{"pkg":{"cacheKey":"k","result":{"version":3}},"q":{"cacheKey":"l","result":1}}}',
         {"pkg": {"version": 3}, "q": 1}, []),
        ('{"steps":{"a":{"cacheKey":"k","result":{"version":3}}},"version":1,}', {"a": {"version": 3}}, []),
        # Fields come in any order.
        ('{"version":1,"steps":{"a":{"result":1,"cacheKey":"k"},"b":{"cacheKey":"l","result":2},"c":{"cacheKey":"m"}}}',
         {"a": 1, "b": 2}, ["c"]),
        # A key that no JSON has.
        (r'{"version":1,"steps":{"q":{"cacheKey":"k","result":2},"a\qb":{"cacheKey":"l","result":3}}}', {"q": 2}, [r"a\qb"]),
        (r'{"version":1,"steps":{"a":{"cacheKey":"k","result":{"C:\user":{"x":1}}},"q":{"cacheKey":"l","result":2}}}',
         {"q": 2}, ["a"]),
        # What looks like an entry elsewhere.
        ('{"version":1,"steps":{"plan":{"cacheKey":"k","result":"new"},"z":{"cacheKey":"l"}},'
         '"backup":{"steps":{"plan":{"cacheKey":"m","result":"old"}}}}', {"plan": "new"}, ["z"]),
        ('{"version":1,"steps":{"plan":{"cacheKey":"k","result":"new"},'
         '"log":{"cacheKey":"l","digest":"no","result":{"steps":{"plan":{"cacheKey":"m","result":"old"}}}}}',
         {"plan": "new"}, ["log"]),
    ],
)  # fmt: skip
def test_files_of_other_hands(text: str, kept: dict[str, object], lost: list[str]) -> None:
    """What any program may write is recovered too, and nothing of what only looks like it."""
    data, problems = salvage(text.encode())
    assert {id: json.loads(bytes(entry.data())) for id, entry in data.steps.items()} == kept
    assert [problem.split('"')[1] for problem in problems[1:]] == lost


def lines(count: int) -> list[str]:
    """A snapshot of as many steps as June writes it, line by line."""

    @step(id="tree", each={"n": "ns"})
    def tree(n: int) -> dict[str, dict[str, int]]:
        return {"x": {"n": n}, "steps": {"n": 2}}

    text = run(tree, inputs={"ns": list(range(count))}).snapshot().to_json().decode()
    return text.split("\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The result closes early, or not at all.
        ('{"x":{"n":1},"steps":{"n":2}}', '{"x":{"n":1}}}'),
        ('"steps":{"n":2}}', '"steps":{"n":2}'),
        ('"steps":{"n":2}}', '"steps":{"n":2'),
        ('"digest"', '"digesu"'),
    ],
)
def test_a_damaged_line_costs_no_other(old: str, new: str) -> None:
    """In June's own form an entry is a line; one that is not whole is left out, and all others are kept."""
    whole = lines(3)
    at = next(number for number, line in enumerate(whole) if line.startswith('"tree[1]"'))
    damaged = [*whole[:at], whole[at].replace(old, new), *whole[at + 1 :]]
    damaged[0] = damaged[0].replace('"steps"', '"stepz"')
    data, lost = salvage("\n".join(damaged).encode())
    assert set(data.steps) == {"tree[0]", "tree[2]"}
    assert 'the entry "tree[1]"' in lost[1] and len(lost) == 2
    assert data.code


def test_anything_may_happen_to_a_line() -> None:
    """Whatever is cut out of a file or put in, what is recovered is as it was, and untouched lines are all there."""
    whole = lines(4)
    text = "\n".join(whole)
    before = {id: entry["result"] for id, entry in json.loads(text)["steps"].items()}
    keys = {id: entry["cacheKey"] for id, entry in json.loads(text)["steps"].items()}
    rng = random.Random(1)
    for _ in range(3000):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.choice([0, 1, 2, 3, 10, 200]))
        put = rng.choice(["", "}", "{", '"', "}}", ",", "\n", "\0\0\0", '"steps":{', "x"])
        damaged = text[:start] + put + text[end:]
        data, lost = salvage(damaged.encode())
        if not lost:
            # It is JSON, so it may be somebody's edit.
            continue
        found = {id: json.loads(bytes(entry.data())) for id, entry in data.steps.items()}
        # An id or a key that changed is another step's; it will not be taken for this one's.
        same = [id for id in found if keys.get(id) == data.steps[id].cacheKey]
        assert all(found[id] == before[id] for id in same), (start, end, put)
        for line in whole:
            if line.startswith('"tree') and "\n" + line + "\n" in damaged:
                assert json.loads(f"{{{line.removesuffix(',')}}}").keys() <= found.keys(), (start, end, put)


def test_a_journal_whose_file_is_gone_is_written_out(tmp_path: Path, capsys) -> None:
    """Such a journal counts for nothing any more; who asks for it has what is in it."""
    path = tmp_path / "a.json"
    run_resumable(plan, path=path, keep=True, inputs={"service": "a"})
    journal: list[bytes] = []

    @step(id="fails")
    def fails(hosts: list[dict[str, int]]) -> int:
        journal.append(Path(journal_of(str(path))).read_bytes())
        raise ValueError("no")

    with pytest.raises(RunFailed):
        run_resumable(fails, path=path, inputs={"service": "a"})
    path.unlink()
    Path(journal_of(str(path))).write_bytes(journal[0])
    with pytest.raises(FileNotFoundError):
        Snapshot.load(path)
    assert main(["snapshot", "recover", str(path)]) == 0
    assert capsys.readouterr().out == f"{path} has 1 step now\n"
    assert list(Snapshot.load(path)) == ["hosts"] and [one.name for one in tmp_path.iterdir()] == ["a.json"]
