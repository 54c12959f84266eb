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
from june.codec import Codec
from june.fingerprints import KeyFailure
from june.messages import Image, Message, Settings
from june.models import Model
from june.outputs import Output
from june.steps import FUNCTION, Declaration
from june.tools import Tool, as_tool

__all__ = ["Agent"]


def _tools(tools: Iterable[Any]) -> tuple[Tool[..., Any], ...]:
    found = tuple(as_tool(one) for one in tools)
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two tools are called {listed(map(repr, twice))}; give one of them another name=")
    return found


def _check_model(agent: object, attribute: object, model: Any) -> None:
    if not callable(getattr(model, "respond", None)):
        hint = "; june.sdk.openai.openai(name) makes one" if isinstance(model, str) else ""
        raise TypeError(f"an agent's model must be a model, not {short_repr(model)}{hint}")
    if not isinstance(getattr(model, "name", None), str):
        raise TypeError(f"the model {short_repr(model)} has no name, which must be a str")
    # What a property gives may take its time, as the digest of a large file does.
    key = getattr_static(model, "settings_key", MISSING)
    problem = "it has none" if key is MISSING else "it is a method" if isinstance(key, FunctionType) else None
    if key is not MISSING and not hasattr(type(key), "__get__"):
        try:
            json.dumps(key)
        except (TypeError, ValueError) as error:
            problem = str(error)
    if problem is not None:
        raise TypeError(
            f"the model {short_repr(model)} needs a settings_key, an attribute or a property that says what "
            f"of it counts in cache keys, in values that JSON can hold: {problem}"
        )


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

        max_turns: How many answers in a row may call tools before the step fails.
    """

    model: Model = attrs.field(validator=_check_model)
    instructions: str = attrs.field(default="", validator=attrs.validators.instance_of(str))
    tools: tuple[Tool[..., Any], ...] = attrs.field(default=(), converter=_tools)
    settings: Settings = attrs.field(factory=Settings, validator=attrs.validators.instance_of(Settings))
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
        records: The pieces of the tools, by label, for explaining a miss.
        failure: Why there can be no key, or None.
        notes: What a reader should know of the tools' code.
    """

    messages: tuple[Message, ...]
    agent: Agent
    output: Output
    parts: Mapping[str, str]
    records: Mapping[str, str]
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
            hint = FUNCTION.output(declaration)
        except Exception:
            hint = MISSING  # what nothing depends on need not be found
        if hint is not MISSING and _cannot_be(hint, _PROMPTS):
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
            await ready()

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
        messages = as_messages(declaration.function(**arguments))
        records: dict[str, str] = {}
        parts: dict[str, str] = {}
        failure = None
        notes: list[str] = []
        try:
            parts["prompt"] = _prompt_digest(agent.instructions, messages)
            parts["settings"] = _settings_digest(agent, records)
            if agent.tools:
                parts["tools"] = _tools_digest(agent.tools, session, declaration.version is None, records)
                for tool in agent.tools:
                    notes += tool.caveats(session)
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
            records=records,
            failure=failure,
            notes=tuple(dict.fromkeys(notes)),
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


_PROMPTS = (str, Message, Image, list, tuple)


def _cannot_be(hint: Any, kinds: tuple[type, ...]) -> bool:
    """Tell whether no value of *kinds*, lists and tuples of messages among them, can have a hint's type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _cannot_be(arguments[0], kinds)
    if origin in (Union, UnionType):
        return all(_cannot_be(one, kinds) for one in arguments)
    try:
        if hint is Any or not isinstance(origin or hint, type):
            return hint is None
        if not any(issubclass(kind, origin or hint) or issubclass(origin or hint, kind) for kind in kinds):
            return True
    except TypeError:
        return False  # a protocol
    items = [one for one in arguments if one is not ...]
    return bool(items) and all(_cannot_be(one, (Message,)) for one in items)


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


def _settings_digest(agent: Agent, records: dict[str, str]) -> str:
    """Hash the model and what it is asked to do."""
    settings = attrs.asdict(agent.settings)
    told = {"model": agent.model.settings_key, "settings": settings}
    records["model"] = _json_digest(told["model"])[:16]
    for name, value in settings.items():
        if value or value == 0:
            records[f"setting {name!r}"] = _json_digest(value)[:16]
    return _json_digest(told)


def _json_digest(value: Any) -> str:
    return digest(json.dumps(_as_sent(value), sort_keys=True).encode()).hex()


def _as_sent(value: Any) -> Any:
    """Give a value as the body of a request has it: a key that is a number is a text there."""
    if isinstance(value, Mapping):
        return {
            json.dumps(name) if not isinstance(name, str) else name: _as_sent(one)
            for name, one in value.items()
        }
    return [_as_sent(one) for one in value] if isinstance(value, (list, tuple)) else value


def _tools_digest(tools: Iterable[Tool[..., Any]], session: Any, code: bool, records: dict[str, str]) -> str:
    """Hash what a model sees of tools, and what they do unless somebody vouches for their code."""
    pieces = []
    for tool in tools:
        label = f"tool {tool.name!r}: "
        for what, found in tool.key(session).items():
            if what != "code" or code:
                pieces += [what.encode(), found.encode()]
                records[label + what] = found[:16]
        if code:
            records.update((f"{label}code {name}", piece) for name, piece in tool.records(session).items())
    return digest(framed(*pieces)).hex()


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
