# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of log-softmax, masked attention softmax and cross-entropy, of what is saved."""

from __future__ import annotations

from typing import Any

import torch

from .family import Math, Tensor, family, gradients, rand
from .softmaxes import (
    LABELLED,
    LABELS,
    LOG2_E,
    ROWS,
    SCALE,
    SCORES,
    VOCABULARY,
    B,
    D,
    K,
    N,
    cross_inputs,
    masked_inputs,
    masked_reference,
    rows_of,
)

# ---- log-softmax, of the saved result


def log_softmax_inputs() -> list[Tensor]:
    return [rand(N, D, seed=1), rand(N, D).float().log_softmax(-1).bfloat16()]


def log_softmax_reference(g: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten._log_softmax_backward_data(g, y, -1, torch.double)


log_backward = family("log_softmax_backward", log_softmax_inputs, log_softmax_reference, 4e-2)


@log_backward("thunder")
def _(m, g, y):
    g, y = m.f(g), m.f(y)
    return m.b(m.sub(g, m.mul(m.exp(y), m.sum(g, [1]))))


@log_backward("casts_at_each_use")
def _(m, g, y):
    return m.b(m.sub(m.f(g), m.mul(m.exp(m.f(y)), m.sum(m.f(g), [1]))))


@log_backward("broadcast_in_dim")
def _(m, g, y):
    g, y = m.f(g), m.f(y)
    total = m.spread(m.sum(g, [1], False), ROWS, [0])
    return m.b(m.sub(g, m.mul(total, m.exp(y))))


@log_backward("negated_sum")
def _(m, g, y):
    g, y = m.f(g), m.f(y)
    return m.b(m.add(g, m.mul(m.neg(m.sum(g, [1])), m.exp(y))))


@log_backward("minus_minus")
def _(m, g, y):
    g, y = m.f(g), m.f(y)
    return m.b(m.neg(m.sub(m.mul(m.sum(g, [1]), m.exp(y)), g)))


@log_backward("base_two")
def _(m, g, y):
    g, y = m.f(g), m.f(y)
    return m.b(m.sub(g, m.mul(m.exp2(m.mul(y, LOG2_E)), m.sum(g, [1]))))


@log_backward("reciprocal_of_the_exponential")
def _(m, g, y):
    g, y = m.f(g), m.f(y)
    return m.b(m.sub(g, m.div(m.sum(g, [1]), m.exp(m.neg(y)))))


# ---- masked attention softmax, of the saved result: the gradient of the scores before the scale


def masked_backward_inputs() -> list[Tensor]:
    x, mask = masked_inputs()
    return [rand(*SCORES, seed=1), masked_reference(x.float(), mask).bfloat16(), mask]


def masked_backward_reference(g: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    to_scores = torch.ops.aten._softmax_backward_data(g, y, -1, torch.double)
    return (to_scores * SCALE).masked_fill((mask == 0)[:, None, None, :], 0.0)


masked_backward = family(
    "masked_softmax_backward", masked_backward_inputs, masked_backward_reference
)


def of_scores(m: Math, g: Any, y: Any) -> Any:
    return m.mul(y, m.sub(g, m.sum(m.mul(g, y), [3])))


@masked_backward("thunder")
def _(m, g, y, mask):
    dx = m.where(rows_of(m, mask), of_scores(m, m.f(g), m.f(y)), 0.0)
    return m.b(m.mul(dx, SCALE))


@masked_backward("inductor")
def _(m, g, y, mask):
    gy = m.mul(m.f(g), m.f(y))
    dx = m.sub(gy, m.mul(m.f(y), m.sum(gy, [3])))
    hidden = m.logical_not(rows_of(m, mask))
    return m.b(m.mul(m.where(hidden, m.full(SCORES, 0.0), dx), SCALE))


@masked_backward("quotient")
def _(m, g, y, mask):
    dx = m.div(of_scores(m, m.f(g), m.f(y)), 1 / SCALE)
    return m.b(m.where(rows_of(m, mask), dx, 0.0))


@masked_backward("equal_to_zero")
def _(m, g, y, mask):
    g, y = m.f(g), m.f(y)
    total = m.spread(m.sum(m.mul(y, g), [3], False), SCORES, [0, 1, 2])
    dx = m.mul(m.mul(m.sub(g, total), y), SCALE)
    return m.b(m.where(m.eq(m.f(rows_of(m, mask)), 0.0), 0.0, dx))


@masked_backward("product_with_the_mask")
def _(m, g, y, mask):
    keep = m.spread(m.f(m.spread(mask, [B, 1, 1, K], [0, 3])), SCORES, [0, 1, 2, 3])
    return m.b(m.mul(m.mul(of_scores(m, m.f(g), m.f(y)), keep), SCALE))


@masked_backward("one_minus_mask")
def _(m, g, y, mask):
    inverse = m.sub(1.0, m.f(m.unsqueeze(mask, [False, True, True, False])))
    dx = m.mul(of_scores(m, m.f(g), m.f(y)), SCALE)
    return m.b(m.where(m.ne(inverse, 0.0), 0.0, dx))


@masked_backward("batches_of_heads")
def _(m, g, y, mask):
    flat = [SCORES[0] * SCORES[1], *SCORES[2:]]
    g, y = m.f(m.reshape(g, flat)), m.f(m.reshape(y, flat))
    dx = m.mul(y, m.sub(g, m.sum(m.mul(g, y), [2])))
    return m.b(m.mul(m.where(rows_of(m, mask), m.reshape(dx, SCORES), 0.0), SCALE))


# ---- cross-entropy, from logits, their saved log-sum-exp and the gradient of the loss of each row


def cross_backward_inputs() -> list[Tensor]:
    x, label = cross_inputs()
    return [rand(LABELS, dtype=torch.float), x, x.float().logsumexp(-1), label]


def cross_backward_reference(g: Tensor, x: Tensor, total: Tensor, label: Tensor) -> list[Tensor]:
    def losses(x: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(x, label.long(), reduction="none")

    return gradients(losses, [x], g)


cross_backward = family("cross_entropy_backward", cross_backward_inputs, cross_backward_reference)


def column(m: Math, x: Any) -> Any:
    """Of numbers of rows, along the vocabulary."""
    return m.unsqueeze(x, [False, True])


def one_hot(m: Math, label: Any) -> Any:
    return m.eq(m.spread(m.iota(VOCABULARY), LABELLED, [1]), m.spread(label, LABELLED, [0]))


@cross_backward("one_hot_selects")
def _(m, g, x, total, label):
    p = m.exp(m.sub(m.f(x), column(m, total)))
    return m.b(m.mul(m.where(one_hot(m, label), m.sub(p, 1.0), p), column(m, g)))


@cross_backward("one_hot_subtracted")
def _(m, g, x, total, label):
    p = m.exp(m.sub(m.f(x), m.spread(total, LABELLED, [0])))
    return m.b(m.mul(m.sub(p, m.f(one_hot(m, label))), m.spread(g, LABELLED, [0])))


@cross_backward("products_of_each")
def _(m, g, x, total, label):
    p = m.exp(m.sub(m.f(x), column(m, total)))
    at_label = m.where(one_hot(m, label), m.spread(m.neg(g), LABELLED, [0]), 0.0)
    return m.b(m.add(at_label, m.mul(p, column(m, g))))


@cross_backward("unequal_to_label")
def _(m, g, x, total, label):
    p = m.exp(m.add(m.f(x), m.neg(column(m, total))))
    others = m.ne(m.unsqueeze(m.iota(VOCABULARY), [True, False]), column(m, label))
    return m.b(m.mul(column(m, g), m.add(p, m.f(m.where(others, 0.0, -1.0)))))


@cross_backward("inductor")
def _(m, g, x, total, label):
    """The decompositions of nll_loss_backward and _log_softmax_backward_data, as torch.compile has
    them: the scatter into zeros is a comparison, and its sum is taken."""
    columns = m.unsqueeze(m.iota(VOCABULARY), [True, False])
    hot = m.where(m.eq(column(m, label), columns), m.full(LABELLED, -1.0), 0.0)
    to_log = m.mul(hot, column(m, g))
    p = m.exp(m.sub(m.f(x), column(m, total)))
    return m.b(m.sub(to_log, m.mul(p, m.sum(to_log, [1]))))


@cross_backward("scattered_ones")
def _(m, g, x, total, label):
    hot = m.scatter(m.full(LABELLED, 0.0), column(m, label), m.full([LABELS, 1], 1.0), dim=1)
    p = m.exp(m.sub(m.f(x), column(m, total)))
    return m.b(m.mul(m.sub(p, hot), column(m, g)))


@cross_backward("scattered_probabilities")
def _(m, g, x, total, label):
    """As Megatron-LM does it, which subtracts 1 from the probability at the label in place."""
    p = m.exp(m.sub(m.f(x), column(m, total)))
    at_label = m.sub(m.take_along_axis(p, column(m, label), dim=1), 1.0)
    return m.b(m.mul(m.scatter(p, column(m, label), at_label, dim=1), column(m, g)))


@cross_backward("base_two")
def _(m, g, x, total, label):
    p = m.exp2(m.mul(m.sub(m.f(x), column(m, total)), LOG2_E))
    return m.b(m.mul(m.sub(p, m.f(m.where(one_hot(m, label), 1.0, 0.0))), column(m, g)))
