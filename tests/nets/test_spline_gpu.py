"""The spline's kernels on a GPU against its plain form in double precision, with gradients, in both layouts."""

from __future__ import annotations

import pytest
import torch

from benthic.nets.invertible import rational_quadratic

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.spec("N-03"),
]


def splines(shape: tuple[int, ...], bins: int, planes: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers and the raw numbers of their splines, one after the other or, as convolutions leave them, by planes.

    Numbers without rows have one plane for all of them.
    """
    torch.manual_seed(bins)
    count = 3 * bins - 1
    x = 3 * torch.randn(shape, device="cuda")
    if planes and len(shape) == 1:
        return x, 2 * torch.randn(count, *shape, device="cuda").T
    if planes:
        return x, 2 * torch.randn(shape[0], count, *shape[1:], device="cuda").movedim(1, -1)
    return x, 2 * torch.randn(*shape, count, device="cuda")


@pytest.mark.parametrize("bins", [1, 2, 5, 8, 16])
@pytest.mark.parametrize(("shape", "planes"), [((300,), False), ((300,), True), ((3, 4, 5, 7), True), ((40, 9), False)])
def test_the_kernel_is_the_plain_spline_with_its_gradients(shape: tuple[int, ...], bins: int, planes: bool) -> None:
    """Single precision loses digits in steep bins, so the plain form in that precision says how many."""
    x, raw = splines(shape, bins, planes)

    def run(dtype: torch.dtype, fused: bool) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_(), raw.to(dtype).requires_grad_()]
        y, log = rational_quadratic(*leaves, bound=3.0, fused=fused)
        gradients = torch.autograd.grad((y.sin() + log.cos()).sum(), leaves)
        with torch.no_grad():
            back = rational_quadratic(y, leaves[1], bound=3.0, inverse=True, fused=fused)
        return [y.detach(), log.detach(), *gradients, *back]

    exact = run(torch.float64, False)
    for ours, plain, truth in zip(run(torch.float32, True), run(torch.float32, False), exact, strict=True):
        allowed = 5 * (plain - truth).abs().max() + 1e-5 * (1 + truth.abs().max())
        assert (ours - truth).abs().max() < allowed


def test_the_way_back_keeps_its_gradient() -> None:
    x, raw = splines((50,), 4, False)
    leaves = [x.requires_grad_(), raw.requires_grad_()]
    y, _ = rational_quadratic(*leaves, inverse=True)
    plain, _ = rational_quadratic(*leaves, inverse=True, fused=False)
    for ours, theirs in zip(
        torch.autograd.grad(y.sum(), leaves), torch.autograd.grad(plain.sum(), leaves), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
