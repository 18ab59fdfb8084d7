# SPDX-License-Identifier: BSD-3-Clause
"""Whole regions of models (blocks, decoder layers, heads with losses) as their code spells them.

Written blind: nothing was known of the compiler, and nothing was tuned for them. The products are
part of the graphs, and attention is the eager kind: two products with a softmax between them.
Weights are normal numbers, which `scaled` brings down to the size that initialisation gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from layer_cases import BF16, F32, Input, Layer, Tensor, given, like, weights

REGION_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    REGION_LAYERS.append(Layer(name, function, inputs))


def scaled(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear layer whose weight is as small as its initialisation makes it."""
    return F.linear(x, weight * weight.shape[1] ** -0.5, bias)


def norm(x: Tensor, weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def llama_norm(x: Tensor, weight: Tensor) -> Tensor:
    """transformers, LlamaRMSNorm and Qwen3RMSNorm."""
    hidden = x.to(F32)
    variance = hidden.pow(2).mean(-1, keepdim=True)
    hidden = hidden * torch.rsqrt(variance + 1e-6)
    return weight * hidden.to(x.dtype)


def rotary_tables(
    length: int, width: int, like_tensor: Tensor, base: float = 10000.0
) -> tuple[Tensor, Tensor]:
    """transformers, LlamaRotaryEmbedding: cosine and sine, [1, length, width]."""
    device = like_tensor.device
    exponents = torch.arange(0, width, 2, dtype=torch.int64, device=device).float() / width
    inverse = 1.0 / (base**exponents)
    positions = torch.arange(length, device=device)[None, :]
    angles = (inverse[None, :, None] @ positions[:, None, :].float()).transpose(1, 2)
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().to(like_tensor.dtype), both.sin().to(like_tensor.dtype)


def rotate_half(x: Tensor) -> Tensor:
    first = x[..., : x.shape[-1] // 2]
    second = x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """transformers, apply_rotary_pos_emb of Llama."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def repeat_kv(x: Tensor, times: int) -> Tensor:
    batch, heads, length, width = x.shape
    x = x[:, :, None, :, :].expand(batch, heads, times, length, width)
    return x.reshape(batch, heads * times, length, width)


def causal_bias(length: int, x: Tensor) -> Tensor:
    """What transformers adds to scores: the least number above the diagonal."""
    least = torch.finfo(x.dtype).min
    mask = torch.full((length, length), least, dtype=x.dtype, device=x.device)
    return torch.triu(mask, diagonal=1)[None, None, :, :]


def drop_path(x: Tensor, p: float) -> Tensor:
    """Stochastic depth as timm and transformers have it, with `floor` in place of `floor_`."""
    keep = 1 - p
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random = keep + torch.rand(shape, dtype=x.dtype, device=x.device)
    return x.div(keep) * random.floor()


# ---------------------------------------------------------------------------------- decoder blocks


def pythia_block(
    x: Tensor,
    attention_weight: Tensor,
    attention_bias: Tensor,
    mlp_weight: Tensor,
    mlp_bias: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor,
    dense: Tensor,
    dense_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """transformers, GPTNeoXLayer with the parallel residual of Pythia 1.4B."""
    batch, length, width = x.shape
    size, turned = 128, 32
    h = norm(x, attention_weight, attention_bias)
    packed = scaled(h, qkv, qkv_bias).view(batch, length, -1, 3 * size).transpose(1, 2)
    q, k, v = packed.chunk(3, dim=-1)
    cos, sin = rotary_tables(length, turned, x)
    q_turned, k_turned = rotate(q[..., :turned], k[..., :turned], cos, sin)
    q = torch.cat((q_turned, q[..., turned:]), dim=-1)
    k = torch.cat((k_turned, k[..., turned:]), dim=-1)
    scores = torch.matmul(q, k.transpose(2, 3)) * size**-0.5
    scores = scores + causal_bias(length, scores)
    shares = F.softmax(scores, dim=-1, dtype=F32).to(q.dtype)
    mixed = torch.matmul(shares, v).transpose(1, 2).contiguous().reshape(batch, length, width)
    attended = scaled(mixed, dense, dense_bias)
    h = F.gelu(scaled(norm(x, mlp_weight, mlp_bias), up, up_bias))
    return scaled(h, down, down_bias) + attended + x


layer(
    "pythia_block",
    pythia_block,
    like(2, 1024, 2048),
    *weights(2048, 2048, 2048, 2048),
    like(6144, 2048),
    like(6144),
    like(2048, 2048),
    like(2048),
    like(8192, 2048),
    like(8192),
    like(2048, 8192),
    like(2048),
)


def gemma_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (h * (1.0 + weight.float())).type_as(x)


def gemma2_block(
    x: Tensor,
    before_attention: Tensor,
    after_attention: Tensor,
    before_mlp: Tensor,
    after_mlp: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    wo: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
) -> Tensor:
    """transformers, Gemma2DecoderLayer at 2B: capped scores, norms before and after."""
    batch, length, _ = x.shape
    size = 256
    residual = x
    h = gemma_norm(x, before_attention)
    q = scaled(h, wq).view(batch, length, -1, size).transpose(1, 2)
    k = scaled(h, wk).view(batch, length, -1, size).transpose(1, 2)
    v = scaled(h, wv).view(batch, length, -1, size).transpose(1, 2)
    cos, sin = rotary_tables(length, size, x)
    q, k = rotate(q, k, cos, sin)
    groups = q.shape[1] // k.shape[1]
    k, v = repeat_kv(k, groups), repeat_kv(v, groups)
    scores = torch.matmul(q, k.transpose(2, 3)) * 256**-0.5
    scores = scores / 50.0
    scores = torch.tanh(scores)
    scores = scores * 50.0
    scores = scores + causal_bias(length, scores)
    shares = F.softmax(scores, dim=-1, dtype=F32).to(q.dtype)
    mixed = torch.matmul(shares, v).transpose(1, 2).contiguous()
    h = scaled(mixed.reshape(batch, length, -1), wo)
    x = residual + gemma_norm(h, after_attention)
    residual = x
    h = gemma_norm(x, before_mlp)
    h = scaled(F.gelu(scaled(h, gate), approximate="tanh") * scaled(h, up), down)
    return residual + gemma_norm(h, after_mlp)


layer(
    "gemma2_block",
    gemma2_block,
    like(2, 768, 2304),
    *weights(2304, 2304, 2304, 2304),
    like(2048, 2304),
    like(1024, 2304),
    like(1024, 2304),
    like(2304, 2048),
    like(9216, 2304),
    like(9216, 2304),
    like(2304, 9216),
)


def qwen3_block(
    x: Tensor,
    before_attention: Tensor,
    before_mlp: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    wo: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
) -> Tensor:
    """transformers, Qwen3DecoderLayer at 1.7B: queries and keys normed by head."""
    batch, length, _ = x.shape
    size = q_norm.shape[0]
    shape = (batch, length, -1, size)
    h = llama_norm(x, before_attention)
    q = llama_norm(scaled(h, wq).view(shape), q_norm).transpose(1, 2)
    k = llama_norm(scaled(h, wk).view(shape), k_norm).transpose(1, 2)
    v = scaled(h, wv).view(shape).transpose(1, 2)
    cos, sin = rotary_tables(length, size, x, base=1000000.0)
    q, k = rotate(q, k, cos, sin)
    groups = q.shape[1] // k.shape[1]
    k, v = repeat_kv(k, groups), repeat_kv(v, groups)
    scores = torch.matmul(q, k.transpose(2, 3)) * size**-0.5
    scores = scores + causal_bias(length, scores)
    shares = F.softmax(scores, dim=-1, dtype=F32).to(q.dtype)
    mixed = torch.matmul(shares, v).transpose(1, 2).contiguous()
    x = x + scaled(mixed.reshape(batch, length, -1).contiguous(), wo)
    h = llama_norm(x, before_mlp)
    return x + scaled(F.silu(scaled(h, gate)) * scaled(h, up), down)


layer(
    "qwen3_block",
    qwen3_block,
    like(2, 1024, 2048),
    *weights(2048, 2048, 128, 128),
    like(2048, 2048),
    like(1024, 2048),
    like(1024, 2048),
    like(2048, 2048),
    like(6144, 2048),
    like(6144, 2048),
    like(2048, 6144),
)


def rotate_every_two(x: Tensor) -> Tensor:
    first, second = x[:, :, :, ::2], x[:, :, :, 1::2]
    return torch.stack((-second, first), dim=-1).flatten(-2)


def turn_pairs(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
    sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[:, :, None, :], 2, 3)
    return (x * cos) + (rotate_every_two(x) * sin)


def codegen_block(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    qkv: Tensor,
    out: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """transformers, CodeGenBlock at 2B: one norm, interleaved rotary, scores in float32."""
    batch, length, width = x.shape
    size, turned, parts = 80, 64, 4
    heads = width // size
    h = norm(x, norm_weight, norm_bias)
    packed = scaled(h, qkv).reshape(batch, length, parts, -1)
    q, v, k = torch.split(packed, width // parts, dim=-1)
    shape = (batch, length, heads, size)
    q = q.reshape(batch, length, parts, heads // parts, size).reshape(shape)
    k = k.reshape(batch, length, parts, heads // parts, size).reshape(shape)
    v = v.reshape(batch, length, parts, heads // parts, size).reshape(shape).permute(0, 2, 1, 3)
    steps = torch.arange(0, turned, 2, dtype=torch.int64, device=x.device)
    inverse = 1.0 / (10000 ** (steps / turned))
    positions = torch.arange(length, dtype=torch.int64, device=x.device).float()
    angles = (positions[:, None] * inverse[None, :])[None]
    sin, cos = torch.sin(angles).to(x.dtype), torch.cos(angles).to(x.dtype)
    k = torch.cat([turn_pairs(k[..., :turned], sin, cos), k[..., turned:]], dim=-1)
    q = torch.cat([turn_pairs(q[..., :turned], sin, cos), q[..., turned:]], dim=-1)
    k, q = k.permute(0, 2, 1, 3).to(F32), q.permute(0, 2, 1, 3).to(F32)
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(size)
    seen = torch.ones((length, length), dtype=torch.bool, device=x.device).tril()
    least = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype, device=x.device)
    scores = torch.where(seen[None, None], scores, least)
    shares = F.softmax(scores, dim=-1).to(v.dtype)
    mixed = torch.matmul(shares, v).permute(0, 2, 1, 3).contiguous().view(batch, length, width)
    attended = F.dropout(scaled(mixed, out), 0.1, training=True)
    h = scaled(h, up, up_bias)
    cubic = h + 0.044715 * torch.pow(h, 3.0)
    h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubic))
    h = F.dropout(scaled(h, down, down_bias), 0.1, training=True)
    return attended + h + x


layer(
    "codegen_block",
    codegen_block,
    like(2, 768, 2560),
    *weights(2560, 2560),
    like(7680, 2560),
    like(2560, 2560),
    like(10240, 2560),
    like(10240),
    like(2560, 10240),
    like(2560),
)


def falcon_block(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    qkv: Tensor,
    dense: Tensor,
    up: Tensor,
    down: Tensor,
) -> Tensor:
    """transformers, FalconDecoderLayer at 7B: 71 query heads and one of keys and values."""
    batch, length, width = x.shape
    size = 64
    heads = width // size
    h = norm(x, norm_weight, norm_bias)
    packed = scaled(h, qkv).view(batch, length, heads + 2, size)
    q, k, v = packed.split((heads, 1, 1), dim=2)
    q = q.transpose(1, 2).reshape(batch, heads, length, size)
    k = k.transpose(1, 2).reshape(batch, 1, length, size)
    v = v.transpose(1, 2).reshape(batch, 1, length, size)
    cos, sin = rotary_tables(length, size, x)
    q, k = rotate(q, k, cos, sin)
    scores = q @ k.transpose(-1, -2)
    scores = scores / math.sqrt(size)
    shares = F.softmax(scores + causal_bias(length, scores), dim=-1, dtype=x.dtype)
    mixed = (shares @ v).view(batch, heads, length, size).permute(0, 2, 1, 3)
    attended = scaled(mixed.reshape(batch, length, width), dense)
    h = scaled(F.gelu(scaled(h, up)), down)
    h = h + attended
    return x + h


layer(
    "falcon_block",
    falcon_block,
    like(1, 777, 4544),
    *weights(4544, 4544),
    like(4672, 4544),
    like(4544, 4544),
    like(18176, 4544),
    like(4544, 18176),
)


def bloom_block(
    x: Tensor,
    first_weight: Tensor,
    first_bias: Tensor,
    second_weight: Tensor,
    second_bias: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor,
    dense: Tensor,
    dense_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """transformers, BloomBlock at 1.1B: alibi goes into the product of scores."""
    batch, length, width = x.shape
    heads = 16
    size = width // heads
    powers = torch.arange(1, 1 + heads, device=x.device, dtype=torch.int32)
    base = torch.tensor(2 ** (-(2 ** -(math.log2(heads) - 3))), device=x.device, dtype=F32)
    slopes = torch.pow(base, powers)
    positions = torch.arange(length, device=x.device)[None, None, :].expand(batch, 1, length)
    alibi = slopes[..., None] * positions
    alibi = alibi.reshape(batch * heads, 1, length).to(x.dtype)
    h = norm(x, first_weight, first_bias)
    packed = scaled(h, qkv, qkv_bias).view(batch, length, heads, 3, size)
    q = packed[..., 0, :].transpose(1, 2).reshape(batch * heads, length, size)
    k = packed[..., 1, :].transpose(1, 2).reshape(batch * heads, length, size).transpose(-1, -2)
    v = packed[..., 2, :].transpose(1, 2).reshape(batch * heads, length, size)
    scores = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=1.0 / math.sqrt(size))
    scores = scores.view(batch, heads, length, -1) + causal_bias(length, scores)
    shares = F.softmax(scores, dim=-1, dtype=F32).to(q.dtype)
    shares = F.dropout(shares, 0.1, training=True).view(batch * heads, length, -1)
    mixed = torch.bmm(shares, v).view(batch, heads, length, size).permute(0, 2, 1, 3)
    h = scaled(mixed.reshape(batch, length, width), dense, dense_bias)
    x = x + F.dropout(h, 0.1, training=True)
    h = scaled(norm(x, second_weight, second_bias), up, up_bias)
    h = h * 0.5 * (1.0 + torch.tanh(0.79788456 * h * (1 + 0.044715 * h * h)))
    return x + F.dropout(scaled(h, down, down_bias), 0.1, training=True)


layer(
    "bloom_block",
    bloom_block,
    like(2, 1024, 1536),
    *weights(1536, 1536, 1536, 1536),
    like(4608, 1536),
    like(4608),
    like(1536, 1536),
    like(1536),
    like(6144, 1536),
    like(6144),
    like(1536, 6144),
    like(1536),
)


# ----------------------------------------------------------------------- encoders, cross attention


def t5_norm(x: Tensor, weight: Tensor) -> Tensor:
    variance = x.to(F32).pow(2).mean(-1, keepdim=True)
    h = x * torch.rsqrt(variance + 1e-6)
    return weight * h.to(weight.dtype)


def t5_buckets(length: int, device: torch.device) -> Tensor:
    """transformers, T5Attention._relative_position_bucket, both directions, 32 to 128 apart."""
    context = torch.arange(length, dtype=torch.long, device=device)[:, None]
    memory = torch.arange(length, dtype=torch.long, device=device)[None, :]
    distance = memory - context
    half = 16
    buckets = (distance > 0).to(torch.long) * half
    distance = torch.abs(distance)
    exact = half // 2
    far = torch.log(distance.float() / exact) / math.log(128 / exact) * (half - exact)
    large = exact + far.to(torch.long)
    large = torch.min(large, torch.full_like(large, half - 1))
    return buckets + torch.where(distance < exact, distance, large)


def t5_encoder_block(
    x: Tensor,
    first: Tensor,
    second: Tensor,
    bias_table: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    wo: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
) -> Tensor:
    """transformers, T5Block of an encoder at v1.1 base, the one that owns the relative bias."""
    batch, length, _ = x.shape
    size = 64
    h = t5_norm(x, first)
    q = scaled(h, wq * size**-0.5).view(batch, -1, 12, size).transpose(1, 2)
    k = scaled(h, wk).view(batch, -1, 12, size).transpose(1, 2)
    v = scaled(h, wv).view(batch, -1, 12, size).transpose(1, 2)
    scores = torch.matmul(q, k.transpose(3, 2))
    bias = F.embedding(t5_buckets(length, x.device), bias_table).permute([2, 0, 1]).unsqueeze(0)
    scores = scores + bias
    shares = F.softmax(scores.float(), dim=-1).type_as(scores)
    shares = F.dropout(shares, p=0.1, training=True)
    mixed = torch.matmul(shares, v).transpose(1, 2).contiguous().view(batch, -1, 12 * size)
    x = x + F.dropout(scaled(mixed, wo), p=0.1, training=True)
    h = t5_norm(x, second)
    wide = scaled(h, gate)
    cubic = wide + 0.044715 * torch.pow(wide, 3.0)
    wide = 0.5 * wide * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubic))
    h = F.dropout(wide * scaled(h, up), p=0.1, training=True)
    return x + F.dropout(scaled(h, down), p=0.1, training=True)


layer(
    "t5_encoder_block",
    t5_encoder_block,
    like(8, 512, 768),
    *weights(768, 768),
    like(32, 12),
    like(768, 768),
    like(768, 768),
    like(768, 768),
    like(768, 768),
    like(2048, 768),
    like(2048, 768),
    like(768, 2048),
)


def bert_layer(
    x: Tensor,
    mask: Tensor,
    wq: Tensor,
    bq: Tensor,
    wk: Tensor,
    bk: Tensor,
    wv: Tensor,
    bv: Tensor,
    wo: Tensor,
    bo: Tensor,
    first_weight: Tensor,
    first_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    second_weight: Tensor,
    second_bias: Tensor,
) -> Tensor:
    """transformers, BertLayer at large: norms after the residuals, dropout in three places."""
    size = 64
    shape = (*x.shape[:-1], -1, size)
    extended = mask[:, None, None, :].to(x.dtype)
    extended = (1.0 - extended) * torch.finfo(x.dtype).min
    k = scaled(x, wk, bk).view(shape).permute(0, 2, 1, 3)
    v = scaled(x, wv, bv).view(shape).permute(0, 2, 1, 3)
    q = scaled(x, wq, bq).view(shape).permute(0, 2, 1, 3)
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores / math.sqrt(size)
    scores = scores + extended
    shares = F.dropout(F.softmax(scores, dim=-1), 0.1, training=True)
    mixed = torch.matmul(shares, v).permute(0, 2, 1, 3).contiguous()
    h = F.dropout(scaled(mixed.view(x.shape), wo, bo), 0.1, training=True)
    attended = norm(h + x, first_weight, first_bias, 1e-12)
    h = F.gelu(scaled(attended, up, up_bias))
    h = F.dropout(scaled(h, down, down_bias), 0.1, training=True)
    return norm(h + attended, second_weight, second_bias, 1e-12)


layer(
    "bert_layer",
    bert_layer,
    like(8, 384, 1024),
    given(8, 384, below=2),
    like(1024, 1024),
    like(1024),
    like(1024, 1024),
    like(1024),
    like(1024, 1024),
    like(1024),
    like(1024, 1024),
    like(1024),
    *weights(1024, 1024),
    like(4096, 1024),
    like(4096),
    like(1024, 4096),
    like(1024),
    *weights(1024, 1024),
)


def whisper_attention(
    x: Tensor,
    source: Tensor,
    mask: Tensor | None,
    wq: Tensor,
    bq: Tensor,
    wk: Tensor,
    wv: Tensor,
    bv: Tensor,
    wo: Tensor,
    bo: Tensor,
) -> Tensor:
    """transformers, WhisperAttention: keys have no bias, queries are scaled beforehand."""
    batch, length, width = x.shape
    q = (scaled(x, wq, bq) * 64**-0.5).view(batch, length, -1, 64).transpose(1, 2).contiguous()
    k = scaled(source, wk).view(batch, -1, width // 64, 64).transpose(1, 2).contiguous()
    v = scaled(source, wv, bv).view(batch, -1, width // 64, 64).transpose(1, 2).contiguous()
    scores = torch.matmul(q, k.transpose(2, 3))
    if mask is not None:
        scores = scores + mask
    shares = F.softmax(scores, dim=-1)
    mixed = torch.matmul(shares, v).transpose(1, 2).contiguous()
    return scaled(mixed.reshape(batch, length, width), wo, bo)


def whisper_decoder_layer(
    x: Tensor,
    frames: Tensor,
    first_weight: Tensor,
    first_bias: Tensor,
    second_weight: Tensor,
    second_bias: Tensor,
    third_weight: Tensor,
    third_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    *attentions: Tensor,
) -> Tensor:
    """transformers, WhisperDecoderLayer at medium: 448 tokens look at 1500 frames."""
    h = norm(x, first_weight, first_bias)
    x = x + whisper_attention(h, h, causal_bias(x.shape[1], x), *attentions[:7])
    h = norm(x, second_weight, second_bias)
    x = x + whisper_attention(h, frames, None, *attentions[7:])
    h = norm(x, third_weight, third_bias)
    h = F.gelu(scaled(h, up, up_bias))
    return x + scaled(h, down, down_bias)


WHISPER_ATTENTION = (
    like(1024, 1024),
    like(1024),
    like(1024, 1024),
    like(1024, 1024),
    like(1024),
    like(1024, 1024),
    like(1024),
)
layer(
    "whisper_decoder_layer",
    whisper_decoder_layer,
    like(4, 448, 1024),
    like(4, 1500, 1024),
    *weights(1024, 1024, 1024, 1024, 1024, 1024),
    like(4096, 1024),
    like(4096),
    like(1024, 4096),
    like(1024),
    *WHISPER_ATTENTION,
    *WHISPER_ATTENTION,
)


def detr_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    packed: Tensor,
    packed_bias: Tensor,
    wo: Tensor,
    bo: Tensor,
) -> Tensor:
    """transformers, DetrAttention, heads folded into the batch; weights packed as in torch."""
    batch, length, width = queries.shape
    heads, size = 8, width // 8
    wq, wk, wv = packed.chunk(3)
    bq, bk, bv = packed_bias.chunk(3)
    q = scaled(queries, wq, bq) * size**-0.5
    q = q.view(batch, length, heads, size).transpose(1, 2).reshape(batch * heads, -1, size)
    k = scaled(keys, wk, bk).view(batch, -1, heads, size).transpose(1, 2).contiguous()
    v = scaled(values, wv, bv).view(batch, -1, heads, size).transpose(1, 2).contiguous()
    k, v = k.view(batch * heads, -1, size), v.view(batch * heads, -1, size)
    shares = F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1)
    shares = F.dropout(shares, p=0.1, training=True)
    mixed = torch.bmm(shares, v).view(batch, heads, length, size).transpose(1, 2)
    return scaled(mixed.reshape(batch, length, width), wo, bo)


def detr_decoder_layer(
    x: Tensor,
    memory: Tensor,
    query_positions: Tensor,
    memory_positions: Tensor,
    self_packed: Tensor,
    self_packed_bias: Tensor,
    self_out: Tensor,
    self_out_bias: Tensor,
    cross_packed: Tensor,
    cross_packed_bias: Tensor,
    cross_out: Tensor,
    cross_out_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    *norms: Tensor,
) -> Tensor:
    """facebookresearch/detr, TransformerDecoderLayer.forward_post: 100 queries, float32."""
    turned = x + query_positions
    h = detr_attention(turned, turned, x, self_packed, self_packed_bias, self_out, self_out_bias)
    x = norm(x + F.dropout(h, 0.1, training=True), norms[0], norms[1])
    h = detr_attention(
        x + query_positions,
        memory + memory_positions,
        memory,
        cross_packed,
        cross_packed_bias,
        cross_out,
        cross_out_bias,
    )
    x = norm(x + F.dropout(h, 0.1, training=True), norms[2], norms[3])
    h = F.dropout(F.relu(scaled(x, up, up_bias)), 0.1, training=True)
    h = scaled(h, down, down_bias)
    return norm(x + F.dropout(h, 0.1, training=True), norms[4], norms[5])


layer(
    "detr_decoder_layer",
    detr_decoder_layer,
    like(16, 100, 256, dtype=F32),
    like(16, 850, 256, dtype=F32),
    like(16, 100, 256, dtype=F32),
    given(16, 850, 256, dtype=F32),
    like(768, 256, dtype=F32),
    like(768, dtype=F32),
    like(256, 256, dtype=F32),
    like(256, dtype=F32),
    like(768, 256, dtype=F32),
    like(768, dtype=F32),
    like(256, 256, dtype=F32),
    like(256, dtype=F32),
    like(2048, 256, dtype=F32),
    like(2048, dtype=F32),
    like(256, 2048, dtype=F32),
    like(256, dtype=F32),
    *weights(256, 256, 256, 256, 256, 256, dtype=F32),
)


# ------------------------------------------------------------------------------------------ vision


def vit_layerscale_block(
    x: Tensor,
    first_weight: Tensor,
    first_bias: Tensor,
    first_gamma: Tensor,
    second_weight: Tensor,
    second_bias: Tensor,
    second_gamma: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor,
    proj: Tensor,
    proj_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """timm, Block of DeiT III base under autocast: residuals and weights stay in float32."""
    batch, length, width = x.shape
    heads = 12

    def cast(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weight = weight * weight.shape[1] ** -0.5
        return F.linear(h.to(BF16), weight.to(BF16), bias.to(BF16))

    h = norm(x, first_weight, first_bias, 1e-6)
    packed = cast(h, qkv, qkv_bias).reshape(batch, length, 3, heads, width // heads)
    q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
    q = q * (width // heads) ** -0.5
    shares = (q @ k.transpose(-2, -1)).float().softmax(dim=-1).to(BF16)
    h = (shares @ v).transpose(1, 2).reshape(batch, length, width)
    x = x + drop_path(cast(h, proj, proj_bias) * first_gamma, 0.1)
    h = norm(x, second_weight, second_bias, 1e-6)
    h = F.gelu(cast(h, up, up_bias))
    return x + drop_path(cast(h, down, down_bias) * second_gamma, 0.1)


layer(
    "vit_layerscale_block",
    vit_layerscale_block,
    like(32, 197, 768, dtype=F32),
    *weights(768, 768, 768, 768, 768, 768, dtype=F32),
    like(2304, 768, dtype=F32),
    like(2304, dtype=F32),
    like(768, 768, dtype=F32),
    like(768, dtype=F32),
    like(3072, 768, dtype=F32),
    like(3072, dtype=F32),
    like(768, 3072, dtype=F32),
    like(768, dtype=F32),
)


def dinov2_swiglu_block(
    x: Tensor,
    first_weight: Tensor,
    first_bias: Tensor,
    first_gamma: Tensor,
    second_weight: Tensor,
    second_bias: Tensor,
    second_gamma: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor,
    proj: Tensor,
    proj_bias: Tensor,
    w12: Tensor,
    w12_bias: Tensor,
    w3: Tensor,
    w3_bias: Tensor,
) -> Tensor:
    """facebookresearch/dinov2, Block with SwiGLUFFN of ViT-g/14, a class token, 4 registers."""
    batch, length, width = x.shape
    heads, size = width // 64, 64
    h = norm(x, first_weight, first_bias, 1e-6)
    packed = scaled(h, qkv, qkv_bias).reshape(batch, length, 3, heads, size).permute(2, 0, 3, 1, 4)
    q, k, v = packed[0] * size**-0.5, packed[1], packed[2]
    scores = q @ k.transpose(-2, -1)
    shares = scores.softmax(dim=-1)
    h = (shares @ v).transpose(1, 2).reshape(batch, length, width)
    x = x + scaled(h, proj, proj_bias) * first_gamma
    h = scaled(norm(x, second_weight, second_bias, 1e-6), w12, w12_bias)
    gate, value = h.chunk(2, dim=-1)
    h = scaled(F.silu(gate) * value, w3, w3_bias)
    return x + h * second_gamma


layer(
    "dinov2_swiglu_block",
    dinov2_swiglu_block,
    like(2, 1374, 1536),
    *weights(1536, 1536, 1536, 1536, 1536, 1536),
    like(4608, 1536),
    like(4608),
    like(1536, 1536),
    like(1536),
    like(8192, 1536),
    like(8192),
    like(1536, 4096),
    like(1536),
)


def window_partition(x: Tensor, window: int) -> Tensor:
    batch, height, width, channels = x.shape
    x = x.view(batch, height // window, window, width // window, window, channels)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window, window, channels)


def window_reverse(windows: Tensor, window: int, height: int, width: int) -> Tensor:
    batch = windows.shape[0] // (height // window * (width // window))
    x = windows.view(batch, height // window, width // window, window, window, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(batch, height, width, -1)


def swin_shifted_block(
    x: Tensor,
    index: Tensor,
    mask: Tensor,
    table: Tensor,
    first_weight: Tensor,
    first_bias: Tensor,
    second_weight: Tensor,
    second_bias: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor,
    proj: Tensor,
    proj_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """microsoft/Swin-Transformer, SwinTransformerBlock of the base's third stage, shifted by 3."""
    batch, length, channels = x.shape
    side, window, heads = 14, 7, table.shape[1]
    area = window * window
    h = norm(x, first_weight, first_bias).view(batch, side, side, channels)
    h = torch.roll(h, shifts=(-3, -3), dims=(1, 2))
    h = window_partition(h, window).view(-1, area, channels)
    packed = scaled(h, qkv, qkv_bias).reshape(-1, area, 3, heads, channels // heads)
    packed = packed.permute(2, 0, 3, 1, 4)
    q, k, v = packed[0], packed[1], packed[2]
    q = q * (channels // heads) ** -0.5
    scores = q @ k.transpose(-2, -1)
    bias = F.embedding(index, table).view(area, area, -1).permute(2, 0, 1).contiguous()
    scores = scores + bias.unsqueeze(0)
    windows = mask.shape[0]
    scores = scores.view(-1, windows, heads, area, area) + mask.unsqueeze(1).unsqueeze(0)
    shares = scores.view(-1, heads, area, area).softmax(dim=-1)
    h = (shares @ v).transpose(1, 2).reshape(-1, area, channels)
    h = scaled(h, proj, proj_bias).view(-1, window, window, channels)
    h = window_reverse(h, window, side, side)
    h = torch.roll(h, shifts=(3, 3), dims=(1, 2)).view(batch, length, channels)
    x = x + drop_path(h, 0.3)
    h = F.gelu(scaled(norm(x, second_weight, second_bias), up, up_bias))
    return x + drop_path(scaled(h, down, down_bias), 0.3)


layer(
    "swin_shifted_block",
    swin_shifted_block,
    like(32, 196, 512),
    given(2401, below=169),
    given(4, 49, 49),
    like(169, 16),
    *weights(512, 512, 512, 512),
    like(1536, 512),
    like(1536),
    like(512, 512),
    like(512),
    like(2048, 512),
    like(2048),
    like(512, 2048),
    like(512),
)


def dit_block(
    x: Tensor,
    condition: Tensor,
    modulation: Tensor,
    modulation_bias: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor,
    proj: Tensor,
    proj_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """facebookresearch/DiT, DiTBlock of XL/2: adaLN-Zero, heads of 72."""
    batch, length, width = x.shape
    size = 72

    def modulate(h: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        return h * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)

    signals = scaled(F.silu(condition), modulation, modulation_bias)
    shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = signals.chunk(6, dim=1)
    h = modulate(F.layer_norm(x, (width,), eps=1e-6), shift_a, scale_a)
    packed = scaled(h, qkv, qkv_bias).reshape(batch, length, 3, width // size, size)
    q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
    q = q * size**-0.5
    shares = (q @ k.transpose(-2, -1)).softmax(dim=-1)
    h = (shares @ v).transpose(1, 2).reshape(batch, length, width)
    x = x + gate_a.unsqueeze(1) * scaled(h, proj, proj_bias)
    h = modulate(F.layer_norm(x, (width,), eps=1e-6), shift_m, scale_m)
    h = F.gelu(scaled(h, up, up_bias), approximate="tanh")
    return x + gate_m.unsqueeze(1) * scaled(h, down, down_bias)


layer(
    "dit_block",
    dit_block,
    like(16, 256, 1152),
    like(16, 1152),
    like(6912, 1152),
    like(6912),
    like(3456, 1152),
    like(3456),
    like(1152, 1152),
    like(1152),
    like(4608, 1152),
    like(4608),
    like(1152, 4608),
    like(1152),
)


def gmlp_block(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    fc1: Tensor,
    fc1_bias: Tensor,
    gate_weight: Tensor,
    gate_bias: Tensor,
    spatial: Tensor,
    spatial_bias: Tensor,
    fc2: Tensor,
    fc2_bias: Tensor,
) -> Tensor:
    """timm, SpatialGatingBlock of gMLP B/16 in float32: a product along the patches gates."""
    h = norm(x, norm_weight, norm_bias, 1e-6)
    h = F.dropout(F.gelu(scaled(h, fc1, fc1_bias)), 0.1, training=True)
    u, v = h.chunk(2, dim=-1)
    v = norm(v, gate_weight, gate_bias)
    v = scaled(v.transpose(-1, -2), spatial, spatial_bias)
    h = u * v.transpose(-1, -2)
    h = F.dropout(scaled(h, fc2, fc2_bias), 0.1, training=True)
    return x + drop_path(h, 0.05)


layer(
    "gmlp_block",
    gmlp_block,
    like(16, 196, 512, dtype=F32),
    *weights(512, 512, dtype=F32),
    like(3072, 512, dtype=F32),
    like(3072, dtype=F32),
    *weights(1536, 1536, dtype=F32),
    like(196, 196, dtype=F32),
    like(196, dtype=F32),
    like(512, 1536, dtype=F32),
    like(512, dtype=F32),
)


# ---------------------------------------------------------------- recurrences, experts, triangles


def rwkv4_block(
    x: Tensor,
    wkv: Tensor,
    first_weight: Tensor,
    first_bias: Tensor,
    second_weight: Tensor,
    second_bias: Tensor,
    mix_key: Tensor,
    mix_value: Tensor,
    mix_receptance: Tensor,
    key: Tensor,
    value: Tensor,
    receptance: Tensor,
    output: Tensor,
    channel_mix_key: Tensor,
    channel_mix_receptance: Tensor,
    channel_key: Tensor,
    channel_receptance: Tensor,
    channel_value: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """transformers, RwkvBlock around its scan, which takes the keys and values and gives wkv."""
    h = norm(x, first_weight, first_bias)
    shifted = F.pad(h, (0, 0, 1, -1))
    k = scaled(h * mix_key + shifted * (1 - mix_key), key)
    v = scaled(h * mix_value + shifted * (1 - mix_value), value)
    r = torch.sigmoid(scaled(h * mix_receptance + shifted * (1 - mix_receptance), receptance))
    x = x + scaled(r * wkv.to(x.dtype), output)
    h = norm(x, second_weight, second_bias)
    shifted = F.pad(h, (0, 0, 1, -1))
    wide = h * channel_mix_key + shifted * (1 - channel_mix_key)
    r = h * channel_mix_receptance + shifted * (1 - channel_mix_receptance)
    wide = torch.square(torch.relu(scaled(wide, channel_key)))
    r = torch.sigmoid(scaled(r, channel_receptance))
    return x + r * scaled(wide, channel_value), k.float(), v.float()


layer(
    "rwkv4_block",
    rwkv4_block,
    like(2, 1024, 2048),
    like(2, 1024, 2048, dtype=F32),
    *weights(2048, 2048, 2048, 2048),
    like(1, 1, 2048),
    like(1, 1, 2048),
    like(1, 1, 2048),
    like(2048, 2048),
    like(2048, 2048),
    like(2048, 2048),
    like(2048, 2048),
    like(1, 1, 2048),
    like(1, 1, 2048),
    like(8192, 2048),
    like(2048, 2048),
    like(2048, 8192),
)


def mlstm_parallel(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
    """NX-AI/xlstm, parallel_stabilized_simple; the gates are [batch, heads, length, 1]."""
    batch, heads, length, size = q.shape
    decay = F.logsigmoid(f)
    seen = torch.tril(torch.ones((length, length), dtype=torch.bool, device=q.device))
    zeros = torch.zeros((batch, heads, 1, 1), dtype=f.dtype, device=f.device)
    total = torch.cat([zeros, torch.cumsum(decay, dim=-2)], dim=-2)
    total = total.repeat(1, 1, 1, length + 1)
    matrix = total - total.transpose(-2, -1)
    matrix = torch.where(seen, matrix[:, :, 1:, 1:], -float("inf"))
    matrix = matrix + i.transpose(-2, -1)
    most, _ = torch.max(matrix, dim=-1, keepdim=True)
    d = torch.exp(matrix - most)
    products = q @ (k / math.sqrt(size)).transpose(-2, -1)
    c = products * d
    normalizer = torch.maximum(c.sum(dim=-1, keepdim=True).abs(), torch.exp(-most))
    c = c / (normalizer + 1e-6)
    return c.to(v.dtype) @ v


def xlstm_block(
    x: Tensor,
    first: Tensor,
    second: Tensor,
    wq: Tensor,
    wk: Tensor,
    wv: Tensor,
    output_gate: Tensor,
    input_gate: Tensor,
    input_gate_bias: Tensor,
    forget_gate: Tensor,
    forget_gate_bias: Tensor,
    head_norm: Tensor,
    out: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
) -> Tensor:
    """NX-AI/xlstm, mLSTMBlock of xlstm_large with its cell in the parallel form, at 2048 wide."""
    batch, length, _ = x.shape
    heads = input_gate.shape[0]

    def rms(h: Tensor, weight: Tensor) -> Tensor:
        wide = h.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
        return (wide * weight.float()).to(h.dtype)

    def soft_cap(h: Tensor) -> Tensor:
        return 15.0 * torch.tanh(h / 15.0)

    h = rms(x, first)
    q = scaled(h, wq).reshape(batch, length, heads, -1).transpose(1, 2)
    k = scaled(h, wk).reshape(batch, length, heads, -1).transpose(1, 2)
    v = scaled(h, wv).reshape(batch, length, heads, -1).transpose(1, 2)
    o = scaled(h, output_gate)
    i = soft_cap(scaled(h, input_gate, input_gate_bias).float()).transpose(-1, -2)
    f = soft_cap(scaled(h, forget_gate, forget_gate_bias).float()).transpose(-1, -2)
    cell = mlstm_parallel(q, k, v, i[..., None], f[..., None])
    cell = cell.transpose(1, 2).float()
    cell = cell - cell.mean(dim=-1, keepdim=True)
    cell = cell * torch.rsqrt(cell.var(dim=-1, keepdim=True, unbiased=False) + 1e-6)
    cell = (cell.reshape(batch, length, -1) * head_norm.float()).to(x.dtype)
    x = x + scaled(torch.sigmoid(o) * cell, out)
    h = rms(x, second)
    return x + scaled(F.silu(scaled(h, gate)) * scaled(h, up), down)


layer(
    "xlstm_block",
    xlstm_block,
    like(2, 1024, 2048),
    *weights(2048, 2048),
    like(1024, 2048),
    like(1024, 2048),
    like(2048, 2048),
    like(2048, 2048),
    like(4, 2048),
    like(4),
    like(4, 2048),
    like(4),
    like(2048),
    like(2048, 2048),
    like(5504, 2048),
    like(5504, 2048),
    like(2048, 5504),
)


def gpt_oss_dense_experts(
    x: Tensor,
    norm_weight: Tensor,
    router: Tensor,
    router_bias: Tensor,
    gate_up: Tensor,
    gate_up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> tuple[Tensor, Tensor]:
    """transformers, GptOssExperts where all run: 4 of them, softmax gates, ST-MoE's z-loss."""
    batch, _, width = x.shape
    experts = router.shape[0]
    hidden = llama_norm(x, norm_weight).reshape(-1, width)
    logits = scaled(hidden, router, router_bias)
    gates = F.softmax(logits, dim=-1, dtype=F32).to(x.dtype)
    z_loss = torch.logsumexp(logits.float(), dim=-1).pow(2).mean()
    h = hidden.repeat(experts, 1).view(experts, -1, width)
    h = torch.bmm(h, gate_up * width**-0.5) + gate_up_bias[..., None, :]
    gate, up = h[..., ::2], h[..., 1::2]
    gate = gate.clamp(min=None, max=7.0)
    up = up.clamp(min=-7.0, max=7.0)
    glu = gate * torch.sigmoid(gate * 1.702)
    h = torch.bmm((up + 1) * glu, down * down.shape[1] ** -0.5)
    h = h + down_bias[..., None, :]
    h = h.view(experts, batch, -1, width)
    h = h * gates.transpose(0, 1).view(experts, batch, -1)[..., None]
    return x + h.sum(dim=0), 1e-3 * z_loss


layer(
    "gpt_oss_dense_experts",
    gpt_oss_dense_experts,
    like(2, 512, 2880),
    like(2880),
    like(4, 2880),
    like(4),
    like(4, 2880, 5760),
    like(4, 5760),
    like(4, 2880, 2880),
    like(4, 2880),
)


def triangle_multiplication(
    x: Tensor,
    mask: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    left: Tensor,
    left_bias: Tensor,
    right: Tensor,
    right_bias: Tensor,
    left_gate: Tensor,
    left_gate_bias: Tensor,
    right_gate: Tensor,
    right_gate_bias: Tensor,
    out_gate: Tensor,
    out_gate_bias: Tensor,
    out_norm_weight: Tensor,
    out_norm_bias: Tensor,
    out: Tensor,
    out_bias: Tensor,
    transition_weight: Tensor,
    transition_bias: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    """lucidrains/alphafold2, TriangleMultiplicativeModule (outgoing), then its FeedForward."""
    length = x.shape[1]
    pairs = mask.unsqueeze(-1).to(x.dtype)
    h = norm(x, norm_weight, norm_bias)
    a = scaled(h, left, left_bias) * pairs
    b = scaled(h, right, right_bias) * pairs
    a = a * scaled(h, left_gate, left_gate_bias).sigmoid()
    b = b * scaled(h, right_gate, right_gate_bias).sigmoid()
    opened = scaled(h, out_gate, out_gate_bias).sigmoid()
    mixed = torch.einsum("...ikd,...jkd->...ijd", a, b * length**-0.5)
    mixed = norm(mixed, out_norm_weight, out_norm_bias) * opened
    x = x + scaled(mixed, out, out_bias)
    h = scaled(norm(x, transition_weight, transition_bias), up, up_bias)
    h, gates = h.chunk(2, dim=-1)
    h = F.dropout(h * F.gelu(gates), 0.1, training=True)
    return x + scaled(h, down, down_bias)


layer(
    "triangle_multiplication",
    triangle_multiplication,
    like(1, 200, 200, 128, dtype=F32),
    given(1, 200, 200, below=2),
    *weights(128, 128, dtype=F32),
    like(128, 128, dtype=F32),
    like(128, dtype=F32),
    like(128, 128, dtype=F32),
    like(128, dtype=F32),
    like(128, 128, dtype=F32),
    like(128, dtype=F32),
    like(128, 128, dtype=F32),
    like(128, dtype=F32),
    like(128, 128, dtype=F32),
    like(128, dtype=F32),
    *weights(128, 128, dtype=F32),
    like(128, 128, dtype=F32),
    like(128, dtype=F32),
    *weights(128, 128, dtype=F32),
    like(1024, 128, dtype=F32),
    like(1024, dtype=F32),
    like(128, 512, dtype=F32),
    like(128, dtype=F32),
)


# --------------------------------------------------------------------------------- heads and losses


def tied_soft_cap_head(x: Tensor, tokens: Tensor, targets: Tensor, table: Tensor) -> Tensor:
    """KellerJordan/modded-nanogpt, GPT: embedding's residual, norm, capped logits, the loss."""
    first = F.rms_norm(F.embedding(tokens, table), (x.shape[-1],))
    h = F.rms_norm(x + first, (x.shape[-1],))
    logits = F.linear(h, table * 0.01)
    logits = 30 * torch.tanh(logits / 30)
    logits = logits.float()
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


layer(
    "tied_soft_cap_head",
    tied_soft_cap_head,
    like(2, 1024, 768),
    given(2, 1024, below=50257),
    given(2, 1024, below=50257),
    like(50304, 768),
)


def clip_head(
    image: Tensor,
    text: Tensor,
    image_weight: Tensor,
    image_bias: Tensor,
    text_weight: Tensor,
    text_bias: Tensor,
    image_projection: Tensor,
    text_projection: Tensor,
    logit_scale: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """transformers, CLIPModel at L/14 from the pooled tokens on, with clip_loss."""
    images = scaled(norm(image, image_weight, image_bias), image_projection)
    texts = scaled(norm(text, text_weight, text_bias), text_projection)
    images = images / images.norm(p=2, dim=-1, keepdim=True)
    texts = texts / texts.norm(p=2, dim=-1, keepdim=True)
    per_text = torch.matmul(texts, images.t()) * logit_scale.exp()
    labels = torch.arange(per_text.shape[0], device=per_text.device)
    caption = F.cross_entropy(per_text, labels)
    picture = F.cross_entropy(per_text.t(), labels)
    return (caption + picture) / 2.0, images, texts


layer(
    "clip_head",
    clip_head,
    like(4096, 1024),
    like(4096, 768),
    *weights(1024, 1024, 768, 768),
    like(768, 1024),
    like(768, 768),
    like(1, dtype=F32),
)


def reward_head(
    x: Tensor, mask: Tensor, norm_weight: Tensor, value_head: Tensor
) -> tuple[Tensor, Tensor]:
    """OpenRLHF, RewardModel from its last norm on, with PairWiseLoss; chosen, then rejected."""
    h = llama_norm(x, norm_weight)
    values = scaled(h, value_head).squeeze(-1)
    last = mask.size(1) - 1 - mask.long().fliplr().argmax(dim=1, keepdim=True)
    rewards = values.gather(dim=1, index=last).squeeze(1).float()
    chosen, rejected = rewards.chunk(2)
    return -F.logsigmoid(chosen - rejected).mean(), rewards


layer(
    "reward_head",
    reward_head,
    like(16, 1024, 4096),
    given(16, 1024, below=2),
    like(4096),
    like(1, 4096),
)
