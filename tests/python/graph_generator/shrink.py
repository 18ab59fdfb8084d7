# SPDX-License-Identifier: BSD-3-Clause
"""Smaller graphs that still fail."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

from .model import Graph


def without_dead_code(graph: Graph) -> Graph:
    """Drops nodes and inputs that no output needs."""
    needed = {
        *graph.outputs,
        *(value for value, _ in graph.aliases),
        *(t for _, t in graph.aliases),
    }
    first = len(graph.inputs)
    for number in range(first + len(graph.nodes) - 1, first - 1, -1):
        if number in needed:
            needed |= set(graph.nodes[number - first].operands)
    kept = [i for i in range(first + len(graph.nodes)) if i in needed]
    new = {old: number for number, old in enumerate(kept)}
    return dataclasses.replace(
        graph,
        inputs=tuple(graph.inputs[i] for i in kept if i < first),
        nodes=tuple(
            dataclasses.replace(
                graph.nodes[i - first],
                operands=tuple(new[o] for o in graph.nodes[i - first].operands),
            )
            for i in kept
            if i >= first
        ),
        outputs=tuple(new[i] for i in graph.outputs),
        aliases=tuple((new[a], new[b]) for a, b in graph.aliases),
    )


def smaller(graph: Graph) -> Iterator[Graph]:
    """Candidates: fewer outputs, an inner value as output, a node bypassed, plainer inputs."""
    for index in range(len(graph.outputs)):
        if len(graph.outputs) > 1 or graph.aliases:
            yield dataclasses.replace(
                graph, outputs=graph.outputs[:index] + graph.outputs[index + 1 :]
            )
    if graph.aliases:
        yield dataclasses.replace(
            graph, aliases=(), outputs=graph.outputs or (graph.aliases[0][0],)
        )
    first = len(graph.inputs)
    for position, number in enumerate(graph.outputs):
        if number >= first:
            for operand in graph.nodes[number - first].operands:
                if operand >= first:
                    outputs = list(graph.outputs)
                    outputs[position] = operand
                    yield dataclasses.replace(graph, outputs=tuple(outputs))
    values = graph.evaluate()
    for index in range(len(graph.nodes)):
        number = first + index
        for operand in graph.nodes[index].operands:
            same = (values[operand].sizes, values[operand].dtype, values[operand].broadcast) == (
                values[number].sizes,
                values[number].dtype,
                values[number].broadcast,
            )
            if same:
                yield bypassed(graph, number, operand)
    for index, each in enumerate(graph.inputs):
        plain = dataclasses.replace(
            each,
            order=tuple(range(len(each.sizes))),
            expanded=(False,) * len(each.sizes),
            padding=0,
            step=1,
            offset=0,
            declaration="contiguous",
        )
        if plain != each:
            inputs = (*graph.inputs[:index], plain, *graph.inputs[index + 1 :])
            yield dataclasses.replace(graph, inputs=inputs)


def bypassed(graph: Graph, number: int, operand: int) -> Graph:
    def swap(i: int) -> int:
        return operand if i == number else i

    return dataclasses.replace(
        graph,
        nodes=tuple(
            dataclasses.replace(node, operands=tuple(map(swap, node.operands)))
            for node in graph.nodes
        ),
        outputs=tuple(map(swap, graph.outputs)),
    )


def shrink(graph: Graph, fails: Callable[[Graph], bool], seconds: float = 60.0) -> Graph:
    """A smaller graph that still fails (greedy, for at most `seconds`)."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for candidate in smaller(graph):
            if time.monotonic() > deadline:
                return graph
            candidate = without_dead_code(candidate)
            if candidate != graph and fails(candidate):
                graph, progress = candidate, True
                break
    return graph
