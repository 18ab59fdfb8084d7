# SPDX-License-Identifier: BSD-3-Clause
"""A fourth set of layers and pieces of training steps, as their model code spells them in torch.

Written blind: nothing was known of the compiler, and nothing was tuned for them. Each holds what
lies between products, convolutions and attention kernels, whose results are inputs here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from layer_cases import BF16, F32, Input, Layer, Tensor, given, like, weights

F16 = torch.float16
BLIND_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    BLIND_LAYERS.append(Layer(name, function, inputs))


# ------------------------------------------------------------------------------------------ speech


def encodec_codes(codes: Tensor, *codebooks: Tensor) -> Tensor:
    """transformers, EncodecResidualVectorQuantizer.decode."""
    quantized_out = torch.tensor(0.0, device=codes.device)
    for indices, embed in zip(codes, codebooks, strict=False):
        quantized = F.embedding(indices, embed)
        quantized_out = quantized_out + quantized.permute(0, 2, 1)
    return quantized_out


layer(
    "EnCodec residual codes 8 x 128",
    encodec_codes,
    given(8, 48, 1125, below=1024),
    *(like(1024, 128, dtype=F32) for _ in range(8)),
)


def vq_straight_through(
    z: Tensor, codebook: Tensor, products: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """CompVis/taming-transformers, VectorQuantizer2, the product of z and the codebook given."""
    z = z.permute(0, 2, 3, 1).contiguous()
    flat = z.view(-1, z.shape[-1])
    d = (
        torch.sum(flat**2, dim=1, keepdim=True)
        + torch.sum(codebook**2, dim=1)
        - 2 * products.view(-1, codebook.shape[0])
    )
    index = torch.argmin(d, dim=1)
    z_q = F.embedding(index, codebook).view(z.shape)
    loss = torch.mean((z_q.detach() - z) ** 2) + 0.25 * torch.mean((z_q - z.detach()) ** 2)
    z_q = z + (z_q - z).detach()
    return z_q.permute(0, 3, 1, 2).contiguous(), loss, index


layer(
    "VQGAN nearest codes 1024 x 256",
    vq_straight_through,
    like(48, 256, 16, 16, dtype=F32),
    like(1024, 256, dtype=F32),
    given(48, 256, 1024, dtype=F32),
)


def dac_residual_snake(x: Tensor, y: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """descriptinc/descript-audio-codec, the end of a ResidualUnit, then Snake1d of the next."""
    pad = (x.shape[-1] - y.shape[-1]) // 2
    if pad > 0:
        x = x[..., pad:-pad]
    x = x + y
    shape = x.shape
    h = x.reshape(shape[0], shape[1], -1)
    h = h + (alpha + 1e-9).reciprocal() * torch.sin(alpha * h).pow(2)
    return x, h.reshape(shape)


layer(
    "DAC cropped residual and Snake 192 x 11025",
    dac_residual_snake,
    like(12, 192, 11079),
    like(12, 192, 11025),
    like(1, 192, 1, positive=True),
)


def stft_loss(x: Tensor, y: Tensor) -> Tensor:
    """csteinmetz1/auraloss, STFTLoss: spectral convergence and logarithmic magnitudes."""
    x_mag = torch.sqrt(torch.clamp(x[..., 0] ** 2 + x[..., 1] ** 2, min=1e-8))
    y_mag = torch.sqrt(torch.clamp(y[..., 0] ** 2 + y[..., 1] ** 2, min=1e-8))
    sc = torch.norm(y_mag - x_mag, p="fro", dim=[-1, -2]) / torch.norm(y_mag, p="fro", dim=[-1, -2])
    log_mag = F.l1_loss(torch.log(x_mag), torch.log(y_mag))
    return sc.mean() + log_mag


layer(
    "STFT loss 513 x 259",
    stft_loss,
    like(32, 513, 259, 2, dtype=F32),
    given(32, 513, 259, 2, dtype=F32),
)


def pairwise_si_sdr(estimates: Tensor, targets: Tensor) -> Tensor:
    """asteroid, PairwiseNegSDR "sisdr" in a PITLossWrapper of three sources."""
    targets = targets - torch.mean(targets, dim=2, keepdim=True)
    estimates = estimates - torch.mean(estimates, dim=2, keepdim=True)
    s_target = torch.unsqueeze(targets, dim=1)
    s_estimate = torch.unsqueeze(estimates, dim=2)
    pair_dot = torch.sum(s_estimate * s_target, dim=3, keepdim=True)
    energy = torch.sum(s_target**2, dim=3, keepdim=True) + 1e-8
    projection = pair_dot * s_target / energy
    e_noise = s_estimate - projection
    sdr = torch.sum(projection**2, dim=3) / (torch.sum(e_noise**2, dim=3) + 1e-8)
    losses = -10 * torch.log10(sdr + 1e-8)
    n = losses.shape[1]
    of_orders = torch.stack(
        [
            sum(losses[:, p, j] for j, p in enumerate(order)) / n
            for order in itertools.permutations(range(n))
        ],
        dim=1,
    )
    return torch.min(of_orders, dim=1)[0].mean()


layer(
    "SI-SDR of three sources 24000",
    pairwise_si_sdr,
    like(64, 3, 24000, dtype=F32),
    given(64, 3, 24000, dtype=F32),
)


def zipformer_bypass_norm(
    original: Tensor, src: Tensor, bypass: Tensor, bias: Tensor, log_scale: Tensor
) -> Tensor:
    """k2-fsa/icefall, BypassModule, then BiasNorm, at the end of a Zipformer2EncoderLayer."""
    scale = bypass.clamp(min=0.2, max=1.0)
    x = original + (src - original) * scale
    scales = torch.mean((x - bias) ** 2, dim=-1, keepdim=True) ** -0.5 * log_scale.exp()
    return x * scales


layer(
    "Zipformer bypass and bias norm 384",
    zipformer_bypass_norm,
    like(747, 56, 384, dtype=F16),
    like(747, 56, 384, dtype=F16),
    *weights(384, 384, 1, dtype=F16),
)


def rnnt_joint(encoder: Tensor, prediction: Tensor, kept: Tensor) -> Tensor:
    """NVIDIA NeMo, RNNTJoint.joint_after_projection up to its last linear layer, dropout 0.2."""
    f = encoder.unsqueeze(dim=2)
    g = prediction.unsqueeze(dim=1)
    inp = F.relu(f + g)
    return inp * kept / 0.8


layer(
    "RNN-T joint 151 x 41 x 640",
    rnnt_joint,
    like(8, 151, 640),
    like(8, 41, 640),
    given(8, 151, 41, 640, dtype=torch.bool, below=2),
)


# --------------------------------------------------------------------------------------- diffusion


def edm2_sum_normalize_silu(x: Tensor, y: Tensor, emb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """NVlabs/edm2, between two Blocks: mp_sum and clip_act, normalize over pixels, mp_silu."""
    y = F.silu(y * (emb + 1).unsqueeze(2).unsqueeze(3).to(y.dtype)) / 0.596
    x = x.lerp(y, 0.3) / math.sqrt((1 - 0.3) ** 2 + 0.3**2)
    x = x.clip(-256, 256)
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=F32)
    norm = torch.add(1e-4, norm, alpha=math.sqrt(norm.numel() / x.numel()))
    h = x / norm.to(x.dtype)
    return x, h, F.silu(h) / 0.596


layer(
    "EDM2 sum, normalize, SiLU 384 32",
    edm2_sum_normalize_silu,
    like(48, 384, 32, 32),
    like(48, 384, 32, 32),
    like(48, 384),
)


def min_snr_loss(pred: Tensor, latents: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
    """diffusers, train_text_to_image.py of a v-prediction model with --snr_gamma 5."""
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=F32, device=pred.device) ** 2
    alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
    alpha = (alphas_cumprod**0.5)[timesteps].float()
    sigma = ((1.0 - alphas_cumprod) ** 0.5)[timesteps].float()
    snr = (alpha / sigma) ** 2
    sqrt_alpha, sqrt_rest = alpha.to(latents.dtype), sigma.to(latents.dtype)
    while len(sqrt_alpha.shape) < len(latents.shape):
        sqrt_alpha, sqrt_rest = sqrt_alpha.unsqueeze(-1), sqrt_rest.unsqueeze(-1)
    target = sqrt_alpha * noise - sqrt_rest * latents
    mse_loss_weights = torch.stack([snr, 5.0 * torch.ones_like(timesteps)], dim=1).min(dim=1)[0]
    mse_loss_weights = mse_loss_weights / (snr + 1)
    loss = F.mse_loss(pred.float(), target.float(), reduction="none")
    loss = loss.mean(dim=list(range(1, len(loss.shape)))) * mse_loss_weights
    return loss.mean()


layer(
    "min-SNR velocity loss 4 x 96",
    min_snr_loss,
    like(384, 4, 96, 96),
    given(384, 4, 96, 96),
    given(384, 4, 96, 96),
    given(384, below=1000),
)


def guided_dpm_solver_step(sample: Tensor, previous: Tensor, *outputs: Tensor) -> Any:
    """diffusers, DPMSolverMultistepScheduler of second order, flow prediction, guided."""
    text, unconditional = outputs
    noise_pred = unconditional + 5.0 * (text - unconditional)
    sigmas = torch.linspace(1, 0.001, 51, dtype=F32, device=sample.device)
    sigmas = 3.0 * sigmas / (1 + (3.0 - 1) * sigmas)
    sigma_t, sigma_s0, sigma_s1 = sigmas[21], sigmas[20], sigmas[19]
    x0 = sample - sigma_s0 * noise_pred
    x = sample.to(F32)
    alpha_t, alpha_s0, alpha_s1 = 1 - sigma_t, 1 - sigma_s0, 1 - sigma_s1
    lambda_t = torch.log(alpha_t) - torch.log(sigma_t)
    lambda_s0 = torch.log(alpha_s0) - torch.log(sigma_s0)
    lambda_s1 = torch.log(alpha_s1) - torch.log(sigma_s1)
    h, h_0 = lambda_t - lambda_s0, lambda_s0 - lambda_s1
    r0 = h_0 / h
    d0, d1 = x0, (1.0 / r0) * (x0 - previous)
    x_t = (
        (sigma_t / sigma_s0) * x
        - (alpha_t * (torch.exp(-h) - 1.0)) * d0
        - 0.5 * (alpha_t * (torch.exp(-h) - 1.0)) * d1
    )
    return x_t.to(noise_pred.dtype), x0


layer(
    "guided DPM-Solver step 16 x 21 x 90 x 160",
    guided_dpm_solver_step,
    *(given(3, 16, 21, 90, 160) for _ in range(4)),
)


def ltx_heads(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, weight_q: Tensor, weight_k: Tensor
) -> tuple[Tensor, Tensor]:
    """diffusers, LTXVideoAttnProcessor: norms across heads, rotation, then the heads."""

    def rms(x: Tensor, weight: Tensor) -> Tensor:
        variance = x.to(F32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-5)
        return x.to(weight.dtype) * weight

    def rotated(x: Tensor) -> Tensor:
        x_real, x_imag = x.unflatten(2, (-1, 2)).unbind(-1)
        x_rotated = torch.stack([-x_imag, x_real], dim=-1).flatten(2)
        return (x.float() * cos + x_rotated.float() * sin).to(x.dtype)

    query, key = rotated(rms(query, weight_q)), rotated(rms(key, weight_k))
    return query.unflatten(2, (32, -1)).transpose(1, 2), key.unflatten(2, (32, -1)).transpose(1, 2)


layer(
    "LTX query norms and rope 2688 x 2048",
    ltx_heads,
    like(2, 2688, 2048),
    like(2, 2688, 2048),
    given(1, 2688, 2048, dtype=F32),
    given(1, 2688, 2048, dtype=F32),
    *weights(2048, 2048),
)


def nafnet_gate(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """megvii-research/NAFNet, SimpleGate and its simplified channel attention."""
    x1, x2 = x.chunk(2, dim=1)
    x = x1 * x2
    pooled = F.adaptive_avg_pool2d(x, 1)
    attention = F.linear(pooled.flatten(1), weight, bias)[..., None, None]
    return x * attention


layer(
    "NAFNet gate and channel attention 64 128",
    nafnet_gate,
    like(12, 128, 128, 128),
    like(64, 64),
    like(64),
)


def lumina_sandwich(x: Tensor, attn: Tensor, modulation: Tensor, *norms: Tensor) -> Any:
    """Alpha-VLLM/Lumina-T2X, TransformerBlock of NextDiT: tanh gates around sandwiched norms."""
    gate_msa, scale_mlp, gate_mlp = modulation.chunk(3, dim=1)

    def norm(h: Tensor, weight: Tensor) -> Tensor:
        output = (h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(
            h
        )
        return output * weight

    x = x + gate_msa.unsqueeze(1).tanh() * norm(attn, norms[0])
    h = norm(x, norms[1]) * (1 + scale_mlp.unsqueeze(1))
    return x, h, gate_mlp.unsqueeze(1).tanh()


layer(
    "Lumina sandwiched norms 1053 x 2304",
    lumina_sandwich,
    like(8, 1053, 2304),
    like(8, 1053, 2304),
    like(8, 6912),
    *weights(2304, 2304),
)


# -------------------------------------------------------------------------- reinforcement learning


def gae(rewards: Tensor, values: Tensor, dones: Tensor, last_values: Tensor) -> Any:
    """Denys88/rl_games, A2CBase.discount_values, then the normalized advantages."""
    last_gae: Any = 0
    horizon = rewards.shape[0]
    reversed_advantages = []
    for t in reversed(range(horizon)):
        next_values = last_values if t == horizon - 1 else values[t + 1]
        nonterminal = 1.0 - dones[t].float()
        delta = rewards[t] + 0.99 * next_values * nonterminal - values[t]
        last_gae = delta + 0.99 * 0.95 * nonterminal * last_gae
        reversed_advantages.append(last_gae)
    advantages = torch.stack(reversed_advantages[::-1])
    returns = advantages + values
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return advantages, returns


layer(
    "generalized advantages 16 x 262144",
    gae,
    given(16, 262144, dtype=F32),
    given(16, 262144, dtype=F32),
    given(16, 262144, dtype=torch.uint8, below=2),
    given(262144, dtype=F32),
)


def c51_loss(logits: Tensor, target_logits: Tensor, rewards: Tensor, dones: Tensor) -> Tensor:
    """google/dopamine, project_distribution and the loss of its RainbowAgent, in torch."""
    support = torch.linspace(-10.0, 10.0, 51, device=logits.device)
    delta_z = support[1] - support[0]
    target_support = rewards + 0.99 * (1.0 - dones.float()) * support[None, :]
    clipped = torch.clamp(target_support, -10.0, 10.0)[:, None, :]
    quotient = 1 - (torch.abs(clipped - support[None, :, None]) / delta_z)
    clipped_quotient = torch.clamp(quotient, 0, 1)
    weight = F.softmax(target_logits, dim=-1)[:, None, :]
    target = (clipped_quotient * weight).sum(2).detach()
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1).mean()


layer(
    "C51 projected loss 51",
    c51_loss,
    like(32768, 51, dtype=F32),
    given(32768, 51, dtype=F32),
    given(32768, 1, dtype=F32),
    given(32768, 1, dtype=torch.uint8, below=2),
)


def sac_actor(
    mean: Tensor, log_std: Tensor, noise: Tensor, scale: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """vwxyzjn/cleanrl, Actor.get_action of sac_continuous_action.py."""
    log_std = torch.tanh(log_std)
    log_std = -5 + 0.5 * (2 - -5) * (log_std + 1)
    std = log_std.exp()
    x_t = mean + std * noise
    y_t = torch.tanh(x_t)
    action = y_t * scale + bias
    log_prob = -((x_t - mean) ** 2) / (2 * std**2) - std.log() - math.log(math.sqrt(2 * math.pi))
    log_prob = log_prob - torch.log(scale * (1 - y_t.pow(2)) + 1e-6)
    return action, log_prob.sum(1, keepdim=True), torch.tanh(mean) * scale + bias


layer(
    "SAC squashed Gaussian 17",
    sac_actor,
    like(262144, 17, dtype=F32),
    like(262144, 17, dtype=F32),
    given(262144, 17, dtype=F32),
    given(17, dtype=F32, positive=True),
    given(17, dtype=F32),
)


def two_hot_loss(logits: Tensor, returns: Tensor) -> tuple[Tensor, Tensor]:
    """NM512/dreamerv3-torch, DiscDist: log_prob of symlog returns, and the mean."""
    buckets = torch.linspace(-20.0, 20.0, steps=255, device=logits.device)
    x = torch.sign(returns) * torch.log(torch.abs(returns) + 1.0)
    below = torch.sum((buckets <= x[..., None]).to(torch.int32), dim=-1) - 1
    above = len(buckets) - torch.sum((buckets > x[..., None]).to(torch.int32), dim=-1)
    below = torch.clip(below, 0, len(buckets) - 1)
    above = torch.clip(above, 0, len(buckets) - 1)
    equal = below == above
    dist_to_below = torch.where(equal, 1, torch.abs(buckets[below] - x))
    dist_to_above = torch.where(equal, 1, torch.abs(buckets[above] - x))
    total = dist_to_below + dist_to_above
    weight_below = dist_to_above / total
    weight_above = dist_to_below / total
    target = (
        F.one_hot(below.long(), num_classes=len(buckets)) * weight_below[..., None]
        + F.one_hot(above.long(), num_classes=len(buckets)) * weight_above[..., None]
    )
    log_pred = logits - torch.logsumexp(logits, -1, keepdim=True)
    mean = torch.sum(torch.softmax(logits, -1) * buckets, dim=-1, keepdim=True)
    value = torch.sign(mean) * (torch.exp(torch.abs(mean)) - 1.0)
    return -(target * log_pred).sum(-1).mean(), value.detach()


layer(
    "Dreamer two-hot symlog loss 255",
    two_hot_loss,
    like(2048, 15, 255, dtype=F32),
    given(2048, 15, dtype=F32),
)


def orpo_loss(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """TRL, ORPOTrainer: averaged get_batch_logps of both halves, then odds_ratio_loss."""
    labels = labels[:, 1:].clone()
    logits = logits[:, :-1, :]
    loss_mask = labels > 400
    labels = torch.where(loss_mask, labels, 0)
    per_token = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    logps = (per_token * loss_mask).sum(-1) / loss_mask.sum(-1)
    n = logits.shape[0] // 2
    chosen, rejected = logps[:n].float(), logps[n:].float()
    log_odds = (chosen - rejected) - (
        torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected))
    )
    ratio = F.logsigmoid(log_odds)
    return -chosen.mean() - (0.1 * ratio).mean(), log_odds.detach()


layer("ORPO loss 49152", orpo_loss, like(8, 130, 49152), given(8, 130, below=49152))


# ---------------------------------------------------------------------- graphs and recommendations


def gatv2_neighbours(x_r: Tensor, x_l: Tensor, att: Tensor, index: Tensor, valid: Tensor) -> Tensor:
    """torch_geometric, GATv2Conv of sampled neighbours, as many for each node."""
    heads, width = att.shape[1:]
    x_j = x_l.view(-1, heads, width)[index]
    x = x_r.view(-1, 1, heads, width) + x_j
    x = F.leaky_relu(x, 0.2)
    alpha = (x * att).sum(dim=-1)
    alpha = alpha.masked_fill(~valid.unsqueeze(-1), -1e4)
    alpha = torch.softmax(alpha, dim=1)
    return (x_j * alpha.unsqueeze(-1)).sum(dim=1).flatten(1)


layer(
    "GATv2 of 15 neighbours 8 x 32",
    gatv2_neighbours,
    like(8192, 256),
    like(30011, 256),
    like(1, 8, 32),
    given(8192, 15, below=30011),
    given(8192, 15, dtype=torch.bool, below=2),
)


def pna_aggregate(messages: Tensor, degree: Tensor) -> Tensor:
    """lukecavabarrett/pna, the four dense aggregators and three scalers of a PNALayer."""
    degree = degree + 1
    neighbours = messages.shape[1]
    mask = torch.arange(neighbours, device=messages.device)[None, :] < degree[:, None]
    m = mask.unsqueeze(-1)
    d = degree.to(messages.dtype).unsqueeze(-1)
    mean = (messages * m).sum(1) / d
    smallest = torch.where(m, messages, 1e9).amin(1)
    largest = torch.where(m, messages, -1e9).amax(1)
    std = torch.sqrt(F.relu((messages**2 * m).sum(1) / d - mean**2) + 1e-5)
    h = torch.cat([mean, smallest, largest, std], dim=-1)
    scale = torch.log(d + 1) / 1.86
    return torch.cat([h, h * scale, h / scale], dim=-1)


layer(
    "PNA aggregators 12 x 75",
    pna_aggregate,
    like(16384, 12, 75, dtype=F32),
    given(16384, below=12),
)


def bessel_basis(vectors: Tensor, freq: Tensor) -> tuple[Tensor, Tensor]:
    """torch_geometric, BesselBasisLayer and Envelope of DimeNet, from the vectors of the edges."""
    dist = vectors.pow(2).sum(dim=-1).sqrt()
    x = dist.unsqueeze(-1) / 3.0
    p = 6
    a, b, c = -(p + 1) * (p + 2) / 2, p * (p + 2), -p * (p + 1) / 2
    x_pow_p0 = x.pow(p - 1)
    x_pow_p1 = x_pow_p0 * x
    x_pow_p2 = x_pow_p1 * x
    envelope = (1.0 / x + a * x_pow_p0 + b * x_pow_p1 + c * x_pow_p2) * (x < 1.0).to(x.dtype)
    return envelope * (freq * x).sin(), vectors / dist.unsqueeze(-1)


layer(
    "DimeNet Bessel basis 16",
    bessel_basis,
    like(600011, 3, dtype=F32),
    like(16, dtype=F32),
)


def painn_mixing(q: Tensor, mu: Tensor, mu_mix: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """atomistic-machine-learning/schnetpack, PaiNNMixing around its network, F = 128."""
    n = q.shape[-1]
    mu_v, mu_w = torch.split(mu_mix, n, dim=-1)
    mu_vn = torch.sqrt(torch.sum(mu_v**2, dim=-2, keepdim=True) + 1e-8)
    context = torch.cat([q, mu_vn], dim=-1)
    dq_intra, dmu_intra, dqmu_intra = torch.split(x, n, dim=-1)
    dmu_intra = dmu_intra * mu_w
    dqmu_intra = dqmu_intra * torch.sum(mu_v * mu_w, dim=1, keepdim=True)
    return q + dq_intra + dqmu_intra, mu + dmu_intra, context


layer(
    "PaiNN mixing 128",
    painn_mixing,
    like(12001, 1, 128, dtype=F32),
    like(12001, 3, 128, dtype=F32),
    like(12001, 3, 256, dtype=F32),
    like(12001, 1, 384, dtype=F32),
)


def in_batch_softmax(
    scores: Tensor, log_q: Tensor, positive_ids: Tensor, candidate_ids: Tensor
) -> Tensor:
    """tensorflow/recommenders, Retrieval in torch: log-Q correction, accidental hits taken out."""
    rows = scores.shape[0]
    labels = torch.arange(rows, device=scores.device)
    scores = scores.float() / 0.05
    scores = scores - log_q
    duplicate = positive_ids[:, None] == candidate_ids[None, :]
    own = labels[:, None] == torch.arange(scores.shape[1], device=scores.device)[None, :]
    scores = scores + torch.where(duplicate & ~own, torch.finfo(F32).min / 100, 0.0)
    return F.cross_entropy(scores, labels, reduction="sum")


layer(
    "in-batch softmax 4096 and 1024",
    in_batch_softmax,
    like(4096, 5120),
    given(5120, dtype=F32),
    given(4096, below=60000),
    given(5120, below=60000),
)


def lightgcn_bpr(users: Tensor, positive: Tensor, negative: Tensor, *embs: Tensor) -> Tensor:
    """gusye1234/LightGCN-PyTorch, the mean of the layers and bpr_loss."""
    light_out = torch.mean(torch.stack(embs, dim=1), dim=1)
    all_users, all_items = torch.split(light_out, [29858, 40981])
    users_0, items_0 = torch.split(embs[0], [29858, 40981])
    users_emb, pos_emb, neg_emb = all_users[users], all_items[positive], all_items[negative]
    reg_loss = (
        0.5
        * (
            users_0[users].norm(2).pow(2)
            + items_0[positive].norm(2).pow(2)
            + items_0[negative].norm(2).pow(2)
        )
        / float(len(users))
    )
    pos_scores = torch.sum(torch.mul(users_emb, pos_emb), dim=1)
    neg_scores = torch.sum(torch.mul(users_emb, neg_emb), dim=1)
    return torch.mean(F.softplus(neg_scores - pos_scores)) + 1e-4 * reg_loss


layer(
    "LightGCN layer mean and BPR 64",
    lightgcn_bpr,
    given(8192, below=29858),
    given(8192, below=40981),
    given(8192, below=40981),
    *(like(70839, 64, dtype=F32) for _ in range(4)),
)


def dice(
    x: Tensor, alpha: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """shenweichen/DeepCTR-Torch, Dice, its batch norm in training spelled out."""
    h = x.float()
    batch_var, batch_mean = torch.var_mean(h, dim=0, unbiased=False)
    n = x.shape[0]
    normed = (h - batch_mean) / torch.sqrt(batch_var + 1e-8) * weight + bias
    x_p = torch.sigmoid(normed).to(x.dtype)
    out = alpha * (1 - x_p) * x + x_p * x
    new_mean = 0.9 * mean + 0.1 * batch_mean.detach()
    new_var = 0.9 * var + 0.1 * batch_var.detach() * (n / (n - 1))
    return out, new_mean, new_var


layer(
    "DIN Dice 80",
    dice,
    like(204800, 80),
    like(80),
    *weights(80, 80, dtype=F32),
    given(80, dtype=F32),
    given(80, dtype=F32, positive=True),
)


# ------------------------------------------------------------------------------------------ vision


def mobilenet_norm_hard_swish(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> tuple[Tensor, ...]:
    """torchvision, MobileNetV3: batch norm in training, Hardswish, the mean to squeeze."""
    batch_var, batch_mean = torch.var_mean(x.float(), dim=(0, 2, 3), correction=0)
    n = x.numel() // x.shape[1]
    scale = weight * torch.rsqrt(batch_var + 1e-3)
    shift = bias - batch_mean * scale
    h = (x.float() * scale[None, :, None, None] + shift[None, :, None, None]).to(x.dtype)
    h = F.hardswish(h)
    pooled = F.adaptive_avg_pool2d(h, 1)
    new_mean = torch.lerp(mean, batch_mean.detach(), 0.01)
    new_var = torch.lerp(var, batch_var.detach() * (n / (n - 1)), 0.01)
    return h, pooled, new_mean, new_var


layer(
    "MobileNetV3 training norm and hard swish 240 28",
    mobilenet_norm_hard_swish,
    like(128, 240, 28, 28, channels_last=True),
    *weights(240, 240, dtype=F32),
    given(240, dtype=F32),
    given(240, dtype=F32, positive=True),
)


def dcae_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Any:
    """mit-han-lab/efficientvit, RMSNorm2d behind a convolution of DC-AE, residual, ReLU."""
    h = x.float()
    h = (h / torch.sqrt(torch.square(h).mean(dim=1, keepdim=True) + 1e-5)).to(x.dtype)
    h = h * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)
    out = h + residual
    return out, F.relu(out)


layer(
    "DC-AE RMS norm of channels 512 40 x 60",
    dcae_rms_norm,
    like(12, 512, 40, 60, dtype=F16),
    like(12, 512, 40, 60, dtype=F16),
    *weights(512, 512, dtype=F16),
)


def mask_point_losses(inputs: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """facebookresearch/Mask2Former, sigmoid_ce_loss and dice_loss of sampled points."""
    targets = (points > 0).to(inputs.dtype)
    num_masks = max(inputs.shape[0], 1)
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    mask_loss = loss.mean(1).sum() / num_masks
    probs = inputs.sigmoid().flatten(1)
    numerator = 2 * (probs * targets).sum(-1)
    denominator = probs.sum(-1) + targets.sum(-1)
    dice_loss = (1 - (numerator + 1) / (denominator + 1)).sum() / num_masks
    return mask_loss, dice_loss


layer(
    "Mask2Former point losses 12544",
    mask_point_losses,
    like(731, 12544, dtype=F32),
    given(731, 12544, dtype=F32),
)


def yolo_decode(x_cat: Tensor, anchors: Tensor, strides: Tensor) -> Tensor:
    """ultralytics, Detect._inference of YOLOv8 with its DFL and dist2bbox."""
    b, _, a = x_cat.shape
    box, cls = x_cat.split((64, 80), 1)
    project = torch.arange(16, dtype=x_cat.dtype, device=x_cat.device)
    probs = box.view(b, 4, 16, a).transpose(2, 1).softmax(1)
    distance = (probs * project.view(1, 16, 1, 1)).sum(1)
    lt, rb = distance.chunk(2, 1)
    x1y1 = anchors.unsqueeze(0) - lt
    x2y2 = anchors.unsqueeze(0) + rb
    dbox = torch.cat(((x1y1 + x2y2) / 2, x2y2 - x1y1), 1) * strides
    return torch.cat((dbox, cls.sigmoid()), 1)


layer(
    "YOLOv8 box decoding 8400",
    yolo_decode,
    given(32, 144, 8400, dtype=F16),
    given(2, 8400, dtype=F16, positive=True),
    given(1, 8400, dtype=F16, positive=True),
)


def yolo_focus(images: Tensor) -> Tensor:
    """ultralytics/yolov5, Focus up to its convolution, of uint8 images."""
    x = images.half() / 255
    return torch.cat(
        (x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), 1
    )


layer(
    "YOLOv5 focus of uint8 images 640",
    yolo_focus,
    given(32, 3, 640, 640, dtype=torch.uint8, below=256),
)


def scaled_std_weights(*tensors: Tensor) -> list[Tensor]:
    """timm, ScaledStdConv2d of NFNets: the weights of three blocks, each with its gain."""
    standardized = []
    for weight, gain in zip(tensors[::2], tensors[1::2], strict=True):
        scale = 1.7881293296813965 * weight[0].numel() ** -0.5
        standardized.append(
            F.batch_norm(
                weight.reshape(1, weight.shape[0], -1),
                None,
                None,
                weight=(gain * scale).view(-1),
                training=True,
                momentum=0.0,
                eps=1e-6,
            ).reshape_as(weight)
        )
    return standardized


NFNET = ((768, 1536, 1), (768, 128, 3), (768, 128, 3), (1536, 768, 1))
layer(
    "NFNet standardized weights, 12 tensors",
    scaled_std_weights,
    *(
        each
        for out, width, side in NFNET * 3
        for each in (like(out, width, side, side, dtype=F32), like(out, 1, 1, 1, dtype=F32))
    ),
)


def xcit_heads(qkv: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """timm, XCA of XCiT before its products: normalized over the tokens."""
    b, n, width = qkv.shape
    qkv = qkv.reshape(b, n, 3, 8, width // 24).permute(2, 0, 3, 4, 1)
    q, k, v = qkv.unbind(0)
    q = F.normalize(q, p=2.0, dim=-1) * temperature
    k = F.normalize(k, p=2.0, dim=-1)
    return q, k, v.contiguous()


layer("XCiT normalized heads 785 x 384", xcit_heads, like(32, 785, 1152), like(8, 1, 1))


def asymmetric_loss(x: Tensor, labels: Tensor) -> Tensor:
    """Alibaba-MIIL/ASL, AsymmetricLoss, its focusing under no_grad."""
    y = labels.to(x.dtype)
    xs_pos = torch.sigmoid(x)
    xs_neg = (1 - xs_pos + 0.05).clamp(max=1)
    los_pos = y * torch.log(xs_pos.clamp(min=1e-8))
    los_neg = (1 - y) * torch.log(xs_neg.clamp(min=1e-8))
    loss = los_pos + los_neg
    with torch.no_grad():
        pt = xs_pos * y + xs_neg * (1 - y)
        one_sided_gamma = 1 * y + 4 * (1 - y)
        one_sided_w = torch.pow(1 - pt, one_sided_gamma)
    return -(loss * one_sided_w).sum()


layer(
    "asymmetric loss 9605",
    asymmetric_loss,
    like(768, 9605, dtype=F32),
    given(768, 9605, dtype=torch.bool, below=2),
)


# --------------------------------------------------------------------------------- language models


def chatglm_heads(mixed: Tensor, rope_cache: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """THUDM/chatglm3-6b, SelfAttention: half of each head turns, two groups of keys for all."""
    query, key, value = mixed.split([4096, 256, 256], dim=-1)
    query = query.view((*query.size()[:-1], 32, 128))
    key = key.view((*key.size()[:-1], 2, 128))
    value = value.view((*value.size()[:-1], 2, 128))

    def turned(x: Tensor) -> Tensor:
        sq, _, heads, _ = x.size()
        x, x_pass = x[..., :64], x[..., 64:]
        cache = rope_cache[:sq]
        xshaped = x.reshape(sq, -1, heads, 32, 2)
        cache = cache.view(sq, -1, 1, xshaped.size(3), 2)
        x_out = torch.stack(
            [
                xshaped[..., 0] * cache[..., 0] - xshaped[..., 1] * cache[..., 1],
                xshaped[..., 1] * cache[..., 0] + xshaped[..., 0] * cache[..., 1],
            ],
            -1,
        )
        return torch.cat((x_out.flatten(3), x_pass), dim=-1)

    def spread(x: Tensor) -> Tensor:
        x = x.unsqueeze(-2).expand(-1, -1, -1, 16, -1)
        return x.contiguous().view((*x.size()[:2], 32, 128))

    query, key, value = turned(query), spread(turned(key)), spread(value)
    return tuple(x.permute(1, 2, 0, 3) for x in (query, key, value))  # type: ignore[return-value]


layer("ChatGLM heads 1019 x 4", chatglm_heads, like(1019, 4, 4608), given(8192, 32, 2))


def sink_window_softmax(scores: Tensor) -> Tensor:
    """mit-han-lab/streaming-llm on Mistral: a window of 384 keys and the first four."""
    q, k = scores.shape[-2:]
    ones = torch.ones(q, k, dtype=torch.bool, device=scores.device)
    allowed = ones.tril() & ~ones.tril(-384)
    allowed = allowed | (ones.tril() & (torch.arange(k, device=scores.device) < 4)[None, :])
    scores = scores / math.sqrt(128)
    scores = scores.masked_fill(~allowed[None, None], torch.finfo(scores.dtype).min)
    return F.softmax(scores, dim=-1, dtype=F32).to(scores.dtype)


layer("sinks and window softmax 1100", sink_window_softmax, like(1, 32, 1100, 1100))


def balance_loss(*gate_logits: Tensor) -> Tensor:
    """transformers, load_balancing_loss_func of Qwen2-MoE: 24 layers, four of 60 experts."""
    concatenated = torch.cat(gate_logits, dim=0)
    routing_weights = F.softmax(concatenated, dim=-1)
    _, selected = torch.topk(routing_weights, 4, dim=-1)
    expert_mask = F.one_hot(selected, 60)
    tokens_per_expert = torch.mean(expert_mask.float(), dim=0)
    router_prob_per_expert = torch.mean(routing_weights, dim=0)
    return torch.sum(tokens_per_expert * router_prob_per_expert.unsqueeze(0)) * 60


layer("Qwen balance loss 24 x 60", balance_loss, *(like(8192, 60) for _ in range(24)))


def kivi_keys(key: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """jy-yuan/KIVI, quant_and_pack_kcache: two bits, by channels, groups of 32 tokens."""
    b, heads, t, d = key.shape
    data = key.view(b, heads, t // 32, 32, d)
    mn = torch.min(data, dim=-2, keepdim=True)[0]
    mx = torch.max(data, dim=-2, keepdim=True)[0]
    scale = (mx - mn) / 3
    data = (data - mn) / scale
    data = data.clamp(0, 3).round().to(torch.int32).view(b, heads, t // 16, 16, d)
    code = data[..., 0, :]
    for i in range(1, 16):
        code = code | (data[..., i, :] << (2 * i))
    return code, scale, mn


layer("KIVI keys of two bits 4096", kivi_keys, given(6, 8, 4096, 128, dtype=F16))


def awq_weight(qweight: Tensor, qzeros: Tensor, scales: Tensor) -> Tensor:
    """casper-hansen/AutoAWQ, dequantize_gemm: four bits, groups of 128."""
    shifts = torch.arange(0, 32, 4, device=qweight.device)
    qweight = qweight.reshape(-1, qweight.shape[-1])
    iweights = torch.bitwise_right_shift(qweight[:, :, None], shifts[None, None, :]).to(torch.int8)
    iweights = iweights.view(iweights.shape[0], -1)
    izeros = torch.bitwise_right_shift(qzeros[:, :, None], shifts[None, None, :]).to(torch.int8)
    izeros = izeros.view(izeros.shape[0], -1)
    order = torch.arange(iweights.shape[-1], dtype=torch.int32, device=qweight.device)
    order = order.view(-1, 8)[:, [0, 4, 1, 5, 2, 6, 3, 7]].view(-1)
    iweights, izeros = iweights[:, order], izeros[:, order]
    iweights = torch.bitwise_and(iweights, 15)
    izeros = torch.bitwise_and(izeros, 15)
    scales = scales.repeat_interleave(128, dim=0)
    izeros = izeros.repeat_interleave(128, dim=0)
    return (iweights - izeros) * scales


layer(
    "AWQ weight 4096 x 14336",
    awq_weight,
    given(32, 128, 1792, dtype=torch.int32, below=2**31 - 1),
    given(32, 1792, dtype=torch.int32, below=2**31 - 1),
    given(32, 14336, dtype=F16),
)


def dora_output(
    base: Tensor, lora: Tensor, weight: Tensor, lora_weight: Tensor, magnitude: Tensor
) -> Tensor:
    """huggingface/peft, DoraLinearLayer.forward, then the sum in Linear.forward."""
    weight = weight.to(base.dtype)
    weight_norm = torch.linalg.norm(weight + 2.0 * lora_weight.detach(), dim=1).to(weight.dtype)
    weight_norm = weight_norm.detach()
    mag_norm_scale = (magnitude / weight_norm).view(1, -1)
    result_dora = (mag_norm_scale - 1) * base + mag_norm_scale * lora * 2.0
    return base + result_dora


layer(
    "DoRA output 4096",
    dora_output,
    like(3001, 4096),
    like(3001, 4096),
    given(4096, 4096),
    given(4096, 4096),
    like(4096),
)


def lora_dropouts(x: Tensor, *kept: Tensor) -> list[Tensor]:
    """huggingface/peft, Linear.forward of q, k and v, each with a dropout of its own."""
    return [(x.to(F32) * k * (1.0 / 0.95)).to(x.dtype) for k in kept]


layer(
    "LoRA dropouts of q, k, v 3584",
    lora_dropouts,
    like(4099, 3584),
    *(given(4099, 3584, dtype=torch.bool, below=2) for _ in range(3)),
)


def penalties_min_p(
    logits: Tensor, prompts: Tensor, outputs: Tensor, temperature: Tensor, min_p: Tensor
) -> Tensor:
    """vllm, apply_penalties with its counts, temperature, apply_min_p."""
    n, vocabulary = logits.shape

    def counted(tokens: Tensor) -> Tensor:
        counts = torch.zeros((n, vocabulary + 1), dtype=torch.long, device=tokens.device)
        counts = counts.scatter_add(1, tokens, torch.ones_like(tokens))
        return counts[:, :vocabulary]

    logits = logits.to(F32)
    output_counts = counted(outputs)
    prompt_mask, output_mask = counted(prompts) > 0, output_counts > 0
    penalties = torch.where(prompt_mask | output_mask, 1.1, 1.0)
    scaling = torch.where(logits > 0, 1.0 / penalties, penalties)
    logits = logits * scaling
    logits = logits - 0.2 * output_counts
    logits = logits - 0.1 * output_mask
    logits = logits / (0.5 + temperature)
    probability = F.softmax(logits, dim=-1)
    most = torch.amax(probability, dim=-1, keepdim=True)
    invalid = probability < torch.sigmoid(min_p - 3) * most
    return logits.masked_fill(invalid, -float("inf"))


layer(
    "penalties and min-p 128256",
    penalties_min_p,
    given(64, 128256),
    given(64, 700, below=128257),
    given(64, 300, below=128257),
    given(64, 1, dtype=F32, positive=True),
    given(64, 1, dtype=F32),
)


def speculative_acceptance(
    target: Tensor, draft: Tensor, tokens: Tensor, uniform: Tensor, exponential: Tensor
) -> tuple[Tensor, Tensor]:
    """vllm, RejectionSampler._batch_modified_rejection_sampling of earlier versions."""
    target_probs = torch.softmax(target.float(), dim=-1)
    draft_probs = torch.softmax(draft.float(), dim=-1)
    chosen_target = target_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    chosen_draft = draft_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    accepted = uniform < torch.minimum(
        chosen_target / chosen_draft, torch.full((1,), 1, device=target.device)
    )
    difference = torch.clamp(target_probs - draft_probs, min=torch.finfo(F32).tiny)
    recovered = difference / torch.sum(difference, dim=-1, keepdim=True)
    recovered_ids = (recovered / exponential.unsqueeze(1)).argmax(dim=-1)
    alive = accepted.to(torch.int64).cumprod(dim=1)
    ids = torch.where(alive.bool(), tokens, recovered_ids)
    return ids, alive.sum(1)


layer(
    "speculative acceptance 5 x 32064",
    speculative_acceptance,
    given(96, 5, 32064),
    given(96, 5, 32064),
    given(96, 5, below=32064),
    given(96, 5, dtype=F32, positive=True),
    given(96, 32064, dtype=F32, positive=True),
)


def gaussian_topk_glu(gate_proj: Tensor, up_proj: Tensor) -> Tensor:
    """transformers, Gemma3nTextMLP with an activation sparsity of 0.95."""
    multiplier = torch.tensor(1.6448536269514722, dtype=F32, device=gate_proj.device)
    multiplier = multiplier.type(gate_proj.dtype)
    mean = torch.mean(gate_proj, dim=-1, keepdim=True)
    std = torch.std(gate_proj, dim=-1, keepdim=True, unbiased=False)
    cutoff = mean + std * multiplier
    return F.gelu(F.relu(gate_proj - cutoff), approximate="tanh") * up_proj


layer("Gemma 3n sparse GELU 16384", gaussian_topk_glu, like(1537, 16384), like(1537, 16384))


def manifold_hyper_connection(
    streams: Tensor, branch: Tensor, mix: Tensor, pre: Tensor, post: Tensor
) -> tuple[Tensor, Tensor]:
    """lucidrains/hyper-connections, manifold constrained: 20 Sinkhorn turns of 4 x 4."""
    log_mix = mix.float()
    log_mix = log_mix - log_mix.amax(dim=(-2, -1), keepdim=True)
    alpha = log_mix.exp()
    for _ in range(20):
        alpha = alpha / alpha.sum(dim=-1, keepdim=True).clamp(min=1e-6)
        alpha = alpha / alpha.sum(dim=-2, keepdim=True).clamp(min=1e-6)
    h_pre = torch.sigmoid(pre.float())
    h_post = 2 * torch.sigmoid(post.float())
    mixed = (alpha.to(streams.dtype).unsqueeze(-1) * streams.unsqueeze(-3)).sum(-2)
    out = mixed + branch.unsqueeze(-2) * h_post.to(branch.dtype).unsqueeze(-1)
    return out, (out * h_pre.to(out.dtype).unsqueeze(-1)).sum(-2)


layer(
    "manifold hyper-connections 4 x 2048",
    manifold_hyper_connection,
    like(3072, 4, 2048),
    like(3072, 2048),
    like(3072, 4, 4),
    like(3072, 4),
    like(3072, 4),
)


def gated_query_heads(
    projected: Tensor, attn: Tensor, cos: Tensor, sin: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """transformers, Qwen3NextAttention: query and gate, centred norm, a quarter turns."""
    shape = projected.shape[:-1]
    query, gate = torch.chunk(projected.view(*shape, -1, 512), 2, dim=-1)
    gate = gate.reshape(*shape, -1)
    h = query.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    query = (h * (1.0 + weight.float())).type_as(query).transpose(1, 2)
    q_rot, q_pass = query[..., :64], query[..., 64:]
    x1, x2 = q_rot[..., :32], q_rot[..., 32:]
    half = torch.cat((-x2, x1), dim=-1)
    q_embed = q_rot * cos.unsqueeze(1) + half * sin.unsqueeze(1)
    return torch.cat([q_embed, q_pass], dim=-1), attn * torch.sigmoid(gate)


layer(
    "Qwen3-Next gated query heads 16 x 256",
    gated_query_heads,
    like(2, 1535, 8192),
    like(2, 1535, 4096),
    given(2, 1535, 64),
    given(2, 1535, 64),
    like(256),
)


# -------------------------------------------------------------------------------------- optimizers


def adan_step(*tensors: Tensor) -> list[Tensor]:
    """sail-sg/Adan, _single_tensor_adan; p, g, m, v, n and the last g of each in turn."""
    out: list[Tensor] = []
    for p, g, m, v, n, last in zip(*(tensors[i::6] for i in range(6)), strict=True):
        diff = g - last
        update = g + 0.92 * diff
        m = m * 0.98 + g * 0.02
        v = v * 0.92 + diff * 0.08
        n = n * 0.99 + (update * update) * 0.01
        denom = n.sqrt() / math.sqrt(1 - 0.99**10) + 1e-8
        p = p * (1 - 1e-3 * 0.02)
        p = p.addcdiv(m, denom, value=-1e-3 / (1 - 0.98**10))
        p = p.addcdiv(v, denom, value=-1e-3 * 0.92 / (1 - 0.92**10))
        out += [p, m, v, n]
    return out


ADAN = ((768,), (2304, 768), (2304,), (768, 768), (768,), (3072, 768), (3072,), (768, 3072))
layer(
    "Adan step, 8 tensors",
    adan_step,
    *(given(*shape, dtype=F32, positive=i == 4) for shape in ADAN for i in range(6)),
)


def schedule_free_step(*tensors: Tensor) -> list[Tensor]:
    """facebookresearch/schedule_free, AdamWScheduleFree; y, g, z and exp_avg_sq of each."""
    out: list[Tensor] = []
    beta1, beta2, lr, ckp1 = 0.9, 0.999, 0.0025, 0.0099
    for y, g, z, v in zip(*(tensors[i::4] for i in range(4)), strict=True):
        grad = g.to(F32)
        v = v.mul(beta2).addcmul(grad, grad, value=1 - beta2)
        denom = v.div(1 - beta2**100).sqrt().add(1e-8)
        grad_normalized = grad.div(denom)
        grad_normalized = grad_normalized.add(y, alpha=0.1)
        y = y.lerp(end=z, weight=ckp1)
        y = y.add(grad_normalized, alpha=lr * (beta1 * (1 - ckp1) - 1))
        z = z.sub(grad_normalized, alpha=lr)
        out += [y, z, v, y.to(BF16)]
    return out


layer(
    "schedule-free AdamW step, 9 tensors",
    schedule_free_step,
    *(
        each
        for shape in (
            (1024,),
            (2816, 1024),
            (2816, 1024),
            (1024, 2816),
            (1000, 1024),
            (257, 1024),
            (1024, 256),
            (1000,),
            (3, 1024),
        )
        for each in (
            given(*shape, dtype=F32),
            given(*shape),
            given(*shape, dtype=F32),
            given(*shape, dtype=F32, positive=True),
        )
    ),
)


def adam_8bit_step(
    p: Tensor,
    grad: Tensor,
    codes: Tensor,
    scale: Tensor,
    codes_2: Tensor,
    scale_2: Tensor,
) -> tuple[Tensor, ...]:
    """pytorch/ao, single_param_adam of AdamW8bit: states of 8 bits by blocks of 256."""
    device = p.device
    qmap_signed = torch.linspace(-1, 1, 256, device=device)
    qmap_signed = qmap_signed * qmap_signed.abs()
    qmap_unsigned = torch.linspace(0, 1, 256, device=device) ** 2

    def quantized(x: Tensor, qmap: Tensor) -> tuple[Tensor, Tensor]:
        block_scale = x.abs().amax(-1).clip(1e-12)
        x = (x / block_scale.view(-1, 1)).view(-1)
        found = torch.where(x >= qmap[128], 128, 0)
        for step in (64, 32, 16, 8, 4, 2, 1):
            found = found + torch.where(x >= qmap[found + step], step, 0)
        codes_up = (found + 1).clip(max=255)
        val_down, val_up = qmap[found], qmap[codes_up]
        residual = x - val_down
        found = torch.where(residual >= (val_up - val_down) * 0.5, codes_up, found)
        return found.to(torch.uint8), block_scale

    grad_f32 = grad.float()
    p_f32 = p.float()
    exp_avg = qmap_signed[codes.int()] * scale
    exp_avg_sq = qmap_unsigned[codes_2.int()] * scale_2
    p_f32 = p_f32 - 1e-3 * 0.01 * p_f32
    exp_avg = exp_avg.lerp(grad_f32, 1 - 0.9)
    exp_avg_sq = exp_avg_sq.lerp(grad_f32.square(), 1 - 0.999)
    new_codes, new_scale = quantized(exp_avg, qmap_signed)
    new_codes_2, new_scale_2 = quantized(exp_avg_sq, qmap_unsigned)
    denom = (exp_avg_sq.sqrt() / math.sqrt(1 - 0.999**10)) + 1e-8
    p_f32 = p_f32 - 1e-3 * (exp_avg / (1 - 0.9**10)) / denom
    return (
        p_f32.to(p.dtype),
        new_codes.view(codes.shape),
        new_scale,
        new_codes_2.view(codes.shape),
        new_scale_2,
    )


layer(
    "8-bit AdamW step 4096 x 4096",
    adam_8bit_step,
    given(65536, 256),
    given(65536, 256),
    given(65536, 256, dtype=torch.uint8, below=256),
    given(65536, 1, dtype=F32, positive=True),
    given(65536, 256, dtype=torch.uint8, below=256),
    given(65536, 1, dtype=F32, positive=True),
)


def adaptive_clip(*tensors: Tensor) -> list[Tensor]:
    """timm, adaptive_clip_grad with unitwise_norm; the parameter and gradient of each."""

    def unitwise_norm(x: Tensor) -> Tensor:
        if x.ndim <= 1:
            return x.norm(2.0)
        return x.norm(2.0, dim=tuple(range(1, x.ndim)), keepdim=True)

    clipped = []
    for p, g in zip(tensors[::2], tensors[1::2], strict=True):
        max_norm = unitwise_norm(p).clamp(min=1e-3).mul(0.01)
        grad_norm = unitwise_norm(g)
        clipped_grad = g * (max_norm / grad_norm.clamp(min=1e-6))
        clipped.append(torch.where(grad_norm < max_norm, g, clipped_grad))
    return clipped


layer(
    "adaptive gradient clipping, 16 tensors",
    adaptive_clip,
    *(
        given(*shape, dtype=F32)
        for shape in (
            (256,),
            (256, 128, 3, 3),
            (512, 256, 1, 1),
            (512,),
            (768, 1536, 1, 1),
            (768, 128, 3, 3),
            (768,),
            (1536, 768, 1, 1),
        )
        * 2
        for _ in range(2)
    ),
)


# ----------------------------------------------------------------------------------------- science


def recycling_embedder(
    m: Tensor, z: Tensor, x: Tensor, weight: Tensor, bias: Tensor, *norms: Tensor
) -> tuple[Tensor, Tensor]:
    """aqlaboratory/openfold, RecyclingEmbedder: distance bins through a tiny linear layer."""
    m_update = F.layer_norm(m, m.shape[-1:], norms[0], norms[1])
    z_update = F.layer_norm(z, z.shape[-1:], norms[2], norms[3])
    bins = torch.linspace(3.25, 20.75, 15, dtype=x.dtype, device=x.device)
    squared_bins = bins**2
    upper = torch.cat([squared_bins[1:], squared_bins.new_tensor([1e8])], dim=-1)
    x = x * 8
    d = torch.sum((x[..., None, :] - x[..., None, :, :]) ** 2, dim=-1, keepdims=True)
    d = ((d > squared_bins) * (d < upper)).type(x.dtype)
    d = F.linear(d, weight, bias)
    return m_update, z_update + d


layer(
    "OpenFold recycled distances 384 x 128",
    recycling_embedder,
    like(1, 384, 256, dtype=F32),
    like(1, 384, 384, 128, dtype=F32),
    given(1, 384, 3, dtype=F32),
    like(128, 15, dtype=F32),
    *weights(128, 256, 256, 128, 128, dtype=F32),
)


def triangle_gates(
    x: Tensor, projected: Tensor, out_gate: Tensor, update: Tensor, mask: Tensor, *norm: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """jwohlwend/boltz, TriangleMultiplicationOutgoing around its product, residual, next norm."""
    projected, gate = projected.chunk(2, dim=-1)
    x_in = projected * gate.sigmoid()
    x_in = x_in * mask.unsqueeze(-1)
    a, b = torch.chunk(x_in.float(), 2, dim=-1)
    z = x + update * out_gate.sigmoid()
    h = F.layer_norm(z, z.shape[-1:], norm[0], norm[1], 1e-5)
    return a.permute(0, 3, 1, 2), b.permute(0, 3, 1, 2), h


layer(
    "Boltz triangle gates 301 x 128",
    triangle_gates,
    like(1, 301, 301, 128),
    like(1, 301, 301, 512),
    like(1, 301, 301, 128),
    like(1, 301, 301, 128),
    given(1, 301, 301),
    *weights(128, 128),
)


def spherical_colours(sh: Tensor, xyz: Tensor, camera: Tensor) -> Tensor:
    """graphdeco-inria/gaussian-splatting, eval_sh of degree 3 as render calls it."""
    shs_view = sh.transpose(1, 2)
    dir_pp = xyz - camera.repeat(sh.shape[0], 1)
    dirs = dir_pp / dir_pp.norm(dim=1, keepdim=True)
    result = 0.28209479177387814 * shs_view[..., 0]
    x, y, z = dirs[..., 0:1], dirs[..., 1:2], dirs[..., 2:3]
    c1 = 0.4886025119029199
    result = result - c1 * y * shs_view[..., 1] + c1 * z * shs_view[..., 2]
    result = result - c1 * x * shs_view[..., 3]
    xx, yy, zz = x * x, y * y, z * z
    xy, yz, xz = x * y, y * z, x * z
    result = (
        result
        + 1.0925484305920792 * xy * shs_view[..., 4]
        - 1.0925484305920792 * yz * shs_view[..., 5]
        + 0.31539156525252005 * (2.0 * zz - xx - yy) * shs_view[..., 6]
        - 1.0925484305920792 * xz * shs_view[..., 7]
        + 0.5462742152960396 * (xx - yy) * shs_view[..., 8]
    )
    result = (
        result
        - 0.5900435899266435 * y * (3 * xx - yy) * shs_view[..., 9]
        + 2.890611442640554 * xy * z * shs_view[..., 10]
        - 0.4570457994644658 * y * (4 * zz - xx - yy) * shs_view[..., 11]
        + 0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy) * shs_view[..., 12]
        - 0.4570457994644658 * x * (4 * zz - xx - yy) * shs_view[..., 13]
        + 1.445305721320277 * z * (xx - yy) * shs_view[..., 14]
        - 0.5900435899266435 * x * (xx - 3 * yy) * shs_view[..., 15]
    )
    return torch.clamp_min(result + 0.5, 0.0)


layer(
    "Gaussian splats' colours 16 x 3",
    spherical_colours,
    like(300007, 16, 3, dtype=F32),
    like(300007, 3, dtype=F32),
    given(1, 3, dtype=F32),
)


def kan_splines(x: Tensor) -> tuple[Tensor, Tensor]:
    """Blealtan/efficient-kan, KANLinear.b_splines of order 3 on five intervals, and its SiLU."""
    h = 2.0 / 5
    grid = (torch.arange(-3, 9, device=x.device) * h - 1).expand(x.shape[-1], -1).contiguous()
    silu = F.silu(x)
    x = x.unsqueeze(-1)
    bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
    for k in range(1, 4):
        bases = (
            (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * bases[:, :, :-1]
        ) + ((grid[:, k + 1 :] - x) / (grid[:, k + 1 :] - grid[:, 1:(-k)]) * bases[:, :, 1:])
    return bases.contiguous().view(x.size(0), -1), silu


layer("KAN splines 784", kan_splines, like(2048, 784, dtype=F32))


# --------------------------------------------------------------------------- contrast of views


def vicreg_loss(x: Tensor, y: Tensor, cov_x: Tensor, cov_y: Tensor) -> Tensor:
    """facebookresearch/vicreg, VICReg.forward, the two covariances given."""

    def off_diagonal(c: Tensor) -> Tensor:
        n, _ = c.shape
        return c.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()

    repr_loss = F.mse_loss(x, y)
    x = x - x.mean(dim=0)
    y = y - y.mean(dim=0)
    std_x = torch.sqrt(x.var(dim=0) + 0.0001)
    std_y = torch.sqrt(y.var(dim=0) + 0.0001)
    std_loss = torch.mean(F.relu(1 - std_x)) / 2 + torch.mean(F.relu(1 - std_y)) / 2
    width = x.shape[1]
    cov_loss = off_diagonal(cov_x).pow(2).sum().div(width) + off_diagonal(cov_y).pow(2).sum().div(
        width
    )
    return 25.0 * repr_loss + 25.0 * std_loss + cov_loss


layer(
    "VICReg loss 2048",
    vicreg_loss,
    like(1536, 2048, dtype=F32),
    like(1536, 2048, dtype=F32),
    like(2048, 2048, dtype=F32),
    like(2048, 2048, dtype=F32),
)


def supcon_loss(dot: Tensor, labels: Tensor, contrast_labels: Tensor) -> Tensor:
    """HobbitLong/SupContrast, SupConLoss with contrast_mode "one", the products given."""
    n = dot.shape[0]
    mask = torch.eq(labels.view(-1, 1), contrast_labels.view(1, -1)).float()
    anchor_dot_contrast = torch.div(dot.float(), 0.07)
    logits_max, _ = torch.max(anchor_dot_contrast, dim=1, keepdim=True)
    logits = anchor_dot_contrast - logits_max.detach()
    logits_mask = torch.scatter(
        torch.ones_like(mask), 1, torch.arange(n, device=dot.device).view(-1, 1), 0
    )
    mask = mask * logits_mask
    exp_logits = torch.exp(logits) * logits_mask
    log_prob = logits - torch.log(exp_logits.sum(1, keepdim=True))
    mask_pos_pairs = mask.sum(1)
    mask_pos_pairs = torch.where(mask_pos_pairs < 1e-6, 1, mask_pos_pairs)
    mean_log_prob_pos = (mask * log_prob).sum(1) / mask_pos_pairs
    return (-(0.07 / 0.07) * mean_log_prob_pos).view(-1).mean()


layer(
    "SupCon loss 3000 x 6000",
    supcon_loss,
    like(3000, 6000),
    given(3000, below=1000),
    given(6000, below=1000),
)


def swav_sinkhorn_loss(out: Tensor, other: Tensor) -> Tensor:
    """facebookresearch/swav, distributed_sinkhorn of one crop, the loss of the other."""
    with torch.no_grad():
        q = torch.exp(torch.tanh(out) / 0.05).t()
        b, k = q.shape[1], q.shape[0]
        q = q / torch.sum(q)
        for _ in range(3):
            q = q / torch.sum(q, dim=1, keepdim=True)
            q = q / k
            q = q / torch.sum(q, dim=0, keepdim=True)
            q = q / b
        q = (q * b).t()
    x = other / 0.1
    return -torch.mean(torch.sum(q * F.log_softmax(x, dim=1), dim=1))


layer(
    "SwAV Sinkhorn codes 3000",
    swav_sinkhorn_loss,
    given(4096, 3000, dtype=F32),
    like(4096, 3000, dtype=F32),
)


# ------------------------------------------------------------------- time series and state spaces


def revin_patches(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """yuqinie98/PatchTST, RevIN "norm", then patches of 16 with a stride of 8, end repeated."""
    mean = torch.mean(x, dim=1, keepdim=True).detach()
    stdev = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5).detach()
    x = x - mean
    x = x / stdev
    x = x * weight
    x = x + bias
    z = x.permute(0, 2, 1)
    z = F.pad(z, (0, 8), mode="replicate")
    z = z.unfold(dimension=-1, size=16, step=8)
    return z.permute(0, 1, 3, 2).contiguous(), mean, stdev


layer(
    "PatchTST RevIN and patches 336 x 321",
    revin_patches,
    like(96, 336, 321, dtype=F32),
    *weights(321, 321, dtype=F32),
)


def series_decomposition(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """thuml/Autoformer, the residual and series_decomp of an EncoderLayer, window 25."""
    x = x + y
    front = x[:, 0:1, :].repeat(1, 12, 1)
    end = x[:, -1:, :].repeat(1, 12, 1)
    padded = torch.cat([front, x, end], dim=1)
    trend = F.avg_pool1d(padded.permute(0, 2, 1), kernel_size=25, stride=1).permute(0, 2, 1)
    return x - trend, trend


layer(
    "Autoformer decomposition 192 x 512",
    series_decomposition,
    like(96, 192, 512, dtype=F32),
    like(96, 192, 512, dtype=F32),
)


def chronos_quantile_loss(
    preds: Tensor, target: Tensor, mask: Tensor, loc: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """amazon-science/chronos-forecasting, ChronosBoltModelForForecasting.forward, its loss."""
    quantiles = torch.arange(1, 10, device=preds.device, dtype=preds.dtype) / 10
    scale = scale + 1e-3
    target = (target - loc) / scale
    target = target.unsqueeze(1)
    target_mask = mask.unsqueeze(1) & ~torch.isnan(target)
    target = torch.where(target_mask, target, 0.0)
    loss = 2 * torch.abs((target - preds) * ((target <= preds).float() - quantiles.view(1, 9, 1)))
    loss = loss * target_mask.float()
    loss = loss.mean(dim=-2).sum(dim=-1).mean()
    unscaled = preds.detach() * scale.unsqueeze(1) + loc.unsqueeze(1)
    return loss, unscaled


layer(
    "Chronos-Bolt quantile loss 9 x 64",
    chronos_quantile_loss,
    like(16384, 9, 64, dtype=F32),
    given(16384, 64, dtype=F32),
    given(16384, 64, dtype=torch.bool, below=2),
    given(16384, 1, dtype=F32),
    given(16384, 1, dtype=F32, positive=True),
)


def ssd_segment_sums(dt: Tensor, dt_bias: Tensor, a_log: Tensor) -> tuple[Tensor, ...]:
    """state-spaces/mamba, ssd_minimal_discrete: dt, decays of chunks of 64 and segsum."""
    dt = F.softplus(dt.float() + dt_bias)
    a = dt * -torch.exp(a_log)
    b, length, heads = a.shape
    a = a.view(b, length // 64, 64, heads).permute(0, 3, 1, 2)
    a_cumsum = torch.cumsum(a, dim=-1)
    x = a[..., None].expand(*a.shape, 64)
    mask = torch.tril(torch.ones(64, 64, device=x.device, dtype=torch.bool), diagonal=-1)
    x = x.masked_fill(~mask, 0)
    x_segsum = torch.cumsum(x, dim=-2)
    mask = torch.tril(torch.ones(64, 64, device=x.device, dtype=torch.bool), diagonal=0)
    x_segsum = x_segsum.masked_fill(~mask, -torch.inf)
    decay_states = torch.exp(a_cumsum[..., -1:] - a_cumsum)
    return dt, torch.exp(x_segsum), decay_states, torch.exp(a_cumsum)


layer(
    "Mamba-2 segment sums 80 x 64",
    ssd_segment_sums,
    like(2, 2048, 80),
    *weights(80, 80, dtype=F32),
)


def rwkv7_mixes(
    k: Tensor, v: Tensor, v_first: Tensor, w: Tensor, a: Tensor, nu: Tensor, *vectors: Tensor
) -> tuple[Tensor, ...]:
    """BlinkDL/RWKV-LM, RWKV_Tmix_x070 between its products and its kernel."""
    w0, a0, v0, k_k, k_a = vectors
    b, t, c = k.shape
    w = -F.softplus(-(w0 + w)) - 0.5
    v = v + (v_first - v) * torch.sigmoid(v0 + nu)
    a = torch.sigmoid(a0 + a)
    kk = k * k_k
    kk = F.normalize(kk.view(b, t, c // 64, -1), dim=-1, p=2.0).view(b, t, c)
    k = k * (1 + (a - 1) * k_a)
    return torch.exp(-torch.exp(w.float())), k, v, -kk, kk * a


layer(
    "RWKV-7 decays and keys 1024",
    rwkv7_mixes,
    *(like(4, 1024, 1024) for _ in range(6)),
    *(like(1, 1, 1024) for _ in range(5)),
)


def gla_chunk_gates(q: Tensor, k: Tensor, gk: Tensor) -> tuple[Tensor, ...]:
    """fla-org/flash-linear-attention, naive chunks of GLA: gates, cumulated, to both sides."""
    g = F.logsigmoid(gk.float()) / 16
    b, t, width = g.shape
    heads, chunk = 4, 64

    def chunked(x: Tensor) -> Tensor:
        return x.view(b, t // chunk, chunk, heads, width // heads).permute(0, 3, 1, 2, 4)

    q, k, g = map(chunked, (q, k, g))
    q = q * (width // heads) ** -0.5
    g = g.cumsum(-2)
    g_last = g[..., -1:, :]
    q_decayed = (q * g.exp()).to(q.dtype)
    k_intra = (k * (-g).exp()).to(k.dtype)
    k_state = (k * (g_last - g).exp()).to(k.dtype)
    return q_decayed, k_intra, k_state, g_last.squeeze(-2).exp()


layer(
    "gated linear attention chunks 4 x 256",
    gla_chunk_gates,
    like(6, 2048, 1024),
    like(6, 2048, 1024),
    like(6, 2048, 1024),
)
