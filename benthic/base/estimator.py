"""The contract every model keeps: scikit-learn's estimator, with arrays mirrored and files without pickle."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from benthic.base import modelfile
from benthic.base.arrays import Origin
from benthic.base.catalogue import catalogue, resolve
from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import seed_of
from benthic.base.settings import is_whole
from benthic.base.validation import arrive, speaking


class Estimator(BaseEstimator):
    """Base of every model: ``__init__`` stores its arguments, ``fit`` validates and learns.

    A subclass that trains by batches has a parameter ``trainer``: None, a dict or a ``Trainer``;
    ``set_params(trainer__epochs=5)`` replaces it by a changed copy.
    """

    accepts_missing: ClassVar[bool] = False
    accepts_images: ClassVar[bool] = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse an unknown argument with the spelling that works."""
        names = cls._get_param_names()
        for name in kwargs:
            if name not in names:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}{cls._right_spelling(name, names)}")
        made: Self = super().__new__(cls)
        return made

    @classmethod
    def _right_spelling(cls, name: str, names: list[str]) -> str:
        if "trainer" in names and name in {field.name for field in dataclasses.fields(resolve("Trainer"))}:
            return (
                f"; training settings live in the trainer: {cls.__name__}(trainer=Trainer({name}=...)) "
                f"or {cls.__name__}(trainer={{{name!r}: ...}})"
            )
        return nearest(name, names) or f"; it has {', '.join(names)}"

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``trainer__x`` changes one training setting whatever ``trainer`` is now."""
        own = dict(params)
        for key in params:
            name, _, rest = key.partition("__")
            if name != "trainer" or not rest or "trainer" not in self._get_param_names():
                continue
            fields = [field.name for field in dataclasses.fields(resolve("Trainer"))]
            if rest not in fields:
                raise ValueError(
                    f"Invalid parameter {rest!r} for the trainer{nearest(rest, fields)}; it has {', '.join(fields)}"
                )
            current = own.get("trainer", self.__dict__["trainer"])
            change = {rest: own.pop(key)}
            if current is None or isinstance(current, dict):
                own["trainer"] = {**(current or {}), **change}
            else:
                own["trainer"] = dataclasses.replace(current, **change)
        super().set_params(**own)
        return self

    if not TYPE_CHECKING:  # type checkers would take every name for known

        def __getattr__(self, name: str) -> Any:
            """What a model has only after ``fit`` is missed in these words, wherever it is asked for."""
            if hasattr(type(self), name):  # a property that lacks something says what
                return object.__getattribute__(self, name)
            learned = name.endswith("_") or name.startswith("_")
            if learned and not name.startswith("__") and not any(_is_learned(held) for held in vars(self)):
                raise NotFittedError(
                    f"This {type(self).__name__} instance is not fitted yet and has no {name}. Call 'fit' first."
                )
            text = f"{type(self).__name__!r} object has no attribute {name!r}{self._why_lacking(name)}"
            raise AttributeError(text, name=name, obj=self)

    def _why_lacking(self, name: str) -> str:
        """Words for who asks for a verb that the model does not have; each model adds its own."""
        return ""

    # -- data in -------------------------------------------------------------------------------------

    def _arrive(
        self, X: Any, method: str, *, reset: bool = False, missing: bool | None = None
    ) -> tuple[Tensor, Origin]:
        """Validated ``X`` as a float tensor (n, width), and where it came from."""
        if not reset:
            check_is_fitted(self)
        with speaking(self, method):
            tensor, origin = arrive(
                self,
                X,
                reset=reset,
                missing=self.accepts_missing if missing is None else missing,
                images=self.accepts_images,
            )
        if reset:
            self._fit_origin = dataclasses.replace(origin, index=None)
        return tensor, origin

    def _fail(self, method: str, text: str) -> InvalidInput:
        """An error in the house style, to be raised by the caller."""
        return InvalidInput(f"{type(self).__name__}.{method}: {text}")

    # -- data out ------------------------------------------------------------------------------------

    def _data_out(self, tensor: Tensor, origin: Origin | None = None) -> Any:
        """Rows of the data space (n, width) as what ``fit`` saw: a frame, an image array, a tensor."""
        schema = getattr(self, "schema_", None)
        origin = origin or self._fit_origin
        if schema is not None:
            return schema.decode(tensor.detach().cpu().numpy(), index=origin.index)
        event = getattr(self, "_event_shape", None)
        if event is not None:
            tensor = tensor.reshape(len(tensor), *event)
        return origin.mirror(tensor)

    def _sampling_seed(self, seed: Any) -> int:
        """The seed of one call: given, else an integer ``random_state``, else fresh entropy."""
        if seed is not None:
            return seed_of(seed)
        state = getattr(self, "random_state", None)
        return seed_of(state if is_whole(state) else None)

    # -- files and words -------------------------------------------------------------------------------

    def save(self, path: str | Path, *, leave_out: Collection[str] = ()) -> Path:
        """Write the model to one safetensors file; ``benthic.load`` reads it back."""
        return modelfile.save(self, path, leave_out=leave_out)

    def _build_network(self, name: str) -> nn.Module:
        """An untrained network for the fitted attribute ``name``, to load weights into."""
        raise InvalidInput(f"{type(self).__name__} has no network called {name!r}")

    def summary(self) -> str:
        """The few numbers a person asks for first."""
        name = type(self).__name__
        lines = [f"{name}: {catalogue()[name].summary}" if name in catalogue() else name]
        if not hasattr(self, "n_features_in_"):
            return lines[0] + "\n  not fitted yet"
        facts: dict[str, Any] = {"features": self.n_features_in_, **self._facts()}
        width = max(map(len, facts))
        lines += [f"  {key.ljust(width)}  {_short(value)}" for key, value in facts.items()]
        return "\n".join(lines)

    def _facts(self) -> dict[str, Any]:
        """Lines of the summary; each model adds its own."""
        return {}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.accepts_missing
        return tags


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__")


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
