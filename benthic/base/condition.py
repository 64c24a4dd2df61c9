"""What a model was told beside its data, and can be told when it draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# The mixin stands beside the estimator it describes, not below it.
if TYPE_CHECKING:
    from benthic.base.estimator import Estimator as _Host
else:
    _Host = object


@dataclass(frozen=True)
class Condition:
    """The condition of a fitted model: what ``y`` of ``fit`` was, and ``given`` of ``sample`` may be.

    kind: ``none``, ``labels``, ``vectors`` or ``images``. classes: the labels, in order. width: numbers in a vector.
    needed: whether the model draws nothing without it.

    >>> Condition("labels", ("cat", "dog")).told
    True
    """

    kind: str = "none"
    classes: tuple[Any, ...] = ()
    width: int = 0
    needed: bool = False

    @property
    def told(self) -> bool:
        """Whether there is one."""
        return self.kind != "none"


class Conditional(_Host):
    """Learns with a condition ``y`` and draws given it; the catalogue names the kinds it takes (``Entry.given``).

    ``sample``, ``impute`` and, of models that are no naive Bayes, ``likelihood`` take it as ``given``.
    """

    @property
    def condition_(self) -> Condition:
        """What the fitted model was told with its rows."""
        raise NotImplementedError
