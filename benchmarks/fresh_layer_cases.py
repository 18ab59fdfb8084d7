# SPDX-License-Identifier: BSD-3-Clause
"""A fifth set of layers and pieces of training steps, as their model code spells them in torch.

Written blind: nothing was known of the compiler, and nothing was tuned for them. Each holds what
lies between products, convolutions and attention kernels, whose results are inputs here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from layer_cases import F32, Input, Layer, Tensor, given, like

F16, BOOL, U8 = torch.float16, torch.bool, torch.uint8
FRESH_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    FRESH_LAYERS.append(Layer(name, function, inputs))


# ------------------------------------------------------------------------------- language models


def rotate_half(x: Tensor) -> Tensor:
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def olmo2_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.to(F32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (weight * h).to(x.dtype)


def olmo2_heads(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """transformers, Olmo2Attention: norms as wide as all heads, the rotation in float32."""
    hidden_shape = (*q.shape[:-1], -1, 128)
    q = olmo2_norm(q, q_weight).view(hidden_shape).transpose(1, 2)
    k = olmo2_norm(k, k_weight).view(hidden_shape).transpose(1, 2)
    q_type, k_type = q.dtype, k.dtype
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed.to(q_type), k_embed.to(k_type)


layer(
    "OLMo 2 query and key norms, rope 40 and 8 x 128",
    olmo2_heads,
    like(4, 2051, 5120),
    like(4, 2051, 1024),
    like(5120),
    like(1024),
    given(1, 2051, 128, dtype=F32),
    given(1, 2051, 128, dtype=F32),
)


def phi4_mini_heads(qkv: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """transformers, Phi3Attention of Phi-4-mini: packed heads, three quarters of each rotated."""
    heads, kv_heads, width = 24, 8, 128
    hidden_shape = (*qkv.shape[:-1], -1, width)
    query_pos = heads * width
    q = qkv[..., :query_pos]
    k = qkv[..., query_pos : query_pos + kv_heads * width]
    v = qkv[..., query_pos + kv_heads * width :]
    q = q.view(hidden_shape).transpose(1, 2)
    k = k.view(hidden_shape).transpose(1, 2)
    v = v.view(hidden_shape).transpose(1, 2)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    rotary_dim = cos.shape[-1]
    q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]
    k_rot, k_pass = k[..., :rotary_dim], k[..., rotary_dim:]
    q_embed = torch.cat([(q_rot * cos) + (rotate_half(q_rot) * sin), q_pass], dim=-1)
    k_embed = torch.cat([(k_rot * cos) + (rotate_half(k_rot) * sin), k_pass], dim=-1)
    return q_embed, k_embed, v.contiguous()


layer(
    "Phi-4-mini packed heads 24 and 8, rope of 96",
    phi4_mini_heads,
    like(3, 4099, 5120),
    given(1, 4099, 96),
    given(1, 4099, 96),
)


def kimi_delta_inputs(
    q: Tensor, k: Tensor, g: Tensor, beta: Tensor, A_log: Tensor, dt_bias: Tensor
) -> tuple[Tensor, ...]:
    """fla-org/flash-linear-attention, KimiDeltaAttention: decays of each channel, unit heads."""
    heads, width = A_log.shape[0], q.shape[-1] // A_log.shape[0]
    q, k, g = (x.unflatten(-1, (heads, width)) for x in (F.silu(q), F.silu(k), g))
    g = g.float() + dt_bias.view(heads, width)
    g = -A_log.float().exp().view(1, 1, heads, 1) * F.softplus(g)
    qf, kf = q.float(), k.float()
    q = (qf * torch.rsqrt((qf * qf).sum(-1, keepdim=True) + 1e-6)).to(q.dtype)
    k = (kf * torch.rsqrt((kf * kf).sum(-1, keepdim=True) + 1e-6)).to(k.dtype)
    return q * width**-0.5, k, g, beta.float().sigmoid()


layer(
    "Kimi delta attention inputs 32 x 128",
    kimi_delta_inputs,
    like(3, 1537, 4096),
    like(3, 1537, 4096),
    like(3, 1537, 4096),
    like(3, 1537, 32),
    like(32, dtype=F32),
    like(4096, dtype=F32),
)


def sigmoid_capped_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """KellerJordan/modded-nanogpt, GPT.forward of 2025: logits capped by a sigmoid, their loss."""
    logits = 30 * torch.sigmoid(logits / 7.5)
    return F.cross_entropy(logits.float().view(-1, logits.size(-1)), targets, reduction="sum")


layer(
    "sigmoid-capped cross entropy 50304",
    sigmoid_capped_loss,
    like(1367, 50304),
    given(1367, below=50304),
)


def mtp_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.to(F32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * h.to(x.dtype)


def mtp_inputs(
    positions: Tensor, embeds: Tensor, hidden: Tensor, enorm: Tensor, hnorm: Tensor
) -> Tensor:
    """vllm, DeepSeekMultiTokenPredictorLayer up to eh_proj: the first position is masked."""
    embeds = torch.where(positions.unsqueeze(-1) == 0, 0, embeds)
    return torch.cat([mtp_norm(embeds, enorm), mtp_norm(hidden, hnorm)], dim=-1)


layer(
    "DeepSeek multi-token prediction inputs 2 x 7168",
    mtp_inputs,
    given(2731, below=2731),
    like(2731, 7168),
    like(2731, 7168),
    like(7168),
    like(7168),
)


def sequence_balance(logits: Tensor, routing_map: Tensor) -> tuple[Tensor, Tensor]:
    """NVIDIA/Megatron-LM, TopKRouter with `seq_aux_loss` and the z-loss; logits [s, b, experts]."""
    seq_length, bsz, experts = logits.shape
    z_loss = torch.mean(torch.square(torch.logsumexp(logits, dim=-1))) * 1e-3
    scores = torch.softmax(logits, dim=-1, dtype=F32)
    probs = scores * routing_map
    probs = probs / (probs.sum(dim=-1, keepdim=True) + 1e-20)
    topk = 6
    aggregated = scores.reshape(seq_length, -1).sum(dim=0)
    tokens_per_expert = routing_map.reshape(seq_length, -1).sum(dim=0)
    scale = experts * 1e-2 / (topk * seq_length * seq_length)
    aux_loss = torch.sum(aggregated * tokens_per_expert) * scale / bsz
    return probs, z_loss + aux_loss


layer(
    "sequence balance and router z-loss 24 x 160",
    sequence_balance,
    like(4099, 24, 160, dtype=F32),
    given(4099, 24, 160, dtype=BOOL, below=2),
)


def xielu(x: Tensor, alpha_p: Tensor, alpha_n: Tensor) -> Tensor:
    """transformers, XIELUActivation of Apertus."""
    beta = 0.5
    alpha_p = F.softplus(alpha_p)
    alpha_n = beta + F.softplus(alpha_n)
    eps = torch.full((), -1e-6, dtype=x.dtype, device=x.device)
    return torch.where(
        x > 0,
        alpha_p * x * x + beta * x,
        (torch.expm1(torch.min(x, eps)) - x) * alpha_n + beta * x,
    )


layer("Apertus xIELU 21504", xielu, like(2731, 21504), like(1), like(1))

# ----------------------------------------------------------------------------------------- vision


def cbam_gate(x: Tensor, x_avg: Tensor, x_max: Tensor) -> tuple[Tensor, Tensor]:
    """timm, CbamModule between its perceptron and its convolution of 7: gate, then pool."""
    x = x * (x_avg + x_max).sigmoid()
    return x, torch.cat([x.mean(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)], dim=1)


layer(
    "CBAM channel gate and pool 256 56",
    cbam_gate,
    like(24, 256, 56, 56, dtype=F16, channels_last=True),
    like(24, 256, 1, 1, dtype=F16),
    like(24, 256, 1, 1, dtype=F16),
)


def efficientformer_flat(
    x: Tensor, mixed: Tensor, gamma: Tensor, kept: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """timm, EfficientFormer: the end of the last MetaBlock2d, Flat, MetaBlock1d's first norm."""
    keep_prob = 0.8
    mask = kept.to(x.dtype) / keep_prob
    x = x + mixed * gamma.view(1, -1, 1, 1) * mask
    x = x.flatten(2).transpose(1, 2)
    return x, F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


layer(
    "EfficientFormer layer scale, drop path, flat norm 768",
    efficientformer_flat,
    like(256, 768, 7, 7),
    like(256, 768, 7, 7),
    like(768),
    given(256, 1, 1, 1, dtype=BOOL, below=2),
    like(768),
    like(768),
)


def coatnet_softmax(dots: Tensor, table: Tensor, relative_index: Tensor) -> Tensor:
    """chinhsuanwu/coatnet-pytorch, Attention with its table of biases by relative position."""
    heads, length = dots.shape[1], dots.shape[-1]
    dots = dots * 32**-0.5
    relative_bias = table.gather(0, relative_index.repeat(1, heads))
    relative_bias = relative_bias.view(length, length, heads).permute(2, 0, 1).unsqueeze(0)
    return (dots + relative_bias).softmax(dim=-1)


layer(
    "CoAtNet relative softmax 196",
    coatnet_softmax,
    like(88, 8, 196, 196, dtype=F16),
    given(27 * 27, 8, dtype=F16),
    given(196 * 196, 1, below=27 * 27),
)


def yolov4_neck(x: Tensor, lateral: Tensor) -> Tensor:
    """Tianxiaomo/pytorch-YOLOv4, Neck: Upsample by a view that is expanded, then concatenate."""
    x, lateral = F.leaky_relu(x, 0.1), F.leaky_relu(lateral, 0.1)
    b, c, h, w = x.shape
    th, tw = lateral.shape[2:]
    up = x.view(b, c, h, 1, w, 1).expand(b, c, h, th // h, w, tw // w)
    up = up.contiguous().view(b, c, th, tw)
    return torch.cat([lateral, up], dim=1)


layer(
    "YOLOv4 nearest upsample and concat 256 38",
    yolov4_neck,
    like(48, 256, 19, 19, dtype=F16),
    like(48, 256, 38, 38, dtype=F16),
)


def decoded_boxes(rel_codes: Tensor, boxes: Tensor) -> Tensor:
    """torchvision, BoxCoder.decode_single and clip_boxes_to_image of RoIHeads."""
    widths = boxes[:, 2] - boxes[:, 0]
    heights = boxes[:, 3] - boxes[:, 1]
    ctr_x = boxes[:, 0] + 0.5 * widths
    ctr_y = boxes[:, 1] + 0.5 * heights
    wx, wy, ww, wh = (10.0, 10.0, 5.0, 5.0)
    dx = rel_codes[:, 0::4] / wx
    dy = rel_codes[:, 1::4] / wy
    dw = torch.clamp(rel_codes[:, 2::4] / ww, max=math.log(1000.0 / 16))
    dh = torch.clamp(rel_codes[:, 3::4] / wh, max=math.log(1000.0 / 16))
    pred_ctr_x = dx * widths[:, None] + ctr_x[:, None]
    pred_ctr_y = dy * heights[:, None] + ctr_y[:, None]
    half_w = 0.5 * torch.exp(dw) * widths[:, None]
    half_h = 0.5 * torch.exp(dh) * heights[:, None]
    corners = (pred_ctr_x - half_w, pred_ctr_y - half_h, pred_ctr_x + half_w, pred_ctr_y + half_h)
    pred_boxes = torch.stack(corners, dim=2).flatten(1)
    pred_boxes = pred_boxes.reshape(pred_boxes.shape[0], -1, 4)
    boxes_x = pred_boxes[..., 0::2].clamp(min=0, max=1333)
    boxes_y = pred_boxes[..., 1::2].clamp(min=0, max=800)
    return torch.stack((boxes_x, boxes_y), dim=pred_boxes.dim()).reshape(pred_boxes.shape)


layer(
    "Faster R-CNN box decoding 91",
    decoded_boxes,
    like(24000, 364, dtype=F32),
    given(24000, 4, dtype=F32, positive=True),
)


def box_corners(x: Tensor) -> Tensor:
    x_c, y_c, w, h = x.unbind(-1)
    return torch.stack(
        [x_c - 0.5 * w, y_c - 0.5 * h, x_c + 0.5 * w, y_c + 0.5 * h],
        dim=-1,
    )


def pairwise_giou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """facebookresearch/detr, generalized_box_iou."""
    area1 = (boxes1[:, 2] - boxes1[:, 0]) * (boxes1[:, 3] - boxes1[:, 1])
    area2 = (boxes2[:, 2] - boxes2[:, 0]) * (boxes2[:, 3] - boxes2[:, 1])
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area1[:, None] + area2 - inter
    iou = inter / union
    lt = torch.min(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.max(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    area = wh[:, :, 0] * wh[:, :, 1]
    return iou - (area - union) / area


def matching_cost(logits: Tensor, bbox: Tensor, tgt_ids: Tensor, tgt_bbox: Tensor) -> Tensor:
    """fundamentalvision/Deformable-DETR, HungarianMatcher; its `cdist` as a sum of differences."""
    out_prob = logits.sigmoid()
    alpha, gamma = 0.25, 2.0
    neg_cost_class = (1 - alpha) * (out_prob**gamma) * (-(1 - out_prob + 1e-8).log())
    pos_cost_class = alpha * ((1 - out_prob) ** gamma) * (-(out_prob + 1e-8).log())
    cost_class = pos_cost_class[:, tgt_ids] - neg_cost_class[:, tgt_ids]
    cost_bbox = (bbox[:, None] - tgt_bbox[None]).abs().sum(-1)
    cost_giou = -pairwise_giou(box_corners(bbox), box_corners(tgt_bbox))
    return 5.0 * cost_bbox + 2.0 * cost_class + 2.0 * cost_giou


layer(
    "Deformable DETR matching cost 14400 x 917",
    matching_cost,
    given(14400, 91, dtype=F32),
    given(14400, 4, dtype=F32, positive=True),
    given(917, below=91),
    given(917, 4, dtype=F32, positive=True),
)


def inverse_sigmoid(x: Tensor, eps: float = 1e-3) -> Tensor:
    x = x.clamp(min=0, max=1)
    x1 = x.clamp(min=eps)
    x2 = (1 - x).clamp(min=eps)
    return torch.log(x1 / x2)


def sine_embedding(pos: Tensor) -> Tensor:
    """IDEA-Research/DINO, gen_sineembed_for_position of boxes."""
    scale = 2 * math.pi
    dim_t = torch.arange(128, dtype=F32, device=pos.device)
    dim_t = 10000 ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / 128)
    parts = []
    for axis in (1, 0, 2, 3):
        each = (pos[:, :, axis] * scale)[:, :, None] / dim_t
        each = torch.stack((each[:, :, 0::2].sin(), each[:, :, 1::2].cos()), dim=3).flatten(2)
        parts.append(each)
    return torch.cat(parts, dim=2)


def refined_boxes(
    delta: Tensor, reference: Tensor, valid_ratios: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """IDEA-Research/DINO, TransformerDecoder: boxes refined, and the next layer's positions."""
    new_reference = (delta + inverse_sigmoid(reference)).sigmoid()
    ratios = torch.cat([valid_ratios, valid_ratios], -1)
    reference_input = new_reference[:, :, None] * ratios[None, :]
    return new_reference, reference_input, sine_embedding(reference_input[:, :, 0, :])


layer(
    "DINO box refinement and sine embedding 1100 x 24",
    refined_boxes,
    like(1100, 24, 4, dtype=F32),
    given(1100, 24, 4, dtype=F32, positive=True),
    given(24, 4, 2, dtype=F32, positive=True),
)


def position_embedding_sine(mask: Tensor) -> Tensor:
    """facebookresearch/detr, PositionEmbeddingSine, normalized."""
    not_mask = ~mask
    y_embed = not_mask.cumsum(1, dtype=F32)
    x_embed = not_mask.cumsum(2, dtype=F32)
    y_embed = y_embed / (y_embed[:, -1:, :] + 1e-6) * (2 * math.pi)
    x_embed = x_embed / (x_embed[:, :, -1:] + 1e-6) * (2 * math.pi)
    dim_t = torch.arange(128, dtype=F32, device=mask.device)
    dim_t = 10000 ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / 128)
    pos_x = x_embed[:, :, :, None] / dim_t
    pos_y = y_embed[:, :, :, None] / dim_t
    pos_x = torch.stack((pos_x[..., 0::2].sin(), pos_x[..., 1::2].cos()), dim=4).flatten(3)
    pos_y = torch.stack((pos_y[..., 0::2].sin(), pos_y[..., 1::2].cos()), dim=4).flatten(3)
    return torch.cat((pos_y, pos_x), dim=3).permute(0, 3, 1, 2)


layer(
    "DETR sine positions 256 50 x 67",
    position_embedding_sine,
    given(24, 50, 67, dtype=BOOL, below=2),
)


def dinov2_tokens(
    x: Tensor, masks: Tensor, mask_token: Tensor, cls: Tensor, positions: Tensor, registers: Tensor
) -> Tensor:
    """facebookresearch/dinov2, prepare_tokens_with_masks, and the registers after it."""
    x = torch.where(masks.unsqueeze(-1), mask_token.to(x.dtype).unsqueeze(0), x)
    x = torch.cat((cls.expand(x.shape[0], -1, -1), x), dim=1)
    x = x + positions
    return torch.cat((x[:, :1], registers.expand(x.shape[0], -1, -1), x[:, 1:]), dim=1)


layer(
    "DINOv2 masked tokens and registers 1369 x 1536",
    dinov2_tokens,
    like(11, 1369, 1536),
    given(11, 1369, dtype=BOOL, below=2),
    like(1, 1536),
    like(1, 1, 1536),
    like(1, 1370, 1536),
    like(1, 4, 1536),
)

# ---------------------------------------------------------------------------- diffusion and video


def diffusers_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    variance = x.to(F32).pow(2).mean(-1, keepdim=True)
    return (x * torch.rsqrt(variance + 1e-6)).to(weight.dtype) * weight


def wan_rotate(x: Tensor, freqs_cos: Tensor, freqs_sin: Tensor) -> Tensor:
    x1, x2 = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos = freqs_cos[..., 0::2]
    sin = freqs_sin[..., 1::2]
    return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1).flatten(-2).type_as(x)


def wan_heads(
    q: Tensor, k: Tensor, norm_q: Tensor, norm_k: Tensor, freqs_cos: Tensor, freqs_sin: Tensor
) -> tuple[Tensor, Tensor]:
    """diffusers, WanAttnProcessor: norms across the heads, the rotation of neighbours."""
    q = diffusers_rms_norm(q, norm_q).unflatten(2, (12, -1))
    k = diffusers_rms_norm(k, norm_k).unflatten(2, (12, -1))
    return wan_rotate(q, freqs_cos, freqs_sin), wan_rotate(k, freqs_cos, freqs_sin)


layer(
    "Wan norms across heads and rope 9750 x 12 x 128",
    wan_heads,
    like(2, 9750, 1536),
    like(2, 9750, 1536),
    like(1536),
    like(1536),
    given(1, 9750, 1, 128, dtype=F32),
    given(1, 9750, 1, 128, dtype=F32),
)


def cogvideox_middle(
    hidden: Tensor,
    encoder: Tensor,
    attended: Tensor,
    gates: Tensor,
    embedded: Tensor,
    weight: Tensor,
    bias: Tensor,
) -> tuple[Tensor, ...]:
    """diffusers, CogVideoXBlock between attention and feed forward: gates, CogVideoXLayerNormZero.

    `gates` are those of the first norm, `embedded` what the second one's linear layer makes.
    """
    gate_msa, enc_gate_msa = gates.chunk(2, dim=1)
    lengths = [encoder.shape[1], hidden.shape[1]]
    attn_encoder, attn_hidden = attended.split(lengths, dim=1)
    hidden = hidden + gate_msa[:, None, :] * attn_hidden
    encoder = encoder + enc_gate_msa[:, None, :] * attn_encoder
    shift, scale, _, enc_shift, enc_scale, _ = embedded.chunk(6, dim=1)
    width = hidden.shape[-1:]
    norm_hidden = F.layer_norm(hidden, width, weight, bias, 1e-5)
    norm_hidden = norm_hidden * (1 + scale)[:, None, :] + shift[:, None, :]
    norm_encoder = F.layer_norm(encoder, width, weight, bias, 1e-5)
    norm_encoder = norm_encoder * (1 + enc_scale)[:, None, :] + enc_shift[:, None, :]
    return hidden, encoder, torch.cat([norm_encoder, norm_hidden], dim=1)


layer(
    "CogVideoX layer norm zero 226 and 4485 x 3072",
    cogvideox_middle,
    like(2, 4485, 3072),
    like(2, 226, 3072),
    like(2, 4711, 3072),
    like(2, 2 * 3072),
    like(2, 6 * 3072),
    like(3072),
    like(3072),
)


def hunyuan_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * weight


def hunyuan_rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    x_real, x_imag = x.float().reshape(*x.shape[:-1], -1, 2).unbind(-1)
    rotated = torch.stack([-x_imag, x_real], dim=-1).flatten(3)
    return (x.float() * cos + rotated * sin).type_as(x)


def hunyuan_heads(
    img_qkv: Tensor, txt_qkv: Tensor, cos: Tensor, sin: Tensor, *norms: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Tencent/HunyuanVideo, MMDoubleStreamBlock: only the image's heads are rotated."""
    b, length, _ = img_qkv.shape
    img_q, img_k, img_v = img_qkv.view(b, length, 3, 24, 128).permute(2, 0, 1, 3, 4).unbind(0)
    txt_q, txt_k, txt_v = txt_qkv.view(b, -1, 3, 24, 128).permute(2, 0, 1, 3, 4).unbind(0)
    img_q, img_k = hunyuan_norm(img_q, norms[0]), hunyuan_norm(img_k, norms[1])
    txt_q, txt_k = hunyuan_norm(txt_q, norms[2]), hunyuan_norm(txt_k, norms[3])
    img_q, img_k = hunyuan_rotate(img_q, cos, sin), hunyuan_rotate(img_k, cos, sin)
    q = torch.cat((img_q, txt_q), dim=1).transpose(1, 2)
    k = torch.cat((img_k, txt_k), dim=1).transpose(1, 2)
    v = torch.cat((img_v, txt_v), dim=1).transpose(1, 2)
    return q, k, v


layer(
    "HunyuanVideo joint heads 2853 and 256 x 24 x 128",
    hunyuan_heads,
    like(2, 2853, 9216),
    like(2, 256, 9216),
    given(2853, 128, dtype=F32),
    given(2853, 128, dtype=F32),
    *(like(128) for _ in range(4)),
)


def edm_loss(images: Tensor, noise: Tensor, sigma: Tensor, f_x: Tensor) -> tuple[Tensor, Tensor]:
    """NVlabs/edm, EDMPrecond around its network, and EDMLoss."""
    sigma_data = 0.5
    x = images + noise * sigma
    c_skip = sigma_data**2 / (sigma**2 + sigma_data**2)
    c_out = sigma * sigma_data / (sigma**2 + sigma_data**2).sqrt()
    c_in = 1 / (sigma_data**2 + sigma**2).sqrt()
    d_x = c_skip * x + c_out * f_x.to(F32)
    weight = (sigma**2 + sigma_data**2) / (sigma * sigma_data) ** 2
    loss = weight * ((d_x - images) ** 2)
    return (c_in * x).to(f_x.dtype), loss.sum().mul(1 / images.shape[0])


layer(
    "EDM preconditioned loss 3 x 64",
    edm_loss,
    given(611, 3, 64, 64, dtype=F32),
    given(611, 3, 64, 64, dtype=F32),
    given(611, 1, 1, 1, dtype=F32, positive=True),
    like(611, 3, 64, 64, dtype=F16, channels_last=True),
)


def projected_guidance(
    pred_cond: Tensor, pred_uncond: Tensor, running_average: Tensor
) -> tuple[Tensor, Tensor]:
    """diffusers, normalized_guidance (APG): momentum, a threshold of norms, the orthogonal part."""
    dims = [-1, -2, -3, -4]
    diff = pred_cond - pred_uncond
    running_average = diff + -0.75 * running_average
    diff = running_average
    diff_norm = diff.float().norm(p=2, dim=dims, keepdim=True)
    diff = diff * torch.minimum(torch.ones_like(diff_norm), 55.0 / diff_norm).to(diff.dtype)
    v0, v1 = diff.float(), pred_cond.float()
    v1 = v1 / v1.norm(p=2, dim=dims, keepdim=True).clamp_min(1e-12)
    v0_parallel = (v0 * v1).sum(dim=dims, keepdim=True) * v1
    v0_orthogonal = v0 - v0_parallel
    update = v0_orthogonal.type_as(diff) + 0.2 * v0_parallel.type_as(diff)
    return pred_cond + (7.5 - 1) * update, running_average


layer(
    "adaptive projected guidance 16 x 21 x 60 x 104",
    projected_guidance,
    given(6, 16, 21, 60, 104, dtype=F16),
    given(6, 16, 21, 60, 104, dtype=F16),
    given(6, 16, 21, 60, 104, dtype=F16),
)


def flow_matching_loss(packed: Tensor, latents: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """diffusers, train_dreambooth_flux: unpacked prediction, `cosmap` weights, the loss."""
    b, c, h, w = latents.shape
    pred = packed.view(b, h // 2, w // 2, c, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(b, c, h, w)
    bot = 1 - 2 * sigmas + 2 * sigmas**2
    weighting = 2 / (math.pi * bot)
    target = noise - latents
    loss = (weighting.float() * (pred.float() - target.float()) ** 2).reshape(b, -1)
    return torch.mean(loss, 1).mean()


layer(
    "Flux flow matching loss 16 x 64 x 96",
    flow_matching_loss,
    like(88, 32 * 48, 64),
    given(88, 16, 64, 96, dtype=F32),
    given(88, 16, 64, 96, dtype=F32),
    given(88, 1, 1, 1, dtype=F32, positive=True),
)

# ------------------------------------------------------------------------------------------ audio


def snac_noise_snake(x: Tensor, h: Tensor, noise: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """hubertsiuzdak/snac, NoiseBlock after its convolution, then Snake1d of a ResidualUnit."""
    x = x + noise * h
    shape = x.shape
    y = x.reshape(shape[0], shape[1], -1)
    y = y + (alpha + 1e-9).reciprocal() * torch.sin(alpha * y).pow(2)
    return x, y.reshape(shape)


layer(
    "SNAC noise block and Snake 128 x 18433",
    snac_noise_snake,
    like(6, 128, 18433, dtype=F32),
    like(6, 128, 18433, dtype=F32),
    given(6, 1, 18433, dtype=F32),
    like(1, 128, 1, dtype=F32, positive=True),
)


def vocos_spectrum(x: Tensor) -> Tensor:
    """gemelo-ai/vocos, ISTFTHead between its linear layer and the inverse transform."""
    x = x.transpose(1, 2)
    mag, p = x.chunk(2, dim=1)
    mag = torch.exp(mag)
    mag = torch.clip(mag, max=1e2)
    real, imag = torch.cos(p), torch.sin(p)
    return torch.stack((mag * real, mag * imag), dim=-1)


layer("Vocos spectrum 641 x 1501", vocos_spectrum, like(11, 1501, 1282, dtype=F32))


def conformer_macaron(
    residual: Tensor, x: Tensor, kept: Tensor, *params: Tensor
) -> tuple[Tensor, Tensor]:
    """NVIDIA/NeMo, ConformerLayer: the end of one layer and the first norm of the next."""
    x = x * kept.to(x.dtype) / 0.9
    residual = residual + x * 0.5
    x = F.layer_norm(residual, residual.shape[-1:], params[0], params[1], 1e-5)
    return x, F.layer_norm(x, x.shape[-1:], params[2], params[3], 1e-5)


layer(
    "FastConformer half residual and two norms 512",
    conformer_macaron,
    like(16, 1501, 512),
    like(16, 1501, 512),
    given(16, 1501, 512, dtype=BOOL, below=2),
    *(like(512) for _ in range(4)),
)


def gan_feature_loss(*maps: Tensor) -> Tensor:
    """jik876/hifi-gan, feature_loss and generator_loss of a discriminator's maps."""
    half = len(maps) // 2
    fmap_g, fmap_r = maps[:half], maps[half:]
    loss: Tensor | float = 0
    for rl, gl in zip(fmap_r, fmap_g, strict=True):
        loss = loss + torch.mean(torch.abs(rl - gl))
    dg = torch.flatten(fmap_g[-1], 1, -1)
    return loss * 2 + torch.mean((1 - dg) ** 2)


fmap_sizes = ((32, 1366), (128, 456), (512, 152), (1024, 51), (1024, 51), (1, 51))
layer(
    "HiFi-GAN feature matching, 6 maps",
    gan_feature_loss,
    *(like(22, channels, length, 2, dtype=F32) for channels, length in fmap_sizes),
    *(given(22, channels, length, 2, dtype=F32) for channels, length in fmap_sizes),
)

# ----------------------------------------------------------------------------------- post-training


def kto_loss(
    logits: Tensor, labels: Tensor, reference_logps: Tensor, kl_logps: Tensor, desirable: Tensor
) -> tuple[Tensor, Tensor]:
    """huggingface/trl, KTOTrainer.get_batch_logps and kto_loss; label 0 is padding here."""
    beta = 0.1
    labels = labels[:, 1:]
    logits = logits[:, :-1, :]
    loss_mask = labels != 0
    per_token = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    policy_logps = (per_token * loss_mask).sum(-1)
    kl = kl_logps.mean().detach().clamp(min=0)
    logratios = policy_logps - reference_logps.squeeze(1)
    chosen_losses = 1 - F.sigmoid(beta * (logratios - kl))
    rejected_losses = 1 - F.sigmoid(beta * (kl - logratios))
    losses = torch.where(desirable.squeeze(1), chosen_losses, 1.33 * rejected_losses)
    return losses.mean(), (beta * logratios).detach()


layer(
    "KTO loss 32064",
    kto_loss,
    like(6, 401, 32064),
    given(6, 401, below=32064),
    given(6, 1, dtype=F32),
    given(6, 1, dtype=F32),
    given(6, 1, dtype=BOOL, below=2),
)


def gspo_loss(
    per_token_logps: Tensor, old_logps: Tensor, ref_logps: Tensor, mask: Tensor, advantages: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """huggingface/trl, GRPOTrainer with `sequence_token` importance sampling (GSPO-token)."""
    per_token_kl = torch.exp(ref_logps - per_token_logps) - (ref_logps - per_token_logps) - 1
    log_ratio = per_token_logps - old_logps
    seq_level = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
    seq_level = seq_level.detach().unsqueeze(-1)
    log_importance = per_token_logps - per_token_logps.detach() + seq_level
    coef_1 = torch.exp(log_importance)
    coef_2 = torch.clamp(coef_1, 1 - 3e-4, 1 + 4e-4)
    per_token_loss = -torch.min(coef_1 * advantages, coef_2 * advantages)
    per_token_loss = per_token_loss + 0.04 * per_token_kl
    loss = ((per_token_loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()
    clipped = ((coef_1 < 1 - 3e-4) & (advantages < 0)) | ((coef_1 > 1 + 4e-4) & (advantages > 0))
    clip_ratio = (clipped * mask).sum() / mask.sum()
    return loss, clip_ratio, (per_token_kl.detach() * mask).sum() / mask.sum()


layer(
    "GSPO sequence ratios 1027 x 8193",
    gspo_loss,
    like(1027, 8193, dtype=F32),
    given(1027, 8193, dtype=F32),
    given(1027, 8193, dtype=F32),
    given(1027, 8193, dtype=BOOL, below=2),
    given(1027, 1, dtype=F32),
)


def whitened_rewards(
    scores: Tensor, old_log_probs: Tensor, ref_log_prob: Tensor, response_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """volcengine/verl, apply_kl_penalty with `low_var_kl`, then masked_whiten of the rewards."""
    kl = torch.clamp(ref_log_prob - old_log_probs, min=-20, max=20)
    kld = torch.clamp(torch.exp(kl) - kl - 1, min=-10, max=10) * response_mask
    rewards = scores - 0.001 * kld
    current_kl = ((kld * response_mask).sum(-1) / (response_mask.sum(-1) + 1e-8)).mean(dim=0)
    mask_sum = response_mask.sum()
    mean = (rewards * response_mask).sum() / (mask_sum + 1e-8)
    centered = rewards - mean
    variance = (centered**2 * response_mask).sum() / (mask_sum + 1e-8)
    variance = variance * (mask_sum / (mask_sum - 1))
    return centered * torch.rsqrt(variance + 1e-8) * response_mask, current_kl


layer(
    "verl KL rewards whitened 2054 x 4097",
    whitened_rewards,
    given(2054, 4097, dtype=F32),
    given(2054, 4097, dtype=F32),
    given(2054, 4097, dtype=F32),
    given(2054, 4097, dtype=BOOL, below=2),
)

# -------------------------------------------------------------------------------- graphs, science


def egnn_edges(
    feats: Tensor, coors: Tensor, coor_weights: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """lucidrains/egnn-pytorch, EGNN without neighbours: what edges see, and moved coordinates."""
    b, n, d = feats.shape
    rel_coors = coors.unsqueeze(2) - coors.unsqueeze(1)
    rel_dist = (rel_coors**2).sum(dim=-1, keepdim=True)
    feats_i = feats.unsqueeze(2).expand(b, n, n, d)
    feats_j = feats.unsqueeze(1).expand(b, n, n, d)
    edge_input = torch.cat((feats_i, feats_j, rel_dist), dim=-1)
    norm = (rel_dist + 1e-12).sqrt()
    normed_coors = rel_coors / norm.clamp(min=1e-8) * scale
    clamped = coor_weights.clamp(min=-2.0, max=2.0)
    return edge_input, (clamped.unsqueeze(-1) * normed_coors).sum(dim=2) + coors


layer(
    "EGNN dense edges 97 x 97 x 257",
    egnn_edges,
    like(11, 97, 128, dtype=F32),
    like(11, 97, 3, dtype=F32),
    like(11, 97, 97, dtype=F32),
    like(1, dtype=F32),
)


def adaptive_transition(
    a: Tensor, attended: Tensor, gate: Tensor, s_scale: Tensor, s_bias: Tensor
) -> tuple[Tensor, Tensor]:
    """jwohlwend/boltz, DiffusionTransformerLayer: gated attention, AdaLN of the transition."""
    a = a + torch.sigmoid(gate) * attended
    h = F.layer_norm(a, a.shape[-1:])
    return a, torch.sigmoid(s_scale) * h + s_bias


layer(
    "AlphaFold 3 adaptive norm 769 x 768",
    adaptive_transition,
    *(like(16, 769, 768) for _ in range(5)),
)


def outer_product_mean(
    z: Tensor, outer: Tensor, norm: Tensor, mask: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """aqlaboratory/openfold, OuterProductMean after its products, the next norm with the mask."""
    outer = outer / (norm + 1e-3)
    z = z + outer.to(z.dtype)
    normed = F.layer_norm(z, z.shape[-1:], weight, bias, 1e-5)
    return z, normed * mask.to(z.dtype).unsqueeze(-1)


layer(
    "OpenFold outer product mean 385 x 385 x 128",
    outer_product_mean,
    like(385, 385, 128),
    like(385, 385, 128, dtype=F32),
    given(385, 385, 1, dtype=F32, positive=True),
    given(385, 385, dtype=F32, positive=True),
    like(128),
    like(128),
)


def nerf_encoding(in_tensor: Tensor, covs: Tensor) -> Tensor:
    """nerfstudio, NeRFEncoding with covariances (mip-NeRF), the input beside its features."""
    scaled_in = 2 * torch.pi * in_tensor
    freqs = 2 ** torch.linspace(0.0, 8.0, 10, device=in_tensor.device)
    scaled_inputs = scaled_in[..., None] * freqs
    scaled_inputs = scaled_inputs.view(*scaled_inputs.shape[:-2], -1)
    input_var = torch.diagonal(covs, dim1=-2, dim2=-1)[..., :, None] * freqs[None, :] ** 2
    input_var = input_var.reshape((*input_var.shape[:-2], -1))
    x_means = torch.cat([scaled_inputs, scaled_inputs + torch.pi / 2.0], dim=-1)
    x_vars = torch.cat([input_var, input_var], dim=-1)
    encoded = torch.exp(-0.5 * x_vars) * torch.sin(x_means)
    return torch.cat([encoded, in_tensor], dim=-1)


layer(
    "mip-NeRF encoding 3 x 10, 393216 samples",
    nerf_encoding,
    like(4096 * 96, 3, dtype=F32),
    given(4096 * 96, 3, 3, dtype=F32, positive=True),
)


def graphcast_loss(
    nodes: Tensor, previous: Tensor, target: Tensor, std: Tensor, weights: Tensor, area: Tensor
) -> Tensor:
    """NVIDIA/physicsnemo, GraphCast: grid nodes to maps, residual, GraphCastLossFunction."""
    b, c, h, w = target.shape
    pred = nodes.permute(0, 2, 1).reshape(b, c, h, w)
    pred = previous + pred * std
    loss = (target - pred) ** 2
    loss = loss.mean(dim=0)
    loss = torch.mul(loss, weights)
    loss = torch.mul(loss, area)
    return loss.mean()


layer(
    "GraphCast weighted loss 73 x 181 x 360",
    graphcast_loss,
    like(3, 181 * 360, 73, dtype=F32),
    given(3, 73, 181, 360, dtype=F32),
    given(3, 73, 181, 360, dtype=F32),
    given(73, 1, 1, dtype=F32, positive=True),
    given(73, 1, 1, dtype=F32, positive=True),
    given(181, 1, dtype=F32, positive=True),
)


def degree_norm(
    x: Tensor, balance: Tensor, affine_weight: Tensor, affine_bias: Tensor, expand_index: Tensor
) -> Tensor:
    """atomicarchitects/equiformer_v2, EquivariantRMSNormArraySphericalHarmonicsV2."""
    l0 = x.narrow(1, 0, 1)
    l0 = l0 - l0.mean(dim=2, keepdim=True)
    feature = torch.cat((l0, x.narrow(1, 1, x.shape[1] - 1)), dim=1)
    feature_norm = (feature.pow(2) * balance).sum(dim=1, keepdim=True)
    feature_norm = feature_norm.mean(dim=2, keepdim=True)
    feature_norm = (feature_norm + 1e-5).pow(-0.5)
    weight = torch.index_select(affine_weight.unsqueeze(0), dim=1, index=expand_index)
    out = feature * (feature_norm * weight)
    return torch.cat((out.narrow(1, 0, 1) + affine_bias, out.narrow(1, 1, x.shape[1] - 1)), dim=1)


layer(
    "Equiformer v2 norm by degree 49 x 128",
    degree_norm,
    like(2731, 49, 128, dtype=F32),
    given(1, 49, 1, dtype=F32, positive=True),
    given(7, 128, dtype=F32),
    like(1, 1, 128, dtype=F32),
    given(49, below=7),
)

# ---------------------------------------------------------------------- recommendation, forecasts


def cross_net_mix(
    x_0: Tensor, x_l: Tensor, gating: Tensor, bias: Tensor, *projected: Tensor
) -> Tensor:
    """shenweichen/DeepCTR-Torch, CrossNetMix of DCN v2: low-rank experts mixed; its last product
    by the gates is spelled as a sum here.
    """
    outputs = [x_0 * (uv_x + bias) for uv_x in projected]
    output_of_experts = torch.stack(outputs, 2)
    moe_out = (output_of_experts * gating.softmax(1).unsqueeze(1)).sum(2)
    return moe_out + x_l


layer(
    "DCN v2 mixture of 4 crosses 1027",
    cross_net_mix,
    like(8192, 1027, dtype=F16),
    like(8192, 1027, dtype=F16),
    like(8192, 4, dtype=F16),
    like(1027, dtype=F16),
    *(like(8192, 1027, dtype=F16) for _ in range(4)),
)


def din_attention(
    keys_length: Tensor, query: Tensor, keys: Tensor, scores: Tensor
) -> tuple[Tensor, Tensor]:
    """shenweichen/DeepCTR-Torch, LocalActivationUnit's input and the weights of its scores."""
    max_length = keys.shape[1]
    queries = query.expand(-1, max_length, -1)
    attention_input = torch.cat([queries, keys, queries - keys, queries * keys], dim=-1)
    positions = torch.arange(max_length, device=keys.device)
    masks = positions.unsqueeze(0) < keys_length.unsqueeze(1)
    outputs = torch.where(masks.unsqueeze(1), scores.transpose(1, 2), -(2**32) + 1)
    return attention_input, F.softmax(outputs, dim=-1)


layer(
    "DIN attention input 101 x 4 x 64",
    din_attention,
    given(1024, below=102),
    like(1024, 1, 64, dtype=F32),
    like(1024, 101, 64, dtype=F32),
    like(1024, 101, 1, dtype=F32),
)


def variable_selection(
    variables: Tensor, flat: Tensor, gated: Tensor, skip: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """pytorch-forecasting, VariableSelectionNetwork of TFT, and a GateAddNorm beside it."""
    sparse_weights = F.softmax(flat, dim=-1).unsqueeze(-2)
    outputs = variables * sparse_weights
    outputs = outputs.sum(dim=-1)
    x = F.glu(gated, dim=-1)
    return outputs, F.layer_norm(x + skip, x.shape[-1:], weight, bias, 1e-5)


layer(
    "TFT variable selection and gate 160 x 20",
    variable_selection,
    like(72, 168, 160, 20),
    like(72, 168, 20),
    like(72, 168, 320),
    like(72, 168, 160),
    like(160),
    like(160),
)


def dlinear_decomposition(x: Tensor) -> tuple[Tensor, Tensor]:
    """cure-lab/LTSF-Linear, series_decomp of DLinear; its pooling by differences of sums."""
    kernel_size = 25
    front = x[:, 0:1, :].repeat(1, (kernel_size - 1) // 2, 1)
    end = x[:, -1:, :].repeat(1, (kernel_size - 1) // 2, 1)
    padded = torch.cat([front, x, end], dim=1)
    sums = F.pad(padded.cumsum(dim=1), (0, 0, 1, 0))
    moving_mean = (sums[:, kernel_size:] - sums[:, :-kernel_size]) / kernel_size
    res = x - moving_mean
    return res.permute(0, 2, 1).contiguous(), moving_mean.permute(0, 2, 1).contiguous()


layer(
    "DLinear decomposition by windows of 25, 336 x 321",
    dlinear_decomposition,
    given(64, 336, 321, dtype=F32),
)

# ------------------------------------------------------------------------------------- optimizers


def muon_step(*tensors: Tensor) -> tuple[Tensor, ...]:
    """KellerJordan/Muon, muon_update: Nesterov momentum and how zeropower_via_newtonschulz5 begins.

    Gradients first, then their momentum buffers.
    """
    half = len(tensors) // 2
    results = []
    for grad, momentum in zip(tensors[:half], tensors[half:], strict=True):
        momentum = momentum.lerp(grad, 1 - 0.95)
        x = grad.lerp(momentum, 0.95).bfloat16()
        if grad.size(-2) > grad.size(-1):
            x = x.mT
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        results += [momentum, x.contiguous()]
    return tuple(results)


muon_sizes = ((4608, 1152), (1152, 4608), (1152, 3456), (1152, 1152), (2730, 1152))
layer(
    "Muon momentum and normalized updates, 5 matrices",
    muon_step,
    *(given(*sizes, dtype=F32) for _ in range(2) for sizes in muon_sizes),
)


def sophia_step(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Liuhong99/Sophia, _single_tensor_sophiag: parameters, gradients, averages, Hessians."""
    lr, beta1, rho, bs, weight_decay = 4e-4, 0.965, 0.05, 480 * 1024, 0.1
    count = len(tensors) // 4
    results = []
    for i in range(count):
        param, grad, exp_avg, hess = tensors[i::count]
        param = param.mul(1 - lr * weight_decay)
        exp_avg = exp_avg.mul(beta1).add(grad, alpha=1 - beta1)
        ratio = (exp_avg.abs() / (rho * bs * hess + 1e-15)).clamp(None, 1)
        param = param.addcmul(exp_avg.sign(), ratio, value=-lr)
        results += [param, exp_avg]
    return tuple(results)


sophia_sizes = ((3584, 2304), (768, 3072), (2304,), (768,), (3072,))
layer(
    "Sophia-G step, 5 tensors",
    sophia_step,
    *(given(*sizes, dtype=F32) for _ in range(3) for sizes in sophia_sizes),
    *(given(*sizes, dtype=F32, positive=True) for sizes in sophia_sizes),
)


def lars_step(*tensors: Tensor) -> tuple[Tensor, ...]:
    """facebookresearch/mae, util/lars.py: parameters, their gradients, their momentum."""
    lr, weight_decay, momentum, trust = 0.1, 1e-6, 0.9, 0.001
    count = len(tensors) // 3
    results = []
    for i in range(count):
        p, dp, mu = tensors[i::count]
        if p.ndim > 1:
            dp = dp.add(p, alpha=weight_decay)
            param_norm = torch.norm(p)
            update_norm = torch.norm(dp)
            one = torch.ones_like(param_norm)
            q = torch.where(
                param_norm > 0.0,
                torch.where(update_norm > 0, (trust * param_norm / update_norm), one),
                one,
            )
            dp = dp.mul(q)
        mu = mu.mul(momentum).add(dp)
        results += [p.add(mu, alpha=-lr), mu]
    return tuple(results)


lars_sizes = (
    *((512, 512, 3, 3), (512,), (512,), (2048, 512, 1, 1), (2048,), (2048,)),
    *((512, 2048, 1, 1), (512,), (512,), (1000, 2048), (1000,)),
)
layer(
    "LARS step, 11 tensors",
    lars_step,
    *(given(*sizes, dtype=F32) for _ in range(3) for sizes in lars_sizes),
)

# ----------------------------------------------------------------------------------- quantization


def grad_scale(x: Tensor, scale: float) -> Tensor:
    y_grad = x * scale
    return (x - y_grad).detach() + y_grad


def round_pass(x: Tensor) -> Tensor:
    return (x.round() - x).detach() + x


def lsq_quantized(x: Tensor, weight: Tensor, s_x: Tensor, s_w: Tensor) -> tuple[Tensor, Tensor]:
    """zhutmost/lsq-net, LsqQuan of a convolution's input after ReLU and of its weight, 4 bits."""
    x = F.relu(x)
    s_scale = grad_scale(s_x, 1.0 / ((15 * x.numel()) ** 0.5))
    x = round_pass(torch.clamp(x / s_scale, 0, 15)) * s_scale
    s_scale = grad_scale(s_w, 1.0 / ((7 * weight.numel()) ** 0.5))
    weight = round_pass(torch.clamp(weight / s_scale, -8, 7)) * s_scale
    return x, weight


layer(
    "LSQ of input and weight 256 28",
    lsq_quantized,
    like(44, 256, 28, 28, dtype=F32, channels_last=True),
    like(256, 256, 3, 3, dtype=F32),
    like(1, dtype=F32, positive=True),
    like(256, 1, 1, 1, dtype=F32, positive=True),
)


def nf4_weight(
    packed: Tensor, absmax: Tensor, absmax2: Tensor, code: Tensor, nf4: Tensor, offset: Tensor
) -> Tensor:
    """bitsandbytes, dequantize_4bit in torch: blocks of 64, whose scales are of 8 bits too."""
    nested = code[absmax.long()] * absmax2 + offset
    upper = packed >> 4
    lower = packed & 0xF
    indices = torch.stack((upper, lower), dim=-1).reshape(packed.shape[0], -1, 64)
    out = nf4[indices.long()] * nested.unsqueeze(-1)
    return out.reshape(packed.shape[0], -1).to(torch.bfloat16)


layer(
    "NF4 double-quantized weight 3584 x 16384",
    nf4_weight,
    given(3584, 8192, dtype=U8, below=256),
    given(3584, 256, dtype=U8, below=256),
    given(3584, 1, dtype=F32, positive=True),
    given(256, dtype=F32),
    given(16, dtype=F32),
    given(1, dtype=F32),
)


def int4_fake_quantized(weight: Tensor) -> Tensor:
    """pytorch/ao, Int4WeightOnlyQATLinear: asymmetric groups, gradients only within the range."""
    rows, columns = weight.shape
    group_size, quant_min, quant_max = 128, 0, 15
    x = weight.view(rows, columns // group_size, group_size)
    x_float = x.detach().float()
    min_val = torch.amin(x_float, dim=-1, keepdim=True)
    max_val = torch.amax(x_float, dim=-1, keepdim=True)
    min_val_neg = torch.min(min_val, torch.zeros_like(min_val))
    max_val_pos = torch.max(max_val, torch.zeros_like(max_val))
    scale = (max_val_pos - min_val_neg) / float(quant_max - quant_min)
    scale = torch.clamp(scale, min=1e-6)
    zero_point = quant_min - torch.round(min_val_neg / scale)
    zero_point = torch.clamp(zero_point, quant_min, quant_max)
    q = torch.round(x_float * (1.0 / scale)) + zero_point
    mask = torch.logical_and(q >= quant_min, q <= quant_max)
    dq = (torch.clamp(q, quant_min, quant_max) - zero_point) * scale
    passed = torch.where(mask, x, x.detach())
    out = passed + (dq.to(x.dtype) - x).detach()
    return out.view(rows, columns)


layer("torchao fake int4 groups 3584 x 9472", int4_fake_quantized, like(3584, 9472))

# ----------------------------------------------------------------------------------------- losses


def batch_hard_triplet(
    x: Tensor, y: Tensor, product: Tensor, targets: Tensor, all_targets: Tensor
) -> Tensor:
    """JDAI-CV/fast-reid, triplet_loss with euclidean_dist and hard_example_mining."""
    xx = torch.pow(x, 2).sum(1, keepdim=True).expand(x.shape[0], y.shape[0])
    yy = torch.pow(y, 2).sum(1, keepdim=True).expand(y.shape[0], x.shape[0]).t()
    dist_mat = (xx + yy - 2 * product).clamp(min=1e-12).sqrt()
    is_pos = targets.view(-1, 1).eq(all_targets.view(1, -1)).float()
    is_neg = targets.view(-1, 1).ne(all_targets.view(1, -1)).float()
    dist_ap = torch.amax(dist_mat * is_pos, dim=1)
    dist_an = torch.amin(dist_mat * is_neg + is_pos * 1e9, dim=1)
    return F.margin_ranking_loss(dist_an, dist_ap, torch.ones_like(dist_an), margin=0.3)


layer(
    "batch-hard triplet loss 3001 x 6002",
    batch_hard_triplet,
    like(3001, 512, dtype=F32),
    like(6002, 512, dtype=F32),
    like(3001, 6002, dtype=F32),
    given(3001, below=751),
    given(6002, below=751),
)


def focal_tversky(logits: Tensor, labels: Tensor) -> Tensor:
    """Project-MONAI, TverskyLoss with softmax, raised as in nabsabraham/focal-tversky-unet."""
    probs = logits.float().softmax(1)
    classes = torch.arange(logits.shape[1], device=logits.device).view(1, -1, 1, 1, 1)
    target = (labels == classes).float()
    reduce_axis = [2, 3, 4]
    p0, p1 = probs, 1 - probs
    g0, g1 = target, 1 - target
    tp = torch.sum(p0 * g0, reduce_axis)
    fp = 0.3 * torch.sum(p0 * g1, reduce_axis)
    fn = 0.7 * torch.sum(p1 * g0, reduce_axis)
    score = 1.0 - (tp + 1e-5) / (tp + fp + fn + 1e-5)
    return torch.pow(score, 0.75).mean()


layer(
    "focal Tversky loss 4 x 96 x 96 x 97",
    focal_tversky,
    like(6, 4, 96, 96, 97, dtype=F16),
    given(6, 1, 96, 96, 97, dtype=U8, below=4),
)


def ms_ssim_maps(*filtered: Tensor) -> Tensor:
    """torchmetrics, MultiScaleStructuralSimilarityIndexMeasure after its filters: five results of
    each scale, means and squares. Its product of the scales is one of five factors here.
    """
    c1, c2 = (0.01 * 1.0) ** 2, (0.03 * 1.0) ** 2
    betas = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
    result: Tensor | float = 1.0
    for i, beta in enumerate(betas):
        mu_pred, mu_target, pred_sq, target_sq, pred_target = filtered[5 * i : 5 * i + 5]
        mu_pred_sq, mu_target_sq = mu_pred.pow(2), mu_target.pow(2)
        mu_pred_target = mu_pred * mu_target
        sigma_pred_sq = torch.clamp(pred_sq - mu_pred_sq, min=0.0)
        sigma_target_sq = torch.clamp(target_sq - mu_target_sq, min=0.0)
        sigma_pred_target = pred_target - mu_pred_target
        upper = 2 * sigma_pred_target + c2
        lower = sigma_pred_sq + sigma_target_sq + c2
        if i == len(betas) - 1:
            ssim = ((2 * mu_pred_target + c1) * upper) / ((mu_pred_sq + mu_target_sq + c1) * lower)
        else:
            ssim = upper / lower
        similarity = ssim.reshape(ssim.shape[0], -1).mean(-1)
        result = result * torch.relu(similarity) ** beta
    return 1 - torch.as_tensor(result).mean()


layer(
    "MS-SSIM maps of five scales 3 x 246",
    ms_ssim_maps,
    *(
        each(24, 3, size, size, dtype=F32)
        for size in (246, 118, 54, 22, 6)
        for each in (like, given, like, given, like)
    ),
)


def charbonnier_tv(pred: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """XPixelGroup/BasicSR, CharbonnierLoss and WeightedTVLoss of a restored image."""
    charbonnier = torch.sqrt((pred - target) ** 2 + 1e-12).mean()
    y_diff = (pred[:, :, :-1, :] - pred[:, :, 1:, :]).abs().mean()
    x_diff = (pred[:, :, :, :-1] - pred[:, :, :, 1:]).abs().mean()
    return charbonnier, 1e-2 * (x_diff + y_diff)


layer(
    "Charbonnier and total variation 3 x 513 x 1025",
    charbonnier_tv,
    like(6, 3, 513, 1025, dtype=F32, channels_last=True),
    given(6, 3, 513, 1025, dtype=F32),
)


def cat_mask(t: Tensor, mask1: Tensor, mask2: Tensor) -> Tensor:
    t1 = (t * mask1).sum(dim=1, keepdim=True)
    t2 = (t * mask2).sum(1, keepdim=True)
    return torch.cat([t1, t2], dim=1)


def decoupled_distillation(student: Tensor, teacher: Tensor, target: Tensor) -> Tensor:
    """megvii-research/mdistiller, dkd_loss; its masks by comparison."""
    alpha, beta, temperature = 1.0, 8.0, 4.0
    classes = torch.arange(student.shape[1], device=student.device)
    gt_mask = target.reshape(-1).unsqueeze(1) == classes
    other_mask = ~gt_mask
    pred_student = cat_mask(F.softmax(student / temperature, dim=1), gt_mask, other_mask)
    pred_teacher = cat_mask(F.softmax(teacher / temperature, dim=1), gt_mask, other_mask)
    log_pred_student = torch.log(pred_student)
    tckd_loss = F.kl_div(log_pred_student, pred_teacher, reduction="sum")
    tckd_loss = tckd_loss * (temperature**2) / target.shape[0]
    pred_teacher_part2 = F.softmax(teacher / temperature - 1000.0 * gt_mask, dim=1)
    log_pred_student_part2 = F.log_softmax(student / temperature - 1000.0 * gt_mask, dim=1)
    nckd_loss = F.kl_div(log_pred_student_part2, pred_teacher_part2, reduction="sum")
    nckd_loss = nckd_loss * (temperature**2) / target.shape[0]
    return alpha * tckd_loss + beta * nckd_loss


layer(
    "decoupled distillation 1000",
    decoupled_distillation,
    like(8192, 1000, dtype=F32),
    given(8192, 1000, dtype=F32),
    given(8192, below=1000),
)
