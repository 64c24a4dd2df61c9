"""Values from the tagged tree of a file: whatever the file says, nothing runs but what save could have written.

Every tag has its table: classes by list, types by list, settings through the constructor, attributes by the rule of
``_attribute``. A file chooses among them; it names no function, no module and no method.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from benthic.base.arrays import available
from benthic.base.catalogue import STORED, catalogue, resolve
from benthic.base.errors import ModelFileError
from benthic.base.seeds import drawing
from benthic.base.settings import is_whole
from benthic.base.tree import SKLEARN_MODULE, Json

_FLOATS = {text: float(text) for text in ("nan", "inf", "-inf")}
_TORCH_TYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    )
}
_TIME = r"[<>]?[mM]8(\[\d{0,4}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
_NUMPY_TYPE = re.compile(rf"[<>|=]?(b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32)|O|[USV]\d{{0,6}})|{_TIME}")
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu)(:\d{1,3})?")
# What is learned ends in an underscore, what a class keeps for itself begins with one.
_ATTRIBUTE = re.compile(r"_[A-Za-z]\w*|[A-Za-z]\w*_", re.ASCII)

_DEEPEST = 64  # trees that save writes are at most a third as deep
_ROOM = 1 << 26  # bytes or numbers that any file may ask for, beside those in proportion to its size
_SHARE = 64
_STEP = 64  # what one operation costs of that
_MANY = 1 << 24  # no setting that decides the size of a network is larger


class Bounded(TorchDispatchMode):
    """Refuses tensors far larger than the file that asks for them, before they are made."""

    def __init__(self, size: int) -> None:
        TorchDispatchMode.__init__(self)
        self.left = _ROOM + _SHARE * size
        self._largest = self.left

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See torch: every operation comes by."""
        counts = func.overloadpacket.__name__ in ("arange", "eye", "linspace", "logspace", "randperm")
        for given in args:
            many = math.prod(given) if _are_whole(given) else given if counts and is_whole(given) else 0
            if many > self._largest:
                raise ModelFileError(f"it asks for {many:.3g} numbers, far more than it holds")
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (list, tuple)) else (made,):
            if isinstance(tensor, Tensor):
                self.spend(tensor.numel())
        self.spend(_STEP)
        return made

    def spend(self, amount: int) -> None:
        """Take from what is left."""
        self.left -= amount
        if self.left < 0:
            raise ModelFileError("it asks for far more numbers than it holds")


def _are_whole(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and all(isinstance(item, int) for item in given)


class Decoder:
    """Reads what ``Encoder`` wrote."""

    def __init__(self, arrays: dict[str, np.ndarray], supplied: dict[str, Any] | None = None) -> None:
        self._arrays = arrays
        self._built: dict[str, Any] = {}
        self._supplied = supplied or {}
        self._bound = Bounded(sum(array.nbytes for array in arrays.values()))
        self._depth = 0

    def decode(self, json: Json) -> Any:
        """The value of a piece of tagged JSON."""
        if not isinstance(json, (list, dict)):
            return json
        if self._depth >= _DEEPEST:
            raise ModelFileError(f"it is nested deeper than {_DEEPEST} levels")
        self._depth += 1
        try:
            return [self.decode(item) for item in json] if isinstance(json, list) else self._tagged(json)
        finally:
            self._depth -= 1

    def _tagged(self, json: dict[str, Json]) -> Any:
        tags = [tag for tag in json if tag in self._METHODS]
        if len(tags) != 1:
            raise ModelFileError(f"it holds a value of unknown kind {_shown(sorted(json))}")
        method, needed, optional = self._METHODS[tags[0]]
        parts = set(json) - {tags[0]}
        if not set(needed) <= parts <= {*needed, *optional}:
            raise ModelFileError(f"a {tags[0]} in it has the parts {_shown(sorted(parts))}")
        return method(self, json[tags[0]], **{part: json[part] for part in parts})

    # -- numbers and arrays --------------------------------------------------------------------------------

    def _stored(self, name: Json) -> np.ndarray:
        if not isinstance(name, str) or name not in self._arrays:
            raise ModelFileError(f"it has no array {_shown(name)}")
        return self._arrays[name]

    def _array(self, name: Json, view: Json = None, **how: Json) -> np.ndarray:
        value = self._stored(name)
        if view is not None:
            if value.dtype != np.int64 or not isinstance(view, str) or not re.fullmatch(_TIME, view):
                raise ModelFileError(f"an array in it is said to be of type {_shown(view)}")
            return value.view(view)
        if how.get("complex"):
            if value.dtype.kind != "f" or value.shape[-1:] != (2,):
                raise ModelFileError("the complex numbers in it are not pairs")
            self._bound.spend(value.nbytes)
            return np.asarray(value[..., 0] + 1j * value[..., 1])
        return value

    def _tensor(self, json: Json, device: Json, bfloat16: Json = None) -> Tensor:
        key = str((json, device, bfloat16))
        if key not in self._built:
            value = self.decode(json)
            if not isinstance(value, np.ndarray):
                raise ModelFileError("a tensor in it is not made of an array")
            if not isinstance(device, str) or not _DEVICE.fullmatch(device):
                raise ModelFileError(f"it names the device {_shown(device)}")
            self._bound.spend(value.nbytes)
            tensor = torch.from_numpy(np.array(value))
            tensor = tensor.view(torch.bfloat16) if bfloat16 else tensor
            self._built[key] = tensor.to(available(device))
        return cast(Tensor, self._built[key])

    def _strings(self, name: Json, offsets: Json, shape: Json, dtype: Json) -> np.ndarray:
        data, ends = self._stored(name), self._stored(offsets)
        if data.dtype != np.uint8 or data.ndim != 1 or ends.dtype != np.int64 or ends.ndim != 1 or not len(ends):
            raise ModelFileError("the words in it are not stored as words")
        if ends[0] != 0 or ends[-1] != len(data) or (np.diff(ends) < 0).any():
            raise ModelFileError("the words in it overlap")
        if dtype == "O":
            kind = np.dtype(object)
        elif isinstance(dtype, str) and re.fullmatch(r"[<>]U\d{1,6}", dtype):
            kind = np.dtype(dtype)
        else:
            raise ModelFileError(f"words in it are of type {_shown(dtype)}")
        self._bound.spend(len(data) + kind.itemsize * len(ends))
        text = data.tobytes()
        items = [text[a:b].decode() for a, b in pairwise(ends)]
        return np.array(items, dtype=kind).reshape(_shape(shape, len(items)))

    def _objects(self, items: Json, shape: Json) -> np.ndarray:
        held = self._several(items)
        out = np.empty(len(held), dtype=object)
        for i, item in enumerate(held):
            out[i] = item
        return out.reshape(_shape(shape, len(held)))

    def _fields(self, json: Json) -> np.ndarray:
        fields = self.decode(json)
        if not isinstance(fields, dict) or not fields:
            raise ModelFileError("a table in it has no columns")
        dtype = [(name, held.dtype) for name, held in fields.items()]
        out = np.empty(next(iter(fields.values())).shape, dtype=dtype)
        for name, held in fields.items():
            out[name] = held
        return out

    def _scalar(self, json: Json) -> Any:
        value = self.decode(json)
        if not isinstance(value, np.ndarray) or value.ndim:
            raise ModelFileError("a number in it is not one number")
        return value[()]

    # -- plain values --------------------------------------------------------------------------------------

    def _float(self, text: Json) -> float:
        return _FLOATS[_one_of(text, _FLOATS, "number")]

    def _several(self, items: Json) -> list[Any]:
        if not isinstance(items, list):
            raise ModelFileError(f"a list in it is {_shown(items)}")
        return [self.decode(item) for item in items]

    def _tuple(self, items: Json) -> tuple[Any, ...]:
        return tuple(self._several(items))

    def _dict(self, pairs: Json) -> dict[Any, Any]:
        return {self.decode(key): self.decode(value) for key, value in _pairs(pairs)}

    def _slice(self, parts: Json) -> slice:
        if not isinstance(parts, list) or len(parts) != 3 or not all(p is None or is_whole(p) for p in parts):
            raise ModelFileError(f"a slice in it is {_shown(parts)}")
        return slice(*parts)

    def _dtype(self, text: Json) -> np.dtype[Any]:
        if not isinstance(text, str) or not _NUMPY_TYPE.fullmatch(text):
            raise ModelFileError(f"it names the type {_shown(text)}")
        return np.dtype(text)

    def _type(self, text: Json) -> type:
        return self._dtype(text).type

    def _torch_dtype(self, text: Json) -> torch.dtype:
        return _TORCH_TYPES[_one_of(text, _TORCH_TYPES, "torch type")]

    def _path(self, text: Json) -> Path:
        if not isinstance(text, str):
            raise ModelFileError(f"a path in it is {_shown(text)}")
        return Path(text)

    def _random_state(self, json: Json) -> np.random.RandomState:
        name, key, place, has_gauss, gauss = self.decode(json)
        # NumPy reads what it is given without looking, also beyond the end
        if name != "MT19937" or key.dtype != np.uint32 or key.shape != (624,) or not is_whole(place, 0, 624):
            raise ModelFileError("a random state in it is none of NumPy's")
        state = np.random.RandomState(0)
        state.set_state((name, key, int(place), int(has_gauss), float(gauss)))
        return state

    def _supply(self, path: Json) -> Any:
        if not isinstance(path, str):
            raise ModelFileError(f"what was left out is named {_shown(path)}")
        for name in (path, path.split(".")[-1]):
            if name in self._supplied:
                return self._supplied[name]
        raise ModelFileError(f"{path!r} was left out when the model was saved; load with modules={{{path!r}: ...}}")

    # -- classes -------------------------------------------------------------------------------------------

    def _record(self, name: Json, tree: Json) -> Any:
        cls: Any = resolve(_one_of(name, STORED, "class"))
        held = self.decode(tree)
        with self._bound:
            return cls.from_tree(held)

    def _sklearn(self, name: Json, state: Json) -> Any:
        if not isinstance(name, str) or name not in SKLEARN_MODULE:
            raise ModelFileError(f"it names scikit-learn's {_shown(name)}, which is not on the list of safe classes")
        cls = getattr(importlib.import_module(SKLEARN_MODULE[name]), name)
        if not isinstance(state, dict) or set(state) != {"$dict"}:
            raise ModelFileError(f"the attributes of {name} in it are not named")
        held = dict(_named(state["$dict"]))
        params = {key: self.decode(held.pop(key)) for key in cls._get_param_names() if key in held}
        value = cls(**params)
        value.__dict__.update({key: self._attribute(cls, key, json) for key, json in held.items()})
        return value

    def _estimator(self, name: Json, params: Json, state: Json, networks: Json) -> Any:
        if not isinstance(name, str) or name not in catalogue():
            raise ModelFileError(f"it holds a {_shown(name)}, which this version does not know")
        cls: Any = resolve(name)
        held = {key: self.decode(part) for key, part in _named(params)}
        if networks:
            _check_sizes(name, held)
        value = cls(**held)
        for key, part in _named(state):
            value.__dict__[key] = self._attribute(cls, key, part)
        for key, part in _named(networks):
            value.__dict__[key] = self._network(value, key, part)
        return value

    def _attribute(self, cls: type, name: str, json: Json) -> Any:
        """The value of an attribute, which must be data and stand in the place of data."""
        declared = inspect.getattr_static(cls, name, 0)
        if not _ATTRIBUTE.fullmatch(name) or type(declared) not in (bool, int, float):
            raise ModelFileError(f"it sets {cls.__name__}.{_shown(name, quote=False)}, which is no fitted attribute")
        value = self.decode(json)
        kept = isinstance(json, dict) and ("$record" in json or "$supplied" in json)  # kernels may be called
        if callable(value) and not kept:
            raise ModelFileError(f"it sets {cls.__name__}.{name} to {_shown(value)}, which is no data")
        return value

    def _network(self, value: Any, name: str, json: Json) -> nn.Module:
        cls = type(value)
        if not _ATTRIBUTE.fullmatch(name) or not name.endswith("_") or hasattr(cls, name):
            raise ModelFileError(f"it sets {cls.__name__}.{_shown(name, quote=False)}, which is no network")
        weights = self.decode(json)
        if not isinstance(weights, dict) or not all(isinstance(weight, Tensor) for weight in weights.values()):
            raise ModelFileError(f"the weights of {cls.__name__}.{name} in it are not tensors")
        with self._bound, drawing(0):  # what it begins with is overwritten
            module: nn.Module = value._build_network(name)
            module.load_state_dict(weights)
        device = next((weight.device for weight in weights.values()), torch.device("cpu"))
        return module.to(device).eval()

    _METHODS: dict[str, tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...]]] = {
        "$float": (_float, (), ()),
        "$array": (_array, (), ("view", "complex")),
        "$tensor": (_tensor, ("device",), ("bfloat16",)),
        "$scalar": (_scalar, (), ()),
        "$strings": (_strings, ("offsets", "shape", "dtype"), ()),
        "$objects": (_objects, ("shape",), ()),
        "$fields": (_fields, (), ()),
        "$tuple": (_tuple, (), ()),
        "$dict": (_dict, (), ()),
        "$slice": (_slice, (), ()),
        "$dtype": (_dtype, (), ()),
        "$type": (_type, (), ()),
        "$torch_dtype": (_torch_dtype, (), ()),
        "$random_state": (_random_state, (), ()),
        "$path": (_path, (), ()),
        "$supplied": (_supply, (), ()),
        "$record": (_record, ("tree",), ()),
        "$sklearn": (_sklearn, ("state",), ()),
        "$estimator": (_estimator, ("params", "state", "networks"), ()),
    }


def _shown(value: Any, quote: bool = True) -> str:
    return f"{value!r:.60}" if quote else f"{value!s:.60}"


def _one_of(name: Json, table: Iterable[str], what: str) -> str:
    if not isinstance(name, str) or name not in table:
        raise ModelFileError(f"it names an unknown {what} {_shown(name)}")
    return name


def _check_sizes(where: str, held: Any) -> None:
    """Refuse settings of networks that no computer could build."""
    if isinstance(held, dict):
        pairs = [(key, part) for key, part in held.items() if key not in ("random_state", "trainer")]
    else:
        pairs = [(i, part) for i, part in enumerate(held)]
    for key, part in pairs:
        if isinstance(part, (dict, list, tuple)):
            _check_sizes(f"{where}.{key}", part)
        elif is_whole(part, _MANY):
            raise ModelFileError(f"it sets {where}.{key} to {part}, which is more than a network can have")


def _pairs(json: Json) -> list[Any]:
    if not isinstance(json, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in json):
        raise ModelFileError("what should be pairs of names and values in it is not")
    return json


def _named(json: Json) -> list[Any]:
    pairs = _pairs(json)
    names = [name for name, _ in pairs]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ModelFileError("what should be values by name in it is not, or a name stands twice")
    return pairs


def _shape(json: Json, count: int) -> tuple[int, ...]:
    if not _are_whole(json) or min(json, default=0) < 0 or math.prod(json) != count:
        raise ModelFileError(f"an array in it has shape {_shown(json)}, but {count} values")
    return tuple(json)
