# SPDX-License-Identifier: BSD-3-Clause
"""Layers and training steps at the sizes of known models, as their model code spells them in torch.

Each is a function of tensors and says which of its inputs want a gradient; `layers.py` measures the
forward and the backward graph that torch's ahead-of-time autograd makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
BF16, F32 = torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Input:
    """Normal numbers, or with `below` integers in [0, below): int64 if `dtype` is none."""

    shape: tuple[int, ...]
    dtype: torch.dtype = BF16
    grad: bool = True
    below: int = 0
    channels_last: bool = False
    positive: bool = False

    def make(self, device: torch.device, seed: int, sizes: Sequence[int]) -> Tensor:
        generator = torch.Generator(device).manual_seed(seed)
        if self.below:
            dtype = torch.int64 if self.dtype.is_floating_point else self.dtype
            return torch.randint(self.below, sizes, dtype=dtype, generator=generator, device=device)
        drawn = F32 if self.dtype.itemsize == 1 else self.dtype
        x = torch.empty(sizes, dtype=drawn, device=device).normal_(generator=generator)
        x = (x.abs_() if self.positive else x).to(self.dtype)
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        return x.requires_grad_(self.grad)


@dataclass(frozen=True)
class Layer:
    name: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    length: int = 0  # of sequences, where it is none of the first axis

    def make(self, device: torch.device, most: int = 1 << 62) -> list[Tensor]:
        """Inputs with at most `most` rows, or whatever the first axis is, and short sequences."""
        rows = self.inputs[0].shape[0]
        tensors = []
        for seed, each in enumerate(self.inputs):
            sizes = list(each.shape)
            if sizes[0] == rows and (len(sizes) > 1 or each.below):
                sizes[0] = min(rows, most)
            sizes = [min(n, 16 * most) if n == self.length else n for n in sizes]
            tensors.append(each.make(device, seed, sizes))
        return tensors


LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input, length: int = 0) -> None:
    LAYERS.append(Layer(name, function, inputs, length))


def like(*shape: int, **named: Any) -> Input:
    return Input(shape, **named)


def given(*shape: int, **named: Any) -> Input:
    """Wants no gradient."""
    return Input(shape, grad=False, **named)


def weights(*widths: int, dtype: torch.dtype = BF16) -> tuple[Input, ...]:
    return tuple(like(width, dtype=dtype) for width in widths)


# ------------------------------------------------------------------------------- norms of rows
TOKENS = 8192


def llama_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """transformers, LlamaRMSNorm."""
    h = x.to(F32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * h.to(x.dtype)


def gemma_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """transformers, GemmaRMSNorm: computes in float32 to the end, the weight counts from 1."""
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * (1.0 + weight.float())).type_as(x)


def t5_layer_norm(x: Tensor, weight: Tensor) -> Tensor:
    """transformers, T5LayerNorm."""
    variance = x.to(F32).pow(2).mean(-1, keepdim=True)
    return weight * (x * torch.rsqrt(variance + 1e-6)).to(x.dtype)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def torch_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, 1e-6)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    h = x + residual
    return llama_rms_norm(h, weight), h


def dropout_add_norm(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """transformers, BertSelfOutput without its linear layer."""
    return layer_norm(F.dropout(x, 0.1) + residual, weight, bias)


for width in (2048, 4096, 5120, 8192, 18432):
    layer(f"Llama RMS norm {width}", llama_rms_norm, like(TOKENS, width), like(width))
layer("Gemma RMS norm 1152", gemma_rms_norm, like(4 * TOKENS, 1152), like(1152))
layer("Gemma RMS norm 3072", gemma_rms_norm, like(TOKENS, 3072), like(3072))
layer("T5 norm 768", t5_layer_norm, like(8, 4096, 768), like(768))
layer("RMS norm 7168", torch_rms_norm, like(4, 2048, 7168), like(7168))
layer("query norm 128", llama_rms_norm, like(4, 2048, 32, 128), like(128))
for width in (768, 1280, 1600, 4096, 12288):
    layer(f"layer norm {width}", layer_norm, like(TOKENS, width), like(width), like(width))
layer("layer norm 1000", layer_norm, like(4 * TOKENS, 1000), like(1000), like(1000))
layer("layer norm 5000", layer_norm, like(TOKENS, 5000), like(5000), like(5000))
layer(
    "layer norm 1024 float32",
    layer_norm,
    like(TOKENS, 1024, dtype=F32),
    like(1024, dtype=F32),
    like(1024, dtype=F32),
)
layer("add RMS norm 4096", add_rms_norm, like(TOKENS, 4096), like(TOKENS, 4096), like(4096))
layer("add RMS norm 7168", add_rms_norm, like(TOKENS, 7168), like(TOKENS, 7168), like(7168))
layer(
    "dropout add norm 1024",
    dropout_add_norm,
    like(16, 512, 1024),
    like(16, 512, 1024),
    like(1024),
    like(1024),
)

# ----------------------------------------------------------------------------------- activations


def new_gelu(x: Tensor) -> Tensor:
    """transformers, NewGELUActivation."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def packed_swiglu(x: Tensor) -> Tensor:
    """transformers, Phi3MLP."""
    gate, up = x.chunk(2, dim=-1)
    return up * F.silu(gate)


def geglu(x: Tensor) -> Tensor:
    """diffusers, GEGLU."""
    h, gate = x.chunk(2, dim=-1)
    return h * F.gelu(gate)


def squared_relu(x: Tensor) -> Tensor:
    return torch.square(F.relu(x))


layer("GPT-2 GELU 3072", new_gelu, like(TOKENS, 3072))
layer("bias GELU 5120", bias_gelu, like(TOKENS, 5120), like(5120))
layer("bias GELU 6400", bias_gelu, like(TOKENS, 6400), like(6400))
layer("SwiGLU 11008", swiglu, like(TOKENS, 11008), like(TOKENS, 11008))
layer("SwiGLU 14336", swiglu, like(TOKENS, 14336), like(TOKENS, 14336))
layer("packed SwiGLU 8192", packed_swiglu, like(TOKENS, 2 * 8192))
layer("GEGLU 5120", geglu, like(2, 4096, 2 * 5120))
layer("squared ReLU 18432", squared_relu, like(TOKENS // 2, 18432))
layer(
    "scale of a layer, residual",
    lambda x, scale, residual: residual + scale * x,
    like(64, 197, 1024),
    like(1024),
    like(64, 197, 1024),
)

# ------------------------------------------------------------------------------------- attention


def causal_softmax(scores: Tensor) -> Tensor:
    """nanoGPT, CausalSelfAttention without flash."""
    length = scores.shape[-1]
    bias = torch.ones(length, length, device=scores.device).tril().view(1, 1, length, length)
    scores = (scores * 0.125).masked_fill(bias == 0, float("-inf"))
    return F.softmax(scores, dim=-1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """transformers, eager_attention_forward: softmax in float32."""
    scores = scores * 0.125 + mask
    return F.softmax(scores, dim=-1, dtype=F32).to(scores.dtype)


def masked_softmax_dropout(scores: Tensor, mask: Tensor) -> Tensor:
    return F.dropout(masked_softmax(scores, mask), 0.1)


def bloom_softmax(scores: Tensor, alibi: Tensor, mask: Tensor) -> Tensor:
    """transformers, BloomAttention: scores of [batch * heads, length, length]."""
    batch_heads, length, _ = scores.shape
    batch = mask.shape[0]
    scores = (scores * 0.08838 + alibi).view(batch, batch_heads // batch, length, length)
    scores = F.softmax(scores + mask, dim=-1, dtype=F32).to(scores.dtype)
    return scores.view(batch_heads, length, length)


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def llama_rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """transformers, apply_rotary_pos_emb after the projections were split into heads."""
    q, k = q.transpose(1, 2), k.transpose(1, 2)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def gpt_neox_rope(q: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """transformers, GPTNeoXAttention: a quarter of each head turns."""
    turned, kept = q[..., : cos.shape[-1]], q[..., cos.shape[-1] :]
    return torch.cat((turned * cos + rotate_half(turned) * sin, kept), dim=-1)


def gptj_rope(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
    """transformers, GPTJAttention: even and odd elements turn together."""
    sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[:, :, None, :], 2, 3)
    turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    return x * cos + turned * sin


def complex_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """torchtune, RotaryPositionalEmbeddings."""
    pairs = x.float().reshape(*x.shape[:-1], -1, 2)
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    even = pairs[..., 0] * cos - pairs[..., 1] * sin
    odd = pairs[..., 1] * cos + pairs[..., 0] * sin
    return torch.stack([even, odd], -1).flatten(3).type_as(x)


def repeat_kv(x: Tensor) -> Tensor:
    """transformers, repeat_kv for four queries a key."""
    batch, heads, length, width = x.shape
    x = x[:, :, None, :, :].expand(batch, heads, 4, length, width)
    return x.reshape(batch, heads * 4, length, width)


def split_heads(qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """nanoGPT: q, k and v of a packed projection, heads in front."""
    batch, length, packed = qkv.shape
    return tuple(
        each.view(batch, length, packed // 192, 64).transpose(1, 2).contiguous()
        for each in qkv.split(packed // 3, dim=2)
    )


layer("causal softmax 1024", causal_softmax, like(8, 12, 1024, 1024))
layer(
    "masked softmax 2048",
    masked_softmax,
    like(1, 32, 2048, 2048),
    like(1, 1, 2048, 2048, grad=False),
)
layer(
    "masked softmax dropout 512",
    masked_softmax_dropout,
    like(16, 16, 512, 512),
    like(16, 1, 1, 512, grad=False),
)
layer(
    "Bloom softmax 1024",
    bloom_softmax,
    like(2 * 32, 1024, 1024),
    like(2 * 32, 1, 1024, grad=False),
    like(2, 1, 1024, 1024, grad=False),
)
layer(
    "Llama rope",
    llama_rope,
    like(4, 2048, 32, 128),
    like(4, 2048, 8, 128),
    like(1, 2048, 128, grad=False),
    like(1, 2048, 128, grad=False),
    length=2048,
)
layer(
    "GPT-NeoX rope",
    gpt_neox_rope,
    like(4, 32, 2048, 96),
    like(1, 1, 2048, 24, grad=False),
    like(1, 1, 2048, 24, grad=False),
    length=2048,
)
layer(
    "GPT-J rope",
    gptj_rope,
    like(4, 2048, 16, 256),
    like(1, 2048, 128, grad=False),
    like(1, 2048, 128, grad=False),
    length=2048,
)
layer(
    "torchtune rope",
    complex_rope,
    like(4, 2048, 32, 128),
    like(2048, 64, dtype=F32, grad=False),
    like(2048, 64, dtype=F32, grad=False),
    length=2048,
)
layer("repeated keys", repeat_kv, like(4, 8, 2048, 128), length=2048)
layer("heads of a packed projection", split_heads, like(8, 1024, 3 * 768), length=1024)

# ------------------------------------------------------------------------------ losses and routing


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), target)


def smoothed_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target, label_smoothing=0.1)


def distillation(student: Tensor, teacher: Tensor) -> Tensor:
    student, teacher = F.log_softmax(student.float() / 2, -1), F.softmax(teacher.float() / 2, -1)
    return F.kl_div(student, teacher, reduction="batchmean") * 4


def moe_router(logits: Tensor) -> tuple[Tensor, Tensor]:
    """transformers, MixtralSparseMoeBlock: weights of the two best experts, and which they are."""
    weights = F.softmax(logits, dim=1, dtype=F32)
    weights, experts = torch.topk(weights, 2, dim=-1)
    return (weights / weights.sum(dim=-1, keepdim=True)).to(logits.dtype), experts


def moe_combine(outputs: Tensor, weights: Tensor) -> Tensor:
    """The experts' outputs of each token, weighted."""
    return (outputs * weights.unsqueeze(-1)).sum(dim=1)


def embedding_norm(
    weight: Tensor, positions: Tensor, index: Tensor, scale: Tensor, bias: Tensor
) -> Tensor:
    """nanoGPT: embeddings of token and position, then the first norm."""
    h = F.embedding(index, weight) + positions
    return layer_norm(h, scale, bias)


layer(
    "cross entropy 32000", cross_entropy, like(TOKENS // 2, 32000), like(TOKENS // 2, below=32000)
)
layer(
    "cross entropy 50257", cross_entropy, like(TOKENS // 2, 50257), like(TOKENS // 2, below=50257)
)
layer("cross entropy 128256", cross_entropy, like(2048, 128256), like(2048, below=128256))
layer(
    "smoothed cross entropy 1000",
    smoothed_cross_entropy,
    like(TOKENS, 1000, dtype=F32),
    like(TOKENS, below=1000),
)
layer("distillation 32000", distillation, like(2048, 32000), like(2048, 32000, grad=False))
layer("MoE router 8", moe_router, like(16 * TOKENS, 8, grad=False))
layer("MoE router 128", moe_router, like(8 * TOKENS, 128, grad=False))
layer("MoE combine 4096", moe_combine, like(TOKENS, 2, 4096), like(TOKENS, 2))
layer(
    "embedding norm 768",
    embedding_norm,
    like(50257, 768, grad=False),
    like(1024, 768, grad=False),
    like(32, 1024, below=50257),
    like(768, grad=False),
    like(768, grad=False),
)

# ---------------------------------------------------------------------------------------- images


def batch_norm_relu(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, var, weight, bias, training=True))


def batch_norm_add_relu(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, shortcut: Tensor
) -> Tensor:
    """torchvision, the end of a Bottleneck."""
    return F.relu(F.batch_norm(x, mean, var, weight, bias, training=True) + shortcut)


def batch_norm_inference(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> Tensor:
    return F.relu(F.batch_norm(x, mean, var, weight, bias, training=False))


def group_norm_silu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """diffusers, the beginning of a ResnetBlock2D."""
    return F.silu(F.group_norm(x, 32, weight, bias, 1e-5))


def instance_norm_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.instance_norm(x, weight=weight, bias=bias))


def modulated_group_norm(x: Tensor, both: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """openai/guided-diffusion, ResBlock with use_scale_shift_norm; `both` is a projection."""
    h = F.group_norm(x.float(), 32, weight, bias).type(x.dtype)
    scale, shift = torch.chunk(both[..., None, None], 2, dim=1)
    return F.silu(h * (1 + scale) + shift)


def convnext_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """torchvision, LayerNorm2d: over the channels of [batch, channels, height, width]."""
    return layer_norm(x.permute(0, 2, 3, 1), weight, bias).permute(0, 3, 1, 2)


def squeeze_excitation(x: Tensor, scale: Tensor) -> Tensor:
    return x * torch.sigmoid(scale)


def bias_add_relu(x: Tensor, bias: Tensor, shortcut: Tensor) -> Tensor:
    return F.relu(x + bias.view(1, -1, 1, 1) + shortcut)


def statistics(channels: int) -> tuple[Input, ...]:
    """Weight, bias, running mean and variance."""
    weight = like(channels, dtype=F32)
    return (
        weight,
        weight,
        like(channels, dtype=F32, grad=False),
        like(channels, dtype=F32, grad=False, positive=True),
    )


for channels, side in ((64, 56), (256, 28), (512, 7)):
    for last in (False, True):
        batch = 64 if channels == 64 else 128
        order = " channels last" if last else ""
        image = like(batch, channels, side, side, channels_last=last)
        layer(
            f"batch norm ReLU {channels} {side}{order}",
            batch_norm_relu,
            image,
            *statistics(channels),
        )
image = like(64, 1024, 14, 14, channels_last=True)
layer("batch norm add ReLU 1024 14", batch_norm_add_relu, image, *statistics(1024), image)
layer(
    "batch norm inference 256 56",
    batch_norm_inference,
    like(32, 256, 56, 56, dtype=F32, grad=False),
    *[like(256, dtype=F32, grad=False, positive=True)] * 4,
)
layer("group norm SiLU 320 64", group_norm_silu, like(8, 320, 64, 64), like(320), like(320))
layer("group norm SiLU 1280 16", group_norm_silu, like(16, 1280, 16, 16), like(1280), like(1280))
layer(
    "ADM group norm 384 32",
    modulated_group_norm,
    like(16, 384, 32, 32),
    like(16, 768),
    *[like(384, dtype=F32)] * 2,
)
layer("instance norm ReLU 64 56", instance_norm_relu, like(64, 64, 56, 56), like(64), like(64))
layer(
    "ConvNeXt norm 192 28",
    convnext_norm,
    like(128, 192, 28, 28, channels_last=True),
    like(192),
    like(192),
)
layer(
    "ConvNeXt norm 192 28 channels first",
    convnext_norm,
    like(128, 192, 28, 28),
    like(192),
    like(192),
)
layer(
    "squeeze and excitation 96 56",
    squeeze_excitation,
    like(64, 96, 56, 56, channels_last=True),
    like(64, 96, 1, 1),
)
image = like(64, 256, 56, 56, channels_last=True)
layer("bias add ReLU 256 56", bias_add_relu, image, like(256), image)
layer("mean over pixels 2048 7", lambda x: x.mean((2, 3)), like(256, 2048, 7, 7))

# --------------------------------------------------------------------------------------- optimizers


def adam_step(*tensors: Tensor) -> list[Tensor]:
    """torch.optim.AdamW's formulas for several parameters; p, g, m and v of each in turn."""
    updated = []
    for p, g, m, v in zip(*[iter(tensors)] * 4, strict=True):
        p = p * (1 - 1e-3 * 0.01)
        m = m.lerp(g, 1 - 0.9)
        v = v * 0.999 + (1 - 0.999) * g * g
        denominator = v.sqrt() / math.sqrt(1 - 0.999**10) + 1e-8
        updated += [p - 1e-3 / (1 - 0.9**10) * (m / denominator), m, v]
    return updated


def gpt2_parameters(layers: int) -> Sequence[tuple[int, ...]]:
    shapes: list[tuple[int, ...]] = []
    for _ in range(layers):
        shapes += [(768,), (768,), (2304, 768), (2304,), (768, 768), (768,)]
        shapes += [(768,), (768,), (3072, 768), (3072,), (768, 3072), (768,)]
    return shapes


def adam_inputs(shapes: Sequence[tuple[int, ...]]) -> tuple[Input, ...]:
    plain = {"dtype": F32, "grad": False}
    return tuple(
        like(*shape, **plain, positive=position == 3) for shape in shapes for position in range(4)
    )


layer("AdamW step, 100 tensors", adam_step, *adam_inputs(gpt2_parameters(9)[:100]))
layer("AdamW step, one tensor", adam_step, *adam_inputs([(50257, 768)]))
layer(
    "moving average",
    lambda average, p: average * 0.999 + p * (1 - 0.999),
    like(4096, 14336, dtype=F32, grad=False),
    like(4096, 14336, dtype=BF16, grad=False),
)
layer("sum of squares", lambda g: g.float().square().sum(), like(4096, 14336, grad=False))
layer("bias gradient 12345", lambda g: g.sum(0), like(TOKENS // 2, 12345, grad=False))
