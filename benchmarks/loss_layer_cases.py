# SPDX-License-Identifier: BSD-3-Clause
"""Losses and statistics of rows, as training code spells them in torch: rows are read, not written.

Vocabularies of language models, classes of images, embeddings that are compared with all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from further_layer_cases import smoothed_nll
from layer_cases import F32, Input, Layer, Tensor, given, like

LOSS_LAYERS: list[Layer] = []


def layer(name: str, function: Callable[..., Any], *inputs: Input) -> None:
    LOSS_LAYERS.append(Layer(name, function, inputs))


def one_hot(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """jax.nn.one_hot."""
    return (labels.unsqueeze(-1) == torch.arange(classes, device=labels.device)).to(dtype)


# ------------------------------------------------------------------------------- vocabularies


def entropy_from_logits(logits: Tensor) -> Tensor:
    """volcengine/verl, entropy_from_logits."""
    pd = F.softmax(logits, dim=-1)
    return torch.logsumexp(logits, dim=-1) - torch.sum(pd * logits, dim=-1)


def categorical_entropy(logits: Tensor) -> Tensor:
    """torch.distributions, Categorical(logits=...).entropy()."""
    logits = logits - logits.logsumexp(dim=-1, keepdim=True)
    probs = F.softmax(logits, dim=-1)
    logits = torch.clamp(logits, min=torch.finfo(logits.dtype).min)
    return -(logits * probs).sum(-1)


def forward_kl(student: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
    """microsoft/LMOps, minillm, the distillation loss."""
    teacher_probs = F.softmax(teacher, dim=-1, dtype=F32)
    inf_mask = torch.isinf(student)
    student_logprobs = F.log_softmax(student, dim=-1, dtype=F32)
    prod_probs = torch.masked_fill(teacher_probs * student_logprobs, inf_mask, 0)
    x = torch.sum(prod_probs, dim=-1).view(-1)
    return -torch.sum(x * mask.view(-1), dim=0) / torch.sum(mask.view(-1), dim=0)


def reverse_kl(student: Tensor, teacher: Tensor) -> Tensor:
    student_probs = F.softmax(student, dim=-1, dtype=F32)
    student_logprobs = F.log_softmax(student, dim=-1, dtype=F32)
    teacher_logprobs = F.log_softmax(teacher, dim=-1, dtype=F32)
    return (student_probs * (student_logprobs - teacher_logprobs)).sum(-1)


def z_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """google/t5x, cross_entropy_with_logits with a z-loss and one-hot targets."""
    targets = one_hot(labels, logits.shape[-1], F32)
    logits = logits.float()
    logits_sum = torch.logsumexp(logits, dim=-1, keepdim=True)
    log_softmax = logits - logits_sum
    loss = -torch.sum(targets * log_softmax, dim=-1)
    log_z = torch.squeeze(logits_sum, dim=-1)
    return loss + 1e-4 * torch.square(log_z)


def dpo_log_probs(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """eric-mitchell/direct-preference-optimization, _get_batch_logps."""
    per_token = torch.gather(logits.float().log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    return (per_token * mask).sum(-1)


def label_smoothing(x: Tensor, target: Tensor) -> Tensor:
    """timm, LabelSmoothingCrossEntropy."""
    logprobs = F.log_softmax(x, dim=-1)
    nll_loss = -logprobs.gather(dim=-1, index=target.unsqueeze(1)).squeeze(1)
    smooth_loss = -logprobs.mean(dim=-1)
    return (0.9 * nll_loss + 0.1 * smooth_loss).mean()


def fairseq_smoothed_nll(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    return smoothed_nll(F.log_softmax(logits.float(), dim=-1), target)


layer("entropy of logits 151936", entropy_from_logits, like(1024, 151936))
layer("entropy of logits 32000", entropy_from_logits, like(4096, 32000))
layer("categorical entropy 50304", categorical_entropy, like(2048, 50304, dtype=F32))
layer(
    "forward KL 32000",
    forward_kl,
    like(2048, 32000),
    given(2048, 32000),
    given(2048, dtype=F32, positive=True),
)
layer("reverse KL 50257", reverse_kl, like(2048, 50257), given(2048, 50257))
layer("z-loss 32128", z_loss, like(4096, 32128), given(4096, below=32128))
layer(
    "DPO log-probabilities 128256",
    dpo_log_probs,
    like(4, 512, 128256),
    given(4, 512, below=128256),
    given(4, 512, dtype=F32, positive=True),
)
layer(
    "fairseq smoothed NLL 42024", fairseq_smoothed_nll, like(4096, 42024), given(4096, below=42024)
)

# ------------------------------------------------------------------------------- classes


def soft_target(x: Tensor, target: Tensor) -> Tensor:
    """timm, SoftTargetCrossEntropy, of mixed images."""
    return torch.sum(-target * F.log_softmax(x, dim=-1), dim=-1).mean()


def multi_class_focal(x: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(x.float(), dim=-1)
    log_pt = log_p.gather(1, target.unsqueeze(1)).squeeze(1)
    return (-((1 - log_pt.exp()) ** 2.0) * log_pt).mean()


def poly_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The reference code of PolyLoss (Leng et al.), one-hot labels."""
    labels_onehot = one_hot(labels, logits.shape[-1], logits.dtype)
    pt = torch.sum(labels_onehot * F.softmax(logits, dim=-1), dim=-1)
    ce = F.cross_entropy(logits, labels, reduction="none")
    return torch.mean(ce + 1.0 * (1 - pt))


def dino_loss(student: Tensor, teacher: Tensor, center: Tensor) -> Tensor:
    """facebookresearch/dino, one pair of views."""
    q = F.softmax((teacher - center) / 0.04, dim=-1)
    return torch.sum(-q * F.log_softmax(student / 0.1, dim=-1), dim=-1).mean()


layer("soft targets 1000", soft_target, like(32768, 1000, dtype=F32), given(32768, 1000, dtype=F32))
layer("soft targets 21841", soft_target, like(2048, 21841), given(2048, 21841))
layer("label smoothing 21841", label_smoothing, like(4096, 21841), given(4096, below=21841))
layer("focal loss 1000", multi_class_focal, like(65536, 1000), given(65536, below=1000))
layer("poly loss 1000", poly_loss, like(32768, 1000, dtype=F32), given(32768, below=1000))
layer(
    "DINO 65536",
    dino_loss,
    like(1024, 65536, dtype=F32),
    given(1024, 65536, dtype=F32),
    given(1, 65536, dtype=F32),
)

# ------------------------------------------------------------------------------- embeddings


def clip_loss(logits: Tensor, scale: Tensor) -> Tensor:
    """openai/CLIP: each image by its text, and each text by its image."""
    logits_per_image = scale.exp() * logits
    labels = torch.arange(logits.shape[0], device=logits.device)
    by_image = F.cross_entropy(logits_per_image.float(), labels)
    return (by_image + F.cross_entropy(logits_per_image.t().float(), labels)) / 2


def simclr_loss(similarity: Tensor) -> Tensor:
    """NT-Xent of a similarity matrix without its diagonal."""
    n = similarity.shape[0]
    index = torch.arange(n, device=similarity.device)
    own = index.unsqueeze(0) == index.unsqueeze(1)
    sim = (similarity.float() / 0.1).masked_fill(own, float("-inf"))
    positive = index.unsqueeze(0) == ((index + n // 2) % n).unsqueeze(1)
    return -(F.log_softmax(sim, dim=-1).masked_fill(~positive, 0.0)).sum(-1).mean()


def vicreg_variance(x: Tensor) -> Tensor:
    """facebookresearch/vicreg, the variance term."""
    x = x.float()
    x = x - x.mean(dim=0)
    return torch.mean(F.relu(1 - torch.sqrt(x.var(dim=0) + 0.0001)))


def cosine_loss(x: Tensor, y: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(x.float(), y.float(), dim=-1)


def sinkhorn_step(q: Tensor) -> Tensor:
    """facebookresearch/swav, one iteration: prototypes, then samples."""
    q = q / torch.sum(q, dim=1, keepdim=True) / q.shape[0]
    return q / torch.sum(q, dim=0, keepdim=True) / q.shape[1]


layer("CLIP 8192", clip_loss, like(8192, 8192), given(1, dtype=F32))
layer("SimCLR 8192", simclr_loss, like(8192, 8192))
layer("VICReg variance 8192", vicreg_variance, like(4096, 8192))
layer("cosine similarity 4096", cosine_loss, like(16384, 4096), given(16384, 4096))
layer("Sinkhorn 3000", sinkhorn_step, given(3000, 16384, dtype=F32, positive=True))
