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
from layer_cases import BF16, F32, Input, Layer, Tensor, given, like, weights

FP8 = torch.float8_e4m3fn
UNSEEN_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    UNSEEN_LAYERS.append(Layer(name, function, inputs))


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


# --------------------------------------------------------------------------------------- embeddings


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

# ---------------------------------------------------------------------------------------- softmaxes


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


def sink_softmax(scores: Tensor, sinks: Tensor) -> Tensor:
    """transformers, eager_attention_forward of gpt-oss: each head may look at nothing."""
    sinks = sinks.reshape(1, -1, 1, 1).expand(scores.shape[0], -1, scores.shape[-2], -1)
    combined = torch.cat([scores, sinks], dim=-1)
    combined = combined - combined.max(dim=-1, keepdim=True).values
    return F.softmax(combined, dim=-1, dtype=combined.dtype)[..., :-1]


layer("MPT ALiBi softmax 512", mpt_softmax, like(16, 32, 512, 512))
layer("T5 position bias softmax 512", t5_softmax, like(16, 12, 512, 512), given(32, 12))
layer("gpt-oss softmax with sinks 300", sink_softmax, like(16, 64, 128, 300), like(64))

# ----------------------------------------------------------------------------- between two products


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

# --------------------------------------------------------------------------------- recurrent layers


def mamba_discretize(
    dt: Tensor, dt_bias: Tensor, hidden: Tensor, b: Tensor, a_log: Tensor
) -> tuple[Tensor, Tensor]:
    """transformers, MambaMixer.slow_forward: what its scan reads."""
    dt = F.softplus(dt + dt_bias).transpose(1, 2)
    a = -torch.exp(a_log.float())
    discrete_a = torch.exp(a[None, :, None, :] * dt[:, :, :, None])
    discrete_b = dt[:, :, :, None] * b[:, None, :, :].float()
    return discrete_a, discrete_b * hidden[:, :, :, None].float()


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
layer("Mamba-2 gated norm 1536", gated_rms_norm, like(16384, 1536), like(16384, 1536), like(1536))
layer("RWKV token shift 768", rwkv_mix, like(32, 512, 768), *[like(1, 1, 768)] * 3)
layer("RetNet norm of heads 256", retention_norm, like(32, 8, 512, 256), like(32, 512, 2048))
layer("LSTM cell 1024", lstm_cell, like(8192, 4096), like(8192, 4096), like(4096), like(8192, 1024))
layer("GRU cell 650", gru_cell, *[like(8192, 1950, dtype=F32)] * 2, like(8192, 650, dtype=F32))

# --------------------------------------------------------------------------------- sound and images


def wav2vec_group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """transformers, Wav2Vec2GroupNormConvLayer: a group for each channel, over the whole signal."""
    return F.gelu(F.group_norm(x, 512, weight, bias))


def feature_projection(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """transformers, HubertFeatureProjection before its linear layer."""
    return layer_norm(x.transpose(1, 2), weight, bias)


def wavenet_gate(x: Tensor, condition: Tensor) -> Tensor:
    """NVIDIA/waveglow, fused_add_tanh_sigmoid_multiply."""
    channels = x.shape[1] // 2
    x = x + condition
    return torch.tanh(x[:, :channels, :]) * torch.sigmoid(x[:, channels:, :])


def spec_augment(x: Tensor, draws: Tensor) -> Tensor:
    """torchaudio, mask_along_axis_iid of mel bands, then of frames."""
    for axis, most in ((1, 27), (2, 100)):
        value = draws[:, 2 * axis - 2] * most
        low = draws[:, 2 * axis - 1] * (x.shape[axis] - value)
        begin, end = low.long()[..., None, None], (low.long() + value.long())[..., None, None]
        mask = torch.arange(0, x.shape[axis], device=x.device)
        x = x.transpose(axis, -1)
        x = x.masked_fill((mask >= begin) & (mask < end), 0.0).transpose(axis, -1)
    return x


def normalized_mel(x: Tensor, lengths: Tensor) -> Tensor:
    """NVIDIA/NeMo, FilterbankFeatures: log, then normalize_batch per feature."""
    x = torch.log(x + 2**-24)
    frames = torch.arange(x.shape[-1], device=x.device)
    mask = frames.unsqueeze(0).expand(x.shape[0], -1) < lengths
    count = mask.sum(dim=1)
    mean = torch.where(mask.unsqueeze(1), x, 0.0).sum(dim=2) / count.unsqueeze(1)
    difference = torch.where(mask.unsqueeze(1), x - mean.unsqueeze(2), 0.0)
    std = torch.sqrt(difference.square().sum(dim=2) / (count.unsqueeze(1) - 1.0)) + 1e-5
    x = (x - mean.unsqueeze(2)) / std.unsqueeze(2)
    return x.masked_fill(~mask.unsqueeze(1), 0.0)


def sampled_latents(moments: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """diffusers, DiagonalGaussianDistribution: a sample, and the KL divergence."""
    mean, logvar = torch.chunk(moments, 2, dim=1)
    logvar = torch.clamp(logvar, -30.0, 20.0)
    std, var = torch.exp(0.5 * logvar), torch.exp(logvar)
    kl = 0.5 * torch.sum(torch.pow(mean, 2) + var - 1.0 - logvar, dim=[1, 2, 3])
    return mean + std * noise, kl


def demodulated_weights(styles: Tensor, weight: Tensor) -> Tensor:
    """NVlabs/stylegan2-ada-pytorch, modulated_conv2d before its convolution."""
    w = weight.unsqueeze(0)
    w = w * styles.reshape(styles.shape[0], 1, -1, 1, 1)
    coefficients = (w.square().sum(dim=[2, 3, 4]) + 1e-8).rsqrt()
    return w * coefficients.reshape(styles.shape[0], -1, 1, 1, 1)


def skip_group_norm(x: Tensor, skip: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """diffusers, CrossAttnUpBlock2D: the skip connection, then its ResnetBlock2D's first norm."""
    x = torch.cat([x, skip], dim=1)
    return F.silu(F.group_norm(x, 32, weight, bias, 1e-5))


def efficientnet_squeeze(
    x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor
) -> tuple[Tensor, Tensor]:
    """timm, DepthwiseSeparableConv of EfficientNet: norm, SiLU and the mean that is squeezed."""
    x = F.silu(F.batch_norm(x, mean, var, w, b, training=True))
    return x, x.mean((2, 3), keepdim=True)


def norm_of_image(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """UNet of ddpm-like code: one mean for channels, rows and columns."""
    return F.layer_norm(x, x.shape[1:], weight, bias)


def prelu_norm(x: Tensor, slope: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """deepinsight/insightface, IBasicBlock of IResNet."""
    return F.prelu(F.batch_norm(x, mean, var, w, b, training=True), slope)


def mae_loss(images: Tensor, prediction: Tensor, mask: Tensor) -> Tensor:
    """facebookresearch/mae, forward_loss with norm_pix_loss."""
    side = images.shape[2] // 16
    target = images.reshape(images.shape[0], 3, side, 16, side, 16)
    target = torch.einsum("nchpwq->nhwpqc", target)
    target = target.reshape(images.shape[0], side * side, 16 * 16 * 3)
    mean, var = target.mean(dim=-1, keepdim=True), target.var(dim=-1, keepdim=True)
    target = (target - mean) / (var + 1.0e-6) ** 0.5
    loss = ((prediction - target) ** 2).mean(dim=-1)
    return (loss * mask).sum() / mask.sum()


def statistics(channels: int) -> tuple[Input, ...]:
    """Weight, bias, running mean and variance."""
    return (
        *weights(channels, channels, dtype=F32),
        given(channels, dtype=F32),
        given(channels, dtype=F32, positive=True),
    )


layer("wav2vec group norm 15999", wav2vec_group_norm, like(8, 512, 15999), *weights(512, 512))
layer("HuBERT features 512", feature_projection, like(32, 512, 749), *weights(512, 512))
layer("WaveNet gate 256", wavenet_gate, like(24, 512, 2000), like(24, 512, 2000))
layer(
    "SpecAugment 80 x 2500",
    spec_augment,
    given(64, 80, 2500, dtype=F32),
    given(64, 4, dtype=F32, positive=True),
)
layer(
    "normalized mel 80 x 1501",
    normalized_mel,
    given(64, 80, 1501, dtype=F32, positive=True),
    given(64, 1, below=1501),
)
layer("VAE sample and KL 4 x 64", sampled_latents, like(64, 8, 64, 64), given(64, 4, 64, 64))
layer(
    "StyleGAN demodulated weights 512",
    demodulated_weights,
    like(8, 512, dtype=F32),
    like(512, 512, 3, 3, dtype=F32),
)
layer(
    "U-Net skip group norm 1920 32",
    skip_group_norm,
    like(8, 1280, 32, 32),
    like(8, 640, 32, 32),
    *weights(1920, 1920),
)
layer(
    "EfficientNet norm, SiLU, squeeze 144 56",
    efficientnet_squeeze,
    like(64, 144, 56, 56, channels_last=True),
    *statistics(144),
)
layer(
    "layer norm of an image 3 x 224", norm_of_image, like(64, 3, 224, 224), *[like(3, 224, 224)] * 2
)
layer(
    "IResNet batch norm PReLU 64 56",
    prelu_norm,
    like(128, 64, 56, 56),
    like(64),
    *statistics(64),
)
layer(
    "MAE loss 224",
    mae_loss,
    given(128, 3, 224, 224, dtype=F32),
    like(128, 196, 768, dtype=F32),
    given(128, 196, dtype=F32, positive=True),
)

# ------------------------------------------------------------------------------------------- losses


def focal_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """torchvision, sigmoid_focal_loss of RetinaNet."""
    targets = targets.float()
    p = torch.sigmoid(logits)
    ce_loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = ce_loss * ((1 - p_t) ** 2)
    return ((0.25 * targets + 0.75 * (1 - targets)) * loss).sum()


def giou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """torchvision, generalized_box_iou_loss."""
    x1, y1, x2, y2 = boxes.unbind(dim=-1)
    x1g, y1g, x2g, y2g = targets.unbind(dim=-1)
    xk1, yk1 = torch.max(x1, x1g), torch.max(y1, y1g)
    xk2, yk2 = torch.min(x2, x2g), torch.min(y2, y2g)
    meets = (yk2 > yk1) & (xk2 > xk1)
    common = torch.where(meets, (xk2 - xk1) * (yk2 - yk1), 0.0)
    union = (x2 - x1) * (y2 - y1) + (x2g - x1g) * (y2g - y1g) - common
    xc1, yc1 = torch.min(x1, x1g), torch.min(y1, y1g)
    xc2, yc2 = torch.max(x2, x2g), torch.max(y2, y2g)
    area = (xc2 - xc1) * (yc2 - yc1)
    iou = common / (union + 1e-7)
    return (1 - (iou - (area - union) / (area + 1e-7))).mean()


def clip_loss(images: Tensor, texts: Tensor, scale: Tensor) -> Tensor:
    """mlfoundations/open_clip, ClipLoss with local_loss: of one process among eight."""
    labels = torch.arange(images.shape[0], device=images.device)
    scale = scale.exp()
    return (F.cross_entropy(scale * images, labels) + F.cross_entropy(scale * texts, labels)) / 2


def z_loss_cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """allenai/OLMo, cross_entropy_loss with compute_z_loss."""
    logits = logits.float()
    loss = F.cross_entropy(logits, labels, ignore_index=-100, reduction="mean")
    z_squared = logits.logsumexp(-1).pow(2)
    return loss, 1e-4 * (z_squared * (labels != -100)).mean()


def dpo_loss(logits: Tensor, labels: Tensor, mask: Tensor, reference: Tensor) -> Tensor:
    """TRL, DPOTrainer: get_batch_logps, then dpo_loss."""
    log_probs = torch.gather(logits.float().log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    log_probs = (log_probs * mask).sum(-1)
    chosen, rejected = log_probs.chunk(2)
    reference_chosen, reference_rejected = reference.squeeze(-1).chunk(2)
    logits = (chosen - rejected) - (reference_chosen - reference_rejected)
    return -F.logsigmoid(0.1 * logits).mean()


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum()


def ppo_loss(
    log_probs: Tensor, values: Tensor, old: Tensor, old_values: Tensor, gains: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """TRL, PPOTrainer: clipped losses of policy and value, and the share that was clipped."""
    clipped = torch.clamp(values, old_values - 0.2, old_values + 0.2)
    returns = gains + old_values
    value_losses = torch.max(torch.square(values - returns), torch.square(clipped - returns))
    ratio = torch.exp(log_probs - old)
    losses, clipped_losses = -gains * ratio, -gains * torch.clamp(ratio, 0.8, 1.2)
    share = masked_mean((clipped_losses > losses).float(), mask)
    loss = masked_mean(torch.max(losses, clipped_losses), mask)
    return loss + 0.1 * 0.5 * masked_mean(value_losses, mask), share


def arcface_loss(cosine: Tensor, label: Tensor) -> Tensor:
    """ronghuaiyang/arcface-pytorch, ArcMarginProduct after its product, and its loss."""
    sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))
    phi = cosine * math.cos(0.5) - sine * math.sin(0.5)
    phi = torch.where(cosine > math.cos(math.pi - 0.5), phi, cosine - math.sin(math.pi - 0.5) * 0.5)
    one_hot = torch.zeros_like(cosine).scatter(1, label.view(-1, 1).long(), 1)
    output = (one_hot * phi) + ((1.0 - one_hot) * cosine)
    return F.cross_entropy(output * 64.0, label)


anchors = (16, 12276)
layer("focal loss 91", focal_loss, like(*anchors, 91, dtype=F32), given(*anchors, 91, below=2))
layer("GIoU loss", giou_loss, like(1 << 18, 4, dtype=F32), given(1 << 18, 4, dtype=F32))
layer(
    "CLIP loss 8192",
    clip_loss,
    like(1024, 8192, dtype=F32),
    like(1024, 8192, dtype=F32),
    like(1, dtype=F32),
)
layer(
    "cross entropy with z-loss 50304",
    z_loss_cross_entropy,
    like(4096, 50304),
    given(4096, below=50304),
)
layer(
    "DPO loss 32000",
    dpo_loss,
    like(16, 128, 32000),
    given(16, 128, below=32000),
    given(16, 128, below=2),
    given(16, 1, dtype=F32),
)
layer(
    "PPO loss",
    ppo_loss,
    like(512, 1024, dtype=F32),
    like(512, 1024, dtype=F32),
    *[given(512, 1024, dtype=F32)] * 3,
    given(512, 1024, below=2),
)
layer("ArcFace loss 10575", arcface_loss, like(2048, 10575, dtype=F32), given(2048, below=10575))

# ------------------------------------------------------------------------ routing, sampling, caches


def deepseek_router(logits: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """transformers, DeepseekV3TopkRouter: eight of 256 experts, from four of eight groups."""
    scores = logits.sigmoid()
    choice = scores.view(-1, 256) + bias.unsqueeze(0)
    group_scores = choice.view(-1, 8, 32).topk(2, dim=-1)[0].sum(dim=-1)
    group_index = torch.topk(group_scores, k=4, dim=-1, sorted=False)[1]
    group_mask = torch.zeros_like(group_scores).scatter(1, group_index, 1)
    mask = group_mask.unsqueeze(-1).expand(-1, 8, 32).reshape(-1, 256)
    choice = choice.masked_fill(~mask.bool(), 0.0)
    experts = torch.topk(choice, k=8, dim=-1, sorted=True)[1]
    top = scores.gather(1, experts)
    return top / (top.sum(dim=-1, keepdim=True) + 1e-20) * 2.5, experts


def dlrm_interaction(dense: Tensor, products: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """torchrec, InteractionArch after its batched product, with its buffer of 351 positions."""
    return torch.cat([dense, products[:, rows, columns]], dim=1)


def repetition_penalty(ids: Tensor, scores: Tensor) -> Tensor:
    """transformers, RepetitionPenaltyLogitsProcessor."""
    score = torch.gather(scores, 1, ids)
    score = torch.where(score < 0, score * 1.2, score / 1.2)
    return scores.scatter(1, ids, score)


def top_p(scores: Tensor) -> Tensor:
    """transformers, TopPLogitsWarper, then the probabilities that are drawn from."""
    ordered, indices = torch.sort(scores, descending=False)
    cumulative = ordered.softmax(dim=-1).cumsum(dim=-1)
    remove = (cumulative <= (1 - 0.9)).scatter(1, indices, cumulative <= (1 - 0.9))
    return F.softmax(scores.masked_fill(remove, -float("inf")), dim=-1)


def paged_keys(table: Tensor, cache: Tensor) -> Tensor:
    """vllm, ref_paged_attn: keys of sequences from blocks of 16 tokens, for all queries."""
    keys = cache.index_select(0, table.flatten()).view(table.shape[0], -1, *cache.shape[2:])
    return keys.repeat_interleave(4, dim=2)


def cache_write(cache: Tensor, key: Tensor) -> Tensor:
    """transformers, StaticCache: the keys of a prompt go behind those of the one before."""
    positions = torch.arange(100, 100 + key.shape[2], device=key.device)
    return cache.index_copy(2, positions, key)


layer("DeepSeek router 256", deepseek_router, given(32768, 256, dtype=F32), given(256, dtype=F32))
layer(
    "DLRM interaction 27",
    dlrm_interaction,
    given(16384, 128),
    given(16384, 27, 27),
    *[given(351, below=27)] * 2,
)
layer(
    "repetition penalty 151936",
    repetition_penalty,
    given(128, 512, below=151936),
    given(128, 151936, dtype=F32),
)
layer("top-p 50257", top_p, given(256, 50257, dtype=F32))
layer("paged keys", paged_keys, given(32, 64, below=4096), given(4096, 16, 8, 128))
layer("cache write", cache_write, given(16, 8, 1024, 128), given(16, 8, 256, 128))

# -------------------------------------------------------------------------- weights, narrow numbers


def fp8_tensor(x: Tensor) -> tuple[Tensor, Tensor]:
    """vllm, ref_dynamic_per_tensor_fp8_quant."""
    scale = x.abs().max().float() / 448.0
    return (x.float() * scale.reciprocal()).clamp(-448.0, 448.0).to(FP8), scale


def fp8_blocks(x: Tensor) -> tuple[Tensor, Tensor]:
    """deepseek-ai/DeepGEMM, per_token_cast_to_fp8."""
    rows, width = x.shape
    view = x.view(rows, -1, 128)
    amax = view.abs().float().amax(dim=2).view(rows, -1).clamp(1e-4)
    return (view * (448.0 / amax.unsqueeze(2))).to(FP8).view(rows, width), amax / 448.0


def fp8_square_blocks(x: Tensor) -> tuple[Tensor, Tensor]:
    """deepseek-ai/DeepGEMM, per_block_cast_to_fp8."""
    width = x.shape[-1]
    view = x.view(-1, 128, width // 128, 128)
    amax = view.abs().float().amax(dim=(1, 3), keepdim=True).clamp(1e-4)
    scaled = (view * (448.0 / amax)).to(FP8)
    return scaled.view(x.shape), (amax / 448.0).view(view.shape[0], view.shape[2])


def fp8_dequantized(x: Tensor, scales: Tensor) -> Tensor:
    """deepseek-ai/DeepSeek-V3, weight_dequant without its Triton kernel."""
    wide = scales.repeat_interleave(128, dim=1)
    return (x.to(F32) * wide).to(BF16)


def int8_tokens(x: Tensor) -> Tensor:
    """torchao, Int8DynActInt4WeightQATLinear: activations of int8 with a zero point by token."""
    lowest, highest = x.float().amin(-1, keepdim=True), x.float().amax(-1, keepdim=True)
    lowest, highest = lowest.clamp(max=0.0), highest.clamp(min=0.0)
    scale = ((highest - lowest) / 255.0).clamp(min=torch.finfo(F32).eps)
    zero = torch.clamp(-128 - torch.round(lowest / scale), -128, 127)
    q = torch.clamp(torch.round(x / scale) + zero, -128, 127)
    return ((q - zero) * scale).to(x.dtype)


def gptq_weight(packed: Tensor, zeros: Tensor, scales: Tensor) -> Tensor:
    """AutoGPTQ, QuantLinear.forward: eight numbers of four bits in each integer, groups of 128."""
    packed = packed.view(-1, packed.shape[-1])
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=packed.device)
    zeros = torch.bitwise_right_shift(
        torch.unsqueeze(zeros, 2).expand(-1, -1, 8), shifts.unsqueeze(0)
    )
    zeros = (torch.bitwise_and(zeros, 15) + 1).reshape(-1, 1, scales.shape[1])
    scales = scales.reshape(-1, 1, scales.shape[-1])
    weight = torch.bitwise_right_shift(
        torch.unsqueeze(packed, 1).expand(-1, 8, -1), shifts.unsqueeze(-1)
    )
    weight = torch.bitwise_and(weight, 15).reshape(-1, 128, packed.shape[1])
    return (scales * (weight - zeros)).reshape(-1, packed.shape[1])


layer("fp8 of a tensor 4096 x 14336", fp8_tensor, given(4096, 14336))
layer("fp8 of blocks 8192 x 7168", fp8_blocks, given(8192, 7168))
layer("fp8 of square blocks 16 x 256 x 7168", fp8_square_blocks, given(16, 256, 7168))
layer(
    "fp8 to bfloat16 4096 x 7168",
    fp8_dequantized,
    given(4096, 7168, dtype=FP8),
    given(4096, 56, dtype=F32, positive=True),
)
layer("int8 by tokens 4096", int8_tokens, given(8192, 4096))
layer(
    "GPTQ weight 4096 x 11008",
    gptq_weight,
    given(32, 16, 11008, below=1 << 31, dtype=torch.int32),
    given(32, 1376, below=1 << 31, dtype=torch.int32),
    given(32, 11008, dtype=torch.half),
)

# --------------------------------------------------------------------------------------- optimizers


def clipped_gradients(*gradients: Tensor) -> list[Tensor]:
    """torch.nn.utils.clip_grad_norm_."""
    norms = [torch.linalg.vector_norm(g) for g in gradients]
    total = torch.linalg.vector_norm(torch.stack(norms))
    coefficient = torch.clamp(1.0 / (total + 1e-6), max=1.0)
    return [g * coefficient for g in gradients]


def accumulated(*tensors: Tensor) -> list[Tensor]:
    """Megatron-LM, gradients added to the main ones, unscaled and checked as torch.amp does."""
    updated, found = [], []
    for main, gradient in zip(*[iter(tensors)] * 2, strict=True):
        main = main + gradient.float() * (1.0 / 65536)
        found.append(torch.logical_not(torch.isfinite(main)).any().float())
        updated.append(main)
    return [*updated, torch.stack(found).amax()]


def sgd_step(*tensors: Tensor) -> list[Tensor]:
    """torch.optim.SGD's formulas, weight decay and Nesterov; p, g and buffer of each in turn."""
    updated = []
    for p, g, buffer in zip(*[iter(tensors)] * 3, strict=True):
        g = g.add(p, alpha=1e-4)
        buffer = buffer.mul(0.9).add(g, alpha=1.0)
        updated += [p.add(g.add(buffer, alpha=0.9), alpha=-0.1), buffer]
    return updated


def lamb_step(*tensors: Tensor) -> list[Tensor]:
    """timm, Lamb; p, g, m and v of each in turn."""
    updated = []
    for p, g, m, v in zip(*[iter(tensors)] * 4, strict=True):
        m = m * 0.9 + g * 0.1
        v = v * 0.999 + g * g * 0.001
        update = (m / (1 - 0.9**10)).div((v.sqrt() / math.sqrt(1 - 0.999**10)).add(1e-6))
        update = update.add(p, alpha=0.01)
        w_norm, g_norm = p.norm(2.0), update.norm(2.0)
        one = torch.ones_like(w_norm)
        trust = torch.where(w_norm > 0, torch.where(g_norm > 0, w_norm / g_norm, one), one)
        updated += [p - update * trust * 1e-3, m, v]
    return updated


def adafactor_step(columns: Tensor, rows: Tensor, p: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """transformers, Adafactor of a matrix, with scale_parameter."""
    rms = p.norm(2) / (p.numel() ** 0.5)
    step = 1e-2 * torch.clamp(rms, min=1e-3)
    g = g.float()
    update = (g**2) + 1e-30
    rows = rows.mul(0.98).add(update.mean(dim=-1), alpha=0.02)
    columns = columns.mul(0.98).add(update.mean(dim=-2), alpha=0.02)
    r_factor = (rows / rows.mean(dim=-1, keepdim=True)).rsqrt().unsqueeze(-1)
    update = torch.mul(r_factor, columns.unsqueeze(-2).rsqrt()) * g
    update = update.div((update.norm(2) / (update.numel() ** 0.5) / 1.0).clamp(min=1.0))
    return p - update * step, rows, columns


def optimizer_inputs(shapes: Sequence[tuple[int, ...]], kinds: Sequence[Any]) -> tuple[Input, ...]:
    """For each shape one input of each kind: a data type, or "positive"."""
    return tuple(
        given(*shape, dtype=F32 if kind == "positive" else kind, positive=kind == "positive")
        for shape in shapes
        for kind in kinds
    )


bert_block: list[tuple[int, ...]] = [(768, 768), (768,)] * 4
bert_block += [(768,), (768,), (3072, 768), (3072,), (768, 3072), (768,), (768,), (768,)]
resnet_block: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,), (256, 1024, 1, 1), (256,)]
resnet_block += [(256,), (256, 256, 3, 3), (1024, 256, 1, 1), (1000, 2048), (1000,)]
layer("clipped gradients, 32 tensors", clipped_gradients, *optimizer_inputs(bert_block * 2, (F32,)))
layer(
    "accumulated gradients, 32 tensors", accumulated, *optimizer_inputs(bert_block * 2, (F32, BF16))
)
layer("SGD step, 40 tensors", sgd_step, *optimizer_inputs(resnet_block * 4, (F32, F32, F32)))
layer(
    "LAMB step, 16 tensors", lamb_step, *optimizer_inputs(bert_block, (F32, F32, F32, "positive"))
)
layer(
    "Adafactor step 1024 x 2816",
    adafactor_step,
    given(2816, dtype=F32, positive=True),
    given(1024, dtype=F32, positive=True),
    given(1024, 2816, dtype=F32),
    given(1024, 2816),
)
