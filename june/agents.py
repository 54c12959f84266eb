"""
Agents: models with instructions, tools and settings, and the steps whose function writes the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from inspect import getattr_static
from types import FunctionType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import attrs
import msgspec

from june._digests import digest, framed
from june._signatures import MISSING
from june._text import listed, short_repr
from june.codec import Codec, has_fields
from june.fingerprints import Fingerprinter, KeyFailure
from june.messages import Image, Message, Settings
from june.models import Model
from june.outputs import Output
from june.steps import FUNCTION, Declaration
from june.tools import Tool, as_tools

__all__ = ["Agent"]


def _tools(tools: Any) -> tuple[Tool[..., Any], ...]:
    found = as_tools(tools)
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two tools are called {listed(map(repr, twice))}; give one of them another name=")
    return found


def _check_model(agent: object, attribute: object, model: Any) -> None:
    if isinstance(model, type):
        raise TypeError(f"an agent's model must be a model, not the class {model.__name__}; make one of it")
    # Not its own repr, which may show what is secret.
    shown = short_repr(model) if type(model).__module__ == "builtins" else f"of class {type(model).__name__}"
    if not callable(getattr(model, "respond", None)):
        hint = "; june.sdk.openai.openai(name) makes one" if isinstance(model, str) else ""
        raise TypeError(f"an agent's model must be a model, not {shown}{hint}")
    if not isinstance(getattr(model, "name", None), str):
        raise TypeError(f"the model {shown} has no name, which must be a str")
    problem = _problem_of_key(model)
    if problem is not None:
        raise TypeError(
            f"the model {shown} needs a settings_key, an attribute or a property that says what of it counts "
            f"in cache keys, in values that JSON can hold: {problem}"
        )


def _problem_of_key(model: object) -> str | None:
    """Say what is wrong with a model's key, as far as it can be seen without a property's being evaluated."""
    # What a property gives may take its time, as the digest of a large file does.
    key = getattr_static(model, "settings_key", MISSING)
    if key is MISSING:
        # One that stands for another model has what that has.
        return None if hasattr(type(model), "__getattr__") else "it has none"
    if isinstance(key, (FunctionType, staticmethod, classmethod)):
        return "it is a method"
    if hasattr(type(key), "__get__"):
        return None
    try:
        _json_digest(key)
    except (TypeError, ValueError, RecursionError) as error:
        return str(error)
    return None


def _check_is(kind: type) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(agent: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            shown = "a str" if kind is str else f"june.{kind.__name__}"
            raise TypeError(f"{attribute.name} must be {shown}, not {short_repr(value)}")

    return check


def _check_count(agent: object, attribute: attrs.Attribute[int], count: object) -> None:
    least = 1 if attribute.name == "max_turns" else 0
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise ValueError(f"{attribute.name} must be a whole number from {least}, not {short_repr(count)}")


@attrs.frozen(eq=False)
class Agent:
    """
    A model with what it is told and may do.

    Attributes:
        model: The model, as `june.sdk.openai.openai` makes one.

        instructions: What goes before each prompt, as a system message.

        tools: Functions that the model may call, each made by `june.tool`, or plain.

        settings: See `june.Settings`.

        output_retries: How often the model is told what was wrong with an answer that does not fit the type
            that was asked for, and asked again, before the step fails.

        max_turns: At which answer that calls tools the step fails; those before it may.
    """

    model: Model = attrs.field(validator=_check_model)
    instructions: str = attrs.field(default="", validator=_check_is(str))
    tools: tuple[Tool[..., Any], ...] = attrs.field(default=(), converter=_tools)
    settings: Settings = attrs.field(factory=Settings, validator=_check_is(Settings))
    output_retries: int = attrs.field(default=1, validator=_check_count)
    max_turns: int = attrs.field(default=10, validator=_check_count)


@attrs.frozen(kw_only=True, eq=False)
class Rendered:
    """
    A prompt as it is sent, with all that it is sent with.

    Attributes:
        messages: The prompt.
        agent: The agent, with the step's own tools and settings.
        output: The type of the answer.
        parts: Part name to hex digest, as they stand in the step's cache key.
        rows: Digests of the settings and the tools, and the pieces of each by label, for explaining a miss.
        failure: Why there can be no key, or None.
        notes: What a reader should know of the tools' code.
    """

    messages: tuple[Message, ...]
    agent: Agent
    output: Output
    parts: Mapping[str, str]
    rows: Mapping[str, Mapping[str, str]]
    failure: str | None
    notes: tuple[str, ...]


@attrs.frozen(eq=False)
class PromptKind:
    """
    Prompt steps: the function returns the prompt, and a model's answer to it is the result.

    Attributes:
        agent: The agent, or a function of some of the step's parameters that gives it.
        agent_parameters: Those parameters.
        type: The type of the result.
        tools: Tools beside the agent's.
        settings: Settings that go over the agent's.
    """

    agent: Agent | Callable[..., Agent]
    agent_parameters: tuple[str, ...]
    type: Any
    tools: tuple[Tool[..., Any], ...]
    settings: Settings

    name = "prompt"
    reads_values = True

    def output(self, declaration: Declaration) -> Any:
        return str if self.type is MISSING else self.type

    def problem(self, declaration: Declaration, codec: Codec) -> str | None:
        try:
            # What wraps a function has that one's hints.
            hint = MISSING if hasattr(declaration.function, "__wrapped__") else FUNCTION.output(declaration)
        except Exception:
            hint = MISSING  # what nothing depends on need not be found
        if hint is not MISSING and _is_no_prompt(hint):
            shown = getattr(hint, "__name__", None) if get_origin(hint) is None else None
            return (
                f"its function returns the prompt, and is said to return {shown or hint}; "
                "for the type of the answer, pass output="
            )
        try:
            Output.of(codec)
        except Exception as problem:
            return f"no model can be asked for its output: {problem}"
        if isinstance(self.agent, Agent):
            try:
                for tool in self._with_own(self.agent).tools:
                    tool.spec  # noqa: B018 # its schema is made now
            except Exception as problem:
                return str(problem)
        return None

    def schema(self, codec: Codec) -> bytes | None:
        return msgspec.json.encode(Output.of(codec).schema, order="deterministic")

    def parts(self, declaration: Declaration, session: Any) -> dict[str, str]:
        # All but the output depends on the inputs; see render(). What tools are is read now, for all steps,
        # before a tool can change what another one holds.
        if isinstance(self.agent, Agent):
            for tool in self._with_own(self.agent).tools:
                tool.key(session)
        return {}

    async def prepare(self) -> None:
        # An agent that a function gives is not known yet.
        ready = getattr(self.agent.model, "__june_prepare__", None) if isinstance(self.agent, Agent) else None
        if ready is not None:
            try:
                await ready()
            except Exception:
                # What is wrong with the model, the step that renders will meet.
                pass

    def render(
        self, declaration: Declaration, arguments: Mapping[str, Any], codec: Codec, session: Any
    ) -> Rendered:
        """
        Make the prompt.

        Args:
            declaration: The step's declaration.
            arguments: The values of its parameters.
            codec: That of its result.
            session: The run's `june.fingerprints.Fingerprinter`.

        Raises:
            TypeError: If the function returns what is no prompt, or what should give an agent does not.
            Exception: Whatever the functions raise.
        """
        agent = self._agent(arguments)
        # What becomes of them meanwhile is not what the key is made of.
        agent = attrs.evolve(agent, settings=agent.settings.copied())
        messages = as_messages(declaration.function(**arguments))
        rows: dict[str, Mapping[str, str]] = {}
        parts: dict[str, str] = {}
        failure = None
        notes: tuple[str, ...] = ()
        try:
            parts["prompt"] = _prompt_digest(agent.instructions, messages)
            parts["settings"], settings = _settings_key(agent, session)
            rows[parts["settings"]] = settings
            if agent.tools:
                parts["tools"], tools, notes = _tools_key(agent.tools, session, declaration.version is None)
                rows[parts["tools"]] = tools
        except Exception as problem:
            # Never a part of a key: the step runs, and its result is not saved.
            failure = (
                str(problem) if isinstance(problem, KeyFailure) else f"{type(problem).__name__}: {problem}"
            )
        return Rendered(
            messages=messages,
            agent=agent,
            output=Output.of(codec),
            parts=parts,
            rows=rows,
            failure=failure,
            notes=notes,
        )

    def _agent(self, arguments: Mapping[str, Any]) -> Agent:
        agent = self.agent
        if not isinstance(agent, Agent):
            agent = agent(**{name: arguments[name] for name in self.agent_parameters})
            if not isinstance(agent, Agent):
                raise TypeError(f"agent= gave {short_repr(agent)}, not an Agent")
        return self._with_own(agent)

    def _with_own(self, agent: Agent) -> Agent:
        """Add the step's own tools and settings."""
        if not self.tools and self.settings == Settings():
            return agent
        return attrs.evolve(
            agent, tools=(*agent.tools, *self.tools), settings=self.settings.over(agent.settings)
        )


def _is_no_prompt(hint: Any) -> bool:
    """Tell whether a hint is clearly that of an answer: of plain data or of an object with fields."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_no_prompt(arguments[0])
    if origin in (Union, UnionType):
        return all(_is_no_prompt(one) for one in arguments)
    if origin in (list, tuple):
        items = [one for one in arguments if one is not ...]
        return bool(items) and all(_is_no_prompt(one) or one is str for one in items)
    kind = origin or hint
    if hint is None or hint is object or not isinstance(kind, type):
        return hint is None
    if kind is tuple or issubclass(kind, (str, Message, Image, list)):
        return False
    # A class of the user's may be a base of what a prompt is made of.
    return kind.__module__ == "builtins" or has_fields(kind)


def as_messages(prompt: object) -> tuple[Message, ...]:
    """
    Give a prompt as messages, its images loaded.

    Raises:
        TypeError: If it is neither a text, a message, an image, nor a list of messages.
    """
    if isinstance(prompt, (str, Image)):
        prompt = Message(prompt)
    messages = [prompt] if isinstance(prompt, Message) else prompt
    if not isinstance(messages, (list, tuple)) or not all(isinstance(one, Message) for one in messages):
        mixed = isinstance(messages, (list, tuple)) and all(
            isinstance(one, (str, Image, Message)) for one in messages
        )
        hint = "; the texts and images of one message go into Message([...])" if mixed else ""
        raise TypeError(
            "a prompt step's function returns the prompt, a str, a Message or a list of Messages, "
            f"not {short_repr(prompt)}{hint}"
        )
    if not messages:
        raise TypeError("a prompt step's function returned no message")
    return tuple(
        attrs.evolve(
            message,
            content=tuple(part.loaded() if isinstance(part, Image) else part for part in message.content),
        )
        for message in messages
    )


def _settings_key(agent: Agent, session: Fingerprinter) -> tuple[str, Mapping[str, str]]:
    """Hash the model and what it is asked to do: all of it, and piece by piece."""
    settings = attrs.asdict(agent.settings, recurse=False)
    model = agent.model.settings_key
    whole = _json_digest({"model": model, "settings": settings})
    row = session.memo.get(whole)
    if row is None:
        row = session.memo[whole] = {"model": _json_digest(model)[:16]}
        for name, value in settings.items():
            if value or value == 0:
                row[f"setting {name!r}"] = _json_digest(value)[:16]
    return whole, row


def _json_digest(value: Any) -> str:
    # The order of what is said counts: a model reads it.
    return digest(json.dumps(_as_sent(value)).encode()).hex()


def _as_sent(value: Any) -> Any:
    """Give a value as the body of a request has it: a key that is a number is a text there."""
    if isinstance(value, Mapping):
        return {
            name if isinstance(name, str) else json.dumps(name): _as_sent(one) for name, one in value.items()
        }
    return [_as_sent(one) for one in value] if isinstance(value, (list, tuple)) else value


def _tools_key(
    tools: tuple[Tool[..., Any], ...], session: Fingerprinter, code: bool
) -> tuple[str, Mapping[str, str], tuple[str, ...]]:
    """
    Hash what a model sees of tools, and what they do unless somebody vouches for their code.

    Returns:
        All of it, piece by piece, and what a reader should know of their code.
    """
    # They live as long as the session has them.
    known = session.memo.get((tools, code))
    if known is None:
        pieces: list[bytes] = []
        row: dict[str, str] = {}
        for tool in tools:
            label = f"tool {tool.name!r}: "
            for what, found in tool.key(session).items():
                if what != "code" or code:
                    pieces += [what.encode(), found.encode()]
                    row[label + what] = found[:16]
            if code:
                row.update((f"{label}code {name}", piece) for name, piece in tool.records(session).items())
        notes = dict.fromkeys(note for tool in tools for note in tool.caveats(session))
        known = session.memo[tools, code] = digest(framed(*pieces)).hex(), row, tuple(notes)
    return known


def _prompt_digest(instructions: str, messages: Iterable[Message]) -> str:
    pieces = [instructions.encode("utf-8", "surrogatepass")]
    for message in messages:
        pieces.append(message.role.encode())
        for part in message.content:
            if isinstance(part, str):
                pieces += [b"text", part.encode("utf-8", "surrogatepass")]
            elif isinstance(part.source, str):
                pieces += [b"address", part.source.encode("utf-8", "surrogatepass")]
            else:
                assert isinstance(part.source, bytes)  # it is loaded
                pieces += [b"image", (part.media_type or "").encode(), digest(part.source)]
        pieces.append(b"end")
    return digest(framed(*pieces)).hex()
