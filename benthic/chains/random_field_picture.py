"""A field as a drawn graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.chains.graph_messages import Graph
from benthic.pictures.canvas import new_figure

_NAMED = 40  # variables that still have room for their names


def edge_information(nodes: np.ndarray, edges: np.ndarray, graph: Graph) -> np.ndarray:
    """(m,) mutual information in nats between the ends of every edge, from marginals (v, k) and (m, k, k)."""
    first, second = graph.edges.numpy().T
    apart = nodes[first][:, :, None] * nodes[second][:, None, :]
    ratio = np.log(np.maximum(edges, 1e-300)) - np.log(np.maximum(apart, 1e-300))
    found: np.ndarray = np.where(edges > 0, edges * ratio, 0.0).sum((1, 2))
    return found.clip(min=0.0)


def places(graph: Graph, rounds: int = 300) -> np.ndarray:
    """(v, 2) a layout: edges pull, all variables push (Fruchterman & Reingold, 1991), from a circle."""
    n = graph.n
    angle = 2 * np.pi * np.arange(n) / max(n, 1)
    spot = np.column_stack([np.cos(angle), np.sin(angle)])
    first, second = graph.edges.numpy().T
    ideal = 1.6 / np.sqrt(max(n, 1))
    for step in range(rounds):
        gap = spot[:, None] - spot[None]
        distance = np.sqrt((gap**2).sum(-1)) + 1e-3
        move = (gap * (ideal**2 / distance**2)[..., None]).sum(1)
        along = spot[first] - spot[second]
        force = along * (np.sqrt((along**2).sum(-1)) / ideal)[:, None]
        np.add.at(move, first, -force)
        np.add.at(move, second, force)
        size = np.sqrt((move**2).sum(-1, keepdims=True)) + 1e-12
        spot = spot + move / size * np.minimum(size, 0.15 * (1 - step / rounds))
    return spot - spot.mean(0)


def draw_field(graph: Graph, nodes: np.ndarray, edges: np.ndarray, names: list[str]) -> Any:
    """Variables as dots, edges as lines as wide as the information they carry; a large graph as a histogram too."""
    shared = edge_information(nodes, edges, graph)
    if graph.n > 400:
        figure, axes = new_figure(5.0, 3.2)
        axes.hist(shared, 40, color="C0")
        axes.set(xlabel="mutual information of an edge (nats)", ylabel="edges", title=f"{graph.n} variables")
        return figure
    figure, axes = new_figure(6.4, 5.6)
    spot = places(graph)
    widest = max(float(shared.max(initial=0.0)), 1e-12)
    for (i, j), value in zip(graph.edges.tolist(), shared, strict=True):
        axes.plot(*spot[[i, j]].T, color="C0", linewidth=0.4 + 4.0 * value / widest, alpha=0.7, zorder=1)
    axes.scatter(*spot.T, s=60 if graph.n <= _NAMED else 12, color="white", edgecolor="0.25", zorder=2)
    if graph.n <= _NAMED:
        for name, (x, y) in zip(names, spot, strict=True):
            axes.annotate(
                name, (x, y), xytext=(0, 6), textcoords="offset points", ha="center", fontsize="x-small", zorder=3
            )
    axes.set(
        aspect="equal", title=f"widest edge: {widest:.2g} nats of mutual information" if len(shared) else "no edges"
    )
    axes.margins(0.15)
    axes.set_axis_off()
    return figure
