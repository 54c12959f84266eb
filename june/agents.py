"""
Agents: models with instructions, tools and settings, and the steps whose function writes the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
from june.steps import Declaration
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

    def problem(self, codec: Codec) -> str | None:
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
            parts["settings"] = _settings_digest(agent)
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
        raise TypeError(
            "a prompt step's function returns the prompt, a str or a list of Messages, "
            f"not {short_repr(prompt)}"
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


def _settings_digest(agent: Agent) -> str:
    told = {"model": agent.model.settings_key, "settings": attrs.asdict(agent.settings)}
    # As the body of a request is written: a key that is a number is a text there.
    return digest(json.dumps(told, sort_keys=True).encode()).hex()


def _tools_digest(tools: Iterable[Tool[..., Any]], session: Any, code: bool, records: dict[str, str]) -> str:
    """Hash what a model sees of tools, and what they do unless somebody vouches for their code."""
    pieces = []
    for tool in tools:
        for what, found in tool.key(session).items():
            if what != "code" or code:
                pieces += [what.encode(), found.encode()]
                records[f"tool {tool.name!r}: {what}"] = found[:16]
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
