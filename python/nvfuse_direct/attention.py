# SPDX-License-Identifier: BSD-3-Clause
"""Scaled dot product attention with torch, forward and backward, on every device.

On a GPU 16-bit operands go to torch's flash attention, which draws from the generator of the device
exactly as torch.nn.functional.scaled_dot_product_attention does. Where that is switched off (by
torch.backends.cuda.enable_flash_sdp(False) or torch.nn.attention.sdpa_kernel) they go to cuDNN's if
torch would choose it and there is no dropout. Both leave the same logsumexp, so that either may
follow the other. Everything else, and all that has a bias or a mask, is computed by torch's
formulas.

Shapes: query [*b, H, L, E], key [*b, G, S, E], value [*b, G, S, V]. Each head of the key and the
value is for H/G heads of the query, one after the other.
"""

from __future__ import annotations

import math

import torch

Tensor = torch.Tensor
_aten = torch.ops.aten

# The state of the generator that a call drew from; no random numbers, no state.
RngState = tuple[Tensor, Tensor]
# torch's flash attention takes heads of at most this size, in multiples of 8.
_MAX_HEAD = 256
_HEAD_MULTIPLE = 8


def _four_dims(x: Tensor) -> Tensor:
    """[*b, H, L, E] as [B, H, L, E]."""
    return x if x.dim() == 4 else x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def _group(query: Tensor, key: Tensor) -> int:
    """How many heads of the query there are for each of the key."""
    heads, key_heads = query.shape[-3], key.shape[-3]
    if heads == key_heads:
        return 1
    if key_heads == 0 or heads % key_heads != 0:
        raise RuntimeError(f"attention of {heads} heads with {key_heads} heads of keys and values")
    return heads // key_heads


def _for_all_queries(x: Tensor, group: int) -> Tensor:
    return x if group == 1 else x.repeat_interleave(group, -3)


def _is_flash(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> bool:
    """The conditions of torch. Flash attention aligns the causal mask of a matrix of scores that is
    not square to the last query and key, torch to the first."""
    width = query.shape[-1]
    return (
        query.device.type == "cuda"
        and query.dtype in (torch.float16, torch.bfloat16)
        and width == value.shape[-1]
        and 0 < width <= _MAX_HEAD
        and not (causal and query.shape[-2] != key.shape[-2])
        and query.numel() > 0
        and key.numel() > 0
    )


def _is_cudnn(query: Tensor, key: Tensor, value: Tensor, dropout: float, causal: bool) -> bool:
    """Of operands for flash attention: whether cuDNN takes its place."""
    if torch.backends.cuda.flash_sdp_enabled():
        return False
    if dropout != 0.0 or query.shape[-1] % _HEAD_MULTIPLE != 0:
        return False
    choice = torch._fused_sdp_choice(
        query, key, value, None, dropout, causal, enable_gqa=_group(query, key) > 1
    )
    return choice == torch.nn.attention.SDPBackend.CUDNN_ATTENTION.value


def _padded_head(x: Tensor) -> Tensor:
    """With zeros up to a size that flash attention takes, as torch pads it."""
    missing = -x.shape[-1] % _HEAD_MULTIPLE
    return x if missing == 0 else torch.nn.functional.pad(x, (0, missing))


def _no_rng_state(device: torch.device) -> RngState:
    return (
        torch.zeros(2, dtype=torch.uint64, device=device),
        torch.zeros((), dtype=torch.uint64, device=device),
    )


def _scale(query: Tensor, scale: float | None) -> float:
    return 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)


def _causal_mask(query: Tensor, key: Tensor) -> Tensor:
    shape = (query.shape[-2], key.shape[-2])
    return torch.ones(shape, dtype=torch.bool, device=query.device).tril()


def _added_mask(
    query: Tensor, key: Tensor, bias: Tensor | None, mask: Tensor | None, causal: bool
) -> Tensor | None:
    """Numbers that are added to the scores. None: nothing."""
    if bias is None and mask is None:
        return None
    if causal:
        causal_mask = _causal_mask(query, key)
        mask = causal_mask if mask is None else mask & causal_mask
    if mask is None:
        return bias
    if bias is None:
        bias = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
    return bias.masked_fill(~mask, -math.inf)


def _scores(query: Tensor, key: Tensor, scale: float, added: Tensor | None, causal: bool) -> Tensor:
    """Before the softmax, in float32 at least."""
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query.to(wide) @ key.to(wide).mT) * scale
    if added is not None:
        scores = scores + added.to(wide)
    if causal:
        scores = scores.masked_fill(~_causal_mask(query, key), -math.inf)
    return scores


def _forward_by_formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    wants_logsumexp: bool,
) -> tuple[Tensor, Tensor | None]:
    added = _added_mask(query, key, bias, mask, causal)
    causal = causal and added is None
    plain = added is None and dropout == 0.0 and query.shape[-1] == value.shape[-1]
    if plain and query.device.type == "cpu" and query.numel() > 0 and key.numel() > 0:
        return _aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, scale=scale
        )
    group = _group(query, key)
    key, value = (_for_all_queries(x, group) for x in (key, value))
    out, _ = _aten._scaled_dot_product_attention_math(
        query, key, value, added, dropout, causal, scale=scale
    )
    if not wants_logsumexp:
        return out, None
    scores = _scores(query, key, _scale(query, scale), added, causal)
    return out, torch.logsumexp(scores, -1)


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    dropout_p: float | None = None,
    is_causal: bool | None = None,
    scale: float | None = None,
    *,
    wants_logsumexp: bool = True,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """(output [*b, H, L, V], logsumexp float32 [*b, H, L], seed uint64 [2], offset uint64 [])."""
    dropout, causal = float(dropout_p or 0.0), bool(is_causal)
    batch, length = query.shape[:-2], query.shape[-2]
    width = value.shape[-1]
    _group(query, key)
    q, k, v = (_four_dims(x) for x in (query, key, value))
    is_flash = bias is None and mask is None and _is_flash(q, k, v, causal)
    if is_flash and _is_cudnn(q, k, v, dropout, causal):
        out, logsumexp = _aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, wants_logsumexp, 0.0, causal, False, scale=_scale(q, scale)
        )[:2]
        logsumexp = logsumexp if wants_logsumexp else None
        state = _no_rng_state(query.device)
    elif is_flash:
        out, logsumexp, _, _, _, _, seed, offset, _ = _aten._scaled_dot_product_flash_attention(
            *(_padded_head(x) for x in (q, k, v)), dropout, causal, False, scale=_scale(q, scale)
        )
        # Some versions pad the length.
        logsumexp = logsumexp[..., :length]
        state = (seed, offset)
    else:
        bias, mask = (None if x is None else _four_dims(x) for x in (bias, mask))
        out, logsumexp = _forward_by_formula(
            q, k, v, bias, mask, dropout, causal, scale, wants_logsumexp
        )
        state = _no_rng_state(query.device)
    if logsumexp is not None:
        logsumexp = logsumexp.float().reshape(*batch, length)
    return out[..., :width].reshape(*batch, length, width), logsumexp, *state


def _backward_by_formula(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights are exp(scores - logsumexp) again (T. Dao et al., "FlashAttention", 2022)."""
    group = _group(query, key)
    key, value = (_for_all_queries(x, group) for x in (key, value))
    scores = _scores(query, key, scale, None, causal)
    wide = scores.dtype
    # Rows of which nothing was kept have no finite sum, and weights of 0.
    base = logsumexp.to(wide).unsqueeze(-1)
    weights = torch.where(base == -math.inf, 0.0, torch.exp(scores - base))
    grad, output = grad.to(wide), output.to(wide)
    d_weights = grad @ value.to(wide).mT
    d_scores = weights * (d_weights - (grad * output).sum(-1, keepdim=True)) * scale
    d_query, d_key, d_value = (
        d_scores @ key.to(wide),
        d_scores.mT @ query.to(wide),
        weights.mT @ grad,
    )
    if group > 1:
        d_key, d_value = (x.unflatten(-3, (-1, group)).sum(-3) for x in (d_key, d_value))
    return d_query.to(query.dtype), d_key.to(query.dtype), d_value.to(query.dtype)


def backward(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    dropout_p: float | None,
    is_causal: bool | None,
    philox_seed: Tensor,
    philox_offset: Tensor,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value. The last results of forward() belong to the same call.

    RuntimeError: dropout where flash attention does not apply (its random numbers are not kept).
    """
    dropout, causal = float(dropout_p or 0.0), bool(is_causal)
    shapes = [x.shape for x in (query, key, value)]
    grad, q, k, v, out = (_four_dims(x) for x in (grad_output, query, key, value, output))
    sums = logsumexp.reshape(q.shape[:-1])
    is_flash = _is_flash(q, k, v, causal)
    if is_flash and _is_cudnn(q, k, v, dropout, causal):
        gradients = _aten._scaled_dot_product_cudnn_attention_backward(
            grad,
            q,
            k,
            v,
            out,
            sums.unsqueeze(-1),
            *_no_rng_state(query.device),
            None,
            None,
            None,
            q.shape[-2],
            k.shape[-2],
            0.0,
            causal,
            scale=_scale(query, scale),
        )
    elif is_flash:
        widths = [x.shape[-1] for x in (q, k, v)]
        grad, q, k, v, out = (_padded_head(x) for x in (grad, q, k, v, out))
        gradients = _aten._scaled_dot_product_flash_attention_backward(
            grad,
            q,
            k,
            v,
            out,
            sums,
            None,
            None,
            q.shape[-2],
            k.shape[-2],
            dropout,
            causal,
            philox_seed,
            philox_offset,
            scale=_scale(query, scale),
        )
        gradients = [g[..., :width] for g, width in zip(gradients, widths, strict=True)]
    elif dropout != 0.0:
        raise RuntimeError(
            "sdpfa_bwd: dropout needs torch's flash attention: 16-bit operands on a GPU with at "
            f"most {_MAX_HEAD} elements a head"
        )
    else:
        gradients = _backward_by_formula(grad, q, k, v, out, sums, causal, _scale(query, scale))
    return tuple(g.reshape(shape) for g, shape in zip(gradients, shapes, strict=True))
