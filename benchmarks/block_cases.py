# SPDX-License-Identifier: BSD-3-Clause
"""Transformer blocks at the sizes of known models, as their model code spells them in torch.

A block is a function of the tensors that `Block.make` makes: the input, tables and weights by name.
`block_definitions.py` has the same blocks as fusion definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from block_definitions import (
    Part,
    both,
    gpt_backward,
    gpt_forward,
    llama_backward,
    llama_forward,
)
from block_parts import EPSILON, Sizes

Tensor = torch.Tensor
Tensors = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Model:
    """What blocks of all sizes of a model have in common."""

    shapes: Callable[[Sizes], Shapes]  # of what has a gradient, the input first
    function: Callable[[Tensors, Sizes], Tensor]
    forward: Part
    backward: Part
    tables: Callable[[Sizes], Tensors] = field(default=lambda sizes: {})

    @property
    def both(self) -> Part:
        return both(self.forward, self.backward)


@dataclass(frozen=True)
class Block:
    name: str
    model: Model
    sizes: Sizes
    small: Sizes

    def make(self, device: torch.device, small: bool = False) -> Tensors:
        """Repeatable tensors in bf16: weights of the size that keeps that of what they multiply."""
        sizes = self.small if small else self.sizes
        tensors = {}
        for seed, (name, shape) in enumerate(self.model.shapes(sizes).items()):
            generator = torch.Generator(device).manual_seed(seed)
            x = torch.empty(shape, dtype=torch.bfloat16, device=device)
            x.normal_(generator=generator)
            if len(shape) == 2:
                x *= 1 / math.sqrt(shape[1])
            elif len(shape) == 1:
                x = x * 0.1 + (1.0 if "norm" in name or "ln_" in name else 0.0)
            tensors[name] = x
        return tensors | {name: x.to(device) for name, x in self.model.tables(sizes).items()}

    def empty(self) -> Tensors:
        """Tensors of the same sizes without memory behind them yet."""
        shapes = self.model.shapes(self.sizes).items()
        tensors = {name: torch.empty(shape, dtype=torch.bfloat16) for name, shape in shapes}
        return tensors | self.model.tables(self.sizes)

    def torch_function(self, names: list[str], small: bool = False) -> Callable[..., Tensor]:
        """The block as a function of tensors in the order of `names`."""
        sizes = self.small if small else self.sizes
        return lambda *xs: self.model.function(dict(zip(names, xs, strict=True)), sizes)


def _heads(x: Tensor, sizes: Sizes) -> Tensor:
    return x.view(sizes.batch, sizes.length, -1, sizes.head).transpose(1, 2)


# ------------------------------------------------------------------------------------------ nanoGPT


def gpt_shapes(s: Sizes) -> Shapes:
    width, hidden = s.width, s.hidden
    return {
        "x": (s.batch, s.length, width),
        "ln_1.weight": (width,),
        "ln_1.bias": (width,),
        "c_attn.weight": (3 * width, width),
        "c_attn.bias": (3 * width,),
        "attn.c_proj.weight": (width, width),
        "attn.c_proj.bias": (width,),
        "ln_2.weight": (width,),
        "ln_2.bias": (width,),
        "c_fc.weight": (hidden, width),
        "c_fc.bias": (hidden,),
        "mlp.c_proj.weight": (width, hidden),
        "mlp.c_proj.bias": (width,),
    }


def gpt(t: Tensors, s: Sizes) -> Tensor:
    """nanoGPT's model.py: Block, CausalSelfAttention and MLP without dropout."""

    def layer_norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], t[f"{name}.weight"], t[f"{name}.bias"], EPSILON)

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, t[f"{name}.weight"], t[f"{name}.bias"])

    x = t["x"]
    qkv = linear(layer_norm(x, "ln_1"), "c_attn").split(s.width, dim=2)
    q, k, v = (_heads(each, s) for each in qkv)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = y.transpose(1, 2).contiguous().view(x.shape)
    x = x + linear(y, "attn.c_proj")
    return x + linear(F.gelu(linear(layer_norm(x, "ln_2"), "c_fc")), "mlp.c_proj")


# ------------------------------------------------------------------------------------------ Llama 3


def llama_shapes(s: Sizes) -> Shapes:
    return {
        "x": (s.batch, s.length, s.width),
        "input_norm": (s.width,),
        "q_proj": (s.width, s.width),
        "k_proj": (s.key_width, s.width),
        "v_proj": (s.key_width, s.width),
        "o_proj": (s.width, s.width),
        "post_norm": (s.width,),
        "gate_proj": (s.hidden, s.width),
        "up_proj": (s.hidden, s.width),
        "down_proj": (s.width, s.hidden),
    }


def rope_tables(s: Sizes) -> Tensors:
    """cos and sin of each position, of each pair of a head twice."""
    powers = torch.arange(0, s.head, 2).float() / s.head
    angles = torch.outer(torch.arange(s.length).float(), 500000.0**-powers)
    angles = torch.cat((angles, angles), dim=-1)
    return {"cos": angles.cos().bfloat16(), "sin": angles.sin().bfloat16()}


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def llama(t: Tensors, s: Sizes) -> Tensor:
    """transformers' modeling_llama.py: LlamaDecoderLayer with sdpa_attention_forward."""

    def rms_norm(x: Tensor, name: str) -> Tensor:
        h = x if x.dtype == torch.float64 else x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPSILON)
        return t[name] * h.to(x.dtype)

    def rotated(x: Tensor) -> Tensor:
        return x * t["cos"] + rotate_half(x) * t["sin"]

    x = t["x"]
    h = rms_norm(x, "input_norm")
    q, k, v = (_heads(F.linear(h, t[name]), s) for name in ("q_proj", "k_proj", "v_proj"))
    y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True, enable_gqa=True)
    x = x + F.linear(y.transpose(1, 2).reshape(x.shape), t["o_proj"])
    h = rms_norm(x, "post_norm")
    gate, up = (F.linear(h, t[name]) for name in ("gate_proj", "up_proj"))
    return x + F.linear(F.silu(gate) * up, t["down_proj"])


# -------------------------------------------------------------------------------------------- table

GPT = Model(gpt_shapes, gpt, gpt_forward, gpt_backward)
LLAMA = Model(llama_shapes, llama, llama_forward, llama_backward, rope_tables)
# batch, length, heads, heads of keys, head, hidden
BLOCKS = [
    Block("nanoGPT 768", GPT, Sizes(16, 1024, 12, 12, 64, 3072), Sizes(2, 32, 4, 4, 16, 256)),
    Block("nanoGPT 1600", GPT, Sizes(8, 1024, 25, 25, 64, 6400), Sizes(2, 24, 5, 5, 16, 320)),
    Block("Llama 3 8B", LLAMA, Sizes(1, 4096, 32, 8, 128, 14336), Sizes(1, 32, 4, 1, 32, 448)),
    Block("Llama 3.2 1B", LLAMA, Sizes(2, 4096, 32, 8, 64, 8192), Sizes(2, 32, 8, 2, 16, 256)),
]
