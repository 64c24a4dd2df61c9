"""Self-attention: every token looks at every other one."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput


def attention_weights(query: Tensor, key: Tensor) -> Tensor:
    r"""How much each query looks at each key, by the plain formula.

    .. math:: A = \operatorname{softmax}(Q K^T / \sqrt{d})

    query: (..., t, d). key: (..., s, d). Returns (..., t, s), whose rows sum to one.

    >>> attention_weights(torch.zeros(2, 4), torch.ones(3, 4))[0]
    tensor([0.3333, 0.3333, 0.3333])
    """
    return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), -1)


class SelfAttention(nn.Module):
    r"""Multi-head self-attention over tokens.

    .. math:: Y = \operatorname{concat}_h\big(\operatorname{softmax}(Q_h K_h^T / \sqrt{d_h})\, V_h\big)\, W + b

    Vaswani et al., 2017, through torch's fused kernels. A permutation of the tokens permutes the outputs.

    width: numbers in a token. heads: how many, a divisor of the width.

    >>> SelfAttention(8, heads=2)(torch.ones(1, 5, 8)).shape
    torch.Size([1, 5, 8])
    """

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise InvalidInput(f"SelfAttention: heads is {heads}; it must divide the width, {width}")
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (n, t, width) to (n, t, width)."""
        n, t, width = tokens.shape
        parts = self.queries_keys_values(tokens).view(n, t, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)  # (n, heads, t, d)
        seen = F.scaled_dot_product_attention(query, key, value)
        found: Tensor = self.out(seen.transpose(1, 2).reshape(n, t, width))
        return found


class PixelAttention(nn.Module):
    """Self-attention among the pixels of a picture, added to it after a group norm.

    channels: of the picture. heads: of the attention. groups: of the norm.

    >>> PixelAttention(8, groups=2)(torch.ones(1, 8, 3, 3)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, channels: int, heads: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.attention = SelfAttention(channels, heads)
        # the residual path starts as the identity
        nn.init.zeros_(self.attention.out.weight)
        nn.init.zeros_(self.attention.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (n, c, h, w) to the same shape."""
        n, c, h, w = x.shape
        tokens = self.norm(x).permute(0, 2, 3, 1).reshape(n, h * w, c)
        seen: Tensor = self.attention(tokens)
        return x + seen.view(n, h, w, c).permute(0, 3, 1, 2)
