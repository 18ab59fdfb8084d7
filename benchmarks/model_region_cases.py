# SPDX-License-Identifier: BSD-3-Clause
"""More whole regions of models (blocks, layers, heads with losses) as their own code spells them.

Written blind: nothing was known of the compiler, and nothing was tuned for them. The products are
part of the graphs, and attention is the eager kind: two products with a softmax between them.
Weights are normal numbers, which `dense` brings down to the size that initialisation gives. Where
training draws dropout or stochastic depth, what was drawn is an input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from layer_cases import BF16, F32, Input, Layer, Tensor, given, like, weights

MODEL_REGION_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    MODEL_REGION_LAYERS.append(Layer(name, function, inputs))


def matrices(*shapes: tuple[int, ...], dtype: torch.dtype = BF16) -> tuple[Input, ...]:
    return tuple(like(*shape, dtype=dtype) for shape in shapes)


def affine(*shapes: tuple[int, int], dtype: torch.dtype = BF16) -> tuple[Input, ...]:
    """For each shape the weight of a linear layer, and then its bias."""
    sizes: list[tuple[int, ...]] = []
    for shape in shapes:
        sizes += [shape, shape[:1]]
    return matrices(*sizes, dtype=dtype)


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer whose weight is as small as its initialisation makes it."""
    return F.linear(x, weight * weight.shape[1] ** -0.5, bias)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def frequencies(length: int, width: int, x: Tensor, base: float = 10000.0) -> Tensor:
    """The angles of rotary embeddings, [length, width / 2]."""
    steps = torch.arange(0, width, 2, dtype=torch.int64, device=x.device).float() / width
    positions = torch.arange(length, device=x.device, dtype=F32)
    return torch.outer(positions, 1.0 / (base**steps))


def rotate_half(x: Tensor) -> Tensor:
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def eager_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scaling: float) -> Tensor:
    """transformers, eager_attention_forward with repeat_kv; the heads come back side by side."""
    batch, heads, length, width = q.shape
    groups = heads // k.shape[1]
    if groups > 1:
        k = k[:, :, None].expand(batch, -1, groups, length, width).reshape(q.shape)
        v = v[:, :, None].expand(batch, -1, groups, length, width).reshape(q.shape)
    scores = torch.matmul(q, k.transpose(2, 3)) * scaling
    scores = scores + mask
    scores = F.softmax(scores, dim=-1, dtype=F32).to(q.dtype)
    mixed = torch.matmul(scores, v).transpose(1, 2).contiguous()
    return mixed.reshape(batch, length, -1).contiguous()


def triangle(length: int, x: Tensor) -> Tensor:
    """transformers, the causal mask that is added to scores."""
    mask = torch.full((length, length), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)
    return torch.triu(mask, diagonal=1)[None, None, :, :]


# ---------------------------------------------------------------------------------------- language


def olmo2_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.to(F32)
    variance = h.pow(2).mean(-1, keepdim=True)
    h = h * torch.rsqrt(variance + 1e-6)
    return (weight * h).to(x.dtype)


def olmo2_layer(x: Tensor, *parameters: Tensor) -> Tensor:
    """transformers, Olmo2DecoderLayer of OLMo 2 1B: norms after the branches, and of q and k."""
    wq, wk, wv, wo, gate, up, down, q_weight, k_weight, attn_weight, mlp_weight = parameters
    batch, length, _ = x.shape
    q = olmo2_norm(dense(x, wq), q_weight).view(batch, length, -1, 128).transpose(1, 2)
    k = olmo2_norm(dense(x, wk), k_weight).view(batch, length, -1, 128).transpose(1, 2)
    v = dense(x, wv).view(batch, length, -1, 128).transpose(1, 2)
    freqs = frequencies(length, 128, x, 500000.0)
    emb = torch.cat((freqs, freqs), dim=-1)[None, None]
    cos, sin = emb.cos(), emb.sin()
    q = (q * cos + rotate_half(q) * sin).to(x.dtype)
    k = (k * cos + rotate_half(k) * sin).to(x.dtype)
    h = dense(eager_attention(q, k, v, triangle(length, x), 128**-0.5), wo)
    x = x + olmo2_norm(h, attn_weight)
    h = dense(F.silu(dense(x, gate)) * dense(x, up), down)
    return x + olmo2_norm(h, mlp_weight)


layer(
    "olmo2_layer",
    olmo2_layer,
    like(2, 2048, 2048),
    *matrices(*[(2048, 2048)] * 4, (8192, 2048), (8192, 2048), (2048, 8192)),
    *weights(2048, 2048, 2048, 2048),
)


def cohere_norm(x: Tensor, weight: Tensor) -> Tensor:
    """transformers, CohereLayerNorm."""
    h = x.to(F32)
    mean = h.mean(-1, keepdim=True)
    variance = (h - mean).pow(2).mean(-1, keepdim=True)
    h = (h - mean) * torch.rsqrt(variance + 1e-5)
    h = weight.to(F32) * h
    return h.to(x.dtype)


def cohere_rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    h = x.float()
    turned = torch.stack([-h[..., 1::2], h[..., ::2]], dim=-1).flatten(-2)
    return (h * cos + turned * sin).to(dtype=x.dtype)


def cohere_layer(
    x: Tensor,
    weight: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    wo: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
) -> Tensor:
    """transformers, CohereDecoderLayer of Aya 23 8B: parallel branches, interleaved rotation."""
    batch, length, _ = x.shape
    h = cohere_norm(x, weight)
    q, k, v = (dense(h, w).view(batch, length, -1, 128).transpose(1, 2) for w in (wq, wk, wv))
    emb = torch.repeat_interleave(frequencies(length, 128, x), 2, dim=-1)[None, None]
    cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
    q, k = cohere_rotate(q, cos, sin), cohere_rotate(k, cos, sin)
    attended = dense(eager_attention(q, k, v, triangle(length, x), 128**-0.5), wo)
    mlp = dense(F.silu(dense(h, gate)) * dense(h, up), down)
    return x + attended + mlp


layer(
    "cohere_layer",
    cohere_layer,
    like(1, 2048, 4096),
    like(4096),
    *matrices((4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096)),
    *matrices((14336, 4096), (14336, 4096), (4096, 14336)),
)


def gemma3_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * (1.0 + weight.float())).type_as(x)


def gemma3_layer(x: Tensor, *parameters: Tensor) -> Tensor:
    """transformers, Gemma3DecoderLayer of Gemma 3 1B with its sliding window of 512."""
    wq, wk, wv, wo, gate, up, down, *norms = parameters
    batch, length, _ = x.shape
    h = gemma3_norm(x, norms[0])
    q = dense(h, wq).view(batch, length, -1, 256).transpose(1, 2)
    k = dense(h, wk).view(batch, length, -1, 256).transpose(1, 2)
    v = dense(h, wv).view(batch, length, -1, 256).transpose(1, 2)
    q, k = gemma3_norm(q, norms[4]), gemma3_norm(k, norms[5])
    freqs = frequencies(length, 256, x)
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = emb.cos().to(x.dtype)[None, None], emb.sin().to(x.dtype)[None, None]
    q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
    q_index = torch.arange(length, device=x.device)[:, None]
    kv_index = torch.arange(length, device=x.device)[None, :]
    seen = (kv_index > q_index - 512) & (kv_index <= q_index)
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    mask = torch.where(seen, zero, torch.finfo(x.dtype).min)[None, None]
    h = dense(eager_attention(q, k, v, mask, 256**-0.5), wo)
    x = x + gemma3_norm(h, norms[1])
    h = gemma3_norm(x, norms[2])
    h = dense(F.gelu(dense(h, gate), approximate="tanh") * dense(h, up), down)
    return x + gemma3_norm(h, norms[3])


layer(
    "gemma3_layer",
    gemma3_layer,
    like(4, 2048, 1152),
    *matrices((1024, 1152), (256, 1152), (256, 1152), (1152, 1024)),
    *matrices((6912, 1152), (6912, 1152), (1152, 6912)),
    *weights(1152, 1152, 1152, 1152, 256, 256),
)


def deepseek_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.to(F32)
    variance = h.pow(2).mean(-1, keepdim=True)
    return weight * (h * torch.rsqrt(variance + 1e-6)).to(x.dtype)


def deepseek_rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The pairs are brought apart first."""
    batch, heads, length, width = x.shape
    x = x.view(batch, heads, length, width // 2, 2).transpose(4, 3).reshape(x.shape)
    return x * cos + rotate_half(x) * sin


def deepseek_mla_layer(x: Tensor, *parameters: Tensor) -> Tensor:
    """deepseek-ai, the first layer of DeepSeek V2 Lite: latent attention and a dense MLP."""
    weight, wq, kv_a, kv_weight, kv_b, wo, mlp_weight, gate, up, down = parameters
    batch, length, _ = x.shape
    h = deepseek_norm(x, weight)
    q = dense(h, wq).view(batch, length, 16, 192).transpose(1, 2)
    q_nope, q_pe = torch.split(q, [128, 64], dim=-1)
    compressed, k_pe = torch.split(dense(h, kv_a), [512, 64], dim=-1)
    k_pe = k_pe.view(batch, length, 1, 64).transpose(1, 2)
    kv = dense(deepseek_norm(compressed, kv_weight), kv_b)
    kv = kv.view(batch, length, 16, 256).transpose(1, 2)
    k_nope, v = torch.split(kv, [128, 128], dim=-1)
    freqs = frequencies(length, 64, x)
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
    q_pe, k_pe = deepseek_rotate(q_pe, cos, sin), deepseek_rotate(k_pe, cos, sin)
    q = torch.cat([q_nope, q_pe], dim=-1)
    k = torch.cat([k_nope, k_pe.expand(-1, 16, -1, -1)], dim=-1)
    scale = 192**-0.5 * (0.1 * 0.707 * math.log(40) + 1.0) ** 2
    scores = torch.matmul(q, k.transpose(2, 3)) * scale + triangle(length, x)
    shares = F.softmax(scores, dim=-1, dtype=F32).to(x.dtype)
    mixed = torch.matmul(shares, v).transpose(1, 2).contiguous()
    x = x + dense(mixed.reshape(batch, length, 16 * 128), wo)
    h = deepseek_norm(x, mlp_weight)
    return x + dense(F.silu(dense(h, gate)) * dense(h, up), down)


layer(
    "deepseek_mla_layer",
    deepseek_mla_layer,
    like(2, 2048, 2048),
    like(2048),
    *matrices((3072, 2048), (576, 2048)),
    like(512),
    *matrices((4096, 512), (2048, 2048)),
    like(2048),
    *matrices((10944, 2048), (10944, 2048), (2048, 10944)),
)


def granite_dense_experts(
    x: Tensor, weight: Tensor, router: Tensor, gate_up: Tensor, down: Tensor
) -> tuple[Tensor, Tensor]:
    """The experts of Granite 3.0 1B A400M, all of them computed, routed as Mixtral routes.

    With the residual multiplier of Granite and the load balancing loss of Mixtral.
    """
    variance = x.to(F32).pow(2).mean(-1, keepdim=True)
    h = weight * (x.to(F32) * torch.rsqrt(variance + 1e-6)).to(x.dtype)
    flat = h.view(-1, h.shape[-1])
    probabilities = F.softmax(dense(flat, router), dim=1, dtype=F32)
    chosen, _ = torch.topk(probabilities, 8, dim=-1)
    mask = probabilities >= chosen[:, -1:]
    routing = torch.where(mask, probabilities, 0.0)
    routing = (routing / routing.sum(dim=-1, keepdim=True)).to(x.dtype)
    both = torch.einsum("td,edf->tef", flat, gate_up * gate_up.shape[1] ** -0.5)
    gate, up = both.chunk(2, dim=-1)
    hidden = F.silu(gate) * up * routing.unsqueeze(-1)
    out = torch.einsum("tef,efd->td", hidden, down * down.shape[1] ** -0.5)
    balance = torch.sum(mask.float().mean(dim=0) * probabilities.mean(dim=0)) * router.shape[0]
    return x + out.view(x.shape) * 0.22, 0.001 * balance


layer(
    "granite_dense_experts",
    granite_dense_experts,
    like(2, 2048, 1024),
    like(1024),
    *matrices((32, 1024), (32, 1024, 1024), (32, 512, 1024)),
)


def modernbert_layer(x: Tensor, tokens: Tensor, *parameters: Tensor) -> Tensor:
    """transformers, ModernBertEncoderLayer of the base size with local attention; token 0 pads."""
    attn_weight, wqkv, wo, mlp_weight, wi, w_out = parameters
    batch, length, width = x.shape
    qkv = dense(layer_norm(x, attn_weight), wqkv).view(batch, -1, 3, 12, 64)
    q, k, v = qkv.transpose(3, 1).unbind(dim=2)
    freqs = frequencies(length, 64, x)
    emb = torch.cat((freqs, freqs), dim=-1)[None]
    cos, sin = emb.cos().to(x.dtype).unsqueeze(1), emb.sin().to(x.dtype).unsqueeze(1)
    q, k = (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)
    least = torch.finfo(x.dtype).min
    inverted = 1.0 - (tokens > 0)[:, None, None, :].expand(batch, 1, length, length).to(x.dtype)
    global_mask = inverted.masked_fill(inverted.to(torch.bool), least)
    rows = torch.arange(length, device=x.device).unsqueeze(0)
    window = (torch.abs(rows - rows.T) <= 64).unsqueeze(0).unsqueeze(0)
    mask = global_mask.masked_fill(window.logical_not(), least)
    weights_ = torch.matmul(q, k.transpose(2, 3)) * 64**-0.5
    weights_ = F.softmax(weights_ + mask, dim=-1, dtype=F32).to(q.dtype)
    mixed = torch.matmul(weights_, v).transpose(1, 2).contiguous().view(batch, -1, width)
    x = x + dense(mixed, wo)
    h, gate = dense(layer_norm(x, mlp_weight), wi).chunk(2, dim=-1)
    return x + dense(F.gelu(h) * gate, w_out)


layer(
    "modernbert_layer",
    modernbert_layer,
    like(4, 2048, 768),
    given(4, 2048, below=9),
    like(768),
    *matrices((2304, 768), (768, 768)),
    like(768),
    *matrices((2304, 768), (768, 1152)),
)


def conv1d(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """transformers, Conv1D: the weight lies the other way."""
    size_out = (*x.size()[:-1], weight.shape[1])
    weight = weight * weight.shape[0] ** -0.5
    return torch.addmm(bias, x.view(-1, x.size(-1)), weight).view(size_out)


def dropped(x: Tensor, drawn: Tensor) -> Tensor:
    """Dropout of one tenth with what was drawn, 0 to 9."""
    return x * (drawn > 0).to(x.dtype) * (1.0 / 0.9)


def gpt2_block(x: Tensor, drop_a: Tensor, drop_b: Tensor, drop_c: Tensor, *p: Tensor) -> Tensor:
    """transformers, GPT2Block of GPT-2 medium in training: `torch.where` masks, NewGELU."""
    ln1, ln1_bias, ln2, ln2_bias, attn, attn_bias, proj, proj_bias, up, up_bias, down, bias = p
    batch, length, width = x.shape
    h = conv1d(layer_norm(x, ln1, ln1_bias), attn, attn_bias)
    q, k, v = torch.split(h, width, dim=2)
    q, k, v = (t.view(batch, length, 16, 64).permute(0, 2, 1, 3) for t in (q, k, v))
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores / torch.full([], 64**0.5, dtype=x.dtype, device=x.device)
    causal = torch.tril(torch.ones((length, length), dtype=torch.bool, device=x.device))
    value = torch.full([], torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)
    scores = torch.where(causal.view(1, 1, length, length), scores, value)
    shares = dropped(F.softmax(scores, dim=-1).type(v.dtype), drop_a)
    mixed = torch.matmul(shares, v).permute(0, 2, 1, 3).contiguous().view(batch, length, width)
    x = dropped(conv1d(mixed, proj, proj_bias), drop_b) + x
    h = conv1d(layer_norm(x, ln2, ln2_bias), up, up_bias)
    cubed = h + 0.044715 * torch.pow(h, 3.0)
    h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubed))
    return x + dropped(conv1d(h, down, bias), drop_c)


layer(
    "gpt2_block",
    gpt2_block,
    like(8, 1024, 1024),
    given(8, 16, 1024, 1024, below=2, dtype=torch.bool),
    given(8, 1024, 1024, below=2, dtype=torch.bool),
    given(8, 1024, 1024, below=2, dtype=torch.bool),
    *weights(1024, 1024, 1024, 1024),
    like(1024, 3072),
    like(3072),
    like(1024, 1024),
    like(1024),
    like(1024, 4096),
    like(4096),
    like(4096, 1024),
    like(1024),
)


def segment_sum(x: Tensor) -> Tensor:
    """transformers, segment_sum of Mamba 2: sums of the entries between two positions."""
    size = x.size(-1)
    x = x[..., None].expand(*x.size(), size)
    ones = torch.ones(size, size, device=x.device, dtype=torch.bool)
    x = x.masked_fill(~torch.tril(ones, diagonal=-1), 0)
    sums = torch.cumsum(x, dim=-2)
    return sums.masked_fill(~torch.tril(ones, diagonal=0), -torch.inf)


def mamba2_block(x: Tensor, *parameters: Tensor) -> Tensor:
    """state-spaces, Mamba 2 370M in chunks of 256 (ssd_minimal); the convolution as four shifts."""
    weight, w_in, conv, conv_bias, dt_bias, a_log, d, gate_weight, w_out = parameters
    batch, length, _ = x.shape
    heads, size, state, chunk = 32, 64, 128, 256
    h = x.float()
    h = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5) * weight).to(x.dtype)
    z, xbc, dt = torch.split(dense(h, w_in), [2048, 2304, heads], dim=-1)
    padded = F.pad(xbc, (0, 0, 3, 0))
    taps = [padded[:, i : i + length] * conv[:, i] for i in range(4)]
    xbc = F.silu(taps[0] + taps[1] + taps[2] + taps[3] + conv_bias)
    u, b, c = torch.split(xbc, [2048, state, state], dim=-1)
    dt = F.softplus(dt.float() + dt_bias.float())
    u = u.reshape(batch, length, heads, size).float()
    skip = d.float()[:, None] * u
    a = (-torch.exp(a_log.float()) * dt).reshape(batch, -1, chunk, heads).permute(0, 3, 1, 2)
    u = (u * dt[..., None]).reshape(batch, -1, chunk, heads, size)
    b = b.reshape(batch, -1, chunk, state).float()
    c = c.reshape(batch, -1, chunk, state).float()
    a_cumsum = torch.cumsum(a, dim=-1)
    within = torch.einsum("bcln,bcsn->bcls", c, b).unsqueeze(1) * torch.exp(segment_sum(a))
    y_diagonal = torch.einsum("bhcls,bcshp->bclhp", within, u)
    decay = torch.exp(a_cumsum[:, :, :, -1:] - a_cumsum).permute(0, 2, 3, 1)
    states = torch.einsum("bcln,bclhp->bchpn", b, u * decay[..., None])
    states = torch.cat([torch.zeros_like(states[:, :1]), states], dim=1)
    decay_chunk = torch.exp(segment_sum(F.pad(a_cumsum[:, :, :, -1], (1, 0))))
    states = torch.einsum("bhzc,bchpn->bzhpn", decay_chunk, states)[:, :-1]
    y_off = torch.einsum("bcln,bchpn->bclhp", c, states)
    y_off = y_off * torch.exp(a_cumsum).permute(0, 2, 3, 1)[..., None]
    y = (y_diagonal + y_off).reshape(batch, length, heads, size) + skip
    y = y.reshape(batch, length, -1) * F.silu(z.to(F32))
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
    return x + dense(gate_weight * y.to(x.dtype), w_out)


layer(
    "mamba2_block",
    mamba2_block,
    like(2, 4096, 1024),
    like(1024),
    *matrices((4384, 1024), (2304, 4)),
    *weights(2304, 32, 32, 32, 2048),
    like(1024, 2048),
)


# ------------------------------------------------------------------------------------------ vision


def convnextv2_block(
    x: Tensor,
    convolved: Tensor,
    kept: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    gamma: Tensor,
    beta: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """facebookresearch, Block of ConvNeXt V2 Base after its convolution, with GRN and drop path."""
    h = F.layer_norm(convolved, (convolved.shape[-1],), norm_weight, norm_bias, 1e-6)
    h = F.gelu(dense(h, up, up_bias))
    gx = torch.norm(h, p=2, dim=(1, 2), keepdim=True)
    nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
    h = gamma * (h * nx) + beta + h
    h = dense(h, down, down_bias)
    return x + h.div(0.9) * (kept > 0)


layer(
    "convnextv2_block",
    convnextv2_block,
    like(64, 28, 28, 256),
    like(64, 28, 28, 256),
    given(64, 1, 1, 1, below=10),
    *weights(256, 256),
    *affine((1024, 256)),
    *matrices((1, 1, 1, 1024), (1, 1, 1, 1024)),
    *affine((256, 1024)),
)


def mixer_block(x: Tensor, *parameters: Tensor) -> Tensor:
    """timm, MixerBlock of Mixer B/16: one MLP over the tokens, one over the channels."""
    n1, n1_bias, t1, t1_bias, t2, t2_bias, n2, n2_bias, c1, c1_bias, c2, c2_bias = parameters
    h = layer_norm(x, n1, n1_bias, 1e-6).transpose(1, 2)
    h = dense(F.gelu(dense(h, t1, t1_bias)), t2, t2_bias)
    x = x + h.transpose(1, 2)
    h = layer_norm(x, n2, n2_bias, 1e-6)
    return x + dense(F.gelu(dense(h, c1, c1_bias)), c2, c2_bias)


layer(
    "mixer_block",
    mixer_block,
    like(32, 196, 768, dtype=F32),
    *weights(768, 768, dtype=F32),
    *affine((384, 196), (196, 384), dtype=F32),
    *weights(768, 768, dtype=F32),
    *affine((3072, 768), (768, 3072), dtype=F32),
)


def maxvit_grid_block(x: Tensor, relative: Tensor, *parameters: Tensor) -> Tensor:
    """timm, PartitionAttentionCl of MaxViT Base, second stage, with the partition into a grid.

    The bias of relative positions is what the lookup in its table gives.
    """
    n1, n1_bias, wqkv, qkv_bias, wo, o_bias, n2, n2_bias, up, up_bias, down, down_bias = parameters
    batch, height, width, channels = x.shape
    rows, columns = height // 7, width // 7
    h = layer_norm(x, n1, n1_bias)
    h = h.view(batch, 7, rows, 7, columns, channels)
    h = h.permute(0, 2, 4, 1, 3, 5).contiguous().view(-1, 7, 7, channels)
    qkv = dense(h, wqkv, qkv_bias).view(h.shape[0], -1, channels // 32, 96).transpose(1, 2)
    q, k, v = qkv.chunk(3, dim=3)
    q = q * 32**-0.5
    attn = q @ k.transpose(-2, -1)
    attn = attn + relative.unsqueeze(0)
    attn = attn.softmax(dim=-1)
    h = (attn @ v).transpose(1, 2).reshape(h.shape)
    h = dense(h, wo, o_bias)
    h = h.view(batch, rows, columns, 7, 7, channels)
    x = x + h.permute(0, 3, 1, 4, 2, 5).contiguous().view(batch, height, width, channels)
    h = layer_norm(x, n2, n2_bias)
    return x + dense(F.gelu(dense(h, up, up_bias)), down, down_bias)


layer(
    "maxvit_grid_block",
    maxvit_grid_block,
    like(64, 28, 28, 192),
    like(6, 49, 49),
    *weights(192, 192),
    *affine((576, 192), (192, 192)),
    *weights(192, 192),
    *affine((768, 192), (192, 768)),
)


def pvt_block(x: Tensor, *parameters: Tensor) -> Tensor:
    """whai362, Block of PVT Small, second stage at 512 x 512: keys and values of every 4 x 4.

    The convolution that reduces has strides of its size, so it is a product with the patches.
    """
    n1, n1_bias, wq, q_bias, reduce, reduce_bias, sr, sr_bias, wkv, kv_bias = parameters[:10]
    wo, o_bias, n2, n2_bias, up, up_bias, down, down_bias = parameters[10:]
    b, n, c = x.shape
    h = layer_norm(x, n1, n1_bias, 1e-6)
    q = dense(h, wq, q_bias).reshape(b, n, 2, c // 2).permute(0, 2, 1, 3)
    image = h.permute(0, 2, 1).reshape(b, c, 16, 4, 16, 4)
    patches = image.permute(0, 2, 4, 1, 3, 5).reshape(b, 256, c * 16)
    reduced = layer_norm(dense(patches, reduce, reduce_bias), sr, sr_bias)
    kv = dense(reduced, wkv, kv_bias).reshape(b, -1, 2, 2, c // 2).permute(2, 0, 3, 1, 4)
    k, v = kv[0], kv[1]
    attn = (q @ k.transpose(-2, -1)) * (c // 2) ** -0.5
    attn = attn.softmax(dim=-1)
    x = x + dense((attn @ v).transpose(1, 2).reshape(b, n, c), wo, o_bias)
    h = layer_norm(x, n2, n2_bias, 1e-6)
    return x + dense(F.gelu(dense(h, up, up_bias)), down, down_bias)


layer(
    "pvt_block",
    pvt_block,
    like(16, 4096, 128),
    *weights(128, 128),
    *affine((128, 128), (128, 2048)),
    *weights(128, 128),
    *affine((256, 128), (128, 128)),
    *weights(128, 128),
    *affine((1024, 128), (128, 1024)),
)


def sam_window_block(x: Tensor, rows: Tensor, columns: Tensor, *parameters: Tensor) -> Tensor:
    """facebookresearch, Block of SAM ViT-B with windows of 14 and decomposed relative positions.

    The positions are what the lookups in the two tables give.
    """
    n1, n1_bias, wqkv, qkv_bias, wo, o_bias, n2, n2_bias, up, up_bias, down, down_bias = parameters
    batch, height, width, c = x.shape
    window, heads = 14, 12
    pad_h = (window - height % window) % window
    pad_w = (window - width % window) % window
    h = F.pad(layer_norm(x, n1, n1_bias, 1e-6), (0, 0, 0, pad_w, 0, pad_h))
    hp, wp = height + pad_h, width + pad_w
    h = h.view(batch, hp // window, window, wp // window, window, c)
    h = h.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window, window, c)
    b, area = h.shape[0], window * window
    qkv = dense(h, wqkv, qkv_bias).reshape(b, area, 3, heads, -1).permute(2, 0, 3, 1, 4)
    q, k, v = qkv.reshape(3, b * heads, area, -1).unbind(0)
    attn = (q * 64**-0.5) @ k.transpose(-2, -1)
    r_q = q.reshape(b * heads, window, window, -1)
    rel_h = torch.einsum("bhwc,hkc->bhwk", r_q, rows)
    rel_w = torch.einsum("bhwc,wkc->bhwk", r_q, columns)
    attn = attn.view(b * heads, window, window, window, window)
    attn = attn + rel_h[:, :, :, :, None] + rel_w[:, :, :, None, :]
    attn = attn.view(b * heads, area, area).softmax(dim=-1)
    h = (attn @ v).view(b, heads, window, window, -1).permute(0, 2, 3, 1, 4)
    h = dense(h.reshape(b, window, window, -1), wo, o_bias)
    h = h.view(batch, hp // window, wp // window, window, window, -1)
    h = h.permute(0, 1, 3, 2, 4, 5).contiguous().view(batch, hp, wp, -1)
    x = x + h[:, :height, :width, :].contiguous()
    h = layer_norm(x, n2, n2_bias, 1e-6)
    return x + dense(F.gelu(dense(h, up, up_bias)), down, down_bias)


layer(
    "sam_window_block",
    sam_window_block,
    like(4, 64, 64, 768),
    like(14, 14, 64),
    like(14, 14, 64),
    *weights(768, 768),
    *affine((2304, 768), (768, 768)),
    *weights(768, 768),
    *affine((3072, 768), (768, 3072)),
)


def hiera_block(x: Tensor, *parameters: Tensor) -> Tensor:
    """timm, HieraBlock of Hiera Base where the second stage begins: queries pooled by four."""
    n1, n1_bias, proj, proj_bias, wqkv, qkv_bias, wo, o_bias = parameters[:8]
    n2, n2_bias, up, up_bias, down, down_bias = parameters[8:]
    batch, length, _ = x.shape
    heads, stride, windows = 2, 4, length // 64
    normed = layer_norm(x, n1, n1_bias, 1e-6)
    x = dense(normed, proj, proj_bias).view(batch, stride, -1, 192).amax(dim=1)
    qkv = dense(normed, wqkv, qkv_bias).reshape(batch, -1, windows, 3, heads, 96)
    q, k, v = qkv.permute(3, 0, 4, 2, 1, 5).unbind(0)
    q = q.view(batch, heads, windows, stride, -1, 96).amax(dim=3)
    q = q * 96**-0.5
    attn = q @ k.transpose(-1, -2)
    attn = attn.softmax(dim=-1)
    h = (attn @ v).transpose(1, 3).reshape(batch, -1, 192)
    x = x + dense(h, wo, o_bias)
    h = layer_norm(x, n2, n2_bias, 1e-6)
    return x + dense(F.gelu(dense(h, up, up_bias)), down, down_bias)


layer(
    "hiera_block",
    hiera_block,
    like(32, 3136, 96),
    *weights(96, 96),
    *affine((192, 96), (576, 96), (192, 192)),
    *weights(192, 192),
    *affine((768, 192), (192, 768)),
)


# ------------------------------------------------------------------------------- audio and speech


def relative_shift(x: Tensor) -> Tensor:
    """NVIDIA NeMo, RelPositionMultiHeadAttention.rel_shift."""
    b, h, length, positions = x.size()
    x = F.pad(x, pad=(1, 0))
    x = x.view(b, h, -1, length)
    return x[:, :, 1:].view(b, h, length, positions)


def conformer_block(x: Tensor, lengths: Tensor, positions: Tensor, *parameters: Tensor) -> Tensor:
    """NVIDIA NeMo, ConformerLayer of Conformer-CTC Large without its convolution module."""
    n1, n1_bias, f1, f1_bias, f2, f2_bias, na, na_bias, wq, q_bias, wk, k_bias = parameters[:12]
    wv, v_bias, wo, o_bias, wp, bias_u, bias_v, n2, n2_bias = parameters[12:21]
    f3, f3_bias, f4, f4_bias, out, out_bias = parameters[21:]
    b, t, width = x.shape
    h = dense(F.silu(dense(layer_norm(x, n1, n1_bias), f1, f1_bias)), f2, f2_bias)
    x = x + h * 0.5
    h = layer_norm(x, na, na_bias)
    q = dense(h, wq, q_bias).view(b, -1, 8, 64)
    k = dense(h, wk, k_bias).view(b, -1, 8, 64).transpose(1, 2)
    v = dense(h, wv, v_bias).view(b, -1, 8, 64).transpose(1, 2)
    p = dense(positions, wp).view(1, -1, 8, 64).transpose(1, 2)
    with_u, with_v = (q + bias_u).transpose(1, 2), (q + bias_v).transpose(1, 2)
    matrix_ac = torch.matmul(with_u, k.transpose(-2, -1))
    matrix_bd = relative_shift(torch.matmul(with_v, p.transpose(-2, -1)))
    scores = (matrix_ac + matrix_bd[:, :, :, : matrix_ac.size(-1)]) / math.sqrt(64)
    inside = torch.arange(t, device=x.device).expand(b, -1) < (lengths + t // 2).unsqueeze(-1)
    square = inside.unsqueeze(1).repeat([1, t, 1])
    hidden = ~torch.logical_and(square, square.transpose(1, 2)).unsqueeze(1)
    scores = scores.masked_fill(hidden, -10000.0)
    shares = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    mixed = torch.matmul(shares, v).transpose(1, 2).reshape(b, -1, width)
    x = x + dense(mixed, wo, o_bias)
    h = dense(F.silu(dense(layer_norm(x, n2, n2_bias), f3, f3_bias)), f4, f4_bias)
    x = x + h * 0.5
    return layer_norm(x, out, out_bias)


layer(
    "conformer_block",
    conformer_block,
    like(8, 1024, 512),
    given(8, below=513),
    given(1, 2047, 512),
    *weights(512, 512),
    *affine((2048, 512), (512, 2048)),
    *weights(512, 512),
    *affine(*[(512, 512)] * 4),
    *matrices((512, 512), (1, 1, 8, 64), (1, 1, 8, 64)),
    *weights(512, 512),
    *affine((2048, 512), (512, 2048)),
    *weights(512, 512),
)


def wavlm_layer(x: Tensor, lengths: Tensor, bias: Tensor, *parameters: Tensor) -> Tensor:
    """WavLMEncoderLayer of the base size: a layer of wav2vec 2.0 with gated position biases."""
    gru, gru_bias, const, wq, q_bias, wk, k_bias, wv, v_bias, wo, o_bias = parameters[:11]
    n1, n1_bias, up, up_bias, down, down_bias, n2, n2_bias = parameters[11:]
    batch, length, width = x.shape
    gated = x.view(batch, length, 12, -1).permute(0, 2, 1, 3)
    relative = dense(gated, gru, gru_bias)
    relative = relative.view((*gated.shape[:-1], 2, 4)).sum(-1)
    gate_a, gate_b = torch.sigmoid(relative).chunk(2, dim=-1)
    gate = gate_a * (gate_b * const - 1.0) + 2.0
    bias = bias.unsqueeze(0).repeat(batch, 1, 1, 1).view(batch * 12, length, length)
    bias = (gate.view(batch * 12, -1, 1) * bias).view((-1, length, length))
    q = (dense(x, wq, q_bias) * 64**-0.5).contiguous().view(batch, length, 12, 64)
    k = dense(x, wk, k_bias).contiguous().view(batch, length, 12, 64)
    v = dense(x, wv, v_bias).contiguous().view(batch, length, 12, 64)
    q, k, v = (t.transpose(1, 2).reshape(batch * 12, length, 64) for t in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)) + bias
    padding = torch.arange(length, device=x.device)[None, :] >= (lengths + 300)[:, None]
    scores = scores.view(batch, 12, length, length)
    scores = scores.masked_fill(padding.unsqueeze(1).unsqueeze(2), float("-inf"))
    shares = F.softmax(scores.view(batch * 12, length, length), dim=-1)
    mixed = torch.bmm(shares, v).view(batch, 12, length, 64).transpose(1, 2)
    x = layer_norm(x + dense(mixed.reshape(batch, length, width), wo, o_bias), n1, n1_bias)
    h = x + dense(F.gelu(dense(x, up, up_bias)), down, down_bias)
    return layer_norm(h, n2, n2_bias)


layer(
    "wavlm_layer",
    wavlm_layer,
    like(10, 499, 768, dtype=F32),
    given(10, below=200),
    like(12, 499, 499, dtype=F32),
    like(8, 64, dtype=F32),
    like(8, dtype=F32),
    like(1, 12, 1, 1, dtype=F32),
    *affine(*[(768, 768)] * 4, dtype=F32),
    *weights(768, 768, dtype=F32),
    *affine((3072, 768), (768, 3072), dtype=F32),
    *weights(768, 768, dtype=F32),
)


def audiomae_decoder_tail(
    x: Tensor, patches: Tensor, drawn: Tensor, *parameters: Tensor
) -> tuple[Tensor, Tensor]:
    """facebookresearch, AudioMAE: the last block of its decoder, the prediction and the loss."""
    n1, n1_bias, wqkv, qkv_bias, wo, o_bias, n2, n2_bias, up, up_bias = parameters[:10]
    down, down_bias, n3, n3_bias, predict, predict_bias = parameters[10:]
    b, n, c = x.shape
    h = layer_norm(x, n1, n1_bias, 1e-6)
    qkv = dense(h, wqkv, qkv_bias).reshape(b, n, 3, 16, c // 16).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    attn = (q @ k.transpose(-2, -1)) * (c // 16) ** -0.5
    h = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c)
    x = x + dense(h, wo, o_bias)
    h = layer_norm(x, n2, n2_bias, 1e-6)
    x = x + dense(F.gelu(dense(h, up, up_bias)), down, down_bias)
    pred = dense(layer_norm(x, n3, n3_bias, 1e-6), predict, predict_bias)[:, 1:, :]
    mean = patches.mean(dim=-1, keepdim=True)
    var = patches.var(dim=-1, keepdim=True)
    target = (patches - mean) / (var + 1.0e-6) ** 0.5
    loss = ((pred - target) ** 2).mean(dim=-1)
    mask = (drawn > 0).to(loss.dtype)
    return (loss * mask).sum() / mask.sum(), pred


layer(
    "audiomae_decoder_tail",
    audiomae_decoder_tail,
    like(8, 513, 512, dtype=F32),
    given(8, 512, 256, dtype=F32),
    given(8, 512, below=5),
    *weights(512, 512, dtype=F32),
    *affine((1536, 512), (512, 512), dtype=F32),
    *weights(512, 512, dtype=F32),
    *affine((2048, 512), (512, 2048), dtype=F32),
    *weights(512, 512, dtype=F32),
    *affine((256, 512), dtype=F32),
)


# -------------------------------------------------------------------------------------- diffusion


def sd3_joint_block(
    x: Tensor, context: Tensor, temb: Tensor, *parameters: Tensor
) -> tuple[Tensor, Tensor]:
    """diffusers, JointTransformerBlock of Stable Diffusion 3 medium: image and text attend."""
    names = iter(parameters)
    batch, length, width = x.shape
    streams = []
    for stream in (x, context):
        modulation = dense(F.silu(temb), next(names), next(names)).chunk(6, dim=1)
        shift, scale, *later = modulation
        h = layer_norm(stream, eps=1e-6) * (1 + scale[:, None]) + shift[:, None]
        qkv = [dense(h, next(names), next(names)) for _ in range(3)]
        streams.append(([t.view(batch, -1, 24, 64).transpose(1, 2) for t in qkv], later))
    q, k, v = (
        torch.cat([mine, other], dim=2)
        for mine, other in zip(streams[0][0], streams[1][0], strict=True)
    )
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(64)
    h = torch.matmul(torch.softmax(scores, dim=-1), v)
    h = h.transpose(1, 2).reshape(batch, -1, width).to(q.dtype)
    outputs = []
    for stream, (_, later), part in (
        (x, streams[0], h[:, :length]),
        (context, streams[1], h[:, length:]),
    ):
        gate, shift_mlp, scale_mlp, gate_mlp = later
        stream = stream + gate.unsqueeze(1) * dense(part, next(names), next(names))
        hidden = layer_norm(stream, eps=1e-6)
        hidden = hidden * (1 + scale_mlp[:, None]) + shift_mlp[:, None]
        hidden = F.gelu(dense(hidden, next(names), next(names)), approximate="tanh")
        hidden = dense(hidden, next(names), next(names))
        outputs.append(stream + gate_mlp.unsqueeze(1) * hidden)
    return outputs[0], outputs[1]


layer(
    "sd3_joint_block",
    sd3_joint_block,
    like(4, 1024, 1536),
    like(4, 333, 1536),
    like(4, 1536),
    *affine((9216, 1536), *[(1536, 1536)] * 3),
    *affine((9216, 1536), *[(1536, 1536)] * 3),
    *affine((1536, 1536), (6144, 1536), (1536, 6144)),
    *affine((1536, 1536), (6144, 1536), (1536, 6144)),
)


def flux_rope(x: Tensor, freqs: Tensor) -> Tensor:
    pairs = x.float().reshape(*x.shape[:-1], -1, 1, 2)
    out = freqs[..., 0] * pairs[..., 0] + freqs[..., 1] * pairs[..., 1]
    return out.reshape(*x.shape).type_as(x)


def flux_norm(x: Tensor, scale: Tensor) -> Tensor:
    h = x.float()
    rrms = torch.rsqrt(torch.mean(h**2, dim=-1, keepdim=True) + 1e-6)
    return (h * rrms).to(dtype=x.dtype) * scale


def flux_single_block(
    x: Tensor,
    vec: Tensor,
    angles: Tensor,
    lin: Tensor,
    lin_bias: Tensor,
    linear1: Tensor,
    bias1: Tensor,
    q_scale: Tensor,
    k_scale: Tensor,
    linear2: Tensor,
    bias2: Tensor,
) -> Tensor:
    """black-forest-labs, SingleStreamBlock of FLUX.1: one product in, one out."""
    batch, length, width = x.shape
    shift, scale, gate = dense(F.silu(vec), lin, lin_bias)[:, None, :].chunk(3, dim=-1)
    cos, sin = torch.cos(angles), torch.sin(angles)
    pe = torch.stack([cos, -sin, sin, cos], dim=-1)
    pe = pe.reshape(*angles.shape, 2, 2).float().unsqueeze(1)
    modulated = (1 + scale) * layer_norm(x, eps=1e-6) + shift
    qkv, mlp = torch.split(dense(modulated, linear1, bias1), [3 * width, 4 * width], dim=-1)
    q, k, v = qkv.reshape(batch, length, 3, 24, 128).permute(2, 0, 3, 1, 4)
    q, k = flux_norm(q, q_scale).to(v), flux_norm(k, k_scale).to(v)
    q, k = flux_rope(q, pe), flux_rope(k, pe)
    shares = torch.softmax(q @ k.transpose(-1, -2) * 128**-0.5, dim=-1)
    attn = (shares @ v).permute(0, 2, 1, 3).reshape(batch, length, width)
    joined = torch.cat((attn, F.gelu(mlp, approximate="tanh")), 2)
    return x + gate * dense(joined, linear2, bias2)


layer(
    "flux_single_block",
    flux_single_block,
    like(2, 1536, 3072),
    like(2, 3072),
    given(1, 1536, 64, dtype=F32),
    *affine((9216, 3072), (21504, 3072)),
    *weights(128, 128),
    *affine((3072, 15360)),
)


def latent_attention(
    x: Tensor, context: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor, bias: Tensor
) -> Tensor:
    """CompVis, CrossAttention of latent diffusion: heads beside the batch."""
    b, n, width = x.shape

    def split(t: Tensor) -> Tensor:
        t = t.reshape(b, t.shape[1], width // 64, 64).permute(0, 2, 1, 3)
        return t.reshape(-1, t.shape[2], 64)

    q, k, v = split(dense(x, wq)), split(dense(context, wk)), split(dense(context, wv))
    sim = torch.einsum("b i d, b j d -> b i j", q, k) * 64**-0.5
    out = torch.einsum("b i j, b j d -> b i d", sim.softmax(dim=-1), v)
    out = out.reshape(b, -1, n, 64).permute(0, 2, 1, 3).reshape(b, n, width)
    return dense(out, wo, bias)


def unet_transformer(image: Tensor, context: Tensor, *parameters: Tensor) -> Tensor:
    """Stability AI, SpatialTransformer of SDXL at 32 x 32: self and cross attention, then GEGLU."""
    gn, gn_bias, w_in, in_bias, n1, n1_bias, n2, n2_bias, n3, n3_bias = parameters[:10]
    own, cross = parameters[10:15], parameters[15:20]
    up, up_bias, down, down_bias, w_out, out_bias = parameters[20:]
    b, c, height, width = image.shape
    h = F.group_norm(image, 32, gn, gn_bias, 1e-6)
    x = h.permute(0, 2, 3, 1).reshape(b, height * width, c).contiguous()
    x = dense(x, w_in, in_bias)
    h = layer_norm(x, n1, n1_bias)
    x = latent_attention(h, h, *own) + x
    x = latent_attention(layer_norm(x, n2, n2_bias), context, *cross) + x
    h, gate = dense(layer_norm(x, n3, n3_bias), up, up_bias).chunk(2, dim=-1)
    x = dense(h * F.gelu(gate), down, down_bias) + x
    x = dense(x, w_out, out_bias)
    return x.reshape(b, height, width, c).permute(0, 3, 1, 2).contiguous() + image


layer(
    "unet_transformer",
    unet_transformer,
    like(4, 1280, 32, 32),
    given(4, 77, 2048),
    *weights(1280, 1280),
    *affine((1280, 1280)),
    *weights(*[1280] * 6),
    *matrices(*[(1280, 1280)] * 4),
    like(1280),
    *matrices((1280, 1280), (1280, 2048), (1280, 2048), (1280, 1280)),
    like(1280),
    *affine((10240, 1280), (1280, 5120), (1280, 1280)),
)


# ------------------------------------------------------------------------------ heads and science


def z_loss_head(x: Tensor, tokens: Tensor, head: Tensor) -> tuple[Tensor, Tensor]:
    """allenai, the head of OLMo 1B with label smoothing and z-loss; a sixteenth is not scored."""
    h = layer_norm(x.to(F32)).to(x.dtype)
    logits = dense(h, head)
    shifted = logits[..., :-1, :].contiguous().view(-1, head.shape[0]).float()
    labels = torch.where(tokens % 16 == 0, -100, tokens)[..., 1:].contiguous().view(-1)
    cross = F.cross_entropy(shifted, labels, ignore_index=-100, label_smoothing=0.1)
    scored = labels != -100
    z_squared = shifted.logsumexp(-1).pow(2)
    z_loss = 1e-4 * (z_squared * scored).sum() / scored.sum()
    return cross, z_loss


layer(
    "z_loss_head",
    z_loss_head,
    like(2, 1024, 2048),
    given(2, 1024, below=50304),
    like(50304, 2048),
)


def token_log_probabilities(logits: Tensor, tokens: Tensor, scored: Tensor) -> Tensor:
    """trl, DPOTrainer.get_batch_logps."""
    logits, labels, mask = logits[:, :-1, :].float(), tokens[:, 1:], scored[:, 1:]
    labels = torch.where(mask, labels, 0)
    picked = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (picked * mask).sum(-1)


def dpo_head(
    chosen: Tensor,
    rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    chosen_tokens: Tensor,
    rejected_tokens: Tensor,
    prompts: Tensor,
    weight: Tensor,
    head: Tensor,
    reference_weight: Tensor,
    reference_head: Tensor,
) -> Tensor:
    """trl, DPO on the heads of SmolLM2 360M and its reference, with smoothing of 0.1."""
    pairs = chosen.shape[0]
    tokens = torch.cat((chosen_tokens, rejected_tokens), dim=0)
    places = torch.arange(tokens.shape[1], device=tokens.device)[None, :]
    scored = places >= torch.cat((prompts, prompts), dim=0)[:, None]
    h = torch.cat((chosen, rejected), dim=0)
    h = F.rms_norm(h, h.shape[-1:], weight, 1e-5)
    policy = token_log_probabilities(dense(h, head), tokens, scored)
    with torch.no_grad():
        h = torch.cat((reference_chosen, reference_rejected), dim=0)
        h = F.rms_norm(h, h.shape[-1:], reference_weight, 1e-5)
        reference = token_log_probabilities(dense(h, reference_head), tokens, scored)
    chosen_ratio = policy[:pairs] - reference[:pairs]
    rejected_ratio = policy[pairs:] - reference[pairs:]
    logits = 0.1 * (chosen_ratio - rejected_ratio)
    losses = -F.logsigmoid(logits) * (1 - 0.1) - F.logsigmoid(-logits) * 0.1
    return losses.mean()


layer(
    "dpo_head",
    dpo_head,
    *matrices((2, 512, 960), (2, 512, 960)),
    given(2, 512, 960),
    given(2, 512, 960),
    given(2, 512, below=49152),
    given(2, 512, below=49152),
    given(2, below=256),
    like(960),
    like(49152, 960),
    given(960),
    given(49152, 960),
)


def evoformer_row_attention(m: Tensor, z: Tensor, drawn: Tensor, *parameters: Tensor) -> Tensor:
    """OpenFold, MSARowAttentionWithPairBias and MSATransition of AlphaFold's training crop."""
    nm, nm_bias, nz, nz_bias, wz, wq, wk, wv, wg, g_bias, wo, o_bias = parameters[:12]
    nt, nt_bias, up, up_bias, down, down_bias = parameters[12:]
    mask = (drawn > 0).to(m.dtype)
    h = layer_norm(m, nm, nm_bias)
    mask_bias = (1e9 * (mask - 1))[..., :, None, None, :]
    pair_bias = dense(layer_norm(z, nz, nz_bias), wz).permute(2, 0, 1).unsqueeze(-4)
    q, k, v = dense(h, wq), dense(h, wk), dense(h, wv)
    q, k, v = (t.view((*t.shape[:-1], 8, -1)).transpose(-2, -3) for t in (q, k, v))
    q = q / math.sqrt(32)
    a = torch.matmul(q, k.permute(0, 1, 3, 2))
    a = a + mask_bias
    a = a + pair_bias
    a = torch.softmax(a, -1)
    o = torch.matmul(a, v).transpose(-2, -3)
    g = torch.sigmoid(dense(h, wg, g_bias))
    o = o * g.view((*g.shape[:-1], 8, -1))
    m = m + dense(o.reshape((*o.shape[:-2], 256)), wo, o_bias)
    h = torch.relu(dense(layer_norm(m, nt, nt_bias), up, up_bias))
    return m + dense(h, down, down_bias) * mask.unsqueeze(-1)


layer(
    "evoformer_row_attention",
    evoformer_row_attention,
    like(128, 256, 256),
    like(256, 256, 128),
    given(128, 256, below=12),
    *weights(256, 256, 128, 128),
    *matrices((8, 128), (256, 256), (256, 256), (256, 256)),
    *affine((256, 256), (256, 256)),
    *weights(256, 256),
    *affine((1024, 256), (256, 1024)),
)


def edge_graph_layer(
    h: Tensor, e: Tensor, drawn: Tensor, *parameters: Tensor
) -> tuple[Tensor, Tensor]:
    """shamim-hussain, EGT_Layer: attention among all nodes that edges bias, gate and learn from."""
    nh, nh_bias, ne, ne_bias, wqkv, qkv_bias, we, e_bias, wg, g_bias = parameters[:10]
    woh, oh_bias, woe, oe_bias, fh, fh_bias, fe, fe_bias = parameters[10:18]
    h1, h1_bias, h2, h2_bias, e1, e1_bias, e2, e2_bias = parameters[18:]
    b, n, width = h.shape
    mask = torch.where(drawn > 0, 0.0, -1e9)[:, None, :, None]
    normed, edges = layer_norm(h, nh, nh_bias), layer_norm(e, ne, ne_bias)
    qkv = dense(normed, wqkv, qkv_bias)
    bias, gate = dense(edges, we, e_bias), dense(edges, wg, g_bias)
    q, k, v = torch.split(qkv.view(b, n, -1, 32), width // 32, dim=2)
    scores = torch.einsum("bldh,bmdh->blmh", q, k) * (width // 32) ** -0.5
    scores = scores.clamp(-5, 5) + bias
    gates = torch.sigmoid(gate + mask)
    shares = F.softmax(scores + mask, dim=2) * gates
    mixed = torch.einsum("blmh,bmkh->blkh", shares, v)
    mixed = mixed * torch.log(1 + torch.sum(gates, dim=2, keepdim=True))
    h = dense(mixed.reshape(b, n, width), woh, oh_bias) + h
    e = dense(scores, woe, oe_bias) + e
    normed, edges = layer_norm(h, fh, fh_bias), layer_norm(e, fe, fe_bias)
    h = dense(F.elu(dense(normed, h1, h1_bias)), h2, h2_bias) + h
    return h, dense(F.elu(dense(edges, e1, e1_bias)), e2, e2_bias) + e


layer(
    "edge_graph_layer",
    edge_graph_layer,
    like(48, 56, 768, dtype=F32),
    like(48, 56, 56, 64, dtype=F32),
    given(48, 56, below=8),
    *weights(768, 768, 64, 64, dtype=F32),
    *affine((2304, 768), (32, 64), (32, 64), (768, 768), (64, 32), dtype=F32),
    *weights(768, 768, 64, 64, dtype=F32),
    *affine((768, 768), (768, 768), (64, 64), (64, 64), dtype=F32),
)
