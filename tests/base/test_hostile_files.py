"""Files written with bad intent: `load` refuses them in one sentence, and nothing else happens."""

from __future__ import annotations

import copy
import importlib
import json
import os
import pickle
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from sklearn.base import BaseEstimator

import benthic
from benthic.base.catalogue import STORED, resolve
from benthic.base.decoder import Decoder
from benthic.base.errors import ModelFileError
from benthic.base.modelfile import FORMAT, _checksum, _metadata, load_tree
from benthic.base.tree import SKLEARN_MODULE
from tests.base.write_old_files import FOLDER

# ------------------------------------------------------------------------------------------------ the canary


class Audit:
    """What Python itself reports: files opened to write, processes, sockets, modules that nobody has imported yet."""

    def __init__(self) -> None:
        self.on, self.seen = False, []
        sys.addaudithook(self)
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Asked first for every module that is not there yet; rooms of these packages may come late."""
        if self.on and name.partition(".")[0] not in ("benthic", "torch", "sklearn", "numpy", "scipy", "numba"):
            self.seen.append(("import", name))

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        kind = event.partition(".")[0]
        writes = event == "open" and (set(str(args[1])) & set("wax+") or (args[2] or 0) & (os.O_WRONLY | os.O_RDWR))
        acts = kind in ("subprocess", "socket", "shutil", "tempfile", "urllib", "pty", "ctypes.dlopen") or event in (
            *("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename", "os.mkdir", "os.rmdir"),
            *("os.chmod", "os.link", "os.symlink", "os.truncate", "os.putenv", "os.chdir", "os.kill"),
        )  # fmt: skip
        if writes or acts:
            self.seen.append((event, args[:2]))


AUDIT = Audit()
VICTIM = "victim"


def world() -> list[Any]:
    """Everything global that a file could want to change."""
    return [
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.random.get_rng_state().tolist(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        pickle.dumps(np.random.get_state()),
        np.geterr(),
        repr(np.get_printoptions()),
        random.getstate(),
        dict(os.environ),
        Path.cwd(),
        list(sys.path),
        list(warnings.filters),
        signal.getsignal(signal.SIGINT),
        {path.name: path.read_bytes() for path in Path().iterdir()},
    ]


@contextmanager
def nothing_else_happens() -> Iterator[None]:
    before, AUDIT.seen = world(), []
    AUDIT.on = True
    try:
        yield
    finally:
        AUDIT.on = False
    assert AUDIT.seen == []
    assert world() == before


DEEDS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a file written": (lambda: Path("new").write_text("x"), lambda: Path("new").unlink()),
    "a file written by torch": (lambda: torch.PyTorchFileWriter("new"), lambda: Path("new").unlink()),
    "an import": (lambda: importlib.import_module("antigravity_of_nobody"), lambda: None),
    "a process": (lambda: os.system("true"), lambda: None),
    "an environment variable": (lambda: os.environ.update(FORGED="1"), lambda: os.environ.pop("FORGED")),
    "torch's default type": (
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
    "torch's default device": (lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)),
    "a draw of torch": (lambda: torch.rand(1), lambda: None),
    "a draw of NumPy": (lambda: np.random.rand(), lambda: None),
    "a draw of Python": (lambda: random.random(), lambda: None),
    "NumPy's errors": (lambda: np.seterr(all="raise"), lambda: np.seterr(all="warn", under="ignore")),
}  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS)
def test_the_canary_sees(deed):
    do, undo = DEEDS[deed]
    with pytest.raises(AssertionError), nothing_else_happens(), suppress(ImportError):
        do()
    undo()


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported():
    """What a file may name, with all that it needs: after this no file makes Python import anything else."""
    for name in (*benthic.catalogue(), *STORED):
        resolve(name)
    for module in SKLEARN_MODULE.values():
        importlib.import_module(module)
    for name in FEW:
        load_tree(FOLDER / f"{name}.safetensors")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own with a file that must stay as it is."""
    monkeypatch.chdir(tmp_path)
    Path(VICTIM).write_bytes(b"untouched")


# ------------------------------------------------------------------------------------------------ forging


def forged(tree: Any, arrays: dict[str, np.ndarray] | None = None, meta: dict[str, Any] | None = None) -> bytes:
    """A file with this tree and a checksum that is right."""
    arrays, text = arrays or {}, tree if isinstance(tree, str) else json.dumps(tree)
    held = {"format": FORMAT, "crc": _checksum(text, arrays), "tree": text, **(meta or {})}
    return bytes(save_arrays(arrays, metadata={"benthic": json.dumps(held)}))


def opened(data: bytes) -> Any:
    """What `load` gives, or the error that it may raise; any other one fails the test."""
    Path("file.safetensors").write_bytes(data)
    value: Any = None
    with nothing_else_happens():
        try:
            value = load_tree("file.safetensors")
        except ModelFileError as error:
            value = error
    if isinstance(value, ModelFileError):
        assert 10 < len(str(value)) < 500 and "\n" not in str(value)
    assert_whole(value)
    return value


def assert_whole(value: Any, depth: int = 0) -> None:
    """No attribute of a loaded estimator stands in the place of a method."""
    if isinstance(value, BaseEstimator):
        assert not [name for name in vars(value) if callable(getattr(type(value), name, None))]
    for held in list(vars(value).values()) if isinstance(value, BaseEstimator) else list_of(value):
        assert_whole(held, depth + 1)


def list_of(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, (list, tuple)) else []


@cache
def old(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Tree and arrays of a file that is right."""
    path = FOLDER / f"{name}.safetensors"
    data = path.read_bytes()
    return json.loads(_metadata(data, path)["tree"]), load_arrays(data)


def estimator(name: str = "GaussianMixture", params: Any = (), state: Any = (), networks: Any = ()) -> dict[str, Any]:
    return {"$estimator": name, "params": list(params), "state": list(state), "networks": list(networks)}


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"$record": name, "tree": {"$dict": [[key, value] for key, value in fields.items()]}}


def mlp(state: Any = (), **params: Any) -> dict[str, Any]:
    """A network whose settings or attributes are others, with the weights it had."""
    tree = copy.deepcopy(old("MLPClassifier")[0])
    tree["params"] = [pair for pair in tree["params"] if pair[0] not in params] + [list(p) for p in params.items()]
    names = {name for name, _ in state}
    tree["state"] = [pair for pair in tree["state"] if pair[0] not in names] + list(state)
    return tree


FUNCTIONS = (
    *("PyTorchFileWriter", "_import_dotted_name", "set_default_device", "set_default_dtype", "manual_seed", "seed"),
    *(
        "load",
        "save",
        "compile",
        "set_num_threads",
        "use_deterministic_algorithms",
        "os",
        "sys",
        "nn",
        "classes",
        "ops",
    ),
    *("set_rng_state", "set_printoptions", "_C", "hub", "jit", "__builtins__", "strided", "float33", "dtype", "Tensor"),
)
METHODS = (
    *("_build_network", "fit", "predict", "score", "save", "get_params", "set_params", "_arrive", "summary"),
    *("__class__", "__dict__", "__init__", "__reduce__", "__sklearn_tags__", "__setstate__", "_repr_html_", "_fail"),
    *("_get_param_names", "_doc_link_module", "_check_draws", "metadata_routing", "x", "", "fit_x", "class"),
    *("a.b_", "é_", "_é", " _a", "_a ", "__a_", "1_", "/path/victim"),
)
PARTS = ("transform", "inverse_transform", "_reset", "__class__", "_repr_html_", "_doc_link_module", "x", "", "__a_")
NETWORK = {"$dict": []}
TREES: dict[str, Any] = {
    "the one that overwrote a file": estimator(
        state=[["_build_network", {"$torch_dtype": "PyTorchFileWriter"}]], networks=[[VICTIM, NETWORK]]
    ),
    **{f"torch.{name}": {"$torch_dtype": name} for name in FUNCTIONS},
    **{
        f"{name} called through torch.{function}": estimator(
            state=[["_build_network", {"$torch_dtype": function}]], networks=[[name, NETWORK]]
        )
        for function, name in (("_import_dotted_name", "antigravity.x"), ("set_default_device", "meta"))
    },
    **{f"attribute {name!r}": estimator(state=[[name, 3]]) for name in METHODS},
    **{f"network {name!r}": mlp() | {"networks": [[name, NETWORK]]} for name in METHODS},
    **{f"attribute of scikit-learn {name!r}": {"$sklearn": "StandardScaler", "state": {"$dict": [[name, 3]]}}
       for name in PARTS},
    "a network of a model without one": estimator(networks=[["network_", NETWORK]]),
    "a type as an attribute": estimator(state=[["means_", {"$type": "<f8"}]]),
    "a type that is none": {"$type": "O8"},
    "a name of NumPy": {"$dtype": "numpy.core"},
    "fields": {"$dtype": "i4,i4"},
    "a parameter that is none": estimator(params=[["component", 2]]),
    "a parameter twice": estimator(params=[["n_components", 2], ["n_components", 3]]),
    "an attribute twice": estimator(state=[["a_", 2], ["a_", 3]]),
    "a parameter as an attribute": estimator(state=[["random_state", 2]]),
    "no parts": {"$estimator": "GaussianMixture"},
    "parts too many": {**estimator(), "module": "os"},
    "two tags": {"$path": "a", "$float": "nan"},
    "no tag": {"float": "nan"},
    "a class of scikit-learn that calls": {"$sklearn": "FunctionTransformer", "state": {"$dict": [["func", 3]]}},
    "a module for a class": {"$sklearn": "os.system", "state": {"$dict": []}},
    "a path for a class": {"$estimator": "benthic.cli.main", "params": [], "state": [], "networks": []},
    "a list for a class": {"$estimator": ["VAE"], "params": [], "state": [], "networks": []},
    "a class that is none": {"$record": "Popen", "tree": ["ls"]},
    "a kernel with another method": record("RBF", lengthscale=1.0, _matrix=record("RBF", lengthscale=1.0)),
    "a kernel with another class": record("RBF", lengthscale=1.0, __class__=3),
    "a kernel of no kernels": record("Sum", parts={"$tuple": [1, 2]}),
    "a kernel of nothing": {"$record": "RBF", "tree": 3},
    "settings that are none": record("Trainer", epoch=3),
    "settings that are wrong": record("Trainer", steps=-1),
    "settings of a word": {"$record": "Trainer", "tree": "steps"},
    "an origin of no kind": record("Origin", kind="os", dtype="float64", device="cpu"),
    "an origin of no type": record("Origin", kind="numpy", dtype="save", device="cpu"),
    "an origin nowhere": record("Origin", kind="torch", dtype="float64", device="nowhere"),
    "a chain without end": record("DiscreteChain", t_min=1.0, t_max=1e13, length=10**13, schedule="linear"),
    "a schema of nothing": record("Schema", columns=[3], names=[], dropped={"$dict": []}, frame="pandas"),
    "a network without end": mlp(hidden_layer_sizes=[10**12]),
    "a network of a billion layers": mlp(hidden_layer_sizes=[2] * 100_000),
    "a network that fits no memory": mlp(hidden_layer_sizes=[10**7, 10**7]),
    "inputs without end": mlp(state=[["_width", 10**13]]),
    "inputs that are words": mlp(state=[["_width", "many"]]),
    "inputs below none": mlp(state=[["_width", -5]]),
    "an activation of torch": mlp(activation="set_default_dtype"),
    "no array": {"$array": "none"},
    "an array by number": {"$array": 3},
    "an array of objects": {"$array": "a", "view": "O"},
    "an array of times that are numbers": {"$array": "b", "view": "M8[ns]"},
    "a complex number of one": {"$array": "a", "complex": True},
    "a tensor nowhere": {"$tensor": {"$array": "a"}, "device": "meta"},
    "a tensor far away": {"$tensor": {"$array": "a"}, "device": "cuda:99999"},
    "a tensor of words": {"$tensor": "a", "device": "cpu"},
    "a scalar of many": {"$scalar": {"$array": "a"}},
    "words that overlap": {"$strings": "w", "offsets": "o", "shape": [2], "dtype": "O"},
    "words of a type": {"$strings": "w", "offsets": "w", "shape": [2], "dtype": "O"},
    "words without end": {"$strings": "w", "offsets": "z", "shape": [999], "dtype": "<U999999"},
    "words of another type": {"$strings": "w", "offsets": "e", "shape": [2], "dtype": "S5"},
    "words in another shape": {"$strings": "w", "offsets": "e", "shape": [10**9], "dtype": "O"},
    "words in a shape below none": {"$strings": "w", "offsets": "e", "shape": [-1], "dtype": "O"},
    "objects in a shape": {"$objects": [1, 2], "shape": [10**12]},
    "objects that are none": {"$objects": 3, "shape": [1]},
    "a table of nothing": {"$fields": {"$dict": []}},
    "a table of words": {"$fields": "os"},
    "a pair of three": {"$dict": [[1, 2, 3]]},
    "a key that is a list": {"$dict": [[[1], 2]]},
    "a slice of four": {"$slice": [1, 2, 3, 4]},
    "a slice of words": {"$slice": ["a", "b", "c"]},
    "a path of numbers": {"$path": 3},
    "a number in words": {"$float": "1e400"},
    "a random state beyond its end": {"$random_state": {"$tuple": ["MT19937", {"$array": "k"}, 10**9, 0, 0.0]}},
    "a random state below its begin": {"$random_state": {"$tuple": ["MT19937", {"$array": "k"}, -1, 0, 0.0]}},
    "a random state of few": {"$random_state": {"$tuple": ["MT19937", {"$array": "a"}, 3, 0, 0.0]}},
    "a random state of another kind": {"$random_state": {"$tuple": ["PCG64", {"$array": "k"}, 3, 0, 0.0]}},
    "what was left out": {"$supplied": "loss"},
    "what was left out, by number": {"$supplied": 3},
    "lists in lists": "[" * 500 + "]" * 500,
    "lists without end": "[" * 100_000 + "]" * 100_000,
    "tuples in tuples": '{"$tuple":[' * 500 + "]}" * 500,
    "estimators in estimators": '{"$estimator":"BaggingClassifier","state":[],"networks":[],"params":[["estimator",'
    * 100 + "3" + "]]}" * 100,
    "a number that is none": "NaN",
    "a number without end": "1" * 5000,
    "no JSON": "{",
    "nothing": "",
}  # fmt: skip
ARRAYS = {
    "a": np.arange(3),
    "b": np.ones(3),
    "w": np.frombuffer(b"abcd", np.uint8),
    "o": np.array([0, 3, 1]),
    "e": np.array([0, 2, 4]),
    "z": np.array([0] * 999 + [4]),
    "k": np.zeros(624, np.uint32),
}


@pytest.mark.parametrize("what", TREES)
def test_a_forged_tree_is_refused(what):
    assert isinstance(opened(forged(TREES[what], ARRAYS)), ModelFileError)


def test_the_trees_that_were_forged_load_as_they_were():
    assert type(opened(forged(mlp(), old("MLPClassifier")[1]))).__name__ == "MLPClassifier"
    for tree in (estimator(), record("RBF", lengthscale=1.0), {"$torch_dtype": "float32"}, {"$type": "<f8"}):
        assert not isinstance(opened(forged(tree)), ModelFileError)


def test_the_size_of_a_network_is_refused_before_it_is_made():
    for tree in (mlp(hidden_layer_sizes=[10**6, 10**6]), mlp(state=[["_width", 10**9]])):
        assert "far more" in str(opened(forged(tree, old("MLPClassifier")[1])))


HEADERS: dict[str, bytes] = {
    name: len(text).to_bytes(8, "little") + text
    for name, text in {
        "no object": b"[]",
        "a number": b"3",
        "nothing of ours": b"{}",
        "metadata that is a list": b'{"__metadata__":[]}',
        "metadata that is a word": b'{"__metadata__":"benthic"}',
        "ours is a number": b'{"__metadata__":{"benthic":3}}',
        "ours is no JSON": b'{"__metadata__":{"benthic":"{"}}',
        "ours is a list": b'{"__metadata__":{"benthic":"[]"}}',
        "ours is null": b'{"__metadata__":{"benthic":"null"}}',
        "deep": b"{" + b'"a":{' * 100_000,
        "deep lists": b'{"a":' + b"[" * 100_000,
        "not UTF-8": b'{"\xff\xfe":3}',
        "a lone surrogate": b'{"__metadata__":{"benthic":"\\ud800"}}',
    }.items()
}  # fmt: skip
HEADERS |= {
    f"meta {key}={value!r}": forged("null", meta={key: value})
    for key, values in {
        "format": (None, "1", 1.5, True, [], 0, -1, 10**400, "one", {}),
        "crc": (None, "0", [], 1.5, -1, 10**100),
        "tree": (None, 3, [], {}, ["null"]),
    }.items()
    for value in values
}


@pytest.mark.parametrize("what", HEADERS)
def test_a_forged_header_is_refused(what):
    assert isinstance(opened(HEADERS[what]), ModelFileError)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "BF16", "F4", "U1", "I128", "os", 3, None])
@pytest.mark.parametrize("shape", [[2], [-2], [2**63], [2**40, 0], "2", [[2]]])
def test_a_forged_array_is_refused(dtype, shape):
    meta = json.dumps({"format": 1, "crc": 0, "tree": "null"})
    header = {"__metadata__": {"benthic": meta}, "x": {"dtype": dtype, "shape": shape, "data_offsets": [0, 2]}}
    text = json.dumps(header).encode()
    assert isinstance(opened(len(text).to_bytes(8, "little") + text + b"ab"), ModelFileError)


# ------------------------------------------------------------------------------------------------ by chance

TAGS = list(Decoder._METHODS)
WORDS = [
    *(*TAGS, *FUNCTIONS, *METHODS, VICTIM, "antigravity", "this", "xml.dom.minidom", "os.system", "__import__"),
    *("VAE", "MLPClassifier", "KMeans", "Trainer", "RBF", "Sum", "Schema", "Origin", "Pipeline", "StandardScaler"),
    *("<f8", "|O", "<U5", "float32", "cpu", "meta", "cuda", "M8[ns]", "nan", "-inf", "network_", "_width", "classes_"),
    *ARRAYS,
]
NUMBERS = st.sampled_from([0, 1, -1, 2, 7, 2**31, 2**63, -(2**63), 10**12, 10**30, 0.5, -0.0, 1e308])
LEAVES = st.none() | st.booleans() | NUMBERS | st.sampled_from(WORDS) | st.text(max_size=5)


def tagged(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A tag with the parts that it needs, and now and then one more."""

    def parts(tag: str) -> st.SearchStrategy[Any]:
        _, needed, optional = Decoder._METHODS[tag]
        pairs = st.lists(st.tuples(st.sampled_from(WORDS), inner).map(list), max_size=3)
        value = inner | pairs | st.sampled_from(WORDS)
        return st.fixed_dictionaries(
            {tag: value, **dict.fromkeys(needed, value)}, optional=dict.fromkeys((*optional, "x"), value)
        )

    return st.sampled_from(TAGS).flatmap(parts)


GROWN = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | tagged(inner), max_leaves=12)
FEW = ("MLPClassifier", "GaussianMixture", "KNeighborsClassifier", "further_pipeline", "further_kernel")


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place of a tree: what holds it, and the key or number under which it stands."""
    found, left = [], [tree]
    while left:
        held = left.pop()
        pairs = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        for key, value in pairs:
            found.append((held, key))
            left.append(value)
    return found


def has_name(held: Any, key: Any) -> bool:
    """Whether a place is that of a value: of a parameter, an attribute, or a part of a tag that is no list."""
    if isinstance(held, dict):
        return not isinstance(held[key], list)
    return key == 1 and len(held) == 2 and isinstance(held[0], str)


def spoiled(tree: Any, dice: random.Random, grown: Any) -> Any:
    """A tree that was right, with one to three changes."""
    whole = [copy.deepcopy(tree)]
    for _ in range(dice.randint(1, 3)):
        spots = places(whole)
        values = [(held, key) for held, key in spots if has_name(held, key)]
        fair = bool(values) and dice.random() < 0.7  # so that the tree stays one that save could write
        held, key = dice.choice(values if fair else spots)
        kind = dice.choice([0, 1, 2, 5]) if fair else dice.randrange(6)
        if kind == 0:
            held[key] = copy.deepcopy(grown)
        elif kind == 1:
            held[key] = dice.choice(WORDS)
        elif kind == 2:
            other, name = dice.choice(spots)
            held[key] = copy.deepcopy(other[name])
        elif kind == 3 and isinstance(held, list) and held is not whole:
            held.insert(key, dice.choice([*WORDS, 10**9, -1, None, copy.deepcopy(held[key])]))
        elif kind == 4 and held is not whole:
            del held[key]
        elif isinstance(held[key], int) and not isinstance(held[key], bool):
            held[key] = dice.choice([-1, 0, held[key] + 1, 10**9, 10**20, 0.5])
        elif isinstance(held[key], str):
            held[key] += dice.choice(["_", ".", "x", "0"])
    return whole[0]


def spoiled_arrays(arrays: dict[str, np.ndarray], dice: random.Random) -> dict[str, np.ndarray]:
    """Now and then one array is cut, of another type, of another shape or gone."""
    held, name = dict(arrays), dice.choice([*arrays, ""])
    if not name or dice.random() < 0.5:
        return held
    value = held.pop(name)
    changes: list[Callable[[], np.ndarray]] = [
        lambda: value[..., :-1] if value.ndim else value,
        lambda: np.ascontiguousarray(value.reshape(-1)),
        lambda: value.astype(np.int16),
        lambda: np.full_like(value, 120),
        lambda: np.zeros((0, 3)),
    ]
    if choice := dice.randrange(len(changes) + 1):
        held[name] = np.ascontiguousarray(changes[choice - 1]())
    return held


def spoiled_bytes(data: bytes, dice: random.Random) -> bytes:
    """A file with some bytes of its header changed, cut or doubled."""
    length = 8 + int.from_bytes(data[:8], "little")
    at, size = dice.randrange(min(length, 4000)), dice.randint(1, 8)
    middle = dice.choice([b"", dice.randbytes(size), data[at : at + size] * 2, b"[" * 20, b'"', b"null", b"-1"])
    return data[:at] + middle + data[at + size :]


def often(times: int) -> Callable[[Any], Any]:
    """So many cases, the same in each run."""
    return settings(
        max_examples=times,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def check_grown(tree: Any) -> None:
    opened(forged(tree, ARRAYS))


def check_spoiled(dice: random.Random, name: str, grown: Any) -> None:
    tree, arrays = old(name)
    opened(forged(spoiled(tree, dice, grown), spoiled_arrays(arrays, dice)))


def check_header(dice: random.Random, name: str) -> None:
    opened(spoiled_bytes((FOLDER / f"{name}.safetensors").read_bytes(), dice))


DICE = st.randoms(use_true_random=False)
ALL = sorted(path.stem for path in FOLDER.glob("*.safetensors"))

test_trees_by_chance = often(200)(given(GROWN)(check_grown))
test_spoiled_trees = often(200)(given(DICE, st.sampled_from(FEW), GROWN)(check_spoiled))
test_spoiled_headers = often(100)(given(DICE, st.sampled_from(FEW))(check_header))
test_many_trees_by_chance = pytest.mark.slow(often(4000)(given(GROWN)(check_grown)))
test_many_spoiled_trees = pytest.mark.slow(often(4000)(given(DICE, st.sampled_from(ALL), GROWN)(check_spoiled)))
test_many_spoiled_headers = pytest.mark.slow(often(2000)(given(DICE, st.sampled_from(ALL))(check_header)))
