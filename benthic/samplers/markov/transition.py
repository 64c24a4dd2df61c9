"""Transition matrices, dense or sparse: checked once, then multiplied from the left and the right."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.quiet import quiet

_ROW_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-8}


class Transition:
    """A checked stochastic matrix; rows are divided by their sums, so they add up to one exactly.

    P: (n, n) tensor, array, nested list, SciPy sparse matrix or torch sparse tensor. A sparse matrix stays sparse.

    >>> Transition([[0.5, 0.5], [0.0, 1.0]]).left(torch.tensor([1.0, 0.0], dtype=torch.float64))
    tensor([0.5000, 0.5000], dtype=torch.float64)
    """

    def __init__(self, P: Any) -> None:
        self.dense: Tensor | None = None
        self.device, self.dtype = torch.device("cpu"), torch.float64
        if isinstance(P, Tensor) and P.layout != torch.strided:
            self._take_torch_sparse(P)
        elif hasattr(P, "tocsr"):
            self._take_scipy(P)
        else:
            self._take_dense(P)
        self.n = int(self.csr.shape[0] if self.dense is None else self.dense.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether the matrix is kept sparse."""
        return self.dense is None

    def _take_dense(self, P: Any) -> None:
        dense = P if isinstance(P, Tensor) else torch.as_tensor(np.asarray(P, dtype=float))
        if dense.dtype not in _ROW_TOLERANCE:
            dense = dense.to(torch.float64)
        if dense.dim() != 2 or dense.shape[0] != dense.shape[1] or not len(dense):
            raise InvalidInput(f"MarkovChain: P has shape {tuple(dense.shape)}; a transition matrix is square, (n, n)")
        sums = dense.sum(1)
        values = dense.detach()
        bad = torch.nonzero(~(values >= 0))
        if len(bad):
            i, j = bad[0].tolist()
            _refuse_entry(i, j, float(values[i, j]))
        _check_sums(sums.detach().double().cpu().numpy(), _ROW_TOLERANCE[dense.dtype])
        self.dense = dense / sums[:, None]
        self.device, self.dtype = dense.device, dense.dtype

    def _take_torch_sparse(self, P: Tensor) -> None:
        import scipy.sparse

        if P.dim() != 2:
            raise InvalidInput(f"MarkovChain: P has shape {tuple(P.shape)}; a transition matrix is square, (n, n)")
        entries = P.detach().to_sparse_coo().coalesce().cpu()
        rows, columns = entries.indices().numpy()
        values = entries.values().double().numpy()
        self._take_scipy(scipy.sparse.coo_matrix((values, (rows, columns)), shape=tuple(P.shape)), P.dtype)
        self.device, self.dtype = P.device, P.dtype if P.dtype in _ROW_TOLERANCE else torch.float64

    def _take_scipy(self, P: Any, dtype: torch.dtype | None = None) -> None:
        import scipy.sparse

        if len(P.shape) != 2 or P.shape[0] != P.shape[1] or not P.shape[0]:
            raise InvalidInput(f"MarkovChain: P has shape {tuple(P.shape)}; a transition matrix is square, (n, n)")
        if dtype is None:
            dtype = torch.float32 if P.dtype == np.float32 else torch.float64
        csr = scipy.sparse.csr_matrix(P, dtype=np.float64, copy=True)
        csr.sum_duplicates()
        bad = np.flatnonzero(~(csr.data >= 0))
        if len(bad):
            row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
            _refuse_entry(row, int(csr.indices[bad[0]]), float(csr.data[bad[0]]))
        csr.eliminate_zeros()
        sums = np.asarray(csr.sum(axis=1)).ravel()
        _check_sums(sums, _ROW_TOLERANCE.get(dtype, 1e-8))
        csr.data /= np.repeat(sums, np.diff(csr.indptr))
        self.csr = csr
        self.dtype = dtype if dtype in _ROW_TOLERANCE else torch.float64

    @cached_property
    def csr(self) -> Any:
        """The matrix as SciPy's compressed rows in float64 on the CPU, without stored zeros."""
        import scipy.sparse

        return scipy.sparse.csr_matrix(self.rows.detach().double().cpu().numpy())

    @cached_property
    def rows(self) -> Tensor:
        """The matrix for products with columns: dense, or torch's compressed rows on the device."""
        return self.dense if self.dense is not None else self.compressed(self.csr, self.device, self.dtype)

    @cached_property
    def columns(self) -> Tensor:
        """The transpose, for products with laws."""
        return self.dense.T if self.dense is not None else self.compressed(self.csr.T.tocsr(), self.device, self.dtype)

    @staticmethod
    def compressed(csr: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
        """A SciPy matrix as torch's compressed rows, which are sorted."""
        csr = csr if csr.has_sorted_indices else csr.sorted_indices()
        with quiet(UserWarning):  # torch calls the layout a beta
            return torch.sparse_csr_tensor(
                torch.as_tensor(csr.indptr.astype(np.int64), device=device),
                torch.as_tensor(csr.indices.astype(np.int64), device=device),
                torch.as_tensor(csr.data, device=device, dtype=dtype),
                csr.shape,
                check_invariants=False,
            )

    def left(self, laws: Tensor) -> Tensor:
        r"""Laws after one step, :math:`\mu P`; laws: (..., n)."""
        if self.dense is not None:
            return laws @ self.dense
        return _times(self.columns, laws)

    def right(self, values: Tensor) -> Tensor:
        """Expectations one step ahead, :math:`P f`; values: (..., n)."""
        return _times(self.rows, values)

    def to(self, values: Any) -> Tensor:
        """Numbers as a tensor of this matrix's device and floating type."""
        if not isinstance(values, (Tensor, np.ndarray)):
            values = np.asarray(values, dtype=float)
        return torch.as_tensor(values, device=self.device).to(self.dtype)

    def small(self, limit: int, what: str) -> Tensor:
        """The whole matrix as a dense tensor, or an error where it is too large for ``what``."""
        if self.dense is not None:
            return self.dense
        if self.n > limit:
            raise InvalidInput(
                f"MarkovChain.{what}: a full {self.n} by {self.n} matrix is needed, and sparse chains are filled in up "
                f"to {limit} states only; give a start, a target, or a smaller chain"
            )
        return self.to(self.csr.toarray())


def _times(matrix: Tensor, vectors: Tensor) -> Tensor:
    if vectors.dim() == 1:
        return matrix @ vectors
    flat = vectors.reshape(-1, vectors.shape[-1])  # (B, n)
    return (matrix @ flat.T).T.reshape(vectors.shape)


def _refuse_entry(row: int, column: int, value: float) -> None:
    fault = "not a number" if np.isnan(value) else "negative"
    raise InvalidInput(
        f"MarkovChain: P[{row}, {column}] is {value:.6g}, which is {fault}; every entry is a probability, 0 or more"
    )


def _check_sums(sums: np.ndarray, tolerance: float) -> None:
    wrong = np.flatnonzero(~(np.abs(sums - 1) <= tolerance))
    if len(wrong):
        others = f" (and {len(wrong) - 1} more rows)" if len(wrong) > 1 else ""
        raise InvalidInput(
            f"MarkovChain: row {wrong[0]} of P sums to {sums[wrong[0]]:.10g}{others}; each row of a transition matrix "
            "sums to 1, so divide it by its sum, or transpose P if its columns do"
        )
