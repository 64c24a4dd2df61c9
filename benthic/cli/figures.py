"""The pictures that fit a model: chosen by what it can do and what its data are."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.base.condition import Condition
from benthic.base.schema import is_frame
from benthic.cli.inputs import Inputs
from benthic.generative.latent_pictures import traversals
from benthic.metrics.judging import answers_of
from benthic.pictures.curves import loss_curve, roc_curve
from benthic.pictures.grids import image_grid, scatter_map
from benthic.pictures.marginals import columns_of, marginals
from benthic.pictures.page import Picture
from benthic.pictures.plane import box_around, density_map, side_by_side
from benthic.pictures.predictions import confusion, predicted_against_true

_SHOWN = 2000  # rows drawn in a picture
_TILES, _LABELS = 40, 20  # pictures in a grid, and labels that can be told apart


def pictures_of(model: Any, rows: Inputs, seed: int = 0) -> list[Picture]:
    """What to look at first; rows: those the model is judged on."""
    rows = rows.some(_SHOWN, seed)
    found: list[Picture] = []
    answers = answers_of(model)
    if answers == "classes":
        found += _of_classes(model, rows)
    elif answers == "numbers":
        found += _of_numbers(model, rows)
    table = not rows.text and "table" in _kinds(model)
    told = getattr(model, "condition_", Condition())
    if hasattr(model, "sample") and table and not (told.needed and rows.y is None):
        found += _of_samples(model, rows, seed, told)
    if hasattr(model, "encode") and not told.needed:
        found += _of_codes(model, rows, told)
    if not table:
        found.append(Picture("model", "The model", (inspect.getdoc(model.plot) or "").splitlines()[0], model.plot()))
    elif "X" in inspect.signature(getattr(model, "plot", len)).parameters:
        text = (inspect.getdoc(model.plot) or "").splitlines()[0]
        found.append(Picture("model", "The model", text, model.plot(rows.X)))
    history = getattr(model, "history_", None)
    if history and len(history) > 1:
        text = "The loss after every pass over the data; it should fall and level off."
        found.append(Picture("loss", "Training", text, loss_curve(history)))
    return found


def _kinds(model: Any) -> tuple[str, ...]:
    entry = catalogue().get(type(model).__name__)
    return ("table",) if entry is None else entry.data


def _of_classes(model: Any, rows: Inputs) -> list[Picture]:
    if rows.y is None:
        return []
    names = rows.classes if len(rows.classes) == len(model.classes_) else ()
    shown = np.array(names) if names else model.classes_
    codes = {label: k for k, label in enumerate(model.classes_.tolist())}
    table = np.asarray(model.predict_proba(rows.X)) if hasattr(model, "predict_proba") else None
    answers = [codes[label] for label in model.predict(rows.X).tolist()] if table is None else table.argmax(1)
    truth = np.array([str(shown[codes[v]]) if v in codes else str(v) for v in rows.y.tolist()])
    labels = np.array([str(name) for name in shown])
    found = [
        Picture(
            "confusion",
            "Confusion",
            "True classes down, answers across; everything off the diagonal is a mistake.",
            confusion(truth, labels[answers], labels.tolist()),
        )
    ]
    if table is not None and len(np.unique(truth)) > 1 and np.isin(labels, truth).all():
        text = "How many of a class are found for how many false alarms; the area is in brackets, 1 is perfect."
        found.insert(0, Picture("roc", "ROC curves", text, roc_curve(truth, table, labels)))
    return found


def _of_numbers(model: Any, rows: Inputs) -> list[Picture]:
    if rows.y is None:
        return []
    text = "Each row is a point; on the dashed line the answer is right."
    figure = predicted_against_true(rows.y, np.asarray(model.predict(rows.X)))
    return [Picture("predictions", "Predicted against true", text, figure)]


def _of_samples(model: Any, rows: Inputs, seed: int, told: Condition) -> list[Picture]:
    given = _conditions(rows, told)
    if rows.image is not None and not is_frame(rows.X):
        text, wide = "New examples drawn from the model; none of them is in the data.", 10
        if given and 1 < len(told.classes) <= _LABELS:
            given, wide = {"given": np.resize(np.array(told.classes), _TILES)}, len(told.classes)
            text = f"New examples, a column for each label: {', '.join(map(str, told.classes))}."
        elif given:
            given = {"given": given["given"][np.arange(_TILES) % rows.rows]}
        drawn = np.asarray(model.sample(_TILES, seed=seed, **given))
        return [Picture("samples", "Samples", text, image_grid(_images(drawn, rows), columns=wide))]
    drawn = model.sample(min(rows.rows, _SHOWN), seed=seed, **given)
    if not is_frame(drawn) and np.ndim(drawn) == 2 and np.shape(drawn)[1] == 2:
        text = "The rows the model is judged on and as many new ones drawn from it."
        found = [Picture("samples", "Samples", text, side_by_side(rows.X, np.asarray(drawn), ("data", "samples")))]
        return [*found, *([] if told.needed else _of_density(model, np.asarray(rows.X)))]
    text = "Every column of the data and of as many rows drawn from the model; the two should overlap."
    new, real = columns_of(drawn, rows.columns), columns_of(rows.X, rows.columns)
    return [Picture("samples", "Samples", text, marginals({name: real[name] for name in new}, new))]


def _conditions(rows: Inputs, told: Condition) -> dict[str, Any]:
    """What draws are given: the conditions of the rows the model is judged on, as far as it has seen them."""
    if not told.told or rows.y is None:
        return {}
    known = rows.y[np.isin(rows.y, told.classes)] if told.kind == "labels" else rows.y
    return {"given": known[np.arange(rows.rows) % len(known)]} if len(known) else {}


def _of_density(model: Any, points: np.ndarray) -> list[Picture]:
    if not hasattr(model, "log_prob"):
        return []
    from benthic.pictures.canvas import new_figure

    figure, axes = new_figure(4.4, 3.8)
    cells = 72 if model.likelihood(points[:1]).kind == "ode" else 160  # an equation is solved for every cell
    density_map(axes, model.log_prob, box_around(points), cells=cells)
    axes.scatter(points[:, 0], points[:, 1], s=2, color="k", alpha=0.25, linewidth=0)
    text = "The density the model learned (strong color is likely), with the rows it is judged on."
    return [Picture("density", "Density", text, figure)]


def _of_codes(model: Any, rows: Inputs, told: Condition) -> list[Picture]:
    codes = np.asarray(model.encode(rows.X))
    plane = _principal(codes)
    labels = rows.y if rows.y is not None and rows.y.ndim == 1 and len(np.unique(rows.y)) <= _LABELS else None
    text = "Each row by its code" + ("" if codes.shape[1] <= 2 else ", seen from where codes differ most")
    seen = (
        f"; colors are {rows.target}, which the model was told."
        if told.told
        else "; colors are the target, which the model never saw."
    )
    text += seen if labels is not None else "."
    found = [Picture("latent", "Latent map", text, scatter_map(plane, labels))]
    if rows.image is not None and not is_frame(rows.X):
        some = rows.X[:10]
        pairs = np.concatenate([_images(some, rows), _images(np.asarray(model.reconstruct(some)), rows)])
        text = "Above as given, below what is left after going through the code."
        found.append(Picture("reconstructions", "Reconstructions", text, image_grid(pairs, columns=len(some))))
        text = "What each coordinate of the code does: it moves from left to right while the others rest."
        found.append(Picture("traversals", "Traversals", text, traversals(model, rows.X, shape=rows.image)))
    return found


def _principal(codes: np.ndarray) -> np.ndarray:
    """Codes along the two directions in which they differ most."""
    if codes.shape[1] <= 2:
        return codes
    centered = codes - codes.mean(0)
    return np.asarray(centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T)


def _images(values: np.ndarray, rows: Inputs) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim == 4:
        return np.clip(values, 0, 1) if values.shape[1] == 3 else values
    return values.reshape(len(values), *(rows.image or ()))
