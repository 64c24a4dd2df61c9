r"""Gradients of entropic transport without going back through the iterations.

The value obeys the envelope theorem: its gradient is the plan for the cost and the potentials for the masses.
The potentials solve a fixed-point equation; its linearization

.. math:: df + \kappa R\, dg = \kappa (R \circ dC) 1 - \dots, \qquad
          dg + \kappa S^\top df = \kappa (S \circ dC)^\top 1 - \dots

with row-stochastic R and column-stochastic S is solved by conjugate gradients on one side (Luise et al., 2018;
Cuturi et al., 2022).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from benthic.transport.costs import Cost, Matrix, entries, row_blocks
from benthic.transport.kernel import Kernel, Problem

_TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-13}
_LONGEST = 2000  # conjugate gradient steps


class Potentials(torch.autograd.Function):
    """Potentials that were found somehow, with the gradient of the equation that they solve."""

    @staticmethod
    def forward(ctx: Any, problem: Problem, f: Tensor, g: Tensor, a: Tensor, b: Tensor, *leaves: Tensor) -> Any:
        """Pass f and g on; the other arguments receive gradients."""
        ctx.problem = problem
        ctx.save_for_backward(f, g, a, b, *leaves)
        ctx.set_materialize_grads(False)
        return f.clone(), g.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_f: Tensor | None, of_g: Tensor | None) -> Any:
        """Solve the transposed linear system and pull the answer back to masses and cost."""
        f, g, a, b, *leaves = ctx.saved_tensors
        nothing = [None] * len(leaves)
        if of_f is None and of_g is None:
            return None, None, None, None, None, *nothing
        of_f = torch.zeros_like(f) if of_f is None else of_f
        of_g = torch.zeros_like(g) if of_g is None else of_g
        problem = _with(ctx.problem, a, b, leaves)
        p, q, kernel = adjoint(problem, f, g, of_f, of_g)
        grad_a = -problem.epsilon * kernel.apply(q)
        grad_b = -problem.epsilon * kernel.apply_transposed(p)
        if any(ctx.needs_input_grad[5:]):
            nothing = pull(
                problem, kernel, lambda E, part: E * (p[:, part, None] * b[:, None] + a[:, part, None] * q[:, None])
            )
        return None, None, None, grad_a, grad_b, *nothing


def adjoint(problem: Problem, f: Tensor, g: Tensor, of_f: Tensor, of_g: Tensor) -> tuple[Tensor, Tensor, Kernel]:
    """Vectors p (B, n), q (B, m) such that the cotangent of the cost is K ∘ (p bᵀ + a qᵀ)."""
    a, b, kappa = problem.a, problem.b, problem.kappa
    kernel = Kernel(problem, f, g)
    rows, columns = kernel.apply(b), kernel.apply_transposed(a)  # ones where the marginals hold

    def spread(w: Tensor) -> Tensor:
        return a * kernel.apply(w / columns)

    h = of_f - kappa * spread(of_g)
    scale = (b / columns).sqrt()  # makes the system symmetric, and is zero where there is no mass

    def system(z: Tensor) -> Tensor:
        inner = a / rows * kernel.apply(scale * z)
        return z - kappa**2 * scale * kernel.apply_transposed(inner)

    null = (b * columns).sqrt() if problem.rho is None else None
    z = conjugate_gradients(system, scale * kernel.apply_transposed(h / rows), null)
    w = (b * columns).sqrt() * z
    lam = h + kappa**2 * spread(w)
    mu = of_g - kappa * w
    return kappa * lam / rows, kappa * mu / columns, kernel


def conjugate_gradients(system: Any, rhs: Tensor, null: Tensor | None) -> Tensor:
    """Solve symmetric systems (B, m) at once, orthogonally to ``null``.

    >>> conjugate_gradients(lambda z: 2 * z, torch.tensor([[2.0, 4.0]]), None)
    tensor([[1., 2.]])
    """
    direction = None if null is None else null / null.norm(dim=-1, keepdim=True)

    def project(z: Tensor) -> Tensor:
        return z if direction is None else z - (z * direction).sum(-1, keepdim=True) * direction

    z, residual = torch.zeros_like(rhs), project(rhs)
    step, size = residual, residual.square().sum(-1, keepdim=True)
    goal = size * _TOLERANCES[rhs.dtype] ** 2
    for index in range(min(10 * rhs.shape[-1] + 20, _LONGEST)):
        if index % 5 == 0 and bool((size <= goal).all()):
            break
        image = project(system(step))
        curvature = (step * image).sum(-1, keepdim=True)
        going = (size > goal) & (curvature > 0)  # the others stay as they are
        length = torch.where(going, size / torch.where(going, curvature, 1.0), 0.0)
        z, residual = z + length * step, residual - length * image
        new = torch.where(going, residual.square().sum(-1, keepdim=True), torch.minimum(size, goal))
        step = residual + torch.where(going, new / torch.where(going, size, 1.0), 0.0) * step
        size = new
    return z


def pull(problem: Problem, kernel: Kernel, weigh: Any) -> list[Tensor]:
    """Gradients of the leaves of the cost, given its cotangent as a function of rows of K, by blocks of rows."""
    cost = problem.cost
    batch, n, m = cost.shape
    parts = list(row_blocks(n, batch * m, entries(problem.a.device)))
    if isinstance(cost, Matrix):
        return [torch.cat([weigh(kernel.rows(part), part) for part in parts], -2)]
    Y = cost.Y.detach().requires_grad_()
    of_X, of_Y = [], torch.zeros_like(Y)
    for part in parts:
        X = cost.X[:, part].detach().requires_grad_()
        with torch.enable_grad():
            block = cost.rebuilt(X, Y).rows(slice(None))
        found = torch.autograd.grad(block, (X, Y), weigh(kernel.rows(part), part))
        of_X.append(found[0])
        of_Y += found[1]
    return [torch.cat(of_X, -2), of_Y]


def _with(problem: Problem, a: Tensor, b: Tensor, leaves: Any) -> Problem:
    cost: Cost = problem.cost.rebuilt(*(leaf.detach() for leaf in leaves))
    return Problem(a.detach(), b.detach(), cost, problem.epsilon, problem.rho)


class Value(torch.autograd.Function):
    """The value of a solved problem, with the gradient of the envelope theorem; it can be differentiated twice."""

    @staticmethod
    def forward(ctx: Any, problem: Problem, f: Tensor, g: Tensor, a: Tensor, b: Tensor, *leaves: Tensor) -> Tensor:
        """The dual objective (B,)."""
        ctx.problem = problem
        ctx.save_for_backward(f, g, a, b, *leaves)
        return dual_value(problem, f, g)

    @staticmethod
    def backward(ctx: Any, of_value: Tensor) -> Any:
        """Potentials to the masses, the plan to the cost; none to the potentials, which are optimal."""
        f, g, a, b, *leaves = ctx.saved_tensors
        weight = of_value.unsqueeze(-1)
        slope_a, slope_b = slopes(ctx.problem, f, g, a, b)
        pulled: list[Any] = [None] * len(leaves)
        if any(ctx.needs_input_grad[5:]):
            pulled = _plan_to_leaves(ctx.problem, f, g, a, b, leaves, weight)
        return None, None, None, weight * slope_a, weight * slope_b, *pulled


def _plan_to_leaves(
    problem: Problem, f: Tensor, g: Tensor, a: Tensor, b: Tensor, leaves: Any, weight: Tensor
) -> list[Any]:
    if isinstance(problem.cost, Matrix):
        block = problem.cost.rebuilt(*leaves).logits(f, g, problem.epsilon)
        plan = a.unsqueeze(-1) * block(slice(None)).exp() * b.unsqueeze(-2)
        return [weight.unsqueeze(-1) * plan]
    if torch.is_grad_enabled():  # a second derivative is wanted: the whole matrix, this once
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        cost = problem.cost.rebuilt(*leaves).rows(slice(None))
        scores = (f.unsqueeze(-1) + g.unsqueeze(-2) - cost) / problem.epsilon
        plan = (weight * a).unsqueeze(-1) * scores.exp() * b.unsqueeze(-2)
        found = iter(torch.autograd.grad(cost, wanted, plan, create_graph=True))
        return [next(found) if leaf.requires_grad else None for leaf in leaves]
    fixed = _with(problem, a, b, leaves)
    kernel = Kernel(fixed, f.detach(), g.detach())
    left, right = (weight * a).detach(), b.detach()
    return pull(fixed, kernel, lambda E, part: E * left[:, part, None] * right[:, None])


def dual_value(problem: Problem, f: Tensor, g: Tensor) -> Tensor:
    """The dual objective (B,) after an update of g, when the mass of the plan is known without a pass over it."""
    a, b, eps, rho = problem.a, problem.b, problem.epsilon, problem.rho
    if rho is None:
        return (a * f).sum(-1) + (b * g).sum(-1)
    left, right = torch.expm1(-f / rho), torch.expm1(-g / rho)
    mass = (b * (right + 1)).sum(-1)
    return -rho * ((a * left).sum(-1) + (b * right).sum(-1)) - eps * (mass - a.sum(-1) * b.sum(-1))


def slopes(problem: Problem, f: Tensor, g: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives of the value in the masses."""
    rho, eps = problem.rho, problem.epsilon
    if rho is None:
        return f, g
    left = -rho * torch.expm1(-f / rho) - eps * ((-f / rho).exp() - b.sum(-1, keepdim=True))
    right = -rho * torch.expm1(-g / rho) - eps * ((-g / rho).exp() - a.sum(-1, keepdim=True))
    return left, right
