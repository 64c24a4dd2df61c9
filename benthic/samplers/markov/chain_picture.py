"""A Markov chain as a picture and in words: its graph, its convergence, its summary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.pictures.canvas import new_figure

if TYPE_CHECKING:
    from benthic.samplers.markov.markov_chain import MarkovChain

_RADIUS = 0.13


def layout(links: np.ndarray) -> np.ndarray:
    """Places in the plane (n, 2) whose distances are close to the number of arrows between states.

    Stress majorization (de Leeuw, 1977; Gansner et al., 2004) from a circle. links: (n, n) bool.

    >>> layout(np.ones((2, 2), dtype=bool)).shape
    (2, 2)
    """
    from scipy.sparse.csgraph import shortest_path

    n = len(links)
    apart = shortest_path(links | links.T, unweighted=True, directed=False)
    apart[np.isinf(apart)] = 0.6 * apart[np.isfinite(apart)].max(initial=0) + 1
    weight = 1 / np.where(apart > 0, apart, 1.0) ** 2
    np.fill_diagonal(weight, 0)
    angles = 2 * np.pi * np.arange(n) / n
    places = np.stack([np.cos(angles), 0.9 * np.sin(angles)], 1) * max(1.0, n / 6)
    inverse = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    for _ in range(300):
        gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
        B = -weight * apart / np.where(gaps > 1e-9, gaps, 1.0)
        B -= np.diag(B.sum(1))
        places = inverse @ (B @ places)
    return _turned(places)


def _turned(places: np.ndarray) -> np.ndarray:
    """The long side across, the first state on the left."""
    centered = places - places.mean(0)
    places = centered @ np.linalg.eigh(centered.T @ centered)[1][:, ::-1]
    return places * np.where(places[0] > 0, -1.0, 1.0)


def graph(chain: MarkovChain, max_states: int = 30) -> Any:
    """Nodes, arrows with probabilities, classes by color; the most likely states where there are too many."""
    chosen = _chosen(chain, max_states)
    P = chain._T.csr[chosen][:, chosen].toarray()
    places = layout(P > 0)
    span = np.ptp(places, axis=0) if len(places) > 1 else np.zeros(2)
    figure, axes = new_figure(*np.clip(1.6 * span + 2.2, (4.2, 2.6), 11.0))
    for i, j in zip(*np.nonzero(P), strict=True):
        label = f"{P[i, j]:.3g}" if (P > 0).sum() <= 120 else ""
        if i == j:
            _loop(axes, places[i], _free_angle(P, places, i), P[i, i], label)
        else:
            _arrow(axes, places[i], places[j], P[i, j], label, both=P[j, i] > 0)
    _nodes(axes, chain, chosen, places)
    title = f"{len(chosen)} of {chain.n_states} states" if len(chosen) < chain.n_states else ""
    axes.set(title=title, aspect="equal", xlim=_reach(places[:, 0]), ylim=_reach(places[:, 1]))
    axes.set_axis_off()
    return figure


def _reach(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()) - 0.65, float(values.max()) + 0.65


def _chosen(chain: MarkovChain, most: int) -> np.ndarray:
    if most < 1:
        raise InvalidInput(f"MarkovChain.plot: max_states is {most}; it is 1 or more")
    if chain.n_states <= most:
        return np.arange(chain.n_states)
    if chain.structure.closed.sum() > 1:
        return np.arange(most)
    law = chain.stationary().detach().cpu().numpy()
    return np.sort(np.argsort(-law, kind="stable")[:most])


def _nodes(axes: Any, chain: MarkovChain, chosen: np.ndarray, places: np.ndarray) -> None:
    from matplotlib.patches import Circle, Patch

    structure = chain.structure
    labels = structure.labels[chosen]
    colors = {int(k): f"C{order % 10}" for order, k in enumerate(np.unique(labels))}
    for i, (x, y) in zip(chosen, places, strict=True):
        color, closed = colors[int(structure.labels[i])], structure.closed[structure.labels[i]]
        face = color if closed else "white"
        axes.add_patch(Circle((x, y), _RADIUS, facecolor=face, edgecolor=color, linewidth=1.8, zorder=3))
        name = str(chain._names.of(np.array([i]))[0])
        axes.text(x, y, name, ha="center", va="center", fontsize=9 if len(name) < 4 else 7, zorder=4,
                  color="white" if closed else "black")  # fmt: skip
    handles = []
    for k, color in list(colors.items())[:8]:
        closed, period = structure.closed[k], structure.periods[k]
        kind = ("closed" if closed else "transient") + (f", period {period}" if period > 1 else "")
        text = f"{chain._names.show(structure.members[k], 3)}: {kind}"
        handles.append(Patch(facecolor=color if closed else "white", edgecolor=color, label=text))
    axes.legend(handles=handles, frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 0.02))


def _arrow(axes: Any, start: np.ndarray, end: np.ndarray, p: float, label: str, both: bool) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    along = end - start
    length = float(np.linalg.norm(along))
    across = np.array([-along[1], along[0]]) / max(length, 1e-12)
    middle = (start + end) / 2 - across * length * (0.22 if both else 0.0)
    first = start + _RADIUS * _unit(middle - start)
    last = end - _RADIUS * _unit(end - middle)
    curve = Path([first, middle, last], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
    axes.add_patch(FancyArrowPatch(path=curve, **_ink(p)))
    top = 0.25 * first + 0.5 * middle + 0.25 * last
    _write(axes, top, label)


def _free_angle(P: np.ndarray, places: np.ndarray, i: int) -> float:
    """The middle of the widest gap between the arrows at a state; up where there are none."""
    joined = np.flatnonzero((P[i] + P[:, i]) > 0)
    away = places[joined[joined != i]] - places[i]
    if not len(away):
        return math.pi / 2
    angles = np.sort(np.arctan2(away[:, 1], away[:, 0]))
    gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
    widest = int(gaps.argmax())
    return float(angles[widest] + gaps[widest] / 2)


def _loop(axes: Any, place: np.ndarray, angle: float, p: float, label: str) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    def at(turn: float, reach: float) -> np.ndarray:
        return place + reach * np.array([math.cos(angle + turn), math.sin(angle + turn)])

    curve = Path(
        [at(-0.5, _RADIUS), at(-0.6, 3.6 * _RADIUS), at(0.6, 3.6 * _RADIUS), at(0.5, _RADIUS)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    axes.add_patch(FancyArrowPatch(path=curve, **_ink(p)))
    _write(axes, at(0.0, 2.9 * _RADIUS), label)


def _unit(v: np.ndarray) -> np.ndarray:
    return v / max(float(np.linalg.norm(v)), 1e-12)


def _ink(p: float) -> dict[str, Any]:
    shade = f"{0.65 - 0.5 * float(p):.2f}"
    return {"arrowstyle": "-|>", "mutation_scale": 10, "linewidth": 0.6 + 1.6 * float(p), "color": shade, "zorder": 2}


def _write(axes: Any, place: np.ndarray, text: str) -> None:
    if text:
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        axes.text(*place, text, fontsize=7, ha="center", va="center", bbox=box, zorder=2.5)


def convergence(chain: MarkovChain, start: Any = None, steps: int | None = None) -> Any:
    """Distance to the stationary law on a logarithmic scale, and the law moving there from one start."""
    mixed = chain.mixing_time(0.25, start) if chain.aperiodic else None
    steps = steps or (max(10, 4 * mixed) if mixed is not None else 30)
    times = np.unique(np.linspace(0, steps, min(steps + 1, 200)).astype(int)).tolist()
    distance = chain.total_variation(times, start).detach().cpu().numpy()
    figure, (left, right) = new_figure(8.4, 3.2, 1, 2)
    left.semilogy(times, np.maximum(distance, 1e-16), label="worst start" if start is None else "from the start")
    if mixed is not None:
        left.axhline(0.25, color="0.6", linewidth=0.8, linestyle="--")
        left.axvline(mixed, color="C3", linewidth=0.9, label=f"mixing time {mixed}")
    left.set(xlabel="steps", ylabel="total variation distance", title="distance to the stationary law")
    left.legend(frameon=False, fontsize="small")
    left.xaxis.get_major_locator().set_params(integer=True)
    begin = chain.states[0] if start is None else start
    _moving_law(right, chain, begin, steps)
    return figure


def _moving_law(axes: Any, chain: MarkovChain, begin: Any, steps: int) -> None:
    shown = _chosen(chain, 200)
    law = chain.stationary().detach().cpu().numpy()[shown]
    moments = sorted({0, 1, max(1, steps // 16), max(1, steps // 4), steps})
    for k, n in enumerate(moments):
        values = chain.law(n, begin).detach().reshape(-1, chain.n_states)[0].cpu().numpy()[shown]
        axes.plot(shown, values, marker="o", markersize=2.5, linewidth=1, color=f"{0.75 - 0.6 * k / 4:.2f}",
                  label=f"{n} steps")  # fmt: skip
    axes.plot(shown, law, color="C3", linewidth=1.4, linestyle="--", label="stationary")
    names = chain._names.of(shown)
    if len(shown) <= 12:
        axes.set_xticks(shown, [str(name) for name in names], fontsize="small")
    axes.set(xlabel="state", ylabel="probability", title="the law on its way", ylim=(0, min(1.02, 2.5 * law.max())))
    axes.legend(frameon=False, fontsize="x-small")


def summary_of(chain: MarkovChain) -> str:
    """A few lines about a chain; speed of convergence for up to a thousand states."""
    structure = chain.structure
    kinds = ["irreducible" if chain.irreducible else "reducible", "aperiodic" if chain.aperiodic else "periodic"]
    if chain.ergodic:
        kinds.append("ergodic")
    lines = [repr(chain), ", ".join(kinds)]
    for k in range(min(structure.count, 6)):
        members, period = structure.members[k], structure.periods[k]
        kind = "closed, recurrent" if structure.closed[k] else "open, transient"
        way = f"period {period}" if period else "never returned to"
        lines.append(f"  class {chain._names.show(members)} of {len(members)}: {kind}, {way}")
    if structure.count > 6:
        lines.append(f"  ... {structure.count - 6} more classes")
    if structure.closed.sum() > 1:
        return "\n".join([*lines, f"{structure.closed.sum()} closed classes: no unique stationary law"])
    return "\n".join([*lines, *_equilibrium_lines(chain)])


def _equilibrium_lines(chain: MarkovChain) -> list[str]:
    report = chain.stationary_report()
    law = report.law.detach().double().cpu().numpy()
    top = np.argsort(-law, kind="stable")[:5]
    parts = ", ".join(f"{name}: {law[i]:.4g}" for i, name in zip(top, chain._names.of(top), strict=True))
    lines = [
        f"stationary law: {parts}{', ...' if chain.n_states > 5 else ''}",
        f"  by {report.method}, residual {report.residual:.1e}, estimated error {report.error:.1e}",
        f"reversible: {'yes' if chain.reversible else 'no'}",
    ]
    if chain.n_states <= 1000:
        lines.append(f"spectral gap: {chain.spectral_gap():.4g}")
        if chain.aperiodic:
            lines.append(f"mixing time (distance 1/4): {chain.mixing_time()}")
    return lines
