"""Who takes part: names, classes and estimators turned into contestants, and refused before any fit if they cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benthic.base.catalogue import catalogue
from benthic.base.errors import InvalidInput, nearest
from benthic.leaderboard.contest.records import Contestant, Origin

TASKS = ("generate", "classify", "regress", "cluster")

DEFAULTS: dict[str, tuple[str, ...]] = {
    "generate": ("GaussianMixture", "VAE", "WGAN", "NormalizingFlow", "DDPM", "PoissonFlow"),
    "classify": ("LogisticRegression", "GaussianNB", "RandomForestClassifier", "GradientBoostingClassifier", "SVC"),
    "regress": ("LinearRegression", "Ridge", "RandomForestRegressor", "GradientBoostingRegressor", "SVR"),
    "cluster": ("KMeans", "GaussianMixture"),
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "NormalizingFlow": {"kind": "nsf"},
    "GaussianMixture": {"n_components": 10},
    "DDPM": {"sampler": "ddim", "steps": 25},  # about as good as 100 ancestral steps, in a quarter of the time
}
_VERBS = {"generate": "sample", "classify": "predict", "regress": "predict", "cluster": "fit"}
_KINDS = {"table": "table", "frame": "table", "image": "image"}


def contestants_of(models: Any, task: str | None = None) -> list[Contestant]:
    """Contestants from what a person passes: a name, a class, an estimator, several of them, or a dict by name.

    None takes the default list of the task.

    >>> [c.name for c in contestants_of(["VAE", "WGAN"])]
    ['VAE', 'WGAN']
    """
    if models is None:
        models = [name for name in DEFAULTS[task or "generate"] if name in catalogue()]
    if isinstance(models, Mapping):
        found = [_contestant(model, str(name)) for name, model in models.items()]
    else:
        several = isinstance(models, Iterable) and not isinstance(models, (str, type)) and not hasattr(models, "fit")
        found = [_contestant(model) for model in (models if several else [models])]
    if not found:
        raise InvalidInput("compare: there are no models; name some, such as 'VAE' and 'WGAN', or leave them out")
    _refuse_twins([one.name for one in found])
    return found


def _contestant(model: Any, name: str | None = None) -> Contestant:
    if isinstance(model, Contestant):
        return model
    if isinstance(model, str):
        made = _named(model)
        return Contestant(name or type(made).__name__, made, "catalogue")
    if isinstance(model, type):
        entry = catalogue().get(model.__name__)
        known = entry is not None and entry.cls is model
        made = _named(model.__name__) if known else _made(model)
        return Contestant(name or model.__name__, made, "catalogue" if known else _origin(made))
    if not hasattr(model, "fit"):
        raise InvalidInput(
            f"compare: {model!r:.60} is not a model; pass names such as 'VAE', classes, or objects with fit"
        )
    return Contestant(name or type(model).__name__, model, _origin(model))


def _named(name: str) -> Any:
    entries = catalogue()
    if name not in entries:
        known = next((other for other in entries if other.lower() == name.lower()), None)
        if known is None:
            raise InvalidInput(
                f"compare: no model is called {name!r}{nearest(name, entries) or '; benthic.catalogue() lists all'}"
            )
        name = known
    settings = _SETTINGS.get(name, {})
    return entries[name].cls(**settings)


def _made(cls: type) -> Any:
    try:
        return cls()
    except TypeError as error:
        raise InvalidInput(f"compare: {cls.__name__} needs arguments ({error}); pass an instance of it") from error


def _origin(model: Any) -> Origin:
    if type(model).__module__.startswith("sklearn."):
        return "scikit-learn"
    entry = catalogue().get(type(model).__name__)
    return "catalogue" if entry is not None and type(model).__module__.startswith("benthic.") else "given"


def _refuse_twins(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"compare: two models are called {name!r}; pass a dict, {{'{name} small': ..., '{name} large': ...}}"
            )


# -- what a model can do ---------------------------------------------------------------------------------


def abilities(model: Any) -> set[str]:
    """The tasks of ``TASKS`` that a model can take part in, from the catalogue or from its verbs.

    >>> from sklearn.cluster import KMeans
    >>> sorted(abilities(KMeans()))
    ['cluster']
    """
    from sklearn.base import is_classifier, is_clusterer, is_regressor

    entry = catalogue().get(type(model).__name__)
    if entry is not None and type(model).__module__.startswith("benthic."):
        return set(entry.tasks) & set(TASKS)
    found = {"generate"} if hasattr(model, "sample") else set()
    if hasattr(model, "__sklearn_tags__"):
        checks = {"classify": is_classifier, "regress": is_regressor, "cluster": is_clusterer}
        found |= {task for task, check in checks.items() if check(model)}
    if hasattr(model, "fit_predict"):
        found.add("cluster")
    return found


def needs_labels(model: Any) -> bool:
    """Whether a model cannot be fitted without labels."""
    if not hasattr(model, "__sklearn_tags__"):
        return False
    return bool(model.__sklearn_tags__().target_tags.required)


def takes_gaps(model: Any) -> bool:
    """Whether a model takes missing values as they are."""
    if not hasattr(model, "__sklearn_tags__"):
        return False
    return bool(model.__sklearn_tags__().input_tags.allow_nan)


def check_contestants(found: Iterable[Contestant], task: str, kind: str, *, labels: bool) -> None:
    """Refuse what cannot do the task on such data, before any fit.

    kind: of the data, ``table``, ``frame`` or ``image``. labels: whether there are any.
    """
    for contestant in found:
        _check_task(contestant, task)
        _check_data(contestant, kind)
        if not labels and task in ("generate", "cluster") and needs_labels(contestant.model):
            raise InvalidInput(
                f"compare: {contestant.name} learns from labels and there are none; pass y (or target), or leave it out"
            )


def _check_task(contestant: Contestant, task: str) -> None:
    can = abilities(contestant.model)
    verb = _VERBS[task]
    if task in can and hasattr(contestant.model, verb):
        return
    others = [e.name for e in catalogue().values() if task in e.tasks and "table" in e.data]
    what = f"it can {', '.join(sorted(can))}" if can else f"it has no {verb}"
    raise InvalidInput(
        f"compare: {contestant.name} cannot {task}; {what}; models that {task} are {', '.join(others[:8])}"
    )


def _check_data(contestant: Contestant, kind: str) -> None:
    entry = catalogue().get(type(contestant.model).__name__)
    if contestant.origin != "catalogue" or entry is None:
        return
    wanted = _KINDS[kind]
    if wanted not in entry.data and "table" not in entry.data:
        raise InvalidInput(
            f"compare: {contestant.name} is a model of {', '.join(entry.data)} data, and these are a {wanted}"
        )


def takes_images(model: Any) -> bool:
    """Whether a model takes pictures (n, c, h, w); otherwise it gets flat rows."""
    entry = catalogue().get(type(model).__name__)
    if entry is not None and type(model).__module__.startswith("benthic."):
        return "image" in entry.data
    return bool(getattr(model, "accepts_images", False))
