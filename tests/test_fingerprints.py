"""
What a code fingerprint says besides its digest, and where its source comes from.
"""

from __future__ import annotations

import builtins
import importlib
import json
import linecache
import os
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from june.fingerprints import Fingerprinter, KeyFailure, explain

# `--import-mode=importlib` keeps this folder off the path.
sys.path.insert(0, str(Path(__file__).parent))

from edits import EDITS
from fingerprint_settings import as_module, code_of

HERE = Path(__file__).parent


@pytest.fixture(name="load")
def load_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """
    Write modules into a folder and import the last of them: `load(text, "text")`.
    """
    made: list[str] = []
    monkeypatch.syspath_prepend(tmp_path)

    def load(text: str, name: str = "flows") -> types.ModuleType:
        (tmp_path / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        made.append(name)
        return importlib.import_module(name)

    yield load
    for name in made:
        sys.modules.pop(name, None)


def test_records_name_every_piece(load: Any) -> None:
    """Every piece that counts has a label without folders, in the order in which it is reached."""
    load("def clean(x, form='a'):\n    return x\nclass Report:\n    pass\n", "text")
    flows = load(
        """
        from text import clean, Report
        LIMIT = 3
        def make(k):
            def step(x):
                return clean(x), Report, LIMIT, k, (lambda: 1)
            return step
        step = make(1)
        """
    )
    assert list(Fingerprinter().code(flows.step).records) == [
        "step code",
        "helper clean() in text.py",
        "class Report in text.py",
        "constant LIMIT in flows.py",
        "closure k",
        "default of form",
    ]


def test_two_pieces_of_one_label_are_numbered(load: Any) -> None:
    """Different objects with one label both have a record."""
    flows = load(
        """
        def make(n):
            def f(): return n
            return f
        a, b = make(1), make(2)
        def step(): return a(), b()
        """
    )
    assert list(Fingerprinter().code(flows.step).records) == [
        "step code",
        "helper f() in flows.py",
        "helper f() in flows.py (2)",
        "closure n",
        "closure n (2)",
    ]


def test_a_decorated_step_is_labelled_where_its_body_is(load: Any) -> None:
    """Of a wrapper and what it wraps, the wrapped function is the step's code."""
    flows = load(
        """
        from functools import wraps
        def deco(f):
            @wraps(f)
            def wrapper(): return f()
            return wrapper
        @deco
        def step(): return 1
        """
    )
    before = Fingerprinter().code(flows.step).records
    flows = load(
        """
        from functools import wraps
        def deco(f):
            @wraps(f)
            def wrapper(): return f()
            return wrapper
        @deco
        def step(): return 2
        """
    )
    assert explain(before, Fingerprinter().code(flows.step).records) == "step code"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"step code": "a", "b": "b"}, {"step code": "a", "b": "c"}, "b"),
        ({"step code": "a", "b": "b"}, {"step code": "b"}, "step code"),
        ({"step code": "a"}, {"step code": "a", "b": "c"}, "b is new"),
        ({"step code": "a", "b": "c"}, {"step code": "a"}, "b is gone"),
        ({"a": "a", "b": "b"}, {"a": "c", "b": "d"}, "2 pieces: a, b"),
        (dict.fromkeys("abcd", "1"), dict.fromkeys("abcd", "2"), "4 pieces: a, b, c, ..."),
        ({"a": "a"}, {"a": "a"}, "how its pieces use each other"),
    ],
)
def test_explain_names_the_piece_that_changed(
    old: dict[str, str], new: dict[str, str], expected: str
) -> None:
    """The piece that changed is named, not those that came or went with it."""
    assert explain(old, new) == expected


def test_only_the_piece_that_changed_has_another_record(load: Any) -> None:
    """A record covers its piece alone, so what stands above a change keeps its record."""
    text = "def a():\n    return {}\ndef b():\n    return a()\ndef step():\n    return b()"
    before = Fingerprinter().code(load(text.format(1)).step)
    after = Fingerprinter().code(load(text.format(2)).step)
    assert before.digest != after.digest
    assert explain(before.records, after.records) == "helper a() in flows.py"


def test_what_cannot_be_seen_into_is_listed(load: Any) -> None:
    """A lock or a client counts by its type, and is listed with its place."""
    flows = load(
        """
        import threading
        LOCK = threading.Lock()
        class Client:
            def __init__(self): self.pool = [threading.Event()]
        CLIENT = Client()
        def step(x, lock=threading.Lock()): return LOCK, CLIENT
        """
    )
    assert Fingerprinter().code(flows.step).opaque == (
        "LOCK in flows.py: lock",
        "CLIENT.pool[0] in flows.py: Event",
        "default of lock: lock",
    )


def test_a_function_held_by_an_opaque_object_counts(load: Any) -> None:
    """A library's object that holds a function of the user's is followed to that function."""
    text = """
        import threading
        def work(): return {}
        THREAD = threading.Timer(1, work)
        def step(x): return THREAD
        """
    before = Fingerprinter().code(load(text.format(1)).step)
    after = Fingerprinter().code(load(text.format(2)).step)
    assert before.digest != after.digest
    assert before.opaque == ("THREAD in flows.py: Timer",)


def test_defaults_can_be_left_out(load: Any) -> None:
    """A step's own defaults are inputs, so they need not be part of its code; a helper's always are."""
    text = "def h(y={1}):\n    return y\ndef step(x={0}):\n    return h(), x"

    def digest(first: int, second: int) -> str:
        flows = load(text.format(first, second))
        return Fingerprinter().code(flows.step, defaults=False).digest

    assert digest(1, 2) == digest(3, 2)
    assert digest(1, 2) != digest(1, 3)


def test_values_are_read_once_by_one_fingerprinter_and_anew_by_the_next(load: Any) -> None:
    """A constant that is rebound is seen by the next build."""
    flows = load("LIMIT = 1\ndef step():\n    return LIMIT")
    one = Fingerprinter()
    before = one.code(flows.step)
    flows.LIMIT = 2
    assert one.code(flows.step) is before
    assert Fingerprinter().code(flows.step).digest != before.digest


def test_code_without_source_counts_by_its_bytecode() -> None:
    """Code made by exec is hashed as bytecode, its globals are followed, and a note says so."""

    def made(body: str, limit: int) -> Any:
        names: dict[str, Any] = {"LIMIT": limit}
        exec(f"def step(x):\n    return {body}", names)
        return Fingerprinter().code(names["step"])

    first = made("x + LIMIT", 1)
    assert first.notes == ("bytecode of step() in <string> counts: no source",)
    assert first.digest == made("x + LIMIT", 1).digest
    assert first.digest != made("x - LIMIT", 1).digest
    assert first.digest != made("x + LIMIT", 2).digest


def test_a_wrong_text_in_linecache_is_not_taken_for_the_source() -> None:
    """Code named `<string>` may find another code's text there."""
    text = "def step(x):\n    return 1"
    names: dict[str, Any] = {}
    exec(text.replace("1", "2"), names)
    linecache.cache["<string>"] = (len(text), None, text.splitlines(keepends=True), "<string>")
    try:
        assert Fingerprinter().code(names["step"]).notes
    finally:
        del linecache.cache["<string>"]


def test_a_file_edited_after_its_import_counts_by_what_runs(load: Any, tmp_path: Path) -> None:
    """The edited function counts by its bytecode; one whose lines only moved by its tree."""
    flows = load("def a():\n    return 1\ndef step():\n    return 1")
    untouched = Fingerprinter().code(load("def step():\n    return 1").step)
    flows = load("def a():\n    return 1\ndef step():\n    return 1")
    (tmp_path / "flows.py").write_text("# new\n\ndef a():\n    return 2\ndef step():\n    return 1")
    assert Fingerprinter().code(flows.step) == untouched
    assert Fingerprinter().code(flows.a).notes == (
        "bytecode of a() in flows.py counts: the file was edited after its import",
    )


def test_a_tree_is_kept_when_its_file_is_edited_later(load: Any, tmp_path: Path) -> None:
    """What was found true of a code object stays true."""
    flows = load("def step():\n    return 1")
    before = Fingerprinter().code(flows.step)
    (tmp_path / "flows.py").write_text("def step():\n    return 2")
    assert Fingerprinter().code(flows.step) == before


def test_a_failing_key_says_which_part_failed(load: Any) -> None:
    """An exception while a key is computed names the piece, and there is no partial key."""
    flows = load(
        """
        class Bad:
            def __june_key__(self): raise ValueError("no")
        BAD = Bad()
        def step(): return BAD
        """
    )
    with pytest.raises(KeyFailure) as caught:
        Fingerprinter().code(flows.step)
    assert str(caught.value) == ("BAD in flows.py: Bad.__june_key__ raised ValueError: no")


def test_installed_code_is_not_followed(load: Any, tmp_path: Path) -> None:
    """A module below site-packages counts by its name, whatever it holds."""
    site = tmp_path / "site-packages"
    site.mkdir()
    sys.path.insert(0, str(site))
    try:
        text = "from installed_thing import f\ndef step():\n    return f()"
        digests = set()
        for number in (1, 2):
            (site / "installed_thing.py").write_text(f"def f():\n    return {number} + {number}")
            sys.modules.pop("installed_thing", None)
            shutil.rmtree(site / "__pycache__", ignore_errors=True)
            digests.add(Fingerprinter().code(load(text).step).digest)
        assert len(digests) == 1
    finally:
        sys.path.remove(str(site))
        sys.modules.pop("installed_thing", None)


def test_classes_are_hashed_in_the_order_given(load: Any) -> None:
    """Code of classes counts, transitively and in order; classes of libraries do not."""
    text = "def h():\n    return {}\nclass A:\n    def m(self): return h()\nclass B: pass"
    first, edited = load(text.format(1), "one"), load(text.format(2), "two")
    hashed = Fingerprinter().classes([first.A, first.B])
    assert len(hashed) == 16
    assert hashed == Fingerprinter().classes([first.A, int, first.B, threading.Thread])
    assert hashed != Fingerprinter().classes([first.B, first.A])
    assert hashed != Fingerprinter().classes([edited.A, edited.B])


def test_a_class_in_use_is_one_class_wherever_it_was_made(load: Any) -> None:
    """A class counts by its code and qualified name, not by its module."""
    text = "class A:\n    n: int = 1\n    def m(self):\n        return 1\nX = A()"
    first, second = load(text, "flows_a"), load(text, "flows_b")
    assert Fingerprinter().value(first.X) == Fingerprinter().value(second.X)


@pytest.mark.slow
def test_a_chain_of_helpers_may_be_long(load: Any) -> None:
    """Following helpers does not recurse."""
    lines = ["def f0():\n    return 1\n"]
    lines += [f"def f{place}():\n    return f{place - 1}()\n" for place in range(1, 3000)]
    flows = load("".join(lines))
    assert len(Fingerprinter().code(flows.f2999).records) == 3000


def test_a_class_made_at_run_time_counts_by_what_it_holds(load: Any) -> None:
    """A class without a statement is known by its attributes, and a note says so."""
    text = "A = type('A', (), {{'n': {}}})\ndef step():\n    return A.n"
    before = Fingerprinter().code(load(text.format(1)).step)
    assert before.notes == ("class A in flows.py counts by what it holds: no source",)
    assert before.digest != Fingerprinter().code(load(text.format(2)).step).digest


def test_a_class_edited_after_its_import_counts_by_what_it_holds(load: Any, tmp_path: Path) -> None:
    """The text of an edited class is not taken for the class that runs."""
    text = "from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int\ndef step():\n    return A"
    flows = load(text)
    (tmp_path / "flows.py").write_text(text.replace("int", "str"))
    assert Fingerprinter().code(flows.step).notes == (
        "class A in flows.py counts by what it holds: the file was edited after its import",
    )


def test_a_deep_expression_counts_as_a_tree_at_any_depth_of_the_stack(load: Any) -> None:
    """Whether source can be walked does not depend on how deep the caller is."""
    flows = load("def step(x):\n    return " + " + ".join(["x"] * 250))

    def deeper(depth: int) -> Any:
        return deeper(depth - 1) if depth else Fingerprinter().code(flows.step)

    first = deeper(450)
    assert first.notes == ()


def test_a_cell_run_again_is_the_same_and_a_redefinition_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a name means in a notebook is what the latest cell made of it."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)

    def cell(number: int, text: str) -> None:
        path = f"/tmp/ipykernel_1/{number}.py"
        monkeypatch.setitem(linecache.cache, path, (len(text), None, text.splitlines(keepends=True), path))
        exec(compile(text, path, "exec", dont_inherit=True), vars(main))

    cell(1, "class A:\n    n: int\ndef h():\n    return 1\ndef step():\n    return h(), A")
    before = Fingerprinter().code(vars(main)["step"])
    cell(2, "def h():\n    return 1  # the same\nclass A:\n    n: int")
    assert Fingerprinter().code(vars(main)["step"]) == before
    cell(3, "class A:\n    n: str")
    after = Fingerprinter().code(vars(main)["step"])
    assert explain(before.records, after.records) == "class A in a notebook cell"


def test_a_proxy_is_not_asked_for_anything(load: Any) -> None:
    """A global that answers, or refuses, every question counts by its type and state."""
    flows = load(
        """
        class Proxy:
            @property
            def __class__(self): raise RuntimeError("outside of a request")
            def __getattr__(self, name): raise RuntimeError("outside of a request")
        P = Proxy()
        def step(): return P.user.name
        """
    )
    assert list(Fingerprinter().code(flows.step).records) == [
        "step code",
        "constant P in flows.py",
        "class Proxy in flows.py",
    ]


def test_an_object_with_a_key_is_followed_to_its_function(load: Any) -> None:
    """What `__june_key__` gives may be functions, as a step's is."""
    text = """
        class Step:
            def __init__(self, f): self.f = f
            def __june_key__(self): return self.f, {{}}
        @Step
        def plan(): return {}
        def step(): return plan()
        """
    before = Fingerprinter().code(load(text.format(1)).step)
    after = Fingerprinter().code(load(text.format(2)).step)
    assert explain(before.records, after.records) == "helper plan() in flows.py"


def test_a_failing_import_inside_a_function_is_no_key(load: Any) -> None:
    """A module of the user's that raises while it is imported leaves no key."""
    load("X = 1", "broken_thing").__dict__.clear()
    sys.modules.pop("broken_thing")
    flows = load("def step():\n    import broken_thing\n    return broken_thing.x")
    path = Path(flows.__file__ or "").with_name("broken_thing.py")
    path.write_text("1 / 0")
    with pytest.raises(KeyFailure) as caught:
        Fingerprinter().code(flows.step)
    assert str(caught.value) == (
        "step() in flows.py: import of broken_thing raised ZeroDivisionError: division by zero"
    )


@pytest.mark.parametrize("made", ["partial(f, 1)", "A().m", "contextmanager(f)"])
def test_the_function_inside_a_callable_is_the_step_code(load: Any, made: str) -> None:
    """Of a partial, a bound method, or a library's wrapper, the function of the user's is the step's code."""
    text = """
        from contextlib import contextmanager
        from functools import partial
        def f(x): return {0}
        class A:
            n = 1
            def m(self): return {0}
        step = {1}
        """
    before = Fingerprinter().code(load(text.format(1, made)).step)
    after = Fingerprinter().code(load(text.format(2, made)).step)
    assert "step code" in explain(before.records, after.records)
    assert "step code (2)" not in before.records


def test_a_doctest_is_user_code_in_any_module() -> None:
    """A function defined in a doctest has its source from the doctest."""
    import doctest

    text = ">>> def step(x):\n...     return x\n>>> from june.fingerprints import Fingerprinter\n"
    text += ">>> Fingerprinter().code(step).notes\n()\n"
    names = {"__name__": "june.fingerprints", "__file__": "june/fingerprints/__init__.py"}
    test = doctest.DocTestParser().get_doctest(text, names, "sample", "sample.py", 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_one_of_two_statements_that_ran_counts(load: Any) -> None:
    """Of two class statements of one name, what the class that exists was made of counts."""
    text = """
        import attrs
        FLAG = {}
        if FLAG:
            @attrs.define
            class A:
                x: int = 1
        else:
            @attrs.define
            class A:
                x: int = 2
        def step(): return A().x
        """
    one, other = (Fingerprinter().code(load(text.format(flag)).step) for flag in (True, False))
    assert one.digest != other.digest
    assert one.digest == Fingerprinter().code(load(text.format(1)).step).digest


def test_an_import_inside_code_without_source_is_followed(load: Any) -> None:
    """Bytecode that imports a module of the user's counts with what it imports."""
    digests = set()
    for number in (1, 2):
        load(f"def go(): return {number}", "text")
        for body in ("from text import go\n    go()", "import text\n    text.go()"):
            names: dict[str, Any] = {}
            exec(f"def step():\n    {body}", names)
            digests.add(Fingerprinter().code(names["step"]).digest)
    assert len(digests) == 4


@pytest.mark.parametrize(
    "body",
    [
        "importlib.import_module('text').go()",
        "import_module('text').go()",
        "__import__('text').go()",
        "sys.modules['text'].go()",
        "import_module(NAME).go()",
    ],
)
def test_a_module_taken_by_its_name_counts(load: Any, body: str) -> None:
    """A module of the user's that code names in a text counts whole."""
    text = f"import importlib, sys\nfrom importlib import import_module\nNAME = 'text'\ndef step():\n    return {body}"
    digests = set()
    for number in (1, 2):
        load(f"def go(): return {number}", "text")
        digests.add(Fingerprinter().code(load(text).step).digest)
    assert len(digests) == 2


@pytest.mark.parametrize("call", ["importlib.import_module(x)", "inspect.getsource(step)", "eval(x)"])
def test_what_cannot_be_followed_is_noted(load: Any, call: str) -> None:
    """A name that only the run will tell, or source as text, is said not to count."""
    flows = load(f"import importlib, inspect\ndef step(x):\n    return {call}")
    name = call.partition("(")[0].rpartition(".")[2]
    assert Fingerprinter().code(flows.step).notes == (
        f"what step() in flows.py reaches by {name}() does not count",
    )


def test_a_library_function_replaced_by_the_user_counts(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user put into a library's module is followed like any function of theirs."""
    flows = load("import json\ndef step(x): return json.june_test(x)\ndef a(): return 1\ndef b(): return 2")
    digests = set()
    for function in (flows.a, flows.b):
        monkeypatch.setattr(json, "june_test", function, raising=False)
        digests.add(Fingerprinter().code(flows.step).digest)
    assert len(digests) == 2


def test_a_value_put_into_builtins_counts(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that was added to the builtins counts as one of the module's would."""
    flows = load("def step(): return june_test_secret")
    digests = set()
    for number in (1, 2):
        monkeypatch.setattr(builtins, "june_test_secret", number, raising=False)
        digests.add(Fingerprinter().code(flows.step).digest)
    assert len(digests) == 2


def test_a_method_that_is_a_value_counts_with_its_annotations(load: Any) -> None:
    """A bound method that is handed on may be asked for its signature; the step's own may not."""
    text = """
        class Box:
            def find(self, x: {}): return x
            def step(self): return self.find(1)
        BOX = Box()
        def step(agent): return agent(BOX.find)
        bound = BOX.step
        """
    first, second = load(text.format("int")), None
    given, bound = Fingerprinter().code(first.step), Fingerprinter().code(first.bound)
    second = load(text.format("str"))
    assert given.digest != Fingerprinter().code(second.step).digest
    assert bound.digest == Fingerprinter().code(second.bound).digest


def test_pydantic_fields_and_decorators_count(load: Any) -> None:
    """Defaults, constraints and decorators of a pydantic model count, also where only values tell them."""
    pytest.importorskip("pydantic")
    text = """
        import pydantic, typing
        def model(n):
            class Made(pydantic.BaseModel):
                a: int = n
            return Made
        Made = model({0})
        Small = typing.Annotated[int, pydantic.Field(le={1})]
        Created = pydantic.create_model("Created", a=(int, {2}))
        class Checked(pydantic.BaseModel):
            a: int = 1
            b: Small = 1
            @pydantic.field_validator({3})
            @classmethod
            def check(cls, value): return value * 10
        def step(): return Made, Created, Checked
        """
    base = [1, 1, 1, "'a'"]
    edits = [base, [2, 1, 1, "'a'"], [1, 2, 1, "'a'"], [1, 1, 2, "'a'"], [1, 1, 1, "'b'"]]
    digests = [Fingerprinter().code(load(text.format(*edit)).step).digest for edit in (*edits, base)]
    assert len(set(digests)) == len(edits)
    assert digests[0] == digests[-1]


def test_a_pydantic_model_without_source_counts_by_its_decorators() -> None:
    """What a decorator of pydantic was given is read from the class where there is no statement."""
    pydantic = pytest.importorskip("pydantic")
    text = (
        "class A(pydantic.BaseModel):\n    a: int = 1\n    b: int = 1\n"
        "    @pydantic.field_validator('{}')\n    @classmethod\n    def check(cls, value): return value\n"
    )
    digests = set()
    for field in "ab":
        names: dict[str, Any] = {"pydantic": pydantic, "__name__": "flows"}
        exec(text.format(field), names)
        digests.add(Fingerprinter().classes([names["A"]]))
    assert len(digests) == 2


SCRIPT = """
import json, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from edits import EDITS
from fingerprint_settings import as_module, code_of
print(json.dumps([
    code_of(as_module, Path(sys.argv[1]) / str(place), edit.before, edit.helper_before).digest
    for place, edit in enumerate(EDITS) if edit.since == 11
]))
"""


def pythons() -> list[str]:
    """Interpreters to compare with: `JUNE_PYTHONS`, and those on the path that have what June needs."""
    named = os.environ.get("JUNE_PYTHONS", "").split(os.pathsep)
    named += [shutil.which(f"python3.{minor}") or "" for minor in (11, 12, 13, 14)]
    found = [sys.executable]
    for python in dict.fromkeys(filter(None, named)):
        check = [python, "-c", "import sys, attrs, msgspec; assert sys.version_info >= (3, 11)"]
        if subprocess.run(check, capture_output=True, check=False).returncode == 0:
            found.append(python)
    return found


@pytest.mark.slow
def test_keys_are_equal_across_processes_seeds_folders_and_pythons(tmp_path: Path) -> None:
    """Every text of the table has one fingerprint in any process, whatever its seed, folder or Python."""
    expected = [
        code_of(as_module, tmp_path / "here" / str(place), edit.before, edit.helper_before).digest
        for place, edit in enumerate(EDITS)
        if edit.since == 11
    ]
    script = SCRIPT.format(paths=[str(HERE), str(HERE.parent)])
    for place, python in enumerate([sys.executable, *pythons()]):
        folder = tmp_path / f"there{place}"
        folder.mkdir()
        done = subprocess.run(
            [python, "-c", script, str(folder)],
            env={**os.environ, "PYTHONHASHSEED": str(place), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        different = [
            edit.name
            for edit, a, b in zip([e for e in EDITS if e.since == 11], expected, found, strict=True)
            if a != b
        ]
        assert different == [], python


UNSEEN = {
    "method": "class A:\n    def m(self): return {}",
    "dunder": "class A:\n    def __eq__(self, other): return {}",
    "dataclass": "@dataclasses.dataclass\nclass A:\n    n: int\n    def __eq__(self, other): return {}",
    "attrs": "@attrs.frozen\nclass A:\n    n: int\n    def m(self): return {}",
    "namedtuple": "class A(typing.NamedTuple):\n    n: int\n    def m(self): return {}",
    "enum method": "class A(enum.Enum):\n    N = 1\n    def m(self): return {}",
    "enum value": "class A(enum.Enum):\n    N = {}",
    "property": "class A:\n    @property\n    def p(self): return {}",
    "static": "class A:\n    @staticmethod\n    def m(): return {}",
    "class method": "class A:\n    @classmethod\n    def m(cls): return {}",
    "cached": "class A:\n    @functools.cached_property\n    def m(self): return {}",
    "attribute": "class A:\n    n = {}",
    "base": "class B:\n    def m(self): return {}\nclass A(B): pass",
    "lambda": "class A:\n    m = lambda self: {}",
    "inner": "class A:\n    class B:\n        def m(self): return {}",
    "protocol": "class A(typing.Protocol):\n    def m(self): return {}",
    "metaclass": "class M(type):\n    def m(self): return {}\nclass A(metaclass=M): pass",
}


@pytest.mark.parametrize("name", ["flows", "__main__"])
@pytest.mark.parametrize("text", UNSEEN.values(), ids=UNSEEN)
def test_a_class_without_source_counts_with_all_it_holds(text: str, name: str) -> None:
    """A class from exec or ``python -c`` counts by its methods and attributes, also where no module has it."""
    digests = set()
    for value in ("' '", "'x'"):
        names: dict[str, Any] = {"__name__": name}
        source = "import attrs, dataclasses, enum, functools, typing\n" + text.format(value)
        exec(compile(source, "<string>", "exec", dont_inherit=True), names)
        digests.add(Fingerprinter().classes([names["A"]]))
    assert len(digests) == 2
