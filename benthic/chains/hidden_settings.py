"""The settings of a hidden Markov model, checked, and what the kinds of emission need."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benthic.base.arrays import is_tensor
from benthic.base.errors import InvalidInput
from benthic.base.sequences import Ragged
from benthic.base.settings import number, one_of, whole
from benthic.chains.emissions import Categorical, Emission, Poisson, check_prior
from benthic.chains.emissions_gaussian import GaussianEmission
from benthic.chains.hidden_start import TOPOLOGIES, Plan, read_given
from benthic.mixture.parameters import Gaussians, check_kind, covariance_shape

EMISSIONS = ("auto", "gaussian", "mixture", "categorical", "poisson")
CRITERIA = ("bic", "aic")


def check_settings(model: Any) -> None:
    """Refuse settings that cannot be meant."""
    if isinstance(model.n_states, str):
        one_of("n_states", model.n_states, CRITERIA, "a whole number, ")
    else:
        whole("n_states", model.n_states)
    for name in ("n_components", "n_init", "max_iter", "max_states"):
        whole(name, getattr(model, name))
    for name in ("tol", "min_covar"):
        number(name, getattr(model, name))
    one_of("emission", model.emission, EMISSIONS)
    one_of("topology", model.topology, TOPOLOGIES)
    check_kind(model.covariance_type)
    check_prior("emission_prior", model.emission_prior, ())


def symbolic(X: Any) -> bool:
    """Whether sequences look like symbols: integers, strings or labels, rather than measurements."""
    if is_tensor(X):
        return not (X.is_floating_point() or X.is_complex())
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.dtype.kind in "iubUS"
    if not isinstance(X, (list, tuple, np.ndarray)) or len(X) == 0:
        return isinstance(X, str)
    first = X[0]
    if isinstance(first, str):
        return True
    if is_tensor(first) or isinstance(first, np.ndarray):
        return all(symbolic(part) for part in X)
    steps = [step for part in X if isinstance(part, (list, tuple)) for step in part]
    return bool(steps) and not any(isinstance(step, (float, np.floating, list, tuple, np.ndarray)) for step in steps)


def check_counts(data: Ragged) -> None:
    """Refuse what is no count: negative numbers and fractions."""
    values = data.values
    wrong = (values < 0) | (values != values.floor()) & ~torch.isnan(values)
    if bool(wrong.any()):
        step = int(wrong.any(1).nonzero()[0])
        row = int(data.numbers()[step])
        shown = float(values[step][wrong[step]][0])
        raise InvalidInput(
            f"step {step - int(data.offsets[row])} of sequence {row} is {shown:g}; "
            "counts are whole numbers of at least 0"
        )


def make_plan(model: Any, emission: str, k: int, width: int, chosen: bool) -> Plan:
    """What is to be started. width: columns, or symbols. chosen: the number of states is searched for."""
    m = int(model.n_components) if emission == "mixture" else 1
    middle = (k, width) if m == 1 else (k, m, width)
    covariances = covariance_shape(model.covariance_type, k, width)
    if m > 1 and model.covariance_type != "tied":
        covariances = (k, m, *covariances[1:])
    shapes: dict[str, tuple[int, ...]] = {"start_init": (k,), "transitions_init": (k, k)}
    if emission == "categorical":
        shapes["emissions_init"] = (k, width)
    else:
        shapes["means_init"] = middle
    if emission in ("gaussian", "mixture"):
        shapes["covariances_init"] = covariances
    names = ("start_init", "transitions_init", "means_init", "covariances_init", "emissions_init")
    values = {name: getattr(model, name) for name in names}
    if chosen and any(value is not None for value in values.values()):
        raise InvalidInput("a start is given for one number of states, but n_states is to be chosen; give a number")
    return Plan(
        k=k,
        m=m,
        emission=emission,
        kind=model.covariance_type,
        min_covar=max(float(model.min_covar), 1e-15),
        emission_prior=float(model.emission_prior),
        topology=model.topology,
        given=read_given(values, shapes),
    )


def emission_of(model: Any) -> Emission:
    """What the states of a fitted model emit, on the CPU."""
    if model.emission_ == "categorical":
        return Categorical(torch.from_numpy(np.array(model.emissions_)), float(model.emission_prior))
    if model.emission_ == "poisson":
        return Poisson(torch.from_numpy(np.array(model.rates_)))
    k, d = model.n_states_, model.n_features_in_
    means = torch.from_numpy(np.array(model.means_)).reshape(-1, d)
    weights = torch.from_numpy(np.array(getattr(model, "weights_", np.ones(k)))).reshape(-1)
    shape = covariance_shape(model.covariance_type, len(means), d)
    covariances = torch.from_numpy(np.array(model.covariances_)).reshape(shape)
    laws = Gaussians.of_covariances(model.covariance_type, weights, means, covariances)
    return GaussianEmission(laws, k, *(torch.from_numpy(np.array(part)) for part in model._bounds))
