# SPDX-License-Identifier: BSD-3-Clause
"""A third set of layers and pieces of training steps, as their model code spells them in torch.

Written blind: nothing was known of the compiler, and nothing was tuned for them. Each holds what
lies between products, convolutions and attention kernels, whose results are inputs here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from layer_cases import BF16, F32, Input, Layer, Tensor, given, like, weights

F16 = torch.float16
FURTHER_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    FURTHER_LAYERS.append(Layer(name, function, inputs))


def statistics(channels: int) -> tuple[Input, ...]:
    """Weight, bias, running mean and variance."""
    return (
        *weights(channels, channels, dtype=F32),
        given(channels, dtype=F32),
        given(channels, dtype=F32, positive=True),
    )


# ----------------------------------------------------------------------------- scores and softmaxes


def swin_window_softmax(scores: Tensor, table: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    """microsoft/Swin-Transformer, WindowAttention between its two products, windows shifted."""
    heads, windows = table.shape[1], mask.shape[0]
    attn = scores.view(-1, heads, 49, 49)
    bias = table[index.view(-1)].view(49, 49, -1).permute(2, 0, 1).contiguous()
    attn = attn + bias.unsqueeze(0)
    attn = attn.view(-1, windows, heads, 49, 49) + mask.unsqueeze(1).unsqueeze(0)
    return F.softmax(attn.view(-1, heads, 49, 49), dim=-1)


def swin2_heads(qkv: Tensor, logit_scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """timm, swin_transformer_v2 WindowAttention: cosine attention before its product."""
    windows, tokens, width = qkv.shape
    qkv = qkv.reshape(windows, tokens, 3, width // 96, -1).permute(2, 0, 3, 1, 4)
    q, k, v = qkv.unbind(0)
    scale = torch.clamp(logit_scale, max=math.log(1.0 / 0.01)).exp()
    q = (F.normalize(q, dim=-1) * scale).to(q.dtype)
    return q, F.normalize(k, dim=-1).transpose(-2, -1), v.contiguous()


def conformer_softmax(scores_ac: Tensor, scores_bd: Tensor, mask: Tensor) -> Tensor:
    """transformers, Wav2Vec2ConformerSelfAttention._apply_relative_embeddings and softmax."""
    batch, heads, length, _ = scores_bd.shape
    zero_pad = torch.zeros(
        (batch, heads, length, 1), device=scores_bd.device, dtype=scores_bd.dtype
    )
    padded = torch.cat([zero_pad, scores_bd], dim=-1)
    padded = padded.view(batch, heads, scores_bd.shape[3] + 1, length)
    scores_bd = padded[:, :, 1:].view_as(scores_bd)
    scores_bd = scores_bd[:, :, :, : scores_bd.size(-1) // 2 + 1]
    scores = (scores_ac + scores_bd) / math.sqrt(64) + mask
    return torch.softmax(scores, dim=-1)


def deberta_softmax(scores: Tensor, c2p: Tensor, p2c: Tensor, mask: Tensor) -> Tensor:
    """transformers, DisentangledSelfAttention of DeBERTa v2 with disentangled_attention_bias."""
    _, heads, length, _ = scores.shape
    scores, c2p, p2c = (x.view(-1, *x.shape[2:]) for x in (scores, c2p, p2c))
    span, scale = c2p.shape[-1] // 2, math.sqrt(64 * 3)
    ids = torch.arange(length, device=scores.device)
    relative = (ids[:, None] - ids.view(1, -1)).unsqueeze(0)
    c2p_pos = torch.clamp(relative + span, 0, span * 2 - 1)
    c2p_att = torch.gather(c2p, dim=-1, index=c2p_pos.expand(scores.shape[0], length, length))
    p2c_pos = torch.clamp(-relative + span, 0, span * 2 - 1)
    p2c_att = torch.gather(p2c, dim=-1, index=p2c_pos.expand(scores.shape[0], length, length))
    score = scores / scale + c2p_att / scale + p2c_att.transpose(-1, -2) / scale
    score = score.view(-1, heads, length, length)
    attention_mask = mask.bool().unsqueeze(1).unsqueeze(2)
    attention_mask = attention_mask * attention_mask.squeeze(-2).unsqueeze(-1)
    score = score.masked_fill(~attention_mask, torch.finfo(score.dtype).min)
    return F.softmax(score, dim=-1)


def gemma2_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """transformers, eager_attention_forward of Gemma 2: scores below a soft cap."""
    weights = scores * 256**-0.5
    weights = weights / 50.0
    weights = torch.tanh(weights)
    weights = weights * 50.0
    weights = weights + mask[:, :, :, : scores.shape[-1]]
    return F.softmax(weights, dim=-1, dtype=F32).to(scores.dtype)


def diff_softmax(
    scores: Tensor, lambda_q1: Tensor, lambda_k1: Tensor, lambda_q2: Tensor, lambda_k2: Tensor
) -> Tensor:
    """microsoft/unilm, MultiheadDiffAttn: the difference of two attentions."""
    batch, both, length, _ = scores.shape
    attn_mask = torch.triu(
        torch.zeros([length, length], device=scores.device)
        .float()
        .fill_(float("-inf"))
        .type_as(scores),
        1,
    )
    scores = torch.nan_to_num(scores) + attn_mask
    attn = F.softmax(scores, dim=-1, dtype=F32).type_as(scores)
    lambda_1 = torch.exp(torch.sum(lambda_q1 * lambda_k1, dim=-1).float()).type_as(scores)
    lambda_2 = torch.exp(torch.sum(lambda_q2 * lambda_k2, dim=-1).float()).type_as(scores)
    lambda_full = lambda_1 - lambda_2 + 0.8
    attn = attn.view(batch, both // 2, 2, length, length)
    return attn[:, :, 0] - lambda_full * attn[:, :, 1]


def triangle_softmax(scores: Tensor, mask: Tensor, triangle: Tensor) -> Tensor:
    """aqlaboratory/openfold, TriangleAttention: biases of mask and pairs, softmax in float32."""
    mask_bias = (1e9 * (mask - 1))[..., :, None, None, :]
    triangle_bias = triangle.permute(0, 3, 1, 2).unsqueeze(-4)
    a = scores + mask_bias
    a = a + triangle_bias
    return F.softmax(a.float(), dim=-1).to(scores.dtype)


def mlstm_scores(qk: Tensor, igate: Tensor, fgate: Tensor) -> Tensor:
    """NX-AI/xlstm, parallel_stabilized_simple: gates, decays and the normalizer of mLSTM."""
    length = qk.shape[-1]
    log_fgates = F.logsigmoid(fgate)
    ltr = torch.tril(torch.ones((length, length), dtype=torch.bool, device=qk.device))
    zeros = torch.zeros((*fgate.shape[:2], 1, 1), dtype=log_fgates.dtype, device=qk.device)
    cumsum = torch.cat([zeros, torch.cumsum(log_fgates, dim=-2)], dim=-2)
    repeated = cumsum.repeat(1, 1, 1, length + 1)
    matrix = repeated - repeated.transpose(-2, -1)
    log_fg_matrix = torch.where(ltr, matrix[:, :, 1:, 1:], -float("inf"))
    log_d_matrix = log_fg_matrix + igate.transpose(-2, -1)
    max_log_d = torch.amax(log_d_matrix, dim=-1, keepdim=True)
    d_matrix = torch.exp(log_d_matrix - max_log_d)
    c_matrix = qk.float() * d_matrix
    total = c_matrix.sum(dim=-1, keepdim=True).abs()
    normalizer = torch.maximum(total, torch.exp(-max_log_d))
    return (c_matrix / (normalizer + 1e-6)).to(qk.dtype)


layer(
    "Swin window softmax 49",
    swin_window_softmax,
    like(48, 64 * 3, 49, 49),
    like(169, 3),
    given(49, 49, below=169),
    given(64, 49, 49),
)
layer("Swin v2 cosine heads 64 x 32", swin2_heads, like(4096, 64, 288), like(3, 1, 1, dtype=F32))
layer(
    "Conformer relative softmax 399",
    conformer_softmax,
    like(8, 16, 399, 399),
    like(8, 16, 399, 797),
    given(8, 1, 1, 399),
)
layer(
    "DeBERTa disentangled softmax 256",
    deberta_softmax,
    like(16, 24, 256, 256),
    like(16, 24, 256, 512),
    like(16, 24, 256, 512),
    given(16, 256, below=2),
)
layer(
    "Gemma 2 soft-capped softmax 1000",
    gemma2_softmax,
    like(4, 16, 1000, 1000),
    given(4, 1, 1000, 1024),
)
layer(
    "Differential softmax 1024",
    diff_softmax,
    like(2, 2 * 16, 1024, 1024),
    *weights(64, 64, 64, 64, dtype=F32),
)
layer(
    "OpenFold triangle softmax 256",
    triangle_softmax,
    like(1, 256, 4, 256, 256),
    given(1, 256, 256),
    like(1, 256, 256, 4),
)
layer(
    "mLSTM decays 1024",
    mlstm_scores,
    like(4, 4, 1024, 1024),
    like(4, 4, 1024, 1, dtype=F32),
    like(4, 4, 1024, 1, dtype=F32),
)

# ------------------------------------------------------------------------------ heads and rotations


def flux_heads(
    img_qkv: Tensor, txt_qkv: Tensor, img_scale: Tensor, txt_scale: Tensor, pe: Tensor
) -> tuple[Tensor, Tensor]:
    """black-forest-labs/flux, DoubleStreamBlock: QKNorm, text before image, apply_rope."""

    def heads(qkv: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, width = qkv.shape
        qkv = qkv.view(batch, length, 3, width // 384, 128).permute(2, 0, 3, 1, 4)
        normed = []
        for x in (qkv[0], qkv[1]):
            wide = x.float()
            rrms = torch.rsqrt(torch.mean(wide**2, dim=-1, keepdim=True) + 1e-6)
            normed.append(((wide * rrms).to(dtype=x.dtype) * scale).to(qkv.dtype))
        return normed[0], normed[1]

    def turned(x: Tensor) -> Tensor:
        x_ = x.float().reshape(*x.shape[:-1], -1, 1, 2)
        out = pe[..., 0] * x_[..., 0] + pe[..., 1] * x_[..., 1]
        return out.reshape(*x.shape).type_as(x)

    img_q, img_k = heads(img_qkv, img_scale)
    txt_q, txt_k = heads(txt_qkv, txt_scale)
    q, k = torch.cat((txt_q, img_q), dim=2), torch.cat((txt_k, img_k), dim=2)
    return turned(q), turned(k)


def eva_heads(
    q: Tensor, k: Tensor, q_bias: Tensor, v: Tensor, v_bias: Tensor, rope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """timm, EvaAttention: biases of q and v, apply_rot_embed_cat behind the class token."""

    def rot(x: Tensor) -> Tensor:
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)

    def apply(x: Tensor) -> Tensor:
        sin_emb, cos_emb = rope.tensor_split(2, -1)
        return x * cos_emb + rot(x) * sin_emb

    batch, length, _ = q.shape
    q, v = q + q_bias, v + v_bias
    q, k, v = (x.reshape(batch, length, -1, 64).transpose(1, 2) for x in (q, k, v))
    q = torch.cat([q[:, :, :1, :], apply(q[:, :, 1:, :])], dim=2).type_as(v)
    k = torch.cat([k[:, :, :1, :], apply(k[:, :, 1:, :])], dim=2).type_as(v)
    return q, k, v.contiguous()


def fairseq_heads(
    q: Tensor, k: Tensor, v: Tensor, q_bias: Tensor, k_bias: Tensor, v_bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """fairseq, MultiheadAttention: time first, queries scaled, heads beside sentences."""
    length, batch, width = q.shape
    heads = width // 72
    q, k, v = q + q_bias, k + k_bias, v + v_bias
    q = q * 72**-0.5
    q = q.contiguous().view(length, batch * heads, 72).transpose(0, 1).contiguous()
    k = k.contiguous().view(-1, batch * heads, 72).transpose(0, 1).transpose(1, 2).contiguous()
    v = v.contiguous().view(-1, batch * heads, 72).transpose(0, 1).contiguous()
    return q, k, v


def delta_net_inputs(
    mixed_qkv: Tensor, a: Tensor, b: Tensor, a_log: Tensor, dt_bias: Tensor
) -> tuple[Tensor, ...]:
    """transformers, Qwen3NextGatedDeltaNet: from its convolution to its delta rule."""
    batch, _, length = mixed_qkv.shape
    mixed_qkv = F.silu(mixed_qkv).transpose(1, 2)
    query, key, value = torch.split(mixed_qkv, [2048, 2048, 4096], dim=-1)
    query = query.reshape(batch, length, -1, 128).repeat_interleave(2, dim=2)
    key = key.reshape(batch, length, -1, 128).repeat_interleave(2, dim=2)
    value = value.reshape(batch, length, -1, 128)
    beta = b.sigmoid()
    g = -a_log.float().exp() * F.softplus(a.float() + dt_bias)
    query = query * torch.rsqrt((query * query).sum(dim=-1, keepdim=True) + 1e-6)
    key = key * torch.rsqrt((key * key).sum(dim=-1, keepdim=True) + 1e-6)
    query, key, value, beta, g = (
        x.transpose(1, 2).contiguous().to(F32) for x in (query, key, value, beta, g)
    )
    return query * (1 / 128**0.5), key * beta.unsqueeze(-1), value * beta.unsqueeze(-1), g


layer(
    "Flux joint heads 650 and 1024",
    flux_heads,
    like(2, 1024, 9216),
    like(2, 650, 9216),
    *weights(128, 128),
    given(1, 1, 1674, 64, 2, 2, dtype=F32),
)
layer(
    "EVA rotated heads 257",
    eva_heads,
    like(48, 257, 1024),
    like(48, 257, 1024),
    like(1024),
    like(48, 257, 1024),
    like(1024),
    given(256, 128),
)
layer(
    "fairseq heads 72",
    fairseq_heads,
    *[like(197, 64, 1152, dtype=F16)] * 3,
    *weights(1152, 1152, 1152, dtype=F16),
)
layer(
    "Gated DeltaNet inputs 128",
    delta_net_inputs,
    like(2, 8192, 1024),
    like(2, 1024, 32),
    like(2, 1024, 32),
    *weights(32, 32, dtype=F32),
)

# --------------------------------------------------------------------- between blocks of a network


def gemma2_sandwich(
    hidden: Tensor, residual: Tensor, after: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    """transformers, Gemma2DecoderLayer: norm of attention, residual, norm before the MLP."""

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        output = x.float()
        output = output * torch.rsqrt(output.pow(2).mean(-1, keepdim=True) + 1e-6)
        output = output * (1.0 + weight.float())
        return output.type_as(x)

    hidden = norm(hidden, after)
    hidden = residual + hidden
    return hidden, norm(hidden, before)


def pixart_modulate(
    hidden: Tensor, attn: Tensor, scale_shift_table: Tensor, timestep: Tensor
) -> tuple[Tensor, Tensor]:
    """diffusers, BasicTransformerBlock with ada_norm_single: from attention to feed-forward."""
    batch = hidden.shape[0]
    table = scale_shift_table[None] + timestep.reshape(batch, 6, -1)
    _, _, gate_msa, shift_mlp, scale_mlp, _ = table.chunk(6, dim=1)
    hidden = gate_msa * attn + hidden
    normed = F.layer_norm(hidden, hidden.shape[-1:], eps=1e-6)
    return hidden, normed * (1 + scale_mlp) + shift_mlp


def grn(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """facebookresearch/ConvNeXt-V2, GRN behind the GELU of a Block."""
    x = F.gelu(x)
    gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
    nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
    return gamma * (x * nx) + beta + x


def adain(content: Tensor, style: Tensor) -> Tensor:
    """naoto0804/pytorch-AdaIN, adaptive_instance_normalization."""

    def statistics_of(feat: Tensor) -> tuple[Tensor, Tensor]:
        n, c = feat.shape[:2]
        var = feat.view(n, c, -1).var(dim=2) + 1e-5
        std = var.sqrt().view(n, c, 1, 1)
        return feat.view(n, c, -1).mean(dim=2).view(n, c, 1, 1), std

    style_mean, style_std = statistics_of(style)
    content_mean, content_std = statistics_of(content)
    size = content.shape
    normalized = (content - content_mean.expand(size)) / content_std.expand(size)
    return normalized * style_std.expand(size) + style_mean.expand(size)


def film(x: Tensor, out: Tensor, film_params: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """ethanjperez/film, FiLMedResBlock: batch norm without weights, FiLM, ReLU, residual."""
    out = F.batch_norm(out, mean, var, training=True)
    gammas, betas = torch.split(film_params, out.shape[1], dim=-1)
    gammas = gammas.unsqueeze(2).unsqueeze(3).expand_as(out)
    betas = betas.unsqueeze(2).unsqueeze(3).expand_as(out)
    return x + F.relu(((1 + gammas) * out) + betas)


def dinov2_residual(
    x: Tensor, attn: Tensor, bias: Tensor, gamma: Tensor, weight: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor]:
    """facebookresearch/dinov2, Block: LayerScale of attention, residual, the second norm."""
    x = x + (attn + bias) * gamma
    return x, F.layer_norm(x, (x.shape[-1],), weight, shift, 1e-6)


def stochastic_depth(
    x: Tensor, shortcut: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor, noise: Tensor
) -> Tensor:
    """torchvision, MBConv: the last norm, stochastic_depth of rows with its noise drawn, sum."""
    result = F.batch_norm(x, mean, var, w, b, training=True, eps=1e-3)
    kept = (noise < 0.8).to(x.dtype).div(0.8)
    return result * kept + shortcut


def sgu_gate(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """timm, SpatialGatingUnit of gMLP behind the GELU, up to its product over tokens."""
    u, v = F.gelu(x).chunk(2, dim=-1)
    v = F.layer_norm(v, v.shape[-1:], weight, bias)
    return u.contiguous(), v.transpose(-1, -2).contiguous()


def snake(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """NVIDIA/BigVGAN, SnakeBeta with alpha_logscale."""
    alpha = torch.exp(alpha.unsqueeze(0).unsqueeze(-1))
    beta = torch.exp(beta.unsqueeze(0).unsqueeze(-1))
    return x + (1.0 / (beta + 0.000000001)) * torch.pow(torch.sin(x * alpha), 2)


layer(
    "Gemma 2 norms around the residual 3584",
    gemma2_sandwich,
    like(4, 2000, 3584),
    like(4, 2000, 3584),
    *weights(3584, 3584),
)
layer(
    "PixArt gate, residual, modulate 1152",
    pixart_modulate,
    like(16, 1024, 1152, dtype=F16),
    like(16, 1024, 1152, dtype=F16),
    like(6, 1152, dtype=F16),
    like(16, 6 * 1152, dtype=F16),
)
layer(
    "ConvNeXt V2 GRN 768",
    grn,
    like(64, 28, 28, 768),
    like(1, 1, 1, 768),
    like(1, 1, 1, 768),
)
layer("AdaIN 512 32", adain, like(16, 512, 32, 32, dtype=F32), like(16, 512, 32, 32, dtype=F32))
layer(
    "FiLM block 128 14",
    film,
    like(256, 128, 14, 14),
    like(256, 128, 14, 14),
    like(256, 256),
    *statistics(128)[2:],
)
layer(
    "DINOv2 LayerScale and norm 1370 x 1024",
    dinov2_residual,
    like(24, 1370, 1024),
    like(24, 1370, 1024),
    *weights(1024, 1024, 1024, 1024),
)
layer(
    "MBConv stochastic depth 80 28",
    stochastic_depth,
    like(128, 80, 28, 28, channels_last=True),
    like(128, 80, 28, 28, channels_last=True),
    *statistics(80),
    given(128, 1, 1, 1, positive=True),
)
layer("gMLP spatial gating 196 x 768", sgu_gate, like(128, 196, 1536), *weights(768, 768))
layer(
    "BigVGAN SnakeBeta 192",
    snake,
    like(16, 192, 8192, dtype=F32),
    *weights(192, 192, dtype=F32),
)

# ------------------------------------------------------------------------------------------- images


def shuffle_block(
    kept: Tensor, branch: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor
) -> Tensor:
    """torchvision, the end of InvertedResidual of ShuffleNetV2, channel_shuffle in two groups."""
    branch = F.relu(F.batch_norm(branch, mean, var, w, b, training=True))
    x = torch.cat((kept, branch), dim=1)
    batch, channels, height, width = x.size()
    x = x.view(batch, 2, channels // 2, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch, channels, height, width)


def pixel_shuffle(x: Tensor, bias: Tensor, slope: Tensor) -> Tensor:
    """leftthomas/SRGAN, UpsampleBLock after its convolution: bias, pixel shuffle, PReLU."""
    x = F.pixel_shuffle(x + bias.view(1, -1, 1, 1), 2)
    return F.prelu(x, slope)


def local_response(x: Tensor, bias: Tensor) -> Tensor:
    """cuda-convnet, AlexNet: ReLU, then the response over five channels, by slices."""
    x = F.relu(x + bias.view(1, -1, 1, 1))
    channels = x.shape[1]
    squares = F.pad(x.pow(2), (0, 0, 0, 0, 2, 2))
    total = squares[:, 0:channels]
    for shift in range(1, 5):
        total = total + squares[:, shift : shift + channels]
    return x / (2.0 + 1e-4 * total).pow(0.75)


def split_attention(x: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """timm, SplitAttn of ResNeSt: RadixSoftmax and the sum; the next block's pooled input."""
    batch, channels, height, width = x.shape
    attn = logits.view(batch, 1, 2, -1).transpose(1, 2)
    attn = F.softmax(attn, dim=1).reshape(batch, -1)
    attn = attn.view(batch, -1, 1, 1)
    x = x.reshape((batch, 2, channels // 2, height, width))
    out = (x * attn.reshape((batch, 2, channels // 2, 1, 1))).sum(dim=1)
    return out, out.mean((2, 3), keepdim=True)


def bifpn_fusion(p_in: Tensor, p_td: Tensor, upper: Tensor, edge_weights: Tensor) -> Tensor:
    """rwightman/efficientdet-pytorch, FpnCombine with fastattn, then the activation."""
    upper = F.interpolate(upper, scale_factor=2.0, mode="nearest")
    nodes = [p_in, p_td, upper]
    edges = F.relu(edge_weights.to(dtype=p_in.dtype))
    total = torch.sum(edges)
    out = torch.stack([(nodes[i] * edges[i]) / (total + 0.0001) for i in range(len(nodes))], dim=-1)
    return F.silu(torch.sum(out, dim=-1))


def mobilevit_unfold(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """timm, MobileVitBlock: patches of two by two, and the transformer's first norm."""
    batch, channels, height, width = x.shape
    rows, columns = height // 2, width // 2
    x = x.reshape(batch * channels * rows, 2, columns, 2).transpose(1, 2)
    x = x.reshape(batch, channels, rows * columns, 4).transpose(1, 3)
    x = x.reshape(batch * 4, rows * columns, channels)
    return F.layer_norm(x, (channels,), weight, bias, 1e-5)


def raft_upsample(mask: Tensor, patches: Tensor) -> Tensor:
    """princeton-vl/RAFT, upsample_flow after its unfold: a convex combination of nine."""
    batch, _, height, width = mask.shape
    mask = mask.view(batch, 1, 9, 8, 8, height, width)
    mask = torch.softmax(mask, dim=2)
    up_flow = patches.view(batch, 2, 9, 1, 1, height, width)
    up_flow = torch.sum(mask * up_flow, dim=2)
    up_flow = up_flow.permute(0, 1, 4, 2, 5, 3)
    return up_flow.reshape(batch, 2, 8 * height, 8 * width)


def gem_head(x: Tensor, p: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """JDAI-CV/fast-reid, GeneralizedMeanPoolingP, the neck's batch norm, cosine features."""
    p = 3.0 + p
    x = F.adaptive_avg_pool2d(x.float().clamp(min=1e-6).pow(p), 1).pow(1.0 / p)
    x = F.batch_norm(x, mean, var, w, b, training=True)[..., 0, 0]
    return F.normalize(x)


def mixed_images(images: Tensor, mean: Tensor, std: Tensor, lam: Tensor) -> Tensor:
    """timm, PrefetchLoader's normalization of uint8 images in NHWC, then a batch of Mixup."""
    x = images.permute(0, 3, 1, 2).contiguous()
    x = x.float().sub(mean.view(1, 3, 1, 1)).div(std.view(1, 3, 1, 1))
    flipped = x.flip(0).mul(1.0 - lam)
    return x.mul(lam).add(flipped).to(F16)


layer(
    "ShuffleNet shuffle 116 28",
    shuffle_block,
    like(128, 116, 28, 28),
    like(128, 116, 28, 28),
    *statistics(116),
)
layer("SRGAN pixel shuffle 64 96", pixel_shuffle, like(16, 256, 96, 96), like(256), like(1))
layer("AlexNet local response 96 55", local_response, like(128, 96, 55, 55), like(96))
layer(
    "ResNeSt split attention 128 28",
    split_attention,
    like(64, 256, 28, 28, channels_last=True),
    like(64, 256),
)
layer(
    "BiFPN fusion 88 80",
    bifpn_fusion,
    *[like(16, 88, 80, 80, channels_last=True)] * 2,
    like(16, 88, 40, 40, channels_last=True),
    like(3, dtype=F32),
)
layer("MobileViT patches 144 32", mobilevit_unfold, like(128, 144, 32, 32), *weights(144, 144))
layer(
    "RAFT convex upsampling 55 x 128",
    raft_upsample,
    like(6, 576, 55, 128, dtype=F32),
    like(6, 18, 55, 128, dtype=F32),
)
layer(
    "GeM pooling 2048 24 x 8",
    gem_head,
    like(64, 2048, 24, 8),
    like(1, dtype=F32),
    *statistics(2048),
)
layer(
    "Mixup of uint8 images 224",
    mixed_images,
    given(256, 224, 224, 3, below=256, dtype=torch.uint8),
    given(3, dtype=F32),
    given(3, dtype=F32, positive=True),
    given(1, dtype=F32, positive=True),
)

# -------------------------------------------------------------------------------------------- sound


def conformer_glu(x: Tensor, bias: Tensor, pad_mask: Tensor) -> Tensor:
    """NVIDIA/NeMo, ConformerConvolution: GLU of the first pointwise convolution, and padding."""
    x = F.glu(x + bias.view(1, -1, 1), dim=1)
    return x.masked_fill(pad_mask.bool().unsqueeze(1), 0.0)


def statistics_pooling(x: Tensor, attn: Tensor, lengths: Tensor) -> Tensor:
    """speechbrain, AttentiveStatisticsPooling of ECAPA-TDNN behind its last convolution."""
    length = x.shape[-1]
    frames = torch.arange(length, device=x.device, dtype=lengths.dtype)
    mask = frames.expand(x.shape[0], length) < lengths.unsqueeze(1) + 1
    attn = attn.masked_fill(~mask.unsqueeze(1), float("-inf"))
    attn = F.softmax(attn, dim=2)
    mean = (attn * x).sum(2)
    std = torch.sqrt((attn * (x - mean.unsqueeze(2)).pow(2)).sum(2).clamp(1e-12))
    return torch.cat((mean, std), dim=1).unsqueeze(2)


def whisper_log_mel(mel_spec: Tensor) -> Tensor:
    """transformers, WhisperFeatureExtractor._torch_extract_fbank_features after its filters."""
    log_spec = torch.clamp(mel_spec, min=1e-10).log10()
    max_val = log_spec.max(dim=2, keepdim=True)[0].max(dim=1, keepdim=True)[0]
    log_spec = torch.maximum(log_spec, max_val - 8.0)
    return (log_spec + 4.0) / 4.0


def wav2vec_contrastive(
    features: Tensor, quantized: Tensor, mask: Tensor, negatives: Tensor
) -> Tensor:
    """transformers, Wav2Vec2ForPreTraining.compute_contrastive_logits and its loss."""
    target = torch.cat([quantized[None, :], negatives], dim=0)
    logits = torch.cosine_similarity(features.float(), target.float(), dim=-1).type_as(target)
    logits = logits / 0.1
    neg_is_pos = (quantized == negatives).all(-1)
    neg_is_pos = torch.cat((torch.zeros_like(neg_is_pos[:1]), neg_is_pos), dim=0)
    logits = logits.masked_fill(neg_is_pos, float("-inf"))
    logits = logits.transpose(0, 2).reshape(-1, logits.size(0))
    labels = ((1 - mask.long()) * -100).transpose(0, 1).flatten()
    return F.cross_entropy(logits.float(), labels, reduction="sum")


def weight_normed(*tensors: Tensor) -> list[Tensor]:
    """jik876/hifi-gan, ResBlock1: weight_norm of its convolutions; v and g of each in turn."""
    return [
        v * (g / torch.norm_except_dim(v, 2, 0)) for v, g in zip(*[iter(tensors)] * 2, strict=True)
    ]


def resblock_weights() -> list[Input]:
    inputs = []
    for channels in (256, 512):
        for kernel in (3, 7, 11) * 3:
            inputs += [
                like(channels, channels, kernel, dtype=F32),
                like(channels, 1, 1, dtype=F32, positive=True),
            ]
    return inputs


layer(
    "Conformer GLU 512 x 999",
    conformer_glu,
    like(32, 1024, 999),
    like(1024),
    given(32, 999, below=2),
)
layer(
    "ECAPA statistics pooling 1536 x 301",
    statistics_pooling,
    like(64, 1536, 301),
    like(64, 1536, 301),
    given(64, below=301),
)
layer("Whisper log mel 128 x 3000", whisper_log_mel, given(48, 128, 3000, dtype=F32, positive=True))
layer(
    "wav2vec 2 contrastive loss 100",
    wav2vec_contrastive,
    like(1, 8, 197, 256),
    like(8, 197, 256),
    given(8, 197, below=2),
    given(100, 8, 197, 256),
)
layer("HiFi-GAN weight norm, 18 tensors", weight_normed, *resblock_weights())

# ------------------------------------------------------------------------------------------- losses


def sentence_loss(hidden: Tensor, mask: Tensor, other: Tensor, scores: Tensor) -> Tensor:
    """sentence-transformers, Pooling and Normalize of pairs, CosineSimilarityLoss."""

    def pooled(tokens: Tensor) -> Tensor:
        wide = mask.unsqueeze(-1).expand(tokens.size()).to(tokens.dtype)
        total, count = torch.sum(tokens * wide, 1), torch.clamp(wide.sum(1), min=1e-9)
        return F.normalize(total / count, p=2, dim=1)

    output = torch.cosine_similarity(pooled(hidden), pooled(other))
    return F.mse_loss(output.float(), scores.view(-1))


def fast_rcnn_loss(
    box_regression: Tensor, labels: Tensor, reference: Tensor, proposals: Tensor
) -> Tensor:
    """torchvision, encode_boxes of BoxCoder and the box loss of fastrcnn_loss."""

    def corners(boxes: Tensor) -> tuple[Tensor, ...]:
        cx, cy, w, h = boxes.unbind(-1)
        boxes = torch.stack((cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h), dim=-1)
        return tuple(boxes[:, i].unsqueeze(1) for i in range(4))

    (ex_x1, ex_y1, ex_x2, ex_y2), (gt_x1, gt_y1, gt_x2, gt_y2) = map(
        corners, (proposals, reference)
    )
    ex_widths, ex_heights = ex_x2 - ex_x1, ex_y2 - ex_y1
    ex_ctr_x, ex_ctr_y = ex_x1 + 0.5 * ex_widths, ex_y1 + 0.5 * ex_heights
    gt_widths, gt_heights = gt_x2 - gt_x1, gt_y2 - gt_y1
    gt_ctr_x, gt_ctr_y = gt_x1 + 0.5 * gt_widths, gt_y1 + 0.5 * gt_heights
    targets_dx = 10.0 * (gt_ctr_x - ex_ctr_x) / ex_widths
    targets_dy = 10.0 * (gt_ctr_y - ex_ctr_y) / ex_heights
    targets_dw = 5.0 * torch.log(gt_widths / ex_widths)
    targets_dh = 5.0 * torch.log(gt_heights / ex_heights)
    targets = torch.cat((targets_dx, targets_dy, targets_dw, targets_dh), dim=1)
    rows = box_regression.shape[0]
    box_regression = box_regression.reshape(rows, box_regression.size(-1) // 4, 4)
    chosen = box_regression[torch.arange(rows, device=labels.device), labels]
    loss = F.smooth_l1_loss(chosen, targets, beta=1 / 9, reduction="none")
    return (loss * (labels > 0).unsqueeze(1)).sum() / labels.numel()


def smoothed_nll(lprobs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """fairseq, label_smoothed_nll_loss, padding left out."""
    target = target.unsqueeze(-1)
    nll_loss = -lprobs.gather(dim=-1, index=target)
    smooth_loss = -lprobs.sum(dim=-1, keepdim=True)
    pad_mask = target.eq(1)
    nll_loss = nll_loss.masked_fill(pad_mask, 0.0).sum()
    smooth_loss = smooth_loss.masked_fill(pad_mask, 0.0).sum()
    eps_i = 0.1 / (lprobs.size(-1) - 1)
    return (1.0 - 0.1 - eps_i) * nll_loss + eps_i * smooth_loss, nll_loss


def label_smoothed_nll(net_output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """fairseq, LabelSmoothedCrossEntropyCriterion of float16 logits."""
    lprobs = F.log_softmax(net_output, dim=-1, dtype=F32)
    loss, nll_loss = smoothed_nll(lprobs.view(-1, lprobs.size(-1)), target.view(-1))
    return loss, nll_loss.detach()


def vocab_parallel_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Megatron-LM, VocabParallelCrossEntropy: the second half of the vocabulary."""
    logits = logits.float()
    size = logits.size(-1)
    logits_max = torch.max(logits, dim=-1)[0].detach()
    logits = logits - logits_max.unsqueeze(dim=-1)
    target_mask = (target < size) | (target >= 2 * size)
    masked_target = (target - size).masked_fill(target_mask, 0)
    logits_2d, masked_target_1d = logits.view(-1, size), masked_target.view(-1)
    arange_1d = torch.arange(start=0, end=logits_2d.size()[0], device=logits_2d.device)
    predicted = logits_2d[arange_1d, masked_target_1d].contiguous()
    predicted = predicted.view_as(target).masked_fill(target_mask, 0.0)
    sum_exp_logits = torch.exp(logits).sum(dim=-1)
    return torch.log(sum_exp_logits) - predicted


def dino_loss(student: Tensor, teacher: Tensor, center: Tensor) -> tuple[Tensor, Tensor]:
    """facebookresearch/dino, DINOLoss of two global and eight local crops, update_center."""
    crops = student.shape[0]
    student_out = (student.flatten(0, 1).float() / 0.1).chunk(crops)
    teacher_out = F.softmax((teacher - center) / 0.04, dim=-1).detach().chunk(2)
    total_loss, terms = torch.zeros((), device=student.device), 0
    for iq, q in enumerate(teacher_out):
        for v in range(crops):
            if v == iq:
                continue
            loss = torch.sum(-q * F.log_softmax(student_out[v], dim=-1), dim=-1)
            total_loss = total_loss + loss.mean()
            terms += 1
    batch_center = torch.sum(teacher, dim=0, keepdim=True) / len(teacher)
    return total_loss / terms, center * 0.9 + batch_center * (1 - 0.9)


def grpo_loss(
    logits: Tensor, ids: Tensor, old: Tensor, ref: Tensor, advantages: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """TRL, GRPOTrainer._compute_loss with selective_log_softmax and a KL penalty."""
    logits = logits / 0.9
    selected = torch.gather(logits, dim=-1, index=ids.unsqueeze(-1)).squeeze(-1)
    logps = selected.float() - torch.logsumexp(logits.float(), dim=-1)
    per_token_kl = torch.exp(ref - logps) - (ref - logps) - 1
    log_ratio = logps - old
    coef_1 = torch.exp(log_ratio)
    coef_2 = torch.clamp(coef_1, 1 - 0.2, 1 + 0.2)
    per_token_loss1 = coef_1 * advantages
    per_token_loss2 = coef_2 * advantages
    per_token_loss = -torch.min(per_token_loss1, per_token_loss2) + 0.04 * per_token_kl
    loss = ((per_token_loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()
    mean_kl = (per_token_kl * mask).sum() / mask.sum().clamp(min=1.0)
    return loss, mean_kl.detach()


def quantile_huber(
    current: Tensor, following: Tensor, actions: Tensor, rewards: Tensor, dones: Tensor
) -> Tensor:
    """sb3-contrib, QRDQN.train: the greedy action's quantiles, quantile_huber_loss."""
    quantiles = current.shape[1]
    greedy = following.mean(dim=1, keepdim=True).argmax(dim=2, keepdim=True)
    greedy = greedy.expand(-1, quantiles, 1)
    following = following.gather(dim=2, index=greedy).squeeze(dim=2)
    target = rewards + (1 - dones) * 0.99 * following
    actions = actions[..., None].long().expand(-1, quantiles, 1)
    chosen = torch.gather(current, dim=2, index=actions).squeeze(dim=2)
    cum_prob = (torch.arange(quantiles, device=current.device, dtype=torch.float) + 0.5) / quantiles
    cum_prob = cum_prob.view(1, -1, 1)
    pairwise_delta = target.unsqueeze(-2) - chosen.unsqueeze(-1)
    abs_delta = torch.abs(pairwise_delta)
    huber = torch.where(abs_delta > 1, abs_delta - 0.5, pairwise_delta**2 * 0.5)
    loss = torch.abs(cum_prob - (pairwise_delta.detach() < 0).float()) * huber
    return loss.sum(dim=-2).mean()


layer(
    "sentence pooling and cosine 384",
    sentence_loss,
    like(512, 128, 384),
    given(512, 128, below=2),
    like(512, 128, 384),
    given(512, 1, dtype=F32),
)
layer(
    "Fast R-CNN box loss 91",
    fast_rcnn_loss,
    like(32768, 364, dtype=F32),
    given(32768, below=91),
    *[given(32768, 4, dtype=F32, positive=True)] * 2,
)
layer(
    "fairseq smoothed loss 10152",
    label_smoothed_nll,
    like(128, 31, 10152, dtype=F16),
    given(128, 31, below=10152),
)
layer(
    "vocabulary parallel loss 25216",
    vocab_parallel_loss,
    like(650, 4, 25216),
    given(650, 4, below=50432),
)
layer(
    "DINO loss 65536",
    dino_loss,
    like(10, 32, 65536, dtype=F16),
    given(64, 65536, dtype=F32),
    given(1, 65536, dtype=F32),
)
layer(
    "GRPO loss 151936",
    grpo_loss,
    like(4, 128, 151936),
    given(4, 128, below=151936),
    given(4, 128, dtype=F32),
    given(4, 128, dtype=F32),
    given(4, 1, dtype=F32),
    given(4, 128, below=2),
)
layer(
    "QR-DQN quantile loss 200",
    quantile_huber,
    like(4096, 200, 18, dtype=F32),
    given(4096, 200, 18, dtype=F32),
    given(4096, 1, below=18),
    given(4096, 1, dtype=F32),
    given(4096, 1, below=2),
)

# ------------------------------------------------------- diffusion, rays, graphs, proteins, clicks


def guided_ddim_step(noise_pred: Tensor, latents: Tensor, alphas: Tensor) -> Tensor:
    """diffusers, StableDiffusionPipeline: guidance, rescale_noise_cfg, DDIMScheduler.step."""
    uncond, text = noise_pred.flatten(0, 1).chunk(2)
    noise_cfg = uncond + 7.5 * (text - uncond)
    std_text = text.std(dim=list(range(1, text.ndim)), keepdim=True)
    std_cfg = noise_cfg.std(dim=list(range(1, noise_cfg.ndim)), keepdim=True)
    rescaled = noise_cfg * (std_text / std_cfg)
    noise_cfg = 0.7 * rescaled + (1 - 0.7) * noise_cfg
    alphas = torch.sigmoid(alphas)
    alpha_prod_t, alpha_prod_t_prev = alphas[0], alphas[1]
    beta_prod_t = 1 - alpha_prod_t
    original = (latents - beta_prod_t ** (0.5) * noise_cfg) / alpha_prod_t ** (0.5)
    original = original.clamp(-1.0, 1.0)
    epsilon = (latents - alpha_prod_t ** (0.5) * original) / beta_prod_t ** (0.5)
    direction = (1 - alpha_prod_t_prev) ** (0.5) * epsilon
    return alpha_prod_t_prev ** (0.5) * original + direction


def nerf_render(raw: Tensor, rays_d: Tensor, t_rand: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """yenchenlin/nerf-pytorch, render_rays and raw2outputs, its draws given."""
    t_vals = torch.linspace(0.0, 1.0, raw.shape[1], device=raw.device)
    z_vals = 2.0 * (1.0 - t_vals) + 6.0 * t_vals
    mids = 0.5 * (z_vals[1:] + z_vals[:-1])
    upper, lower = torch.cat([mids, z_vals[-1:]], -1), torch.cat([z_vals[:1], mids], -1)
    z_vals = lower + (upper - lower) * t_rand.clamp(max=1.0)
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    last = torch.full((1,), 1e10, device=raw.device).expand(dists[..., :1].shape)
    dists = torch.cat([dists, last], -1)
    dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
    rgb = torch.sigmoid(raw[..., :3])
    alpha = 1.0 - torch.exp(-F.relu(raw[..., 3]) * dists)
    ones = torch.ones((alpha.shape[0], 1), device=raw.device)
    clear = torch.cat([ones, 1.0 - alpha + 1e-10], -1)
    weights = alpha * torch.cumprod(clear, -1)[:, :-1]
    rgb_map = torch.sum(weights[..., None] * rgb, -2)
    depth_map = torch.sum(weights * z_vals, -1)
    acc_map = torch.sum(weights, -1)
    return rgb_map + (1.0 - acc_map[..., None]), depth_map, weights


def gat_conv(
    edge_index: Tensor, x: Tensor, alpha_src: Tensor, alpha_dst: Tensor, bias: Tensor
) -> Tensor:
    """PyG, GATConv after its linear layer: edge_update, softmax over neighbours, message, sum."""
    source, target = edge_index[0], edge_index[1]
    nodes, heads, _ = x.shape
    alpha = alpha_src.index_select(0, source) + alpha_dst.index_select(0, target)
    alpha = F.leaky_relu(alpha, 0.2)
    index = target.view(-1, 1).expand_as(alpha)
    highest = alpha.new_zeros((nodes, heads)).scatter_reduce(
        0, index, alpha.detach(), reduce="amax", include_self=False
    )
    out = (alpha - highest.index_select(0, target)).exp()
    out_sum = out.new_zeros((nodes, heads)).scatter_add(0, index, out) + 1e-16
    alpha = out / out_sum.index_select(0, target)
    message = alpha.unsqueeze(-1) * x.index_select(0, source)
    wide = target.view(-1, 1, 1).expand_as(message)
    out = torch.zeros_like(x).scatter_add(0, wide, message)
    return F.elu(out.view(nodes, -1) + bias)


def schnet_edges(
    pos: Tensor, edge_index: Tensor, hidden: Tensor, filters: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor]:
    """PyG, SchNet: GaussianSmearing of distances; CFConv's cutoff, message and sum."""
    pos = pos.view(-1, 3)
    row, col = edge_index[0], edge_index[1]
    edge_weight = (pos[row] - pos[col]).norm(dim=-1)
    dist = edge_weight.view(-1, 1) - offset.view(1, -1)
    edge_attr = torch.exp(-0.5 / 0.2**2 * torch.pow(dist, 2))
    cutoff = 0.5 * (torch.cos(edge_weight * math.pi / 10.0) + 1.0)
    w = (F.softplus(filters) - math.log(2.0)) * cutoff.view(-1, 1)
    return edge_attr, torch.zeros_like(hidden).index_add(0, col, hidden[row] * w)


def esm_contacts(attentions: Tensor, tokens: Tensor) -> Tensor:
    """facebookresearch/esm, ContactPredictionHead: without ends, symmetrize, apc, permuted."""
    eos_mask = tokens.ne(2).to(attentions)
    eos_mask = eos_mask.unsqueeze(1) * eos_mask.unsqueeze(2)
    attentions = attentions * eos_mask[:, None, None, :, :]
    attentions = attentions[..., 1:-1, 1:-1]
    batch, layers, heads, length, _ = attentions.size()
    x = attentions.reshape(batch, layers * heads, length, length)
    x = x + x.transpose(-1, -2)
    a1, a2 = x.sum(-1, keepdim=True), x.sum(-2, keepdim=True)
    a12 = x.sum((-1, -2), keepdim=True)
    x = x - (a1 * a2) / a12
    return x.permute(0, 2, 3, 1).contiguous()


def factorization_machine(ids: Tensor, table: Tensor, linear: Tensor, bias: Tensor) -> Tensor:
    """rixwew/pytorch-fm, FactorizationMachineModel: FeaturesEmbedding, FeaturesLinear and FM."""
    offsets = torch.arange(39, device=ids.device) * 25641
    x = ids + offsets.unsqueeze(0)
    first_order = torch.sum(F.embedding(x, linear), dim=1) + bias
    x = F.embedding(x, table)
    square_of_sum = torch.sum(x, dim=1) ** 2
    sum_of_square = torch.sum(x**2, dim=1)
    ix = square_of_sum - sum_of_square
    ix = torch.sum(ix, dim=1, keepdim=True)
    return torch.sigmoid((first_order + 0.5 * ix).squeeze(1))


layer(
    "guided and rescaled DDIM step 128",
    guided_ddim_step,
    given(2, 96, 4, 128, 128, dtype=F16),
    given(96, 4, 128, 128, dtype=F32),
    given(2, dtype=F32),
)
layer(
    "NeRF rendering 192",
    nerf_render,
    like(16384, 192, 4, dtype=F32),
    given(16384, 3, dtype=F32),
    given(16384, 192, dtype=F32, positive=True),
)
layer(
    "GAT convolution 8 x 32",
    gat_conv,
    given(2, 169343, below=20000),
    like(20000, 8, 32, dtype=F32),
    like(20000, 8, dtype=F32),
    like(20000, 8, dtype=F32),
    like(256, dtype=F32),
)
layer(
    "SchNet edges 128",
    schnet_edges,
    given(1, 6000, 3, dtype=F32),
    given(2, 120000, below=6000),
    like(6000, 128, dtype=F32),
    like(120000, 128, dtype=F32),
    given(50, dtype=F32),
)
layer(
    "ESM contacts 660 heads 222",
    esm_contacts,
    given(2, 33, 20, 222, 222, positive=True),
    given(2, 222, below=33),
)
layer(
    "factorization machine 39 x 16",
    factorization_machine,
    given(32768, 39, below=25641),
    like(39 * 25641, 16, dtype=F32),
    like(39 * 25641, 1, dtype=F32),
    like(1, dtype=F32),
)

# ---------------------------------------------------------- logits, narrow numbers and optimizers


def whisper_timestamps(scores: Tensor, input_length: Tensor) -> Tensor:
    """transformers, WhisperTimeStampLogitsProcessor: initial timestamps, and their total."""
    begin = 50364
    ids = torch.arange(scores.shape[-1], device=scores.device)
    scores = torch.where(ids == begin - 1, -float("inf"), scores)
    first = (input_length == 0).unsqueeze(-1)
    scores = scores.masked_fill(first & ((ids < begin) | (ids > begin + 50)), -float("inf"))
    logprobs = F.log_softmax(scores.float(), dim=-1)
    timestamp_logprob = logprobs[:, begin:].logsumexp(dim=-1)
    max_text_token_logprob = logprobs[:, :begin].max(dim=-1).values
    only = (timestamp_logprob > max_text_token_logprob).unsqueeze(-1)
    return scores.masked_fill(only & (ids < begin), -float("inf"))


def int8_vectorwise(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """bitsandbytes, int8_vectorwise_quant of its default backend, with outlier columns."""
    outliers = a.abs() >= 4.5
    outlier_cols = outliers.any(dim=0)
    kept = a.masked_fill(outliers, 0.0)
    row_stats = torch.max(kept.abs(), dim=1).values.float()
    out_row = torch.round(kept * (127.0 / row_stats.unsqueeze(-1))).to(torch.int8)
    return out_row.masked_fill(outlier_cols.unsqueeze(0), 0), row_stats, outlier_cols


def int8_dequantized(a: Tensor, row_stats: Tensor, col_stats: Tensor, bias: Tensor) -> Tensor:
    """bitsandbytes, int8_mm_dequant of its default backend: int32 products and a bias."""
    a_calc = a.view(-1, a.shape[-1])
    out = a_calc * (row_stats.reshape(-1).unsqueeze(-1) * col_stats.reshape(-1).unsqueeze(0))
    out = out * 6.200124e-5
    return (out + bias).to(torch.float16)


def mxfp4_weights(blocks: Tensor, scales: Tensor) -> Tensor:
    """transformers, convert_moe_packed_tensors of gpt-oss: two numbers of four bits a byte."""
    values = torch.arange(16, device=blocks.device)
    mantissa, exponent = values & 1, (values >> 1) & 3
    lut = torch.where(exponent == 0, mantissa * 0.5, (1 + mantissa * 0.5) * 2.0 ** (exponent - 1))
    lut = torch.where(values >= 8, -lut, lut).to(BF16)
    exp = (scales.to(torch.int32) - 127).unsqueeze(-1)
    low, high = lut[(blocks & 0x0F).to(torch.long)], lut[(blocks >> 4).to(torch.long)]
    out = torch.ldexp(torch.stack((low, high), dim=-1).flatten(-2), exp)
    experts, rows, groups, width = out.shape
    return out.to(BF16).reshape(experts, rows, groups * width).transpose(1, 2).contiguous()


def bitnet_inputs(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """microsoft/BitNet training tips, BitLinear: RMS norm, absmax per token, ternary weights."""
    x = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)
    scale = 127.0 / x.abs().max(dim=-1, keepdim=True).values.clamp(min=1e-5)
    quantized = (x * scale).round().clamp(-128, 127) / scale
    w_scale = 1.0 / weight.abs().mean().clamp(min=1e-5)
    ternary = (weight * w_scale).round().clamp(-1, 1) / w_scale
    return x + (quantized - x).detach(), weight + (ternary - weight).detach()


def lion_step(*tensors: Tensor) -> list[Tensor]:
    """lucidrains/lion-pytorch, update_fn; diffusers, EMAModel.step; p, g, m and average each."""
    updated = []
    for p, g, exp_avg, average in zip(*[iter(tensors)] * 4, strict=True):
        grad = g.to(p.dtype)
        p = p.mul(1.0 - 1e-4 * 1e-2)
        update = exp_avg.mul(0.9).add(grad, alpha=1 - 0.9).sign()
        p = p.add(update, alpha=-1e-4)
        exp_avg = exp_avg.mul(0.99).add(grad, alpha=1 - 0.99)
        average = average - 0.0001 * (average - p)
        updated += [p, exp_avg, average]
    return updated


def parameters(shapes: Sequence[tuple[int, ...]], kinds: Sequence[torch.dtype]) -> list[Input]:
    return [given(*shape, dtype=kind) for shape in shapes for kind in kinds]


unet_block: list[tuple[int, ...]] = [(640,), (640,), (640, 640, 3, 3), (640,), (640, 1280)]
unet_block += [(640,), (640, 640), (640, 1024), (5120, 640), (5120,), (640, 2560), (640,)]
layer(
    "Whisper timestamp logits 51866",
    whisper_timestamps,
    given(640, 51866, dtype=F32),
    given(640, below=4),
)
layer("int8 by rows, outliers 5120", int8_vectorwise, given(8192, 5120, dtype=F16))
layer(
    "int8 product dequantized 5120",
    int8_dequantized,
    given(4000, 5120, below=1 << 16, dtype=torch.int32),
    given(4000, 1, dtype=F32, positive=True),
    given(5120, dtype=F32, positive=True),
    given(5120, dtype=F16),
)
layer(
    "MXFP4 experts 5760 x 2880",
    mxfp4_weights,
    given(4, 5760, 90, 16, below=256, dtype=torch.uint8),
    given(4, 5760, 90, below=160, dtype=torch.uint8),
)
layer("BitLinear inputs 4096", bitnet_inputs, like(8192, 4096), like(4096, 4096))
layer(
    "Lion step and moving average, 12 tensors",
    lion_step,
    *parameters(unet_block, (F32, BF16, F32, F32)),
)
