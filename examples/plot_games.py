"""
Games, and why descent is not enough
====================================

Two players share a game when the loss of one is the gain of the other. Each can follow its own gradient, but the
gradients of a game need not point to where it ends: they may turn around it. Adversarial models are such games.
"""

# %%
# The bilinear game
# -----------------
# The first player makes :math:`x y` small, the second makes it large, and the only equilibrium is 0. The gradients
# :math:`(-y, x)` are at right angles to the way there.
#
# - *Simultaneous* descent-ascent leaves along a tangent each time, so the distance grows by
#   :math:`\sqrt{1 + \eta^2}` at every step, however small the rate.
# - *Alternating* players see each other's move, and stay on an ellipse.
# - *Extragradient* looks one step ahead, and steps from where it was with the gradient found there. Both players must
#   look: a look with the other player left behind finds the gradient it had.
# - The *optimistic* gradient saves the second gradient by assuming that the last step would be made again.

import math

import matplotlib.pyplot as plt
import torch

from benthic.optim import bilinear, dirac_gan, game_optimizer, game_paths, game_round, play

rate, start = 0.25, (1.0, 0.0)
methods = ("simultaneous", "alternating", "extragradient", "optimistic")
paths = {method: play(bilinear, start, method, rate=rate, steps=60) for method in methods}

figure, both = plt.subplots(1, 2, figsize=(9.4, 4.2), layout="constrained")
game_paths(bilinear, paths, box=(-2.2, 2.2, -2.2, 2.2), equilibrium=(0, 0), axes=both[0])
both[0].set_title("ways on the bilinear game")
for method in methods:
    both[1].semilogy(paths[method].points.norm(dim=1), label=method)
growth = [math.sqrt(1 + rate**2) ** t for t in range(61)]
decay = [math.sqrt(1 - rate**2 + rate**4) ** t for t in range(61)]
both[1].semilogy(growth, "k:", linewidth=2.5, label="theory")
both[1].semilogy(decay, "k:", linewidth=2.5)
both[1].set(xlabel="step", ylabel="distance from the equilibrium", title="measured and promised")
both[1].legend(frameon=False, fontsize="small")
plt.show()

# %%
# The smallest adversarial model
# ------------------------------
# In the Dirac-GAN (Mescheder, Geiger & Nowozin, 2018) all data lie at 0, the generator is one point, and the critic is
# a line through 0. When the generator arrives at 0, the critic's slope drives it on, so they go around. Looking
# ahead helps, and so does a penalty on the critic's slope where the data are (R1), which bends the arrows inwards.

figure, both = plt.subplots(1, 2, figsize=(9.4, 4.2), layout="constrained")
box = (-1.9, 1.9, -1.9, 1.9)
plain = dirac_gan("minimax")
ways = {method: play(plain, (1.0, 1.0), method, rate=0.3, steps=110) for method in methods[:3]}
game_paths(plain, ways, box=box, equilibrium=(0, 0), axes=both[0])
penalized = dirac_gan("minimax", r1=0.3)
ways = {method: play(penalized, (1.0, 1.0), method, rate=0.3, steps=110) for method in methods[:3]}
game_paths(penalized, ways, box=box, equilibrium=(0, 0), axes=both[1])
for axes, title in zip(both, ("no penalty", "with R1"), strict=True):
    axes.set(xlabel="generator", ylabel="slope of the critic", title=title)
plt.show()

# %%
# In a training loop
# ------------------
# ``play`` uses the same optimizers as training does. ``game_optimizer`` wraps any torch optimizer, and ``game_round``
# calls every player's loss and optimizer in the order that the method asks for. Here a generator learns the center of
# a cloud from a linear critic. Such a critic sees only the center, so this is a bilinear game again. (With Adam,
# whose steps do not shrink with the gradient, looking ahead ends in a small neighborhood, as wide as the rate.)

torch.manual_seed(0)
data = torch.randn(500, 2) + torch.tensor([2.0, -1.0])


def distances(method):
    """How far the generator is from the center, round by round."""
    place, critic = torch.nn.Parameter(torch.zeros(2)), torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(critic.weight)

    def generator_loss():
        return -critic(place)[0]

    def critic_loss():
        return critic(place)[0] - critic(data).mean()

    groups = ([place], critic.parameters())
    players = [game_optimizer(method, torch.optim.SGD(held, lr=0.2)) for held in groups]
    out = []
    for _ in range(300):
        game_round(players, [generator_loss, critic_loss], method)
        out.append(float((place.detach() - data.mean(0)).norm()))
    return out


figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for method in methods:
    axes.semilogy(distances(method), label=method)
axes.set(xlabel="round", ylabel="distance from the center", title="learning a center")
axes.legend(frameon=False, fontsize="small")
plt.show()
