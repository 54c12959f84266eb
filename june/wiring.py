"""
Wiring: joining steps by their parameters, level by level, and saying what does not fit.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from june._signatures import MISSING, Parameter, innermost
from june._text import listed, near, short_repr
from june.codec import Codec, MistakenType, UnsupportedType, codec_for, refusing
from june.errors import GraphError
from june.graphs import EXTERNAL, ITEM, LIST, STEP, VALUE, Binding, Graph, GraphNode, named
from june.steps import Declaration, Step, declaration_of

__all__ = ["graph"]


def graph(*targets: Any) -> Graph:
    """
    Join steps into a graph, and check it.

    Args:
        *targets: Steps, lists of steps, modules (for all steps that they name), or graphs.

    Raises:
        GraphError: If something is wrong; it lists all problems together, each with its step and place.
        TypeError: If a target is none of these.

    Example:
        >>> from june import step
        >>> @step(id="plan")
        ... def plan(service: str) -> str:
        ...     return f"deploy {service}"
        >>> @step(id="check")
        ... def check(plan: str) -> bool:
        ...     return plan.startswith("deploy")
        >>> graph(check).steps
        (<Step 'plan' (<doctest june.wiring.graph[1]>:1)>, <Step 'check' (<doctest june.wiring.graph[2]>:1)>)
    """
    return build(targets, "graph")


def build(targets: Sequence[Any], caller: str, given: Iterable[str] | None = None) -> Graph:
    """
    Build the graph of *targets*, or take the one that was given.

    Args:
        targets: As for `graph`.
        caller: Name of the function that was called, for messages.
        given: Names of the inputs and resources that a run has, or None to leave those open.

    Raises:
        GraphError: As `graph`; with *given*, also for a parameter that nothing provides.
        TypeError: As `graph`.
    """
    if len(targets) == 1 and isinstance(targets[0], Graph):
        built, problems = targets[0], []
    else:
        steps, single = _flatten(targets, caller)
        builder = _Builder(steps)
        problems = builder.problems
        nodes = builder.build()
        built = Graph(
            nodes, [builder.index[one] for one in steps] if not problems else [], single, builder.externals
        )
    if given is not None:
        problems = problems + _missing(built, frozenset(given))
    if problems:
        raise GraphError(*problems)
    return built


def _flatten(targets: Sequence[Any], caller: str) -> tuple[list[Step[..., Any]], bool]:
    """Spell out the targets as steps; tell whether exactly one step was given, and not in a list."""
    steps: list[Step[..., Any]] = []
    for number, target in enumerate(targets, 1):
        if isinstance(target, Step):
            steps.append(target)
        elif isinstance(target, Graph):
            steps.extend(target.nodes[index].step for index in target.targets)
        elif isinstance(target, ModuleType):
            found = [value for value in vars(target).values() if isinstance(value, Step)]
            if not found:
                raise TypeError(f"{caller}() takes steps, but module {target.__name__!r} names none")
            steps.extend(dict.fromkeys(found))
        elif isinstance(target, (list, tuple)):
            for one in target:
                if not isinstance(one, Step):
                    raise _not_a_step(one, f"argument {number} holds", caller)
            steps.extend(target)
        else:
            raise _not_a_step(target, f"argument {number} is", caller)
    if not steps:
        raise TypeError(f"{caller}() takes at least one step")
    return steps, len(targets) == 1 and isinstance(targets[0], Step)


def _not_a_step(target: object, where: str, caller: str) -> TypeError:
    if inspect.iscoroutine(target):
        # run(plan("web")) instead of run(plan)
        name = target.__name__
        target.close()
        return TypeError(
            f"{caller}() takes steps, but {where} a coroutine, the result of calling {name}(...).\n"
            f"Pass {name}, not {name}(...): the run makes the call and fills its parameters."
        )
    if inspect.isroutine(target):
        name = target.__name__
        return TypeError(
            f"{caller}() takes steps, but {where} the plain function {name}.\n"
            f"Put @step(id={name!r}) above its def."
        )
    return TypeError(
        f"{caller}() takes steps, but {where} {short_repr(target)} of type {type(target).__name__}.\n"
        "If that came from calling a step, pass the step itself: the run makes the call."
    )


class _Wiring:
    """What a step takes, still as steps; `_Builder` turns them into indices when all have one."""

    __slots__ = ("after", "bindings", "pending", "step")

    def __init__(
        self, step: Step[..., Any], bindings: list[Binding], after: Sequence[Step[..., Any]]
    ) -> None:
        self.step = step
        self.bindings = bindings
        self.after = after
        pending: list[Step[..., Any]] = []
        for binding in bindings:
            how = binding.how
            if how == STEP:
                pending.append(binding.source)
            elif how == LIST:
                pending += binding.source
            elif how == ITEM and isinstance(binding.source, Step):
                pending.append(binding.source)
        if after:
            pending += after
        self.pending = iter(pending)


class _Builder:
    """Builds one graph, and collects what is wrong with it."""

    def __init__(self, targets: Sequence[Step[..., Any]]) -> None:
        self.targets = targets
        self.problems: list[str] = []
        self.index: dict[Step[..., Any], int] = {}
        self.externals: list[tuple[GraphNode, Binding]] = []
        self._nodes: list[GraphNode] = []
        self._by_id: dict[str, Step[..., Any]] = {}
        self._implicit: dict[tuple[Declaration, str], Step[..., Any] | None] = {}
        self._modules: dict[int, dict[str, Step[..., Any]]] = {}
        self._codecs: dict[Declaration, Codec] = {}
        self._named_ids: dict[str, Step[..., Any]] = {}
        self._named_names: dict[str, list[Step[..., Any]]] = {}
        self._name_explicit()

    # -- The steps that the targets name explicitly, transitively (level 2 of binding).

    def _name_explicit(self) -> None:
        seen: dict[Step[..., Any], None] = dict.fromkeys(self.targets)
        queue = list(seen)
        unresolved: list[tuple[Step[..., Any], str]] = []
        while queue:
            step = queue.pop()
            for one in _explicit(step):
                if isinstance(one, str):
                    unresolved.append((step, one))
                elif one not in seen:
                    seen[one] = None
                    queue.append(one)
            if not queue:
                known = {other.id for other in seen}
                for owner, name in unresolved:
                    found = None if name in known else self._in_scope(owner, name)
                    if found is not None and found not in seen:
                        seen[found] = None
                        queue.append(found)
                unresolved.clear()
        named: dict[Declaration, list[Step[..., Any]]] = {}
        for step in seen:
            self._named_ids.setdefault(step.id, step)
            named.setdefault(declaration_of(step), []).append(step)
        for declaration, steps in named.items():
            self._named_names.setdefault(declaration.name, []).extend(steps)

    def _in_scope(self, step: Step[..., Any], wanted: str) -> Step[..., Any] | None:
        """Find a step by id among those that the step's function can see."""
        declaration = declaration_of(step)
        for one in declaration.scope_steps.values():
            if one.id == wanted:
                return one
        names = getattr(innermost(declaration.function), "__globals__", {})
        if id_map := self._modules.get(id(names)):
            return id_map.get(wanted)
        id_map = {}
        for value in list(names.values()):
            if isinstance(value, Step):
                id_map.setdefault(value.id, value)
        self._modules[id(names)] = id_map
        return id_map.get(wanted)

    # -- Walking, depth first, without recursion: chains of 100,000 steps are ordinary.

    def build(self) -> list[GraphNode]:
        for target in self.targets:
            if target not in self.index:
                self._visit(target)
        return self._nodes

    def _visit(self, target: Step[..., Any]) -> None:
        stack = [self._enter(target)]
        under_way: dict[Step[..., Any], None] = {target: None}
        while stack:
            wiring = stack[-1]
            for source in wiring.pending:
                if source in self.index:
                    continue
                if source in under_way:
                    self._report_cycle(source, stack)
                    continue
                under_way[source] = None
                stack.append(self._enter(source))
                break
            else:
                stack.pop()
                del under_way[wiring.step]
                self._leave(wiring)

    def _enter(self, step: Step[..., Any]) -> _Wiring:
        other = self._by_id.setdefault(step.id, step)
        if other is not step:
            self.problems.append(
                f"two steps have the id {step.id!r}: {declaration_of(other).place} and "
                f"{declaration_of(step).place}. Give one of them another id, also if it is a bound copy."
            )
        declaration = declaration_of(step)
        bound = step.bound
        bindings = [
            self._bound(step, parameter, bound[parameter.name])
            if parameter.name in bound
            else self._declared(step, declaration, parameter)
            for parameter in declaration.parameters
        ]
        after = [found for one in declaration.after if (found := self._find(step, one, "after")) is not None]
        return _Wiring(step, bindings, after)

    def _leave(self, wiring: _Wiring) -> None:
        index = self.index
        externals: list[Binding] | None = None
        for binding in wiring.bindings:
            how = binding.how
            if how == STEP:
                binding.source = index.get(binding.source, 0)
            elif how == EXTERNAL:
                externals = externals or []
                externals.append(binding)
            elif how == LIST:
                binding.source = tuple([index.get(one, 0) for one in binding.source])
            elif how == ITEM:
                if isinstance(binding.source, Step):
                    binding.source = index.get(binding.source, 0)
                else:
                    externals = externals or []
                    externals.append(binding)
        declaration = declaration_of(wiring.step)
        codec = self._codecs.get(declaration)
        if codec is None:
            codec = self._codecs[declaration] = self._codec(wiring.step, declaration)
        node = GraphNode(
            wiring.step,
            tuple(wiring.bindings),
            tuple(index.get(one, 0) for one in wiring.after) if wiring.after else (),
            codec,
        )
        if externals is not None:
            self.externals += [(node, binding) for binding in externals]
        index[wiring.step] = len(self._nodes)
        self._nodes.append(node)

    def _report_cycle(self, step: Step[..., Any], stack: list[_Wiring]) -> None:
        path = [wiring.step for wiring in stack]
        path = path[path.index(step) :]
        lines = [
            f"  {named(one)} needs {needed.id!r}" for one, needed in zip(path, [*path[1:], step], strict=True)
        ]
        self.problems.append(
            "these steps wait for each other, so none can start:\n"
            + "\n".join(lines)
            + "\nDrop one of these parameters, or split one of the steps."
        )

    # -- Binding one parameter.

    def _bound(self, step: Step[..., Any], parameter: Parameter, value: Any) -> Binding:
        """Level 1: a value that bind() fixed; a step, or a list with steps in it, is a dependency."""
        if isinstance(value, Step):
            return Binding(parameter, STEP, value, parameter.wants_dict)
        if type(value) in (list, tuple) and value and all(isinstance(one, Step) for one in value):
            return Binding(parameter, LIST, list(value))
        return Binding(parameter, VALUE, value)

    def _declared(self, step: Step[..., Any], declaration: Declaration, parameter: Parameter) -> Binding:
        name = parameter.name
        if declaration.each is not None and declaration.each[0] == name:
            return self._item(step, parameter, declaration.each[1])
        if name in declaration.needs:
            needed = declaration.needs[name]
            if not isinstance(needed, (Step, str)):
                return Binding(
                    parameter,
                    LIST,
                    [found for one in needed if (found := self._find(step, one, "needs")) is not None],
                )
            found = self._find(step, needed, "needs")
            if found is None:
                return Binding(parameter, VALUE, None)
            return Binding(parameter, STEP, found, parameter.wants_dict)
        # The answer is the same for all copies of one function, but for a step that would find itself.
        key = (declaration, name)
        if key in self._implicit and self._implicit[key] is not step:
            found = self._implicit[key]
        else:
            found = self._implicit[key] = self._look_for(step, declaration, name)
        if found is not None:
            return Binding(parameter, STEP, found, parameter.wants_dict)
        return Binding(parameter, EXTERNAL, name)

    def _item(self, step: Step[..., Any], parameter: Parameter, source: Any) -> Binding:
        if isinstance(source, str):
            declaration = declaration_of(step)
            found = self._named_ids.get(source) or self._in_scope(step, source)
            if found is None or found is step:
                found = self._look_for(step, declaration, source)
            return Binding(parameter, ITEM, source if found is None else found)
        return Binding(parameter, ITEM, source)

    def _find(
        self, step: Step[..., Any], needed: Step[..., Any] | str, argument: str
    ) -> Step[..., Any] | None:
        """Find a step that *step* names explicitly, by itself or by its id."""
        if isinstance(needed, Step):
            return needed
        found = self._named_ids.get(needed) or self._in_scope(step, needed)
        if found is None:
            hint = near(needed, [*self._named_ids, *self._by_id])
            self.problems.append(
                f"step {named(step)} names {needed!r} in {argument}, but no step has that id."
                + (
                    f" Did you mean {hint[0]!r}?"
                    if hint
                    else " Name the step itself, or add it to the targets."
                )
            )
        return found

    def _look_for(self, step: Step[..., Any], declaration: Declaration, name: str) -> Step[..., Any] | None:
        """Levels 2 to 4: a step that the parameter's name alone says."""
        found = self._named_ids.get(name)
        if found is not None and found is not step:
            return found
        candidates = [one for one in self._named_names.get(name, ()) if one is not step]
        if len(candidates) > 1:
            self.problems.append(
                f"step {named(step)} asks for {name!r}, and that is the function of several steps: "
                f"{listed(named(one) for one in candidates)}. Say which with needs={{{name!r}: ...}}."
            )
            return candidates[0]
        if candidates:
            return candidates[0]
        found = declaration.scope_steps.get(name)
        if found is not None and found is not step:
            return found
        found = getattr(innermost(declaration.function), "__globals__", {}).get(name)
        return found if isinstance(found, Step) and found is not step else None

    def _codec(self, step: Step[..., Any], declaration: Declaration) -> Codec:
        try:
            annotation = declaration.kind.output(declaration)
        except Exception as error:
            self.problems.append(
                f"step {named(step)}: its return annotation cannot be resolved ({error}). "
                "Define or import the name where the step's module can see it."
            )
            return codec_for(MISSING)
        try:
            codec = codec_for(annotation, declaration.scope_names())
        except MistakenType as error:
            self.problems.append(f"step {named(step)}: {error}")
            return codec_for(MISSING)
        except UnsupportedType as error:
            # The work can be done all the same; that its result is not saved is said when it is there.
            codec = refusing(annotation, error)
        problem = declaration.kind.problem(declaration, codec)
        if problem is not None:
            self.problems.append(f"step {named(step)}: {problem}")
        return codec


def _explicit(step: Step[..., Any]) -> list[Step[..., Any] | str]:
    """Give what *step* names in needs, each, after and bind; ids as they stand."""
    declaration = declaration_of(step)
    found: list[Step[..., Any] | str] = []
    for needed in declaration.needs.values():
        if isinstance(needed, (Step, str)):
            found.append(needed)
        else:
            found += needed
    if declaration.each is not None:
        found.append(declaration.each[1])
    if declaration.after:
        found += declaration.after
    for value in step.bound.values():
        if type(value) is Step or isinstance(value, Step):
            found.append(value)
        elif type(value) in (list, tuple):
            found += [one for one in value if isinstance(one, Step)]
    return found


def _missing(built: Graph, given: frozenset[str]) -> list[str]:
    """Word what the run was not given."""
    problems = []
    for node, binding in built.externals:
        if binding.source in given or (binding.how == EXTERNAL and binding.default is not MISSING):
            continue
        name = binding.source
        if binding.how == ITEM:
            asks = f"runs over {name!r} (each={{{binding.name!r}: {name!r}}})"
        else:
            asks = f"asks for {name!r}"
        problems.append(
            f"step {named(node.step)} {asks}, but no step has that id and the run has no such input.\n"
            + _suggestion(built, node, name, given)
        )
    return problems


def _suggestion(built: Graph, node: GraphNode, name: str, given: Iterable[str]) -> str:
    places = {other.step.id: named(other.step) for other in built.nodes if other is not node}
    for value in getattr(innermost(node.declaration.function), "__globals__", {}).values():
        if isinstance(value, Step) and value is not node.step:
            places.setdefault(value.id, named(value))
    places.update({other: f"{other!r}, an input" for other in given})
    if name in places:
        return (
            f"{places[name]} has that id, but is bound to another name where {node.step.id!r} is defined. "
            f"Pass it to the run as well, or say needs={{{name!r}: ...}}."
        )
    hint = near(name, places)
    meant = f"Did you mean {places[hint[0]]}? " if hint else ""
    return f"{meant}For a value given at the start, pass inputs={{{name!r}: ...}}."
