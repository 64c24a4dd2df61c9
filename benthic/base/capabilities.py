"""What a model can do, as small mixins: classify, predict numbers, sample, give densities, encode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import Origin, host, is_tensor, largest, memory_of, to_tensor
from benthic.base.likelihood import Likelihood
from benthic.base.quiet import load
from benthic.base.settings import whole
from benthic.base.validation import speaking

# The mixins call the estimator they are mixed into; at run time they stand beside it, not below it.
if TYPE_CHECKING:
    from benthic.base.estimator import Estimator as _Host
else:
    _Host = object


def to_numpy(values: Any) -> Any:
    """A tensor on any device as NumPy; everything else as it is."""
    return host(values) if is_tensor(values) else values


class Classifies(ClassifierMixin, _Host):
    """Class labels from probabilities; a subclass gives ``_probabilities(X)`` for tensors."""

    classes_: np.ndarray

    def _probabilities(self, X: Tensor) -> Tensor:
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class, (n, k), columns in the order of ``classes_``."""
        tensor, origin = self._arrive(X, "predict_proba")
        return origin.mirror(self._probabilities(tensor))

    def predict(self, X: Any) -> Any:
        """The most probable class of each row."""
        tensor, origin = self._arrive(X, "predict")
        codes = self._probabilities(tensor).argmax(1).cpu()
        if origin.kind == "torch" and self.classes_.dtype.kind in "biuf":
            return torch.as_tensor(self.classes_)[codes].to(origin.device)
        return self.classes_[codes.numpy()]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy."""
        judge = load("sklearn.metrics").accuracy_score
        return float(judge(to_numpy(y), to_numpy(self.predict(X)), sample_weight=to_numpy(sample_weight)))


class Predicts(RegressorMixin, _Host):
    """Numbers for rows; a subclass gives ``_prediction(X)`` for tensors."""

    def _prediction(self, X: Tensor) -> Tensor:
        raise NotImplementedError

    def predict(self, X: Any) -> Any:
        """The expected target of each row, shaped as the targets were."""
        tensor, origin = self._arrive(X, "predict")
        return origin.mirror(self._prediction(tensor))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination."""
        judge = load("sklearn.metrics").r2_score
        return float(judge(to_numpy(y), to_numpy(self.predict(X)), sample_weight=to_numpy(sample_weight)))


class Samples(_Host):
    """New examples; a subclass gives ``sample``."""

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new examples, as arrays or frames like those the model was fitted on.

        given: what is known, labels or rows with NaN to fill, one row or ``n``. seed: decides the draw;
        without it an integer ``random_state`` does, else the draw is fresh.
        """
        raise NotImplementedError

    def _check_draws(self, n: Any) -> None:
        check_is_fitted(self)
        most = max(int(memory_of() / (8 * getattr(self, "n_features_in_", 1))), 1)  # doubles that fit in memory
        whole(f"{type(self).__name__}.sample: n", n, most=most)


class HasDensity(_Host):
    """Likelihoods with their kind declared; a subclass gives ``_likelihood(X, method)`` on tensors."""

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        raise NotImplementedError

    def likelihood(self, X: Any, method: str | None = None) -> Likelihood:
        """Log-likelihood of each row in nats and data units, with how it was obtained.

        method: None for the model's best default, or one of its kinds (see the class).
        """
        tensor, origin = self._arrive(X, "likelihood")
        found = self._likelihood(tensor, method)
        return replace(found, value=origin.mirror(found.value), stderr=origin.mirror(found.stderr))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood per row in nats."""
        return self.likelihood(X).mean()


class HasExactDensity(HasDensity):
    """Adds ``log_prob`` and its gradient; a subclass gives ``_log_prob(X)``, differentiable in ``X``."""

    def _log_prob(self, X: Tensor) -> Tensor:
        raise NotImplementedError

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        if method not in (None, "exact"):
            raise self._fail("likelihood", f"method {method!r} is unknown; this model's likelihood is 'exact'")
        value = self._log_prob(X)
        return Likelihood(value, torch.zeros_like(value), "exact", "exact", "density")

    def log_prob(self, X: Any) -> Any:
        """Exact log-density of each row, (n,)."""
        tensor, origin = self._arrive(X, "log_prob")
        return origin.mirror(self._log_prob(tensor))

    def grad_log_prob(self, X: Any, t: Any = None) -> Any:
        """Gradient of the log-density with respect to each row (the Stein score), like ``X``."""
        tensor, origin = self._arrive(X, "grad_log_prob", missing=False)
        with torch.enable_grad():
            leaf = tensor.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self._log_prob(leaf).sum(), leaf)
        event = getattr(self, "_event_shape", None)  # of pictures, which arrive flat
        return origin.mirror(gradient if event is None else gradient.reshape(-1, *event))


class Encodes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Host):
    """Latent codes; a subclass gives ``_encode(X)`` and ``_decode(Z)`` for tensors in data units."""

    _n_features_out: int

    def _encode(self, X: Tensor) -> Tensor:
        raise NotImplementedError

    def _decode(self, Z: Tensor) -> Tensor:
        raise NotImplementedError

    def encode(self, X: Any) -> Any:
        """Posterior mean of the latent code of each row, (n, latent_dim)."""
        tensor, origin = self._arrive(X, "encode")
        return origin.mirror(self._encode(tensor))

    def transform(self, X: Any) -> Any:
        """The same as ``encode``, under scikit-learn's name; follows ``set_output``."""
        tensor, origin = self._arrive(X, "transform")
        return origin.mirror(self._encode(tensor))

    def decode(self, Z: Any) -> Any:
        """The expected example of each latent code, in the data space."""
        codes, origin = self._arrive_codes(Z, "decode")
        return self._data_out(self._decode(codes), origin)

    def inverse_transform(self, Z: Any) -> Any:
        """The same as ``decode``, under scikit-learn's name."""
        codes, origin = self._arrive_codes(Z, "inverse_transform")
        return self._data_out(self._decode(codes), origin)

    def reconstruct(self, X: Any) -> Any:
        """``decode(encode(X))``, in the data space."""
        tensor, origin = self._arrive(X, "reconstruct")
        return self._data_out(self._decode(self._encode(tensor)), origin)

    def _arrive_codes(self, Z: Any, method: str) -> tuple[Tensor, Origin]:
        check_is_fitted(self)
        with speaking(self, method):
            codes, origin = to_tensor(Z, "Z")
        if codes.ndim != 2 or codes.shape[1] != self._n_features_out:
            raise self._fail(method, f"codes have shape {tuple(codes.shape)}; expected (n, {self._n_features_out})")
        if not bool(torch.isfinite(codes).all()):
            raise self._fail(method, "codes contain NaN or infinity")
        if not len(codes):
            raise self._fail(method, f"codes have shape {tuple(codes.shape)}; at least one row is needed")
        if float(codes.abs().max()) > largest(codes.dtype):
            raise self._fail(method, f"codes have values up to {float(codes.abs().max()):.3g}, whose squares overflow")
        return codes, origin
