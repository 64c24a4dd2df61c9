"""A tagged tree: nested values as JSON plus named arrays, read back without running any code."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.arrays import available
from benthic.base.catalogue import STORED, catalogue, resolve
from benthic.base.errors import ModelFileError
from benthic.base.seeds import drawing

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
_SKLEARN_MODULE = {name: module for module, names in _SKLEARN.items() for name in names}

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
        if type(value).__module__ == _SKLEARN_MODULE.get(name):
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


class Decoder:
    """Reads what ``Encoder`` wrote."""

    def __init__(self, arrays: dict[str, np.ndarray], supplied: dict[str, Any] | None = None) -> None:
        self._arrays = arrays
        self._built: dict[str, Any] = {}
        self._supplied = supplied or {}

    def decode(self, json: Json) -> Any:
        """The value of a piece of tagged JSON."""
        if isinstance(json, list):
            return [self.decode(item) for item in json]
        if not isinstance(json, dict):
            return json
        for tag, method in self._METHODS.items():
            if tag in json:
                return method(self, json)
        raise ModelFileError(f"the file holds a value of unknown kind {sorted(json)}")

    def _array(self, json: Json) -> np.ndarray:
        value = self._arrays[json["$array"]]
        if "view" in json:
            return value.view(json["view"])
        if json.get("complex"):
            return np.asarray(value[..., 0] + 1j * value[..., 1])
        return value

    def _tensor(self, json: Json) -> Tensor:
        key = str(json["$tensor"])
        if key not in self._built:
            tensor = torch.from_numpy(np.array(self.decode(json["$tensor"])))
            tensor = tensor.view(torch.bfloat16) if json.get("bfloat16") else tensor
            self._built[key] = tensor.to(available(json["device"]))
        return cast(Tensor, self._built[key])

    def _strings(self, json: Json) -> np.ndarray:
        data, offsets = self._arrays[json["$strings"]].tobytes(), self._arrays[json["offsets"]]
        items = [data[a:b].decode() for a, b in pairwise(offsets)]
        dtype = object if json["dtype"] == "O" else json["dtype"]
        return np.array(items, dtype=dtype).reshape(json["shape"])

    def _objects(self, json: Json) -> np.ndarray:
        out = np.empty(len(json["$objects"]), dtype=object)
        out[:] = self.decode(json["$objects"])
        return out.reshape(json["shape"])

    def _fields(self, json: Json) -> np.ndarray:
        fields = self.decode(json["$fields"])
        dtype = [(name, held.dtype) for name, held in fields.items()]
        out = np.empty(next(iter(fields.values())).shape, dtype=dtype)
        for name, held in fields.items():
            out[name] = held
        return out

    def _supply(self, json: Json) -> Any:
        path = json["$supplied"]
        for name in (path, path.split(".")[-1]):
            if name in self._supplied:
                return self._supplied[name]
        raise ModelFileError(f"{path!r} was left out when the model was saved; load with modules={{{path!r}: ...}}")

    def _record(self, json: Json) -> Any:
        if json["$record"] not in STORED:
            raise ModelFileError(f"the file names an unknown class {json['$record']!r}")
        cls: Any = resolve(json["$record"])
        return cls.from_tree(self.decode(json["tree"]))

    def _sklearn(self, json: Json) -> Any:
        name = json["$sklearn"]
        if name not in _SKLEARN_MODULE:
            raise ModelFileError(f"the file names scikit-learn's {name!r}, which is not on the list of safe classes")
        cls = getattr(importlib.import_module(_SKLEARN_MODULE[name]), name)
        value = cls.__new__(cls)
        value.__dict__.update(self.decode(json["state"]))
        return value

    def _estimator(self, json: Json) -> Any:
        name = json["$estimator"]
        if name not in catalogue():
            raise ModelFileError(f"the file holds a {name!r}, which this version does not know")
        value = resolve(name)(**{key: self.decode(held) for key, held in json["params"]})
        value.__dict__.update({key: self.decode(held) for key, held in json["state"]})
        for key, held in json["networks"]:
            with drawing(0):  # what it begins with is overwritten
                module = value._build_network(key)
            weights = self.decode(held)
            module.load_state_dict(weights)
            device = next((w.device for w in weights.values()), torch.device("cpu"))
            value.__dict__[key] = module.to(device).eval()
        return value

    def _random_state(self, json: Json) -> np.random.RandomState:
        state = np.random.RandomState()
        state.set_state(self.decode(json["$random_state"]))
        return state

    _METHODS: dict[str, Callable[..., Any]] = {
        "$float": lambda self, json: float(json["$float"]),
        "$array": _array,
        "$tensor": _tensor,
        "$scalar": lambda self, json: self.decode(json["$scalar"])[()],
        "$strings": _strings,
        "$objects": _objects,
        "$fields": _fields,
        "$tuple": lambda self, json: tuple(self.decode(json["$tuple"])),
        "$dict": lambda self, json: {self.decode(k): self.decode(v) for k, v in json["$dict"]},
        "$slice": lambda self, json: slice(*self.decode(json["$slice"])),
        "$dtype": lambda self, json: np.dtype(json["$dtype"]),
        "$type": lambda self, json: np.dtype(json["$type"]).type,
        "$torch_dtype": lambda self, json: getattr(torch, json["$torch_dtype"]),
        "$random_state": _random_state,
        "$path": lambda self, json: Path(json["$path"]),
        "$supplied": _supply,
        "$record": _record,
        "$sklearn": _sklearn,
        "$estimator": _estimator,
    }
