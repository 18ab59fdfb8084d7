# SPDX-License-Identifier: BSD-3-Clause
"""Further layers and pieces of training steps, as their model code spells them in torch.

Nothing was tuned for them: they say how the compiler does on what it has not seen. So don't look at
one of them alone when a heuristic changes, and add what should be tuned for to `layer_cases.py`.
Each holds what lies between products and convolutions, whose results are inputs here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from layer_cases import BF16, F32, Input, Layer, Tensor, like

FP8 = torch.float8_e4m3fn
UNSEEN_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    UNSEEN_LAYERS.append(Layer(name, function, inputs))


def given(*shape: int, **named: Any) -> Input:
    """Wants no gradient."""
    return Input(shape, grad=False, **named)


def weights(*widths: int, dtype: torch.dtype = BF16) -> tuple[Input, ...]:
    return tuple(like(width, dtype=dtype) for width in widths)


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


# -------------------------------------------------------------------------------------- embeddings


def bert_embeddings(
    ids: Tensor, types: Tensor, word: Tensor, kind: Tensor, place: Tensor, w: Tensor, b: Tensor
) -> Tensor:
    """transformers, BertEmbeddings."""
    positions = torch.arange(ids.shape[1], device=ids.device).expand(1, -1)
    h = F.embedding(ids, word) + F.embedding(types, kind)
    h = h + F.embedding(positions, place)
    return layer_norm(h, w, b, 1e-12)


def vit_embeddings(patches: Tensor, cls_token: Tensor, positions: Tensor) -> Tensor:
    """transformers, ViTEmbeddings."""
    h = patches.flatten(2).transpose(1, 2)
    h = torch.cat((cls_token.expand(h.shape[0], -1, -1), h), dim=1)
    return h + positions


def sinusoidal_positions(x: Tensor) -> Tensor:
    """The Annotated Transformer, Embeddings and PositionalEncoding."""
    length, width = x.shape[1:]
    position = torch.arange(0, length, device=x.device).unsqueeze(1)
    steps = torch.arange(0, width, 2, device=x.device)
    angles = position * torch.exp(steps * -(math.log(10000.0) / width))
    table = torch.stack((torch.sin(angles), torch.cos(angles)), -1).view(length, width)
    return x * math.sqrt(width) + table.to(x.dtype)


def timestep_embedding(timesteps: Tensor) -> Tensor:
    """diffusers, get_timestep_embedding of Stable Diffusion."""
    half = 160
    exponent = -math.log(10000) * torch.arange(0, half, dtype=F32, device=timesteps.device)
    emb = timesteps[:, None].float() * torch.exp(exponent / half)[None, :]
    emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
    return torch.cat([emb[:, half:], emb[:, :half]], dim=-1).to(BF16)


def embedding_bag_mean(ids: Tensor, table: Tensor, mask: Tensor) -> Tensor:
    """sentence-transformers, Pooling of word embeddings over tokens that are there."""
    h, mask = F.embedding(ids, table), mask.unsqueeze(-1).float()
    return (h * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


layer(
    "BERT embeddings 768",
    bert_embeddings,
    given(64, 512, below=30522),
    given(64, 512, below=2),
    *[given(rows, 768, dtype=F32) for rows in (30522, 2, 512)],
    *weights(768, 768, dtype=F32),
)
layer(
    "ViT embeddings 197", vit_embeddings, like(128, 768, 14, 14), like(1, 1, 768), like(1, 197, 768)
)
layer("sinusoidal positions 512", sinusoidal_positions, like(64, 512, 512))
layer(
    "word embedding mean 300",
    embedding_bag_mean,
    given(4096, 40, below=100000),
    given(100000, 300, dtype=F32),
    given(4096, 40, below=2),
)

# ---------------------------------------------------------------------------------------- rotations


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def mla_rope(
    q: Tensor, k_pass: Tensor, k_rot: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """transformers, DeepseekV3Attention with apply_rotary_pos_emb_interleave."""
    q_pass, q_rot = torch.split(q, [128, 64], dim=-1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    b, h, s, d = q_rot.shape
    q_rot = q_rot.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)
    b, h, s, d = k_rot.shape
    k_rot = k_rot.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)
    q_rot = (q_rot * cos) + (rotate_half(q_rot) * sin)
    k_rot = (k_rot * cos) + (rotate_half(k_rot) * sin)
    k_rot = k_rot.expand(*k_pass.shape[:-1], -1)
    return torch.cat((q_pass, q_rot), dim=-1), torch.cat((k_pass, k_rot), dim=-1)


def head_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.to(F32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * h.to(x.dtype)


def qwen3_heads(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """transformers, Qwen3Attention: from projections to what attention reads."""
    shape = (*q.shape[:2], -1, 128)
    q = head_norm(q.view(shape), q_weight).transpose(1, 2)
    k = head_norm(k.view(shape), k_weight).transpose(1, 2)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def vision_rope(q: Tensor, k: Tensor, freqs: Tensor) -> tuple[Tensor, Tensor]:
    """transformers, apply_rotary_pos_emb_vision of Qwen2-VL: rows and columns of an image."""
    emb = torch.cat((freqs, freqs), dim=-1)
    cos, sin = emb.cos().unsqueeze(-2), emb.sin().unsqueeze(-2)
    wide_q, wide_k = q.float(), k.float()
    q_embed = (wide_q * cos) + (rotate_half(wide_q) * sin)
    k_embed = (wide_k * cos) + (rotate_half(wide_k) * sin)
    return q_embed.to(q.dtype), k_embed.to(k.dtype)


layer(
    "DeepSeek MLA rope",
    mla_rope,
    like(8, 16, 512, 192),
    like(8, 16, 512, 128),
    like(8, 1, 512, 64),
    given(1, 512, 64),
    given(1, 512, 64),
)
layer(
    "Qwen3 head norms and rope",
    qwen3_heads,
    like(16, 512, 16 * 128),
    like(16, 512, 8 * 128),
    *weights(128, 128),
    given(1, 512, 128),
    given(1, 512, 128),
)
layer(
    "Qwen2-VL vision rope 80",
    vision_rope,
    like(16384, 16, 80),
    like(16384, 16, 80),
    given(16384, 40, dtype=F32),
)

# ----------------------------------------------------------------------------------------- softmaxes


def mpt_softmax(scores: Tensor) -> Tensor:
    """transformers, MptAttention with build_mpt_alibi_tensor."""
    heads, length = scores.shape[1], scores.shape[-1]
    alibi = torch.arange(1 - length, 1, dtype=torch.int32, device=scores.device)
    base = torch.arange(1, heads + 1, dtype=torch.int64, device=scores.device).float() * (8 / heads)
    slopes = 1.0 / torch.pow(2, base)
    scores = scores * 128**-0.5 + (alibi.view(1, 1, length) * slopes.view(heads, 1, 1))
    causal = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    scores = scores.masked_fill(causal, torch.finfo(BF16).min)
    return F.softmax(scores.float(), dim=-1).to(BF16)


def t5_softmax(scores: Tensor, table: Tensor) -> Tensor:
    """transformers, T5Attention with _relative_position_bucket of an encoder."""
    length = scores.shape[-1]
    context = torch.arange(length, device=scores.device)[:, None]
    relative = torch.arange(length, device=scores.device)[None, :] - context
    buckets = (relative > 0).to(torch.long) * 16
    relative = torch.abs(relative)
    large = 8 + (torch.log(relative.float() / 8) / math.log(128 / 8) * 8).to(torch.long)
    large = torch.min(large, torch.full_like(large, 15))
    buckets = buckets + torch.where(relative < 8, relative, large)
    bias = F.embedding(buckets, table).permute([2, 0, 1]).unsqueeze(0)
    scores = scores + bias
    return F.softmax(scores.float(), dim=-1).type_as(scores)


def gemma2_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """transformers, eager_attention_forward of Gemma 2."""
    scores = scores * 256**-0.5 / 50.0
    scores = torch.tanh(scores) * 50.0 + mask
    return F.softmax(scores, dim=-1, dtype=F32).to(BF16)


def sink_softmax(scores: Tensor, sinks: Tensor) -> Tensor:
    """transformers, eager_attention_forward of gpt-oss: each head may look at nothing."""
    sinks = sinks.reshape(1, -1, 1, 1).expand(scores.shape[0], -1, scores.shape[-2], -1)
    combined = torch.cat([scores, sinks], dim=-1)
    combined = combined - combined.max(dim=-1, keepdim=True).values
    return F.softmax(combined, dim=-1, dtype=combined.dtype)[..., :-1]


def entropy(logits: Tensor) -> Tensor:
    """TRL, PPOTrainer: the entropy of what a policy may say."""
    logits = logits.float()
    probabilities = F.softmax(logits, dim=-1)
    return torch.logsumexp(logits, dim=-1) - torch.sum(probabilities * logits, dim=-1)


layer("MPT ALiBi softmax 512", mpt_softmax, like(16, 32, 512, 512))
layer("T5 position bias softmax 512", t5_softmax, like(16, 12, 512, 512), given(32, 12))
layer(
    "Gemma 2 soft-capped softmax 512", gemma2_softmax, like(16, 8, 512, 512), given(1, 1, 512, 512)
)
layer("gpt-oss softmax with sinks 300", sink_softmax, like(16, 64, 128, 300), like(64))
layer("entropy of a policy 50257", entropy, like(2048, 50257))

# --------------------------------------------------------------------------- between two products


def swin_partition(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """microsoft/Swin-Transformer, SwinTransformerBlock up to its attention."""
    batch, length, width = x.shape
    side = math.isqrt(length)
    x = layer_norm(x, weight, bias).view(batch, side, side, width)
    x = torch.roll(x, shifts=(-3, -3), dims=(1, 2))
    x = x.view(batch, side // 7, 7, side // 7, 7, width)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 49, width)


def swin_reverse(
    windows: Tensor, shortcut: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """microsoft/Swin-Transformer, SwinTransformerBlock after its attention."""
    batch, length, width = shortcut.shape
    side = math.isqrt(length)
    x = windows.view(-1, 7, 7, width).view(batch, side // 7, side // 7, 7, 7, width)
    x = x.permute(0, 1, 3, 2, 4, 5).contiguous().view(batch, side, side, width)
    x = torch.roll(x, shifts=(3, 3), dims=(1, 2)).view(batch, length, width)
    x = shortcut + x
    return x, layer_norm(x, weight, bias)


def swin_merging(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """microsoft/Swin-Transformer, PatchMerging."""
    x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
    return layer_norm(x, weight, bias)


def convnext_tail(x: Tensor, gamma: Tensor, shortcut: Tensor) -> Tensor:
    """facebookresearch/ConvNeXt, the end of a Block, with drop_path of timm 0.4."""
    x = (gamma * x).permute(0, 3, 1, 2)
    kept = torch.floor(0.9 + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device))
    return shortcut + x.div(0.9) * kept


def dit_modulate(x: Tensor, condition: Tensor) -> Tensor:
    """facebookresearch/DiT, DiTBlock: what its attention reads."""
    shift, scale = condition.chunk(6, dim=1)[:2]
    x = layer_norm(x, None, None, 1e-6)
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def dit_middle(x: Tensor, attention: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
    """facebookresearch/DiT, DiTBlock: from its attention to its MLP."""
    _, _, gate, shift, scale, _ = condition.chunk(6, dim=1)
    x = x + gate.unsqueeze(1) * attention
    h = layer_norm(x, None, None, 1e-6)
    return x, h * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def resampler_inputs(
    media: Tensor, latents: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> tuple[Tensor, Tensor]:
    """lucidrains/flamingo-pytorch, PerceiverAttention: keys of image and latents, queries."""
    media, latents = layer_norm(media, w1, b1), layer_norm(latents, w2, b2)
    return torch.cat((media, latents), dim=-2), latents


def gpt_oss_glu(x: Tensor, bias: Tensor) -> Tensor:
    """transformers, GptOssExperts: gate and up interleaved, both clamped."""
    x = x + bias
    gate, up = x[..., ::2], x[..., 1::2]
    gate, up = gate.clamp(min=None, max=7.0), up.clamp(min=-7.0, max=7.0)
    return (up + 1) * (gate * torch.sigmoid(gate * 1.702))


def highway(x: Tensor, projected: Tensor) -> Tensor:
    """allennlp, Highway: a layer of the character CNN of ELMo."""
    nonlinear, gate = projected.chunk(2, dim=-1)
    gate = torch.sigmoid(gate)
    return gate * x + (1 - gate) * F.relu(nonlinear)


def maxout(x: Tensor, bias: Tensor) -> Tensor:
    """thinc, Maxout with three pieces, then its layer norm."""
    x = (x + bias).view(x.shape[0], -1, 3).amax(-1)
    return F.layer_norm(x, x.shape[-1:])


def rms_norm_float(x: Tensor, gamma: Tensor) -> Tensor:
    """lucidrains/x-transformers, RMSNorm."""
    return F.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * gamma


layer("Swin window partition 96", swin_partition, like(64, 3136, 96), *weights(96, 96))
layer(
    "Swin window reverse 96",
    swin_reverse,
    like(64, 64, 49, 96),
    like(64, 3136, 96),
    *weights(96, 96),
)
layer("Swin patch merging 384", swin_merging, like(64, 56, 56, 96), *weights(384, 384))
layer(
    "ConvNeXt layer scale and drop path 96",
    convnext_tail,
    like(64, 56, 56, 96),
    like(96),
    like(64, 96, 56, 56, channels_last=True),
)
layer("DiT modulate 1152", dit_modulate, like(64, 256, 1152), like(64, 6 * 1152))
layer(
    "DiT gate, residual, modulate 1152",
    dit_middle,
    like(64, 256, 1152),
    like(64, 256, 1152),
    like(64, 6 * 1152),
)
layer(
    "Perceiver resampler 257 and 64",
    resampler_inputs,
    like(64, 257, 1024),
    like(64, 64, 1024),
    *weights(1024, 1024, 1024, 1024),
)
layer("gpt-oss GLU 2880", gpt_oss_glu, like(8192, 5760), like(5760))
layer("highway 2048", highway, like(16384, 2048, dtype=F32), like(16384, 4096, dtype=F32))
layer("maxout 3 x 96", maxout, like(65536, 288, dtype=F32), like(288, dtype=F32))
layer("RMS norm 1365 float32", rms_norm_float, like(16384, 1365, dtype=F32), like(1365, dtype=F32))

# ------------------------------------------------------------------------------- recurrent layers


def mamba_discretize(
    dt: Tensor, dt_bias: Tensor, hidden: Tensor, b: Tensor, a_log: Tensor
) -> tuple[Tensor, Tensor]:
    """transformers, MambaMixer.slow_forward: what its scan reads."""
    dt = F.softplus(dt + dt_bias).transpose(1, 2)
    a = -torch.exp(a_log.float())
    discrete_a = torch.exp(a[None, :, None, :] * dt[:, :, :, None])
    discrete_b = dt[:, :, :, None] * b[:, None, :, :].float()
    return discrete_a, discrete_b * hidden[:, :, :, None].float()


def mamba_tail(scan: Tensor, hidden: Tensor, d: Tensor, gate: Tensor) -> Tensor:
    """transformers, MambaMixer.slow_forward: after its scan."""
    scan = scan + (hidden * d[None, :, None])
    return (scan * F.silu(gate)).transpose(1, 2).contiguous()


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
    """transformers, MambaRMSNormGated."""
    h = x.to(F32)
    h = h * F.silu(gate.to(F32))
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * h.to(x.dtype)


def rwkv_mix(x: Tensor, mix_k: Tensor, mix_v: Tensor, mix_r: Tensor) -> tuple[Tensor, ...]:
    """transformers, RwkvSelfAttention.extract_key_value before its projections."""
    shifted = F.pad(x, (0, 0, 1, -1))
    return tuple(x * mix + shifted * (1 - mix) for mix in (mix_k, mix_v, mix_r))


def rwkv_step(
    key: Tensor, value: Tensor, num: Tensor, den: Tensor, most: Tensor, decay: Tensor, first: Tensor
) -> tuple[Tensor, ...]:
    """transformers, rwkv_linear_attention_cpu: one token."""
    key, decay = key.float(), -torch.exp(decay)
    max_for_output = torch.maximum(most, key + first)
    e1, e2 = torch.exp(most - max_for_output), torch.exp(key + first - max_for_output)
    output = ((e1 * num + e2 * value) / (e1 * den + e2)).to(value.dtype)
    max_for_state = torch.maximum(most + decay, key)
    e1, e2 = torch.exp(most + decay - max_for_state), torch.exp(key - max_for_state)
    return output, e1 * num + e2 * value, e1 * den + e2, max_for_state


def retention_norm(x: Tensor, gate: Tensor) -> Tensor:
    """microsoft/torchscale, MultiScaleRetention: heads are normed, then gated."""
    h = x.transpose(1, 2).float()
    h = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x)
    return F.silu(gate) * h.reshape(gate.shape)


def lstm_cell(
    gates: Tensor, hidden_gates: Tensor, bias: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """torch, LSTMCell after its two products."""
    i, f, g, o = (gates + hidden_gates + bias).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(x_gates: Tensor, h_gates: Tensor, h: Tensor) -> Tensor:
    """torch, GRUCell after its two products."""
    x_reset, x_update, x_new = x_gates.chunk(3, 1)
    h_reset, h_update, h_new = h_gates.chunk(3, 1)
    update = torch.sigmoid(x_update + h_update)
    new = torch.tanh(x_new + torch.sigmoid(x_reset + h_reset) * h_new)
    return new + update * (h - new)


layer(
    "Mamba discretization 1536 x 16",
    mamba_discretize,
    like(32, 128, 1536),
    like(1536),
    like(32, 1536, 128),
    like(32, 128, 16),
    like(1536, 16, dtype=F32),
)
layer(
    "Mamba gate after the scan 1536",
    mamba_tail,
    like(16, 1536, 512),
    like(16, 1536, 512),
    like(1536),
    like(16, 1536, 512),
)
layer("Mamba-2 gated norm 1536", gated_rms_norm, like(16384, 1536), like(16384, 1536), like(1536))
layer("RWKV token shift 768", rwkv_mix, like(32, 512, 768), *[like(1, 1, 768)] * 3)
layer(
    "RWKV step 2048",
    rwkv_step,
    *[given(4096, 2048)] * 2,
    *[given(4096, 2048, dtype=F32, positive=position == 1) for position in range(3)],
    *[given(2048, dtype=F32)] * 2,
)
layer("RetNet norm of heads 256", retention_norm, like(32, 8, 512, 256), like(32, 512, 2048))
layer("LSTM cell 1024", lstm_cell, like(8192, 4096), like(8192, 4096), like(4096), like(8192, 1024))
layer("GRU cell 650", gru_cell, *[like(8192, 1950, dtype=F32)] * 2, like(8192, 650, dtype=F32))
