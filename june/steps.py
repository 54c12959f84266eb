"""
Steps: functions that say by their parameters what they need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import attrs

from june._signatures import Parameter, Place, innermost, return_annotation
from june._text import listed, near, short_repr
from june.retries import RetryStrategy

__all__ = ["Step"]

P = ParamSpec("P")
R = TypeVar("R")

Needed: TypeAlias = "Step[..., Any] | str | Sequence[Step[..., Any] | str]"
"""What ``needs=`` binds a parameter to: a step, an id, or a list of them."""

_BAD_IN_ID = re.compile(r"[\[\]/\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Kind(Protocol):
    """
    What makes a step a function step, a prompt step or a job step: how it renders and executes.

    Attributes:
        name: The word for it in traces: ``function``, ``prompt``, ``job``.
        reads_values: Whether rendering needs the values of the inputs, and makes the key of what it gives
            rather than of what the inputs add.
    """

    @property
    def name(self) -> str: ...

    @property
    def reads_values(self) -> bool: ...

    def output(self, declaration: Declaration) -> Any:
        """
        Resolve the type of the result, `MISSING` if none is declared.

        Raises:
            Exception: Whatever evaluating the annotation raises.
        """

    def problem(self, declaration: Declaration, codec: Any) -> str | None:
        """Say why a step whose results have this codec cannot be run, or None."""

    def schema(self, codec: Any) -> bytes | None:
        """Give what else of the result's type counts in the key, or None: the schema a model is told."""

    async def prepare(self) -> None:
        """Get ready what rendering needs and would hold up the event loop, for a kind that reads values."""

    def render(self, declaration: Declaration, arguments: Mapping[str, Any], codec: Any, session: Any) -> Any:
        """
        Render a step whose kind reads values.

        Args:
            declaration: The step's declaration.
            arguments: The values of its parameters.
            codec: That of its result.
            session: The run's `june.fingerprints.Fingerprinter`.

        Returns:
            What it executes, with ``parts``, ``records`` and ``failure`` for `june.keys.Recipe.rendered`.
        """

    def parts(self, declaration: Declaration, session: Any) -> dict[str, str]:
        """
        Hash the parts of the cache key that no input changes.

        Args:
            declaration: The step's declaration.
            session: The run's `june.fingerprints.Fingerprinter`.

        Returns:
            Part name to hex digest, in the order in which they stand in the key.
        """


@attrs.frozen(eq=False, kw_only=True)
class Declaration:
    """What a ``@step`` line and its function say, shared by a step and all its bound copies."""

    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    kind: Kind
    place: Place
    is_async: bool
    needs: Mapping[str, Needed]
    after: tuple[Step[..., Any] | str, ...]
    each: tuple[str, Any] | None
    label: Callable[..., Any] | None
    when: Callable[..., Any] | None
    when_parameters: tuple[str, ...]
    version: str | None
    vary: Any
    vary_parameters: tuple[str, ...]
    save: bool
    retry: RetryStrategy | None
    timeout: float | None
    runs_on: str
    limit: str | None
    approval: str | None
    scope_steps: Mapping[str, Step[..., Any]]
    scope: Any

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(innermost(self.function), "__name__", type(self.function).__name__)

    def parameter(self, name: str) -> Parameter:
        """Find a parameter by its name."""
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def scope_names(self) -> Mapping[str, Any]:
        """Names of the function in which the step was decorated, as they are now."""
        return {} if self.scope is None else self.scope.f_locals


class Step(Generic[P, R]):
    """
    A decorated function: what `step` returns.

    It stays callable: ``plan("web")`` calls the plain function, so a step is tested like any function.

    Attributes:
        id: The step's identity in snapshots and traces.
        bound: Parameters that `bind` fixed, by name.
    """

    __slots__ = ("__weakref__", "_declaration", "bound", "id")

    id: str
    bound: Mapping[str, Any]
    _declaration: Declaration

    def __init__(self, id: str, declaration: Declaration, bound: Mapping[str, Any]) -> None:
        self.id = id
        self._declaration = declaration
        self.bound = bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.bound:
            return cast(R, self._declaration.function(*args, **{**self.bound, **kwargs}))
        return cast(R, self._declaration.function(*args, **kwargs))

    def bind(self, *, id: str, **bound: Any) -> Step[..., R]:
        """
        Make another step of the same function with some parameters fixed.

        A bound value is an input: it is hashed into the cache key, and `version` does not hide it. A step
        (or a list of steps) given here is a dependency.

        Args:
            id: The new step's id.
            **bound: Values, or steps, by parameter.

        Raises:
            TypeError: If the function has no parameter of that name.
            ValueError: If the id is not one.
        """
        declaration = self._declaration
        check_id(id)
        names = {parameter.name for parameter in declaration.parameters}
        for name in bound:
            if name not in names:
                hint = near(name, names)
                raise TypeError(
                    f"step {self.id!r} ({declaration.place}) has no parameter {name!r} to bind; "
                    + (f"did you mean {hint[0]!r}?" if hint else f"it has {listed(sorted(names)) or 'none'}")
                )
            if declaration.each is not None and declaration.each[0] == name:
                raise TypeError(
                    f"step {self.id!r} ({declaration.place}) runs once per item of its parameter {name!r}, "
                    "so it cannot be bound; bind the others"
                )
        return Step(id, declaration, {**self.bound, **bound} if self.bound else bound)

    # What functools.wraps would give, and inspect.signature follows.

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return self._declaration.function

    @property
    def __name__(self) -> str:
        return self._declaration.name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # a property where object has a value
        return self._declaration.function.__doc__

    def __june_key__(self) -> object:
        # Code that names a step calls its function, so that is what counts.
        return (self._declaration.function, dict(self.bound)) if self.bound else self._declaration.function

    def __repr__(self) -> str:
        return f"<Step {self.id!r} ({self._declaration.place})>"


def declaration_of(step: Step[..., Any]) -> Declaration:
    """Give the declaration of *step*: for June's own modules, so that users see no machinery on a step."""
    return step._declaration


def check_id(id: object) -> None:
    """
    Check a step id.

    Raises:
        TypeError: If it is not a string.
        ValueError: If it is empty, or holds a control character, ``[``, ``]`` or ``/``.
    """
    if not isinstance(id, str):
        raise TypeError(f"a step's id must be a string, not {short_repr(id)}")
    if not id:
        raise ValueError("a step's id must not be empty")
    bad = _BAD_IN_ID.search(id)
    if bad:
        why = (
            "is kept for the ids of instances and nested steps"
            if bad.group() in "[]/"
            else "could not be shown or saved"
        )
        raise ValueError(f"the step id {id!r} holds {bad.group()!r}, which {why}; leave it out")


class _FunctionKind:
    """Function steps: the function is the work."""

    name = "function"
    reads_values = False

    def output(self, declaration: Declaration) -> Any:
        return return_annotation(declaration.function, declaration.scope_names())

    def problem(self, declaration: Declaration, codec: Any) -> str | None:
        return None

    def schema(self, codec: Any) -> bytes | None:
        return None

    async def prepare(self) -> None:
        pass

    def render(self, declaration: Declaration, arguments: Mapping[str, Any], codec: Any, session: Any) -> Any:
        raise AssertionError("function steps are not rendered; this is a bug in june")

    def parts(self, declaration: Declaration, session: Any) -> dict[str, str]:
        return {"code": session.code(declaration.function, defaults=False).digest}

    def __repr__(self) -> str:
        return "<function steps>"


FUNCTION = _FunctionKind()
