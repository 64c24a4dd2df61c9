"""A tagged tree: nested values as JSON plus named arrays; ``decoder`` reads it back without running any code."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.catalogue import STORED, catalogue, resolve
from benthic.base.errors import ModelFileError

# scikit-learn classes whose state is plain arrays; nothing else of scikit-learn is ever imported by a file.
_SKLEARN = {
    "sklearn.pipeline": ("Pipeline", "FeatureUnion"),
    "sklearn.compose._column_transformer": ("ColumnTransformer",),
    "sklearn.compose._target": ("TransformedTargetRegressor",),
    "sklearn.impute._base": ("SimpleImputer", "MissingIndicator"),
    "sklearn.decomposition._pca": ("PCA",),
    "sklearn.decomposition._truncated_svd": ("TruncatedSVD",),
    "sklearn.feature_selection._variance_threshold": ("VarianceThreshold",),
    "sklearn.preprocessing._label": ("LabelEncoder", "LabelBinarizer"),
    "sklearn.preprocessing._encoders": ("OneHotEncoder", "OrdinalEncoder"),
    "sklearn.preprocessing._polynomial": ("PolynomialFeatures",),
    "sklearn.preprocessing._discretization": ("KBinsDiscretizer",),
    "sklearn.preprocessing._data": (
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "Normalizer",
        "Binarizer",
        "PowerTransformer",
        "QuantileTransformer",
    ),
}
SKLEARN_MODULE = {name: module for module, names in _SKLEARN.items() for name in names}

Json = Any


class Encoder:
    """Turns values into JSON with arrays set aside by name; the same array is stored once."""

    def __init__(self, leave_out: Collection[str] = ()) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: dict[int, tuple[Any, Json]] = {}
        self._leave_out = set(leave_out)

    def encode(self, value: Any, path: str = "") -> Json:
        """The JSON of ``value``; ``path`` names it in errors and array names."""
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if path in self._leave_out and isinstance(value, (list, tuple, dict)):
            return {"$supplied": path}  # a pair of modules, say
        for kinds, method in self._METHODS:
            if isinstance(value, kinds):
                return method(self, value, path)
        return self._encode_object(value, path)

    def _encode_array(self, value: np.ndarray, path: str) -> Json:
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        json = self._encode_new_array(value, path)
        self._seen[id(value)] = (value, json)
        return json

    def _encode_new_array(self, value: np.ndarray, path: str) -> Json:
        if value.dtype.kind in "UO":
            flat = value.ravel().tolist()
            if not all(isinstance(item, str) for item in flat):
                items = [self.encode(item, f"{path}.{i}") for i, item in enumerate(flat)]
                return {"$objects": items, "shape": list(value.shape)}
            data = [item.encode() for item in flat]
            offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
            return {
                "$strings": self._store(path + ".bytes", np.frombuffer(b"".join(data), np.uint8)),
                "offsets": self._store(path + ".offsets", offsets),
                "shape": list(value.shape),
                "dtype": value.dtype.str if value.dtype.kind == "U" else "O",
            }
        if value.dtype.kind in "mM":
            return {"$array": self._store(path, value.view(np.int64)), "view": value.dtype.str}
        if value.dtype.kind == "c":
            pairs = (
                value.view(value.real.dtype).reshape(*value.shape, 2)
                if value.ndim
                else np.array([value.real, value.imag])
            )
            return {"$array": self._store(path, pairs), "complex": True}
        if value.dtype.kind == "V":
            fields = {name: np.ascontiguousarray(value[name]) for name in value.dtype.names or ()}
            return {"$fields": self.encode(fields, path)}
        return {"$array": self._store(path, value)}

    def _encode_tensor(self, value: Tensor, path: str) -> Json:
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        plain = value.detach().cpu().contiguous()
        json: dict[str, Any] = {"device": str(value.device)}
        if plain.dtype == torch.bfloat16:
            plain = plain.view(torch.int16)
            json["bfloat16"] = True
        json["$tensor"] = self._encode_new_array(plain.numpy(), path)
        self._seen[id(value)] = (value, json)
        return json

    def _store(self, path: str, value: np.ndarray) -> str:
        name, count = path or "value", 1
        while name in self.arrays:
            name, count = f"{path}#{count}", count + 1
        # safetensors writes the buffer as it lies, so Fortran order and strides would be scrambled
        self.arrays[name] = np.ascontiguousarray(value).reshape(value.shape)
        return name

    def _encode_scalar(self, value: np.generic, path: str) -> Json:
        return {"$scalar": self._encode_new_array(np.asarray(value), path)}

    def _encode_list(self, value: list[Any], path: str) -> Json:
        return [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]

    def _encode_tuple(self, value: tuple[Any, ...], path: str) -> Json:
        return {"$tuple": self._encode_list(list(value), path)}

    def _encode_dict(self, value: dict[Any, Any], path: str) -> Json:
        pairs = [[self.encode(k, path), self.encode(v, f"{path}.{k}".lstrip("."))] for k, v in value.items()]
        return {"$dict": pairs}

    def _encode_slice(self, value: slice, path: str) -> Json:
        return {"$slice": [self.encode(part, path) for part in (value.start, value.stop, value.step)]}

    def _encode_dtype(self, value: np.dtype[Any], path: str) -> Json:
        return {"$dtype": value.str}

    def _encode_torch_dtype(self, value: torch.dtype, path: str) -> Json:
        return {"$torch_dtype": str(value).removeprefix("torch.")}

    def _encode_path(self, value: PurePath, path: str) -> Json:
        return {"$path": str(value)}

    def _encode_random_state(self, value: np.random.RandomState, path: str) -> Json:
        return {"$random_state": self.encode(value.get_state(legacy=True), path)}

    _METHODS: tuple[tuple[Any, Callable[..., Json]], ...] = (
        (np.ndarray, _encode_array),
        (Tensor, _encode_tensor),
        (np.generic, _encode_scalar),
        (list, _encode_list),
        (tuple, _encode_tuple),
        (dict, _encode_dict),
        (slice, _encode_slice),
        (np.dtype, _encode_dtype),
        (torch.dtype, _encode_torch_dtype),
        (np.random.RandomState, _encode_random_state),
        (PurePath, _encode_path),
    )

    def _encode_object(self, value: Any, path: str) -> Json:
        name = type(value).__name__
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"$type": np.dtype(value).str}
        if name in STORED and type(value) is resolve(name):
            record: Any = value
            return {"$record": name, "tree": self.encode(record.to_tree(), path)}
        if name in catalogue() and type(value) is resolve(name):
            return self._encode_estimator(value, name, path)
        if type(value).__module__ == SKLEARN_MODULE.get(name):
            return {"$sklearn": name, "state": self.encode(vars(value), path)}
        if path in self._leave_out or path.split(".")[-1] in self._leave_out:
            return {"$supplied": path}
        shown = " ".join(repr(value).split())
        raise ModelFileError(
            f"{path or 'the value'} is {shown:.80}, which a model file cannot hold (it holds no code); use a "
            f"named setting instead, or save with leave_out=[{path!r}] and load with modules={{{path!r}: ...}}"
        )

    def _encode_estimator(self, value: Any, name: str, path: str) -> Json:
        prefix = f"{path}." if path else ""
        params = value.get_params(deep=False)
        state = {key: held for key, held in vars(value).items() if key not in params}
        fitted = {key: held for key, held in state.items() if not isinstance(held, nn.Module)}
        networks = {key: held.state_dict() for key, held in state.items() if isinstance(held, nn.Module)}
        return {
            "$estimator": name,
            "params": [[key, self.encode(held, prefix + key)] for key, held in params.items()],
            "state": [[key, self.encode(held, prefix + key)] for key, held in fitted.items()],
            "networks": [[key, self.encode(dict(held), prefix + key)] for key, held in networks.items()],
        }
