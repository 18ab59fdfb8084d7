# SPDX-License-Identifier: BSD-3-Clause
"""A sixth set: layers that take images and videos apart and put them together, by model code.

Patches, windows, groups of channels and wavelets: most of what they do is to move elements, so that
inputs and results are neighbours along different dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from layer_cases import F32, Input, Layer, Tensor, given, like

F16 = torch.float16
PATCH_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    PATCH_LAYERS.append(Layer(name, function, inputs))


# ------------------------------------------------------------------------------- into patches


def flux_packed_noise(latents: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """diffusers, train_dreambooth_flux: noise is mixed in, then `_pack_latents`."""
    noisy = (1.0 - sigmas) * latents + sigmas * noise
    b, c, h, w = noisy.shape
    noisy = noisy.view(b, c, h // 2, 2, w // 2, 2)
    noisy = noisy.permute(0, 2, 4, 1, 3, 5)
    return noisy.reshape(b, (h // 2) * (w // 2), c * 4)


layer(
    "Flux packed latents 16 x 96 x 104",
    flux_packed_noise,
    like(48, 16, 96, 104),
    given(48, 16, 96, 104),
    given(48, 1, 1, 1, positive=True),
)


def qwen_vl_patches(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """transformers, Qwen2VLImageProcessorFast: normalized, in patches of windows."""
    images = (images * (1 / 255) - mean) / std
    b, c, h, w = images.shape
    patches = images.unsqueeze(1).repeat(1, 2, 1, 1, 1)
    patches = patches.view(b, 1, 2, c, h // 28, 2, 14, w // 28, 2, 14)
    patches = patches.permute(0, 1, 4, 7, 5, 8, 3, 2, 6, 9)
    return patches.reshape(b, (h // 14) * (w // 14), c * 2 * 14 * 14)


layer(
    "Qwen2-VL image patches 3 x 476 x 644",
    qwen_vl_patches,
    given(12, 3, 476, 644, dtype=F32),
    given(3, 1, 1, dtype=F32),
    given(3, 1, 1, dtype=F32, positive=True),
)


def video_mae_targets(videos: Tensor) -> Tensor:
    """transformers, VideoMAEForPreTraining: pixels of tubes, normalized for each."""
    b, t, c, h, w = videos.shape
    frames = videos.view(b, t // 2, 2, c, h // 16, 16, w // 16, 16)
    frames = frames.permute(0, 1, 4, 6, 2, 5, 7, 3).contiguous()
    frames = frames.view(b, t // 2 * h // 16 * w // 16, 2 * 16 * 16, c)
    mean = frames.mean(dim=-2, keepdim=True)
    deviation = frames.var(dim=-2, unbiased=True, keepdim=True).sqrt()
    normalized = (frames - mean) / (deviation + 1e-6)
    return normalized.view(b, -1, 2 * 16 * 16 * c)


layer("VideoMAE targets 16 x 3 x 224", video_mae_targets, given(6, 16, 3, 224, 224, dtype=F32))


def wan_vae_patches(x: Tensor) -> Tensor:
    """Wan-Video, WanVAE `patchify` of 2 x 2 pixels, channels first."""
    b, c, f, h, w = x.shape
    x = x.view(b, c, f, h // 2, 2, w // 2, 2)
    x = x.permute(0, 1, 6, 4, 2, 3, 5).contiguous()
    return x.view(b, c * 4, f, h // 2, w // 2)


layer("Wan VAE patches 3 x 9 x 704 x 1280", wan_vae_patches, like(2, 3, 9, 704, 1280))


def restormer_down(x: Tensor) -> Tensor:
    """swz30/Restormer, Downsample after its convolution."""
    return F.pixel_unshuffle(x, 2)


layer("Restormer unshuffle 24 x 256", restormer_down, like(16, 24, 256, 256))
layer("Restormer unshuffle 24 x 250 float32", restormer_down, like(8, 24, 250, 250, dtype=F32))


def yolo_focus(x: Tensor) -> Tensor:
    """ultralytics/yolov5, Focus before its convolution."""
    return torch.cat(
        (
            x[..., ::2, ::2],
            x[..., 1::2, ::2],
            x[..., ::2, 1::2],
            x[..., 1::2, 1::2],
        ),
        1,
    )


layer("YOLOv5 focus 3 x 640", yolo_focus, like(32, 3, 640, 640, dtype=F16))


def cosmos_haar(x: Tensor) -> Tensor:
    """NVIDIA/Cosmos-Tokenizer, Patcher2D: one level of Haar wavelets by pairs of pixels."""
    even, odd = x[..., 0::2], x[..., 1::2]
    low, high = (even + odd) * 0.7071, (even - odd) * 0.7071
    ll = (low[..., 0::2, :] + low[..., 1::2, :]) * 0.7071
    lh = (low[..., 0::2, :] - low[..., 1::2, :]) * 0.7071
    hl = (high[..., 0::2, :] + high[..., 1::2, :]) * 0.7071
    hh = (high[..., 0::2, :] - high[..., 1::2, :]) * 0.7071
    return torch.cat([ll, lh, hl, hh], dim=1) / 2


layer("Cosmos Haar level 3 x 1024", cosmos_haar, like(16, 3, 1024, 1024))


def mobile_vit_unfold(x: Tensor) -> Tensor:
    """apple/ml-cvnets, MobileViTBlock `unfolding` of 2 x 2 patches."""
    b, c, h, w = x.shape
    p = x.reshape(b * c * (h // 2), 2, w // 2, 2)
    p = p.transpose(1, 2)
    p = p.reshape(b, c, (h // 2) * (w // 2), 4)
    p = p.transpose(1, 3)
    return p.reshape(b * 4, (h // 2) * (w // 2), c)


layer("MobileViT unfolding 144 x 32", mobile_vit_unfold, like(96, 144, 32, 32))


def swin_v2_windows(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """timm, SwinTransformerV2Stage: a norm, a cyclic shift, windows of 8."""
    b, h, w, c = x.shape
    x = F.layer_norm(x, (c,), weight, bias)
    x = torch.roll(x, shifts=(-4, -4), dims=(1, 2))
    x = x.view(b, h // 8, 8, w // 8, 8, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, 64, c)


layer("Swin v2 norm and windows 96 x 64", swin_v2_windows, like(64, 64, 64, 96), like(96), like(96))

# ------------------------------------------------------------------------------- out of patches


def dit_unpatchify(x: Tensor, cfg_scale: Tensor) -> Tensor:
    """facebookresearch/DiT, `unpatchify` and `forward_with_cfg` of three channels."""
    n = x.shape[0]
    h = w = 32
    x = x.reshape(n, h, w, 2, 2, 8)
    x = torch.einsum("nhwpqc->nchpwq", x).reshape(n, 8, h * 2, w * 2)
    eps, rest = x[:, :3], x[:, 3:]
    cond, uncond = torch.split(eps, n // 2, dim=0)
    half = uncond + cfg_scale * (cond - uncond)
    return torch.cat([torch.cat([half, half], dim=0), rest], dim=1)


layer(
    "DiT unpatchify and guidance 1024 x 32",
    dit_unpatchify,
    given(256, 1024, 32, dtype=F32),
    given(1, dtype=F32),
)


def wan_unpatchify(x: Tensor, scale: Tensor) -> Tensor:
    """Wan-Video, WanModel `unpatchify` of patches 1 x 2 x 2, then the latents' deviation."""
    b = x.shape[0]
    u = x.view(b, 21, 30, 52, 1, 2, 2, 16)
    u = torch.einsum("bfhwpqrc->bcfphqwr", u)
    return u.reshape(b, 16, 21, 60, 104) * scale


layer("Wan unpatchify 21 x 30 x 52", wan_unpatchify, like(12, 32760, 64), given(1, 16, 1, 1, 1))


def flux_unpack(x: Tensor) -> Tensor:
    """diffusers, FluxPipeline `_unpack_latents` and the autoencoder's scaling."""
    b = x.shape[0]
    x = x.view(b, 48, 52, 16, 2, 2)
    x = x.permute(0, 3, 1, 4, 2, 5)
    x = x.reshape(b, 16, 96, 104)
    return x / 0.3611 + 0.1159


layer("Flux unpacked latents 16 x 96 x 104", flux_unpack, like(48, 2496, 64))


def ltx_depth_to_space(x: Tensor, residual: Tensor) -> Tensor:
    """Lightricks/LTX-Video, DepthToSpaceUpsample of 2 x 2 x 2 and its residual."""
    b, c, d, h, w = x.shape
    x = x.view(b, c // 8, 2, 2, 2, d, h, w)
    x = x.permute(0, 1, 5, 2, 6, 3, 7, 4).reshape(b, c // 8, d * 2, h * 2, w * 2)
    return x[:, :, 1:] + residual


layer(
    "LTX depth to space 512 x 7 x 32 x 44",
    ltx_depth_to_space,
    like(4, 512, 7, 32, 44),
    like(4, 64, 13, 64, 88),
)


def edsr_up(x: Tensor, bias: Tensor) -> Tensor:
    """sanghyun-son/EDSR, Upsampler after its convolution, three times as wide."""
    return F.pixel_shuffle(x + bias[:, None, None], 3)


layer("EDSR shuffle of 3, 576 x 48", edsr_up, like(32, 576, 48, 48), like(576))


def depth_anything_tokens(x: Tensor, cls: Tensor) -> Tensor:
    """DepthAnything, DPTHead: tokens with the read-out added, channels first."""
    x = F.gelu(x + cls.unsqueeze(1).expand_as(x))
    return x.permute(0, 2, 1).reshape(x.shape[0], x.shape[-1], 37, 37)


layer("DepthAnything tokens 37 x 1024", depth_anything_tokens, like(16, 1369, 1024), like(16, 1024))


def shuffle_net(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """megvii-model/ShuffleNet, a folded batch norm, ReLU and the channels of three groups."""
    x = torch.relu(x * scale[:, None, None] + shift[:, None, None])
    b, c, h, w = x.shape
    x = x.reshape(b, c // 3, 3, h, w).permute(0, 2, 1, 3, 4)
    return x.reshape(b, c, h, w)


layer("ShuffleNet groups 240 x 28", shuffle_net, like(128, 240, 28, 28), like(240), like(240))


def image_normalized(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """torchvision, ToTensor and Normalize of batches on the device."""
    x = images.permute(0, 3, 1, 2) / 255
    return ((x - mean[:, None, None]) / std[:, None, None]).to(torch.bfloat16)


layer(
    "normalized images 384 x 384",
    image_normalized,
    given(64, 384, 384, 3, dtype=F32),
    given(3, dtype=F32),
    given(3, dtype=F32, positive=True),
)
