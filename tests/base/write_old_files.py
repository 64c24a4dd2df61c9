"""Write a small model file of each entry of the catalogue, with its answers, under ``tests/base/old_files``.

    python -m tests.base.write_old_files [NAME ...]

Run it when an entry or a kind of stored value is new: only what is not there yet is written, so that files of
earlier versions stay as those versions wrote them. ``test_old_files.py`` loads every file and compares its answers.
Kept are the answers that draw no random numbers; a model that has none is asked for what it learned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn import decomposition, feature_selection, impute, pipeline, preprocessing
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from torch.utils._python_dispatch import TorchDispatchMode

import benthic
from benthic.base.errors import InvalidInput
from benthic.base.modelfile import dumps, load_tree
from benthic.kernels import RBF, Constant, Laplace, Linear, Matern, Periodic, Polynomial, RationalQuadratic, White

FOLDER = Path(__file__).parent / "old_files"
VERBS = (
    "predict",
    "predict_proba",
    "decision_function",
    "transform",
    "inverse_transform",
    "reconstruct",
    "impute",
    "log_prob",
    "likelihood",
    "anomaly",
)
LEARNED = ("embedding_", "network_", "weights_")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) @ RNG.normal(size=(4, 4)) + np.array([1.0, -2.0, 0.0, 5.0])
LABELS = np.where(X[:, 0] > np.median(X[:, 0]), "high", "low")
NUMBERS = X @ np.array([1.0, 0.5, -1.0, 0.0])
PICTURES = RNG.random((24, 1, 8, 8))
SERIES = np.cumsum(RNG.normal(size=(6, 15, 2)), axis=1) * 0.3
WORDS = np.array(["abracadabra", "alabaster", "barbara", "cascade", "salsa", "bazaar"])
FRAME = pd.DataFrame(
    {
        "size": X[:, 0],
        "count": np.arange(60) % 7,
        "city": np.array(["Bern", "Rome", "Zürich"])[np.arange(60) % 3],
        "day": np.datetime64("2024-01-01") + np.arange(60) % 31,
        "open": np.arange(60) % 2 == 0,
    }
)


def fitted(name: str) -> tuple[Any, Any]:
    """A small fitted model of an entry, and a few of its rows."""
    entry = benthic.catalogue()[name]
    model = entry.quick()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    if "table" in entry.data:
        rows = np.abs(X) if "counts" in entry.data else X
        y = LABELS if "classify" in entry.tasks else NUMBERS if "regress" in entry.tasks else None
        return model.fit(rows, y), rows[:8]
    rows = WORDS if "symbols" in entry.data else SERIES
    y = [(series[:, 0] > 0).astype(int) for series in SERIES] if "label" in entry.tasks else None
    return model.fit(list(rows), y), rows[:3]


def small(name: str, **params: Any) -> Any:
    """The quick instance with other settings."""
    return benthic.catalogue()[name].quick().set_params(random_state=0, **params)


def scalers() -> Any:
    """Every plain transformer of scikit-learn that may stand in a file."""
    parts = [
        preprocessing.StandardScaler(),
        preprocessing.MinMaxScaler(),
        preprocessing.MaxAbsScaler(),
        preprocessing.RobustScaler(),
        preprocessing.Normalizer(),
        preprocessing.Binarizer(),
        preprocessing.PowerTransformer(),
        preprocessing.QuantileTransformer(n_quantiles=10),
        preprocessing.PolynomialFeatures(),
        preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
        preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        impute.SimpleImputer(),
        impute.MissingIndicator(features="all"),
        decomposition.PCA(2),
        decomposition.TruncatedSVD(2, random_state=0),
        feature_selection.VarianceThreshold(),
    ]
    return pipeline.make_union(*parts).fit(X)


KERNEL = Constant(0.5) * RBF(1.0) + Linear() + Matern(1.5) + Laplace(1.0) + RationalQuadratic(1.0) + White(0.1)
MORE_KERNELS = Periodic(1.0, 3.0) + Polynomial(2) + RBF(torch.ones(4, dtype=torch.float64))


def further() -> dict[str, tuple[Callable[[], Any], Any]]:
    """Models that hold what no quick one holds: frames, kernels, pictures, conditions, settings as values."""
    stopping = benthic.EarlyStopping(patience=3)
    trainer = benthic.Trainer(steps=20, early_stopping=stopping, optimizer={"name": "sgd", "momentum": 0.9})
    columns = make_column_transformer(
        (preprocessing.StandardScaler(), ["size", "count"]),
        (preprocessing.OneHotEncoder(sparse_output=False), ["city"]),
    )
    piped = pipeline.make_pipeline(columns, benthic.MLPClassifier((4,), trainer=trainer, random_state=0))
    scaled = TransformedTargetRegressor(benthic.Ridge(), transformer=preprocessing.StandardScaler())
    ragged = [series[: 9 + i] for i, series in enumerate(SERIES)]
    process = {"process": "cosine", "sampler": "heun"}
    bagged = benthic.BaggingClassifier(benthic.LogisticRegression(), n_estimators=2, random_state=0)
    drawn = benthic.KMeans(3, random_state=np.random.RandomState(0))
    return {
        "further_pipeline": (lambda: piped.fit(FRAME, LABELS), FRAME[:8]),
        "further_target": (lambda: scaled.fit(X, NUMBERS), X[:8]),
        "further_scalers": (scalers, X[:8]),
        "further_encoder": (lambda: preprocessing.LabelEncoder().fit(LABELS), LABELS[:8]),
        "further_binarizer": (lambda: preprocessing.LabelBinarizer().fit(LABELS), LABELS[:8]),
        "further_frame": (lambda: small("GaussianMixture").fit(FRAME[["size", "day"]]), FRAME[["size", "day"]][:8]),
        "further_columns": (lambda: small("VAE").fit(FRAME), FRAME[:8]),
        "further_flow_columns": (lambda: small("NormalizingFlow").fit(FRAME), FRAME[:8]),
        "further_gan_columns": (lambda: small("GAN").fit(FRAME), FRAME[:8]),
        "further_diffusion_columns": (lambda: small("DDPM").fit(FRAME), FRAME[:8]),
        "further_tensor": (lambda: small("MLPRegressor").fit(torch.tensor(X).float(), torch.tensor(NUMBERS)), X[:8]),
        "further_kernel": (lambda: benthic.GaussianProcessRegressor(KERNEL, max_iter=3).fit(X, NUMBERS), X[:8]),
        "further_kernels": (lambda: benthic.GaussianProcessRegressor(MORE_KERNELS, max_iter=3).fit(X, NUMBERS), X[:8]),
        "further_inducing": (lambda: small("GaussianProcessClassifier").fit(X, LABELS), X[:8]),
        "further_flow_labels": (lambda: small("NormalizingFlow", condition="labels").fit(X, LABELS), X[:8]),
        "further_diffusion_labels": (lambda: small("DDPM", **process).fit(X, LABELS), X[:8]),
        "further_pictures_vae": (lambda: small("VAE").fit(PICTURES), PICTURES[:3]),
        "further_pictures_gan": (lambda: small("DCGAN").fit(PICTURES), PICTURES[:3]),
        "further_pictures_ode": (
            lambda: small("NeuralODEClassifier", hidden_layer_sizes=(4,)).fit(PICTURES, np.arange(24) % 2),
            PICTURES[:3],
        ),
        "further_ode_motion": (lambda: small("NeuralODERegressor").fit(SERIES), SERIES[:3]),
        "further_bagged": (lambda: bagged.fit(X, LABELS), X[:8]),
        "further_random_state": (lambda: drawn.fit(X), X[:8]),
        "further_gaps": (lambda: small("GradientBoostingRegressor").fit(np.where(X > 5, np.nan, X), NUMBERS), X[:8]),
        "further_hidden_states": (lambda: small("HiddenMarkovModel").fit(ragged), SERIES[:3]),
    }


class Draws(TorchDispatchMode):
    """Notes whether torch drew a random number."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


@contextmanager
def watched() -> Iterator[Draws]:
    """Notes whether torch or NumPy draws a random number inside the block."""
    made = np.random.default_rng
    with Draws() as draws:

        def note(*args: Any) -> np.random.Generator:
            draws.seen = True
            return made(*args)

        np.random.default_rng = note
        try:
            yield draws
        finally:
            np.random.default_rng = made


def plain(value: Any) -> np.ndarray:
    """An answer as one array: a frame's numbers or words, sequences one after the other."""
    if hasattr(value, "value") and hasattr(value, "stderr"):
        value = value.value
    if isinstance(value, pd.DataFrame):
        value = value.astype(str).to_numpy() if value.dtypes.nunique() > 1 else value.to_numpy()
    if isinstance(value, list) and not isinstance(value[0], str):
        value = np.concatenate([np.asarray(part) for part in value])
    value = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
    return value.astype(str) if value.dtype.kind == "O" else value


def ask(model: Any, verb: str, rows: Any) -> np.ndarray:
    """One answer of a model."""
    if verb in LEARNED:
        held = getattr(model, verb)
        if isinstance(held, torch.nn.Module):
            held = torch.cat([part.flatten().double() for part in held.state_dict().values()])
        return plain(held)
    if verb == "inverse_transform":
        rows = model.transform(rows)
    if verb == "impute":
        rows = rows.copy()
        rows[..., 0] = np.nan
    return plain(getattr(model, verb)(rows.tolist() if _words(rows) else rows))


def _words(rows: Any) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype.kind == "U"


def answers(model: Any, rows: Any) -> dict[str, np.ndarray]:
    """Every answer that draws no random numbers; where there is none, what was learned."""
    found = {}
    for verb in VERBS:
        if hasattr(model, verb) and not (verb == "impute" and isinstance(rows, pd.DataFrame)):
            with watched() as draws, suppress(InvalidInput):  # some verbs are not for some kinds of data
                answer = ask(model, verb, rows)
                if not draws.seen:
                    found[verb] = answer
    return found or {name: ask(model, name, rows) for name in LEARNED if hasattr(model, name)}


def rows_of(kept: Any) -> Any:
    """The rows that were asked about, as they stand in a file of answers."""
    columns = {name.removeprefix("column:"): kept[name] for name in kept if name.startswith("column:")}
    return pd.DataFrame(columns) if columns else kept["rows"]


def columns_of(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns of a frame as arrays that need no pickle."""
    held = {name: frame[name].to_numpy() for name in frame}
    return {f"column:{name}": value.astype(str) if value.dtype.kind == "O" else value for name, value in held.items()}


def write(name: str, model: Any, rows: Any) -> None:
    """One model file and its answers: what the file says, not what the model said before it was written."""
    path = FOLDER / f"{name}.safetensors"
    path.write_bytes(dumps(model))
    kept = columns_of(rows) if isinstance(rows, pd.DataFrame) else {"rows": rows}
    found = answers(load_tree(path), rows_of(kept))
    np.savez_compressed(FOLDER / f"{name}.npz", **kept, **{f"answer:{verb}": value for verb, value in found.items()})


def main(names: list[str]) -> None:
    """Write what is not there yet."""
    makers = {name: lambda name=name: fitted(name) for name in benthic.catalogue()}
    makers |= {name: lambda made=made, rows=rows: (made(), rows) for name, (made, rows) in further().items()}
    for name in names or list(makers):
        if not (FOLDER / f"{name}.npz").exists():
            write(name, *makers[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
