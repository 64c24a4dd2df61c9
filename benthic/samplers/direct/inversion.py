"""Inverse transform: draws from any law of which the distribution function can be computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator as stream
from benthic.base.seeds import seed_of
from benthic.base.settings import is_whole
from benthic.distributions.tables import as_float_tensor

Function = Callable[[Tensor], Tensor]
_STEPS = 400  # steps that do not halve a bracket are followed by a bisection over the 2^64 floating-point numbers


def invert_cdf(
    cdf: Function,
    level: Any,
    *,
    support: Sequence[float] = (-math.inf, math.inf),
    discrete: bool = False,
    tol: float | None = None,
    pdf: Function | None = None,
) -> Tensor:
    r"""The quantile of a law that is known by its distribution function.

    .. math:: Q(u) = \inf \{ x : F(x) \geq u \}

    Brackets are found by growing steps, then closed by inverse quadratic interpolation (Chandrupatla, 1997) whose
    bisections halve the number of floating-point numbers between the ends, so any scale takes few steps. Jumps
    and flat parts are allowed. Gradients reach the level and whatever the function depends on, by the implicit
    function theorem.

    cdf: from x, with the shape of level, to F(x); elements may have parameters of their own. level: (...) numbers
    in [0, 1]; 0 and 1 give the ends of the support. support: where the law lives. discrete: the law lives on whole
    numbers. tol: relative width at which to stop, by default four units of the last place. pdf: the density,
    for gradients; without it, it is taken from cdf by differentiation. Returns x with the shape of level.

    >>> rate = torch.tensor([1.0, 2.0])
    >>> invert_cdf(lambda x: -torch.expm1(-rate * x), torch.tensor([0.5, 0.5]), support=(0, math.inf))
    tensor([0.6931, 0.3466])
    """
    level = as_float_tensor(level)
    low, high = _support(support)
    u = level.detach()
    if not bool(((u >= 0) & (u <= 1)).all()):
        raise InvalidInput("invert_cdf: a level is outside [0, 1] or NaN; levels are probabilities")
    with torch.no_grad():
        gap = _Gap(cdf, u)
        if discrete:
            x = _whole(gap, low, high)
        else:
            x = _close(gap, *_bracket(gap, low, high), 4 * torch.finfo(u.dtype).eps if tol is None else tol)
            x = _atom(gap, _leftmost(gap, x, low), low)
        x = torch.where(u <= 0, low, torch.where(u >= 1, high, x)).to(u.dtype)
    return x if discrete else _attach(cdf, pdf, level, x)


def inverse_transform(
    cdf: Function,
    shape: int | Sequence[int],
    *,
    support: Sequence[float] = (-math.inf, math.inf),
    discrete: bool = False,
    tol: float | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Tensor:
    r"""Draws from a law that is known by its distribution function.

    .. math:: X = F^{-1}(U), \qquad U \sim \mathrm{Uniform}(0, 1)

    Devroye, 1986, chapter 2.

    cdf: from x, of the given shape, to F(x); the last dimensions may line up with parameters the function holds.
    shape: of the draws. support, discrete, tol: as in ``invert_cdf``. Returns draws of that shape.

    >>> x = inverse_transform(lambda x: torch.special.ndtr(x), 10_000, seed=0)
    >>> abs(float(x.mean())) < 0.03 and abs(float(x.var()) - 1) < 0.05
    True
    """
    source = uniform_source("inverse_transform", seed, generator, device)
    size = torch.Size([shape] if is_whole(shape) else shape)
    u = torch.rand(size, generator=source, dtype=dtype, device=source.device)
    u = u.clamp(min=torch.finfo(dtype).eps / 4)  # rand can give 0, which is the end of the support
    return invert_cdf(cdf, u, support=support, discrete=discrete, tol=tol)


def uniform_source(
    where: str, seed: int | None, generator: torch.Generator | None, device: torch.device | str
) -> torch.Generator:
    """The generator that was given, or the one that the seed names."""
    if seed is not None and generator is not None:
        raise InvalidInput(f"{where}: both seed and generator are given; pass one of them")
    return generator if generator is not None else stream(seed_of(seed), where, device=device)


def _support(support: Sequence[float]) -> tuple[float, float]:
    low, high = (float(end) for end in support)
    if not low < high:
        raise InvalidInput(f"invert_cdf: the support is ({low:g}, {high:g}); its first end must be the smaller one")
    return low, high


class _Gap:
    """F(x) - u, checked; levels 0 and 1 are answered elsewhere and pose as 1/2 here."""

    def __init__(self, cdf: Function, u: Tensor) -> None:
        self.cdf = cdf
        self.ends = (u <= 0) | (u >= 1)
        self.u = u

    def __call__(self, x: Tensor) -> Tensor:
        value = self.cdf(x)
        if not isinstance(value, Tensor) or value.shape != x.shape:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInput(f"invert_cdf: cdf of {tuple(x.shape)} gives {shape}; it must keep the shape of x")
        if not bool(((value >= -1e-6) & (value <= 1 + 1e-6)).all()):
            bad = x[~((value >= -1e-6) & (value <= 1 + 1e-6))].flatten()[0]
            raise InvalidInput(
                f"invert_cdf: cdf({float(bad):g}) is not in [0, 1]; give the distribution function, "
                "and a support where it is defined"
            )
        return torch.where(self.ends, value - 0.5, value - self.u)


def _bracket(gap: _Gap, low: float, high: float, whole: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points a, b with F(a) < u <= F(b), found by steps that grow ever faster, and F - u there."""
    center = _center(low, high)
    b = torch.full_like(gap.u, center)
    if whole:
        b = b.floor()
    fb = gap(b)
    a, fa = b.clone(), fb.clone()
    most = math.log2(torch.finfo(gap.u.dtype).max) if not whole else 53
    for k in range(1, 60):
        need_low, need_high = fa >= 0, fb < 0
        if not bool((need_low | need_high).any()):
            return a, b, fa, fb
        reach = 2.0 ** min(k * (k + 1) / 2, most - 1)
        under = torch.where(need_low, _towards(center, low, reach), a)
        over = torch.where(need_high, _towards(center, high, reach), b)
        if whole:
            under, over = under.floor(), over.ceil()
        # the points passed on the way stand on the other side of the quantile
        b, fb = torch.where(need_low, a, b), torch.where(need_low, fa, fb)
        a, fa = torch.where(need_high, b, a), torch.where(need_high, fb, fa)
        down, up = gap(under), gap(over)
        _refuse_falling(need_low & (down > fa + 1e-6) | need_high & (up < fb - 1e-6), under, over)
        a, fa = torch.where(need_low, under, a), torch.where(need_low, down, fa)
        b, fb = torch.where(need_high, over, b), torch.where(need_high, up, fb)
        if bool((need_low & (fa >= 0) & (reach >= 2.0 ** (most - 1)) & (a > low)).any()):
            raise InvalidInput(
                "invert_cdf: cdf does not go to 0 on the left; give the distribution function or support"
            )
        fa = torch.where(need_low & (a <= low) & (fa >= 0), -torch.finfo(fa.dtype).tiny, fa)  # an atom at the end
        if bool((need_high & (fb < 0) & ((b >= high) | (reach >= 2.0 ** (most - 1)))).any()):
            break
    raise InvalidInput(
        f"invert_cdf: cdf reaches only {float((fb + gap.u)[fb < 0].min()):.6g} at the upper end of the support; "
        "a distribution function that goes to 1 is needed, or a wider support"
    )


def _refuse_falling(falls: Tensor, under: Tensor, over: Tensor) -> None:
    if bool(falls.any()):
        left, right = float(under[falls][0]), float(over[falls][0])
        raise InvalidInput(
            f"invert_cdf: cdf falls somewhere between {left:g} and {right:g}; a distribution function never does "
            "(a survival function is one minus it)"
        )


def _center(low: float, high: float) -> float:
    """Where to start: the middle, one step from the end there is, or zero."""
    if math.isfinite(low) and math.isfinite(high):
        return low + 0.5 * (high - low)
    if math.isfinite(low):
        return low + 1
    return high - 1 if math.isfinite(high) else 0.0


def _towards(center: float, end: float, reach: float) -> float:
    """Far from the center in the direction of an end, or there."""
    return max(center - reach, end) if end < center else min(center + reach, end)


def _close(gap: _Gap, a: Tensor, b: Tensor, fa: Tensor, fb: Tensor, tol: float) -> Tensor:
    """Close brackets by Chandrupatla's method; the upper end is the answer."""
    tiny = torch.finfo(a.dtype).tiny
    c, fc = a, fa  # the point that left the bracket last
    new, fnew = b, fb
    slow = torch.zeros_like(a)  # steps in a row that did not halve the bracket
    rounding = torch.finfo(a.dtype).eps * gap.u
    for _ in range(_STEPS):
        width = b - a
        reach = tol * torch.maximum(a.abs(), b.abs()).clamp(min=tiny)
        done = (width <= 2 * reach) | (fb <= rounding)
        if bool(done.all()):
            break
        middle = _between(a, b)
        other, fother = torch.where(new == a, b, a), torch.where(new == a, fb, fa)
        guess = _interpolate(new, other, c, fnew, fother, fc)
        x = torch.where(torch.isfinite(guess) & (slow < 3), guess, middle)
        x = torch.minimum(torch.maximum(x, a + reach), b - reach)
        x = torch.where(done, b, torch.where((x > a) & (x < b), x, middle))
        fx = torch.where(done, fb, gap(x))
        below = fx < 0
        c, fc = torch.where(below, a, b), torch.where(below, fa, fb)
        a, fa = torch.where(below, x, a), torch.where(below, fx, fa)
        b, fb = torch.where(below, b, x), torch.where(below, fb, fx)
        new, fnew = x, fx
        slow = torch.where(b - a > 0.5 * width, slow + 1, 0.0)
    return b


def _interpolate(b: Tensor, a: Tensor, c: Tensor, fb: Tensor, fa: Tensor, fc: Tensor) -> Tensor:
    """Inverse quadratic interpolation where it can be trusted, else NaN (Chandrupatla, 1997)."""
    xi, phi = (b - a) / (c - a), (fb - fa) / (fc - fa)
    fine = (phi.square() < xi) & ((1 - phi).square() < 1 - xi)
    t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return torch.where(fine, a + t * (b - a), math.nan)


def _between(a: Tensor, b: Tensor) -> Tensor:
    """The floating-point number in the middle of those between a and b."""
    whole = torch.int64 if a.dtype == torch.float64 else torch.int32
    i, j = _ordered(a.contiguous().view(whole)), _ordered(b.contiguous().view(whole))
    close = (a * b > 0) & (torch.maximum(a.abs(), b.abs()) <= 8 * torch.minimum(a.abs(), b.abs()))
    middle = _ordered((i >> 1) + (j >> 1) + (i & j & 1)).view(a.dtype)
    return torch.where(close, a + 0.5 * (b - a), middle)


def _ordered(bits: Tensor) -> Tensor:
    """From the bits of floats to integers in the same order, and back."""
    return torch.where(bits < 0, torch.iinfo(bits.dtype).min - bits, bits)


def _leftmost(gap: _Gap, x: Tensor, low: float) -> Tensor:
    """Where F is flat at the level, the left end of the flat part."""
    eps = torch.finfo(x.dtype).eps
    step = math.sqrt(eps) * x.abs().clamp(min=math.sqrt(eps))
    left = (x - step).clamp(min=low)
    fleft = gap(left)
    flat = (fleft >= 0) & (left < x)
    for _ in range(60):  # walk left until F is below the level
        grow = flat & (fleft >= 0) & (left > low)
        if not bool(grow.any()):
            break
        step = torch.where(grow, 4 * step, step)
        left = torch.where(grow, (left - step).clamp(min=low, max=torch.finfo(x.dtype).max), left)
        left = left.clamp(min=torch.finfo(x.dtype).min / 2)
        fleft = gap(left)
    if not bool(flat.any()):
        return x
    a, b = torch.where(flat, left, x), x
    for _ in range(70):
        middle = _between(a, b)
        below = gap(middle) < 0
        a, b = torch.where(flat & below, middle, a), torch.where(flat & ~below, middle, b)
    # a flat part that is only rounding has, beyond its end, a fall that is only rounding too
    real = gap((b - (x - b)).clamp(min=low)) < -100 * eps
    return torch.where(flat & real, b, x)


def _atom(gap: _Gap, x: Tensor, low: float) -> Tensor:
    """The lower end of the support itself, where the law has an atom there."""
    if not math.isfinite(low):
        return x
    near = x - low <= 8 * torch.finfo(x.dtype).eps * max(abs(low), 1e-20)
    if not bool(near.any()):
        return x
    return torch.where(near & (gap(torch.full_like(x, low)) >= 0), low, x)


def _whole(gap: _Gap, low: float, high: float) -> Tensor:
    """The smallest whole number at which F reaches the level, by bisection."""
    first, last = math.ceil(low) if math.isfinite(low) else low, math.floor(high) if math.isfinite(high) else high
    start = gap(torch.full_like(gap.u, first)) >= 0 if math.isfinite(first) else torch.zeros_like(gap.ends)
    a, b, _, _ = _bracket(gap, first, last, whole=True)
    while bool(((b - a > 1) & ~start).any()):
        middle = (a + 0.5 * (b - a)).floor()
        below = gap(middle) < 0
        a, b = torch.where(below, middle, a), torch.where(below, b, middle)
    return torch.where(start, first, b)


def _attach(cdf: Function, pdf: Function | None, level: Tensor, x: Tensor) -> Tensor:
    """Let gradients reach the level and what cdf holds: dx = (du - dF) / f."""
    if not torch.is_grad_enabled():
        return x
    inside = torch.isfinite(x)
    point = torch.where(inside, x, 0.0).detach()
    value = cdf(point)
    if not (level.requires_grad or value.requires_grad):
        return x
    density = pdf(point).detach() if pdf is not None else _slope(cdf, point)
    shift = (level - level.detach() - (value - value.detach())) / density
    return torch.where(inside & (density > 0), x + shift, x)


def _slope(cdf: Function, x: Tensor) -> Tensor:
    point = x.detach().requires_grad_(True)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(cdf(point).sum(), point)
    return slope.detach()
