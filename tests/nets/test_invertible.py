"""Invertible maps: inverses, log-determinants against autograd, masks, composition, bad input."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.nets.invertible import (
    ActNorm,
    AffineLaw,
    Chain,
    CheckerboardCoupling,
    Coupling,
    Flatten,
    ImageCoupling,
    InverseAutoregressive,
    Inverted,
    LULinear,
    MaskedAutoregressive,
    MaskedMLP,
    MultiScale,
    Permutation,
    Planar,
    Radial,
    Residual,
    Reversal,
    Shuffle,
    SigmoidLaw,
    SplineLaw,
    Squeeze,
    Transform,
    Unflatten,
)
from benthic.nets.invertible.autoregressive import MaskedLinear

pytestmark = pytest.mark.spec("N-03")

D, CONTEXT, ROWS = 5, 3, 6
AFFINE, SPLINE, SIGMOIDS = AffineLaw(), SplineLaw(6, 3.0), SigmoidLaw(4)
EVENT = (2, 4, 4)

# name: a map of rows (n, 5), given the size of the context
ROW_MAPS: dict[str, Callable[[int], Transform]] = {
    "affine coupling": lambda k: Coupling(D, AFFINE, (8,), context=k),
    "affine coupling, swapped": lambda k: Coupling(D, AFFINE, (8,), context=k, swap=True),
    "spline coupling": lambda k: Coupling(D, SPLINE, (8,), context=k),
    "masked affine": lambda k: MaskedAutoregressive(D, AFFINE, (16, 12), "tanh", context=k),
    "masked spline": lambda k: MaskedAutoregressive(D, SPLINE, (16, 12), "tanh", context=k),
    "neural autoregressive": lambda k: MaskedAutoregressive(D, SIGMOIDS, (16,), "tanh", context=k),
    "inverse autoregressive": lambda k: InverseAutoregressive(D, AFFINE, (16,), "tanh", context=k),
    "inverse spline": lambda k: InverseAutoregressive(D, SPLINE, (16,), context=k),
    "LU": lambda k: LULinear(D),
    "actnorm": lambda k: ActNorm(D),
    "permutation": lambda k: Permutation([3, 1, 4, 0, 2]),
    "reversal": lambda k: Reversal(D),
    "shuffle": lambda k: Shuffle(D),
    "residual": lambda k: Residual(D, (8, 8), context=k),
    "planar": lambda k: Planar(D, context=k),
    "radial": lambda k: Radial(D, context=k),
    "chain": lambda k: Chain(
        [ActNorm(D), LULinear(D), Coupling(D, SPLINE, (8,), context=k), Inverted(Planar(D, context=k))]
    ),
}
IMAGE_MAPS: dict[str, Callable[[int], Transform]] = {
    "squeeze": lambda k: Squeeze(),
    "flatten": lambda k: Flatten(EVENT),
    "1x1 convolution": lambda k: LULinear(2),
    "channel actnorm": lambda k: ActNorm(2),
    "image affine": lambda k: ImageCoupling(2, AFFINE, 6, context=k),
    "image spline": lambda k: ImageCoupling(2, SPLINE, 6, context=k),
    "checkerboard affine": lambda k: CheckerboardCoupling(2, AFFINE, 6, context=k),
    "checkerboard spline, swapped": lambda k: CheckerboardCoupling(2, SPLINE, 6, context=k, swap=True),
    "multi-scale": lambda k: MultiScale(
        [
            (Chain([Squeeze(), ActNorm(8), LULinear(8), ImageCoupling(8, AFFINE, 6, context=k)]), (8, 2, 2)),
            (Chain([Squeeze(), ActNorm(16), ImageCoupling(16, SPLINE, 6, context=k)]), (16, 1, 1)),
        ]
    ),
}
MAPS = {**{n: (m, (D,)) for n, m in ROW_MAPS.items()}, **{n: (m, EVENT) for n, m in IMAGE_MAPS.items()}}
# bisection, fixed points and the roots of splines leave rounding of some 100 operations on numbers of size 10
TOLERANCE = 1e-8


def built(name: str, context: int) -> tuple[Transform, Tensor, Tensor | None]:
    """A map with random weights in float64, rows and their context."""
    torch.manual_seed(0)
    make, event = MAPS[name]
    made = make(context).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    x = 1.5 * torch.randn(ROWS, *event, dtype=torch.float64)
    return made, x, torch.randn(ROWS, context, dtype=torch.float64) if context else None


def jacobian_logdet(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """log|det| of the Jacobian at one example, by autograd."""
    found = torch.autograd.functional.jacobian(function, x)
    return torch.linalg.slogdet(found.reshape(x.numel(), x.numel())).logabsdet


@pytest.mark.parametrize("context", [0, CONTEXT])
@pytest.mark.parametrize("name", MAPS)
def test_the_log_determinant_is_that_of_autograd_and_the_inverse_inverts(name: str, context: int) -> None:
    made, x, given = built(name, context)
    z, log = made(x, given)
    back, log_back = made.inverse(z, given)
    assert log.shape == (ROWS,)
    assert (back - x).abs().max() < TOLERANCE
    assert (log + log_back).abs().max() < TOLERANCE
    for i in range(2):
        c = None if given is None else given[i : i + 1]
        exact = jacobian_logdet(lambda row, c=c: made(row, c)[0], x[i : i + 1])
        assert abs(float((log[i] - exact).detach())) < TOLERANCE
        exact = jacobian_logdet(lambda row, c=c: made.inverse(row, c)[0], z[i : i + 1].detach())
        assert abs(float((log_back[i] - exact).detach())) < TOLERANCE


@pytest.mark.parametrize("name", [n for n in MAPS if n not in ("permutation", "reversal", "shuffle")])
def test_gradients_of_both_ways_are_those_of_differences(name: str) -> None:
    made, x, given = built(name, CONTEXT)
    parameters = [p for p in made.parameters() if p.numel()][:2]
    z = made(x, given)[0].detach()
    for way, at in ((made, x), (made.inverse, z)):
        leaf = at.clone().requires_grad_()

        def objective(way=way, leaf=leaf) -> Tensor:
            out, log = way(leaf, given)
            return (out * torch.linspace(0.5, 1.5, out[0].numel()).reshape(out[0].shape)).sum() + log.cos().sum()

        gradients = torch.autograd.grad(objective(), [leaf, *parameters], allow_unused=True)
        for target, gradient in zip([leaf, *parameters], gradients, strict=True):
            if gradient is None:
                continue
            place = int(gradient.abs().argmax())
            flat = target.data.view(-1)
            kept, step = float(flat[place]), 1e-7
            sides = []
            for sign in (1, -1):
                flat[place] = kept + sign * step
                sides.append(float(objective().detach()))
            flat[place] = kept
            # central differences: an error of order step², with third derivatives below some thousand
            assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(float(gradient.reshape(-1)[place]), rel=1e-4)


@pytest.mark.parametrize("context", [0, CONTEXT])
@pytest.mark.parametrize("name", ["masked affine", "masked spline", "neural autoregressive"])
def test_masks_are_autoregressive(name: str, context: int) -> None:
    made, x, given = built(name, context)
    row, c = x[:1], None if given is None else given[:1]
    raw = torch.autograd.functional.jacobian(lambda r: made.network(r, c)[0], row)[:, :, 0]  # (d, outputs, d)
    depends = raw.abs().amax(1) > 0
    assert torch.equal(depends, torch.ones(D, D, dtype=torch.bool).tril(-1))
    jacobian = torch.autograd.functional.jacobian(lambda r: made(r, c)[0][0], row)[:, 0]
    assert torch.equal(jacobian.triu(1), torch.zeros(D, D, dtype=torch.float64))
    if given is not None:
        first = torch.autograd.functional.jacobian(lambda c: made.network(row, c)[0, 0], c)
        assert first.abs().max() > 0  # even the first column sees the context


@pytest.mark.parametrize("sides", [(1, 1), (2, 2), (5, 3)])
def test_the_two_colors_of_a_checkerboard_stay_and_move_in_turn(sides: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, *sides)
    black = (torch.arange(sides[0])[:, None] + torch.arange(sides[1])) % 2 == 0
    for swap in (False, True):
        made = CheckerboardCoupling(3, AFFINE, 4, swap=swap)
        with torch.no_grad():
            made.network.leave.bias.fill_(0.5)
            z, _ = made(x)
        assert torch.equal((z != x).all(0).all(0), black if swap else ~black)
        # what moves is decided by what stays: changing all that moves changes no parameter
        moved = made._moved(x)
        assert torch.equal(made._raw(x, moved, None), made._raw(torch.where(moved, 7.0, x), moved, None))


def test_sampling_column_by_column_computes_what_full_passes_do() -> None:
    made, x, given = built("masked spline", CONTEXT)
    z, _ = made(x, given)
    quick, log = made.inverse(z, given)
    slow, slow_log = made._by_passes(z, given)
    assert torch.allclose(quick, slow, atol=1e-10)
    assert torch.allclose(log, slow_log, atol=1e-10)


@pytest.mark.parametrize("context", [0, CONTEXT])
@pytest.mark.parametrize("width", [1, 2, D])
@pytest.mark.parametrize("curve", ["relu", "silu", "tanh", "identity"])  # the first two can be applied in place
def test_without_gradients_columns_are_those_of_full_passes(curve: str, width: int, context: int) -> None:
    """Whatever stands where weights are masked, and again after weights were changed."""
    torch.manual_seed(width)
    made = MaskedAutoregressive(width, SPLINE, (7, 12), curve, context=context).double()
    z, given = torch.randn(ROWS, width).double(), torch.randn(ROWS, context).double() if context else None
    with torch.no_grad():
        for _ in range(2):
            for weight in made.parameters():
                weight.copy_(torch.randn_like(weight))
            quick, log = made.inverse(z, given)
            slow, slow_log = made._by_passes(z, given)
            assert torch.allclose(quick, slow, atol=1e-10)
            assert torch.allclose(log, slow_log, atol=1e-10)


@pytest.mark.parametrize("bins", [2, 8])
def test_the_compiled_spline_is_the_plain_one_with_its_gradients(bins: int) -> None:
    from benthic.nets.invertible import rational_quadratic

    torch.manual_seed(bins)
    x = torch.cat([4 * torch.randn(200, dtype=torch.float64), torch.tensor([5.0, -5.0, 0.0], dtype=torch.float64)])
    raw = 3 * torch.randn(203, 3 * bins - 1, dtype=torch.float64)
    raw[0] = 900.0  # exponentials overflow here
    raw[1, 0] = -900.0
    found = []
    for fused in (True, False):
        leaves = [x.clone().requires_grad_(), raw.clone().requires_grad_()]
        y, log = rational_quadratic(*leaves, fused=fused)
        found.append((y.detach(), log.detach(), *torch.autograd.grad((y.sin() + log.cos()).sum(), leaves)))
    for a, b in zip(*found, strict=True):
        assert (a - b).abs().max() < 1e-8 * (1 + b.abs().max())
    y, log = found[0][:2]
    for fused in (True, False):
        back, log_back = rational_quadratic(y, raw, inverse=True, fused=fused)
        assert (back - x)[2:].abs().max() < 1e-8
        assert (log + log_back)[2:].abs().max() < 1e-7


def test_the_compiled_spline_shares_its_work_among_threads() -> None:
    from benthic.nets.invertible import rational_quadratic

    x, raw = torch.randn(20_000), torch.randn(20_000, 23)
    kept = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = rational_quadratic(x, raw)
        torch.set_num_threads(1)
        one = rational_quadratic(x, raw)
    finally:
        torch.set_num_threads(kept)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("kind", ["by entries", "by planes", "transposed", "shared"])
def test_the_kernel_of_devices_finds_the_numbers_of_every_entry(kind: str) -> None:
    from benthic.nets.invertible.spline_device import _laid

    raw = {
        "by entries": torch.randn(6, 4, 11),
        "by planes": torch.randn(6, 11, 2, 2).movedim(1, -1),
        "transposed": torch.randn(11, 24).T,
        "shared": torch.randn(1, 11).expand(24, -1),
    }[kind]
    lying, (inner, outer_stride, inner_stride, stride) = _laid(raw)
    at, j = torch.arange(24)[:, None], torch.arange(11)
    places = at // inner * outer_stride + at % inner * inner_stride + j * stride
    memory = lying.as_strided((lying.numel(),), (1,))
    assert torch.equal(memory[places], raw.reshape(24, 11))
    assert (lying.data_ptr() == raw.data_ptr()) == (kind != "shared")  # copied only where it must be


def test_actnorm_begins_where_the_data_say() -> None:
    x = torch.randn(500, 3) * torch.tensor([1.0, 5.0, 0.0]) + torch.tensor([0.0, 7.0, 2.0])
    z = ActNorm(3).begin(x)
    assert z.mean(0).abs().max() < 1e-5
    assert torch.allclose(z.std(0, unbiased=False), torch.tensor([1.0, 1.0, 0.0]), atol=1e-4)
    chain = Chain([LULinear(3), ActNorm(3)])
    assert chain.begin(x).std(0, unbiased=False)[:2].sub(1).abs().max() < 1e-3


def test_russian_roulette_is_unbiased() -> None:
    torch.manual_seed(0)
    made = Residual(3, (16,), logdet="roulette", terms=3).double()
    with torch.no_grad():
        made.steepness.fill_(2.0)
    x = torch.randn(1, 3, dtype=torch.float64)
    exact = float(made.eval()(x)[1].detach())
    made.train()
    with torch.no_grad():
        draws = torch.stack([made(x.expand(200, -1))[1] for _ in range(100)]).mean(1)
    error = float(draws.std()) / 10
    assert error < 0.05
    assert abs(float(draws.mean()) - exact) < 4 * error  # four standard errors, by seeds


def test_residual_layers_contract_in_evaluation_whatever_their_weights() -> None:
    made, x, _ = built("residual", 0)
    with torch.no_grad():
        for layer in made.layers:
            layer.weight.mul_(50.0)
    for layer in made.layers:
        assert float(torch.linalg.matrix_norm(layer.scaled().detach(), 2)) <= 0.97 + 1e-12
    z, _ = made(x)
    assert (made.inverse(z)[0] - x).abs().max() < 1e-8


def test_lu_is_the_matrix_it_was_given() -> None:
    matrix = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 3.0]], dtype=torch.float64)
    made = LULinear(3, matrix)
    assert torch.allclose(made.matrix(), matrix)
    log = made(torch.zeros(1, 3, dtype=torch.float64))[1].detach()
    assert float(log) == pytest.approx(np.log(abs(np.linalg.det(matrix))))


def test_unflatten_is_the_other_way_of_flatten() -> None:
    x = torch.randn(2, 32)
    assert torch.equal(Flatten(EVENT)(Unflatten(EVENT)(x)[0])[0], x)


def test_bad_input_is_refused() -> None:
    from benthic.nets.invertible.autoregressive import masks_of
    from benthic.nets.invertible.laws import law_of

    with pytest.raises(InvalidInput, match="singular"):
        LULinear(2, torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    with pytest.raises(InvalidInput, match="singular"):
        Permutation([0, 0, 1])
    masks = masks_of(2, [4], 1)
    masks[0][:, 1], masks[1][:] = True, True
    masks[0][:, 0] = False
    with pytest.raises(InvalidInput, match="break autoregression: the parameters of column 0 depend on column 1"):
        MaskedMLP(2, 1, [4], masks=masks)
    with pytest.raises(InvalidInput, match="3 channels have no two halves.*or use CheckerboardCoupling"):
        ImageCoupling(3, AFFINE)
    with pytest.raises(InvalidInput, match="built for 2 channels"):
        CheckerboardCoupling(2, AFFINE)(torch.zeros(1, 3, 4, 4))
    with pytest.raises(InvalidInput, match="the context has 0 numbers a row; this map was built for 2"):
        CheckerboardCoupling(2, AFFINE, context=2)(torch.zeros(1, 2, 4, 4))
    with pytest.raises(InvalidInput, match="both sides must be even"):
        Squeeze()(torch.zeros(1, 1, 7, 8))
    with pytest.raises(InvalidInput, match="at one or above singular"):
        Residual(2, bound=1.0)
    with pytest.raises(InvalidInput, match="built for 2"):
        MaskedAutoregressive(2, AFFINE, context=2)(torch.zeros(1, 2))
    with pytest.raises(InvalidInput, match="did you mean 'spline'|use affine, spline"):
        law_of("splin")
    with pytest.raises(InvalidInput, match="have no two halves"):
        MultiScale([(Squeeze(), (3, 2, 2)), (Squeeze(), (4, 1, 1))])


@pytest.mark.parametrize("bins", [2, 8])
def test_the_law_of_splines_takes_logarithms_of_slopes_compiled_and_plain(bins: int) -> None:
    torch.manual_seed(bins)
    x = 3 * torch.randn(300, dtype=torch.float64)
    raw = 4 * torch.randn(300, 3 * bins - 1, dtype=torch.float64)
    raw[0], raw[1] = 900.0, -900.0
    found = []
    for fused in (True, False):
        law = SplineLaw(bins, 4.0, fused=fused)
        leaves = [x.clone().requires_grad_(), raw.clone().requires_grad_()]
        z, log = law.forward(*leaves)
        gradients = torch.autograd.grad((z.sin() + log.cos()).sum(), leaves)
        with torch.no_grad():
            back = law.inverse(z, leaves[1])
        found.append((z.detach(), log.detach(), *gradients, *back))
    for a, b in zip(*found, strict=True):
        assert (a - b)[2:].abs().max() < 1e-8 * (1 + b[2:].abs().max())
        assert torch.isfinite(a).all()
        assert torch.isfinite(b).all()
    assert (found[0][4] - x)[2:].abs().max() < 1e-8


def test_the_slope_of_a_knot_is_the_exponential_of_its_parameter_within_a_soft_bound() -> None:
    """With equal bins the inner knot of two lies at zero, and the log-slope there is the third parameter, bounded."""
    wish = torch.tensor([-2.0, 0.0, 0.5, 3.0, 400.0], dtype=torch.float64)
    raw = torch.cat([torch.zeros(5, 4, dtype=torch.float64), wish[:, None]], 1)
    _, log = SplineLaw(2).forward(torch.zeros_like(wish), raw)
    top = math.log(1000.0)
    assert torch.allclose(log, wish / (1 + wish.abs() / top), atol=1e-12)
    assert float(log.max()) < top


def test_one_spline_for_all_rows_is_the_same_as_a_copy_for_each() -> None:
    y, row = 3 * torch.randn(9000, dtype=torch.float64), 2 * torch.randn(1, 23, dtype=torch.float64)
    row[0, 3] = 800.0  # its exponential overflows
    law, kept = SplineLaw(8), torch.get_num_threads()
    copies = law.inverse(y, row.repeat(9000, 1))
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for one, many in zip(law.inverse(y, row.expand(9000, -1)), copies, strict=True):
                assert torch.allclose(one, many, atol=1e-10)
    finally:
        torch.set_num_threads(kept)


def test_the_kinks_of_units_that_see_few_columns_lie_among_the_rows() -> None:
    """Weight and bias have one law, so their ratio exceeds 1/2 with chance 3/4; 4000 draws err by 0.007."""
    mask = torch.zeros(4000, 10, dtype=torch.bool)
    mask[:, 0] = True
    torch.manual_seed(0)
    layer = MaskedLinear(mask)
    kinks = (layer.bias / layer.weight[:, 0]).abs()
    assert abs(float((kinks > 0.5).double().mean()) - 0.75) < 0.03


@pytest.mark.parametrize(
    "made",
    [
        lambda context: Coupling(4, AffineLaw(), (8,), context=context),
        lambda context: Planar(4, context=context),
        lambda context: Radial(4, context=context),
        lambda context: Residual(4, (8,), context=context),
    ],
)
def test_rows_and_contexts_of_another_width_are_refused(made: Callable[[int], Transform]) -> None:
    """No coupling takes three columns for four, and no map goes on without the context it was built for."""
    x, three = torch.randn(5, 4), torch.randn(5, 3)
    with pytest.raises(InvalidInput, match=r"shape \(5, 3\); this map was built for 4 columns"):
        made(0)(three)
    for way in (made(2), made(2).inverse):
        with pytest.raises(InvalidInput, match="the context has 0 numbers a row; this map was built for 2"):
            way(x)
        with pytest.raises(InvalidInput, match="the context has 3 numbers a row; this map was built for 2"):
            way(x, three)


@pytest.mark.parametrize("name", MAPS)
def test_examples_and_codes_of_another_shape_are_refused(name: str) -> None:
    """One column or channel more than the map was built for, or a bare list of numbers."""
    made, x, _ = built(name, 0)
    for way, at in ((made, x), (made.inverse, made(x)[0].detach())):
        wider = torch.cat([at, at[:, :1]], 1)
        with pytest.raises(InvalidInput, match="examples have shape|channels cannot be spread"):
            way(wider[:, 0] if isinstance(made, Squeeze) and way is made else wider)
        with pytest.raises(InvalidInput, match="examples have shape"):
            way(at[:, 0].flatten())


def test_settings_that_make_no_map_are_refused() -> None:
    for law in (lambda: SplineLaw(bins=8.0), lambda: SplineLaw(bound=math.inf), lambda: SigmoidLaw(units=2.5)):
        with pytest.raises(InvalidInput, match="bins is 8.0|finite bound|units is 2.5"):
            law()
    assert SplineLaw(np.int64(4)).outputs == 11
    with pytest.raises(InvalidInput, match="terms is 0"):
        Residual(2, terms=0)
    for order in ([], [0.5, 1.0], [[0, 1]]):
        with pytest.raises(InvalidInput, match="singular"):
            Permutation(order)
    with pytest.raises(InvalidInput, match="levels is empty"):
        MultiScale([])
    with pytest.raises(InvalidInput, match="masks is empty"):
        MaskedMLP(2, 1, [4], masks=[])


def test_a_context_for_other_rows_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"the context has shape \(4, 2\); 5 examples need a row each"):
        Coupling(4, AFFINE, (8,), context=2)(torch.zeros(5, 4), torch.zeros(4, 2))


def test_planar_maps_that_do_not_push_are_the_identity() -> None:
    """The bent direction is zero where u is, as Rezende & Mohamed's is not."""
    made = Planar(3)
    with torch.no_grad():
        made.numbers[3:6] = 0.0
    x = torch.randn(4, 3)
    z, log = made(x)
    assert torch.allclose(z, x, atol=1e-6)
    assert torch.allclose(log, torch.zeros(4), atol=1e-6)


def test_inverses_of_mixed_sigmoids_stay_finite_far_out() -> None:
    """Where all sigmoids are flat to rounding a step of Newton would leave for nowhere."""
    torch.manual_seed(0)
    law, raw = SigmoidLaw(4), 6 * torch.randn(200, 12)
    z = torch.linspace(-200.0, 200.0, 200)
    x, log = law.inverse(z, raw)
    assert torch.isfinite(x).all()
    assert torch.isfinite(log).all()
    back = law.forward(x, raw)[0]
    assert ((back - z).abs() / (1 + z.abs())).median() < 1e-4
