# SPDX-License-Identifier: BSD-3-Clause
"""Softmax, log-softmax, masked attention softmax and cross-entropy."""

from __future__ import annotations

import math
from typing import Any

import torch

from .family import Math, Tensor, family, rand, random, sized

N, D = sized((48, 512), (8192, 4096))
ROWS = [N, D]
LOG2_E = math.log2(math.e)

# ---- softmax

softmax = family("softmax", lambda: [rand(N, D)], lambda x: x.softmax(-1))


def exponentials(m: Math, x: Any) -> Any:
    return m.exp(m.sub(x, m.max(x, [1])))


@softmax("thunder")
def _(m, x):
    e = exponentials(m, m.f(x))
    return m.b(m.div(e, m.sum(e, [1])))


@softmax("reciprocal")
def _(m, x):
    e = exponentials(m, m.f(x))
    return m.b(m.mul(e, m.reciprocal(m.sum(e, [1]))))


@softmax("reciprocal_of_a_broadcast")
def _(m, x):
    e = exponentials(m, m.f(x))
    return m.b(m.mul(e, m.reciprocal(m.spread(m.sum(e, [1], False), ROWS, [0]))))


@softmax("exponentials_twice")
def _(m, x):
    x = m.f(x)
    most = m.max(x, [1], False)
    first = m.exp(m.sub(x, m.spread(most, ROWS, [0])))
    second = m.exp(m.add(x, m.neg(m.spread(most, ROWS, [0]))))
    return m.b(m.div(second, m.spread(m.sum(first, [1], False), ROWS, [0])))


@softmax("maximum_in_bfloat16")
def _(m, x):
    most = m.f(m.max(x, [1]))
    e = m.exp(m.sub(m.f(x), most))
    return m.b(m.div(e, m.sum(e, [1])))


@softmax("power_of_minus_one")
def _(m, x):
    e = exponentials(m, m.f(x))
    return m.b(m.mul(m.pow(m.sum(e, [1]), -1.0), e))


@softmax("exponential_of_log_softmax")
def _(m, x):
    x = m.f(x)
    shifted = m.sub(x, m.max(x, [1]))
    return m.b(m.exp(m.sub(shifted, m.log(m.sum(m.exp(shifted), [1])))))


@softmax("base_two")
def _(m, x):
    """As kernels of attention in Triton have it."""
    x = m.mul(m.f(x), LOG2_E)
    e = m.exp2(m.sub(x, m.max(x, [1])))
    return m.b(m.div(e, m.sum(e, [1])))


# ---- softmax backward, of the saved result

softmax_backward = family(
    "softmax_backward",
    lambda: [rand(N, D).float().softmax(-1).bfloat16(), rand(N, D, seed=1)],
    lambda y, g: y * (g - (g * y).sum(-1, keepdim=True)),
)


@softmax_backward("thunder")
def _(m, y, g):
    y, g = m.f(y), m.f(g)
    return m.b(m.mul(y, m.sub(g, m.sum(m.mul(g, y), [1]))))


@softmax_backward("inductor")
def _(m, y, g):
    gy = m.mul(m.f(g), m.f(y))
    return m.b(m.sub(gy, m.mul(m.f(y), m.sum(gy, [1]))))


@softmax_backward("negated_sum")
def _(m, y, g):
    gy = m.mul(m.f(g), m.f(y))
    return m.b(m.add(gy, m.mul(m.neg(m.f(y)), m.sum(gy, [1]))))


@softmax_backward("broadcast_in_dim")
def _(m, y, g):
    y, g = m.f(y), m.f(g)
    total = m.spread(m.sum(m.mul(y, g), [1], False), ROWS, [0])
    return m.b(m.mul(m.sub(g, total), y))


@softmax_backward("products_twice")
def _(m, y, g):
    total = m.sum(m.mul(m.f(g), m.f(y)), [1])
    return m.b(m.sub(m.mul(m.f(y), m.f(g)), m.mul(total, m.f(y))))


@softmax_backward("minus_minus")
def _(m, y, g):
    y, g = m.f(y), m.f(g)
    return m.b(m.neg(m.mul(y, m.sub(m.sum(m.mul(g, y), [1]), g))))


# ---- log-softmax

log_softmax = family("log_softmax", lambda: [rand(N, D)], lambda x: x.log_softmax(-1), 4e-2)


@log_softmax("thunder")
def _(m, x):
    x = m.f(x)
    shifted = m.sub(x, m.max(x, [1]))
    return m.b(m.sub(shifted, m.log(m.sum(m.exp(shifted), [1]))))


@log_softmax("log_sum_exp")
def _(m, x):
    x = m.f(x)
    most = m.max(x, [1])
    total = m.sum(m.exp(m.sub(x, most)), [1])
    return m.b(m.sub(x, m.add(m.log(total), most)))


@log_softmax("log_of_a_broadcast")
def _(m, x):
    x = m.f(x)
    shifted = m.sub(x, m.spread(m.max(x, [1], False), ROWS, [0]))
    total = m.spread(m.sum(m.exp(shifted), [1], False), ROWS, [0])
    return m.b(m.sub(shifted, m.log(total)))


@log_softmax("shifted_twice")
def _(m, x):
    most = m.max(m.f(x), [1])
    total = m.sum(m.exp(m.sub(m.f(x), most)), [1])
    return m.b(m.sub(m.sub(m.f(x), most), m.log(total)))


@log_softmax("added_negations")
def _(m, x):
    x = m.f(x)
    shifted = m.add(m.neg(m.max(x, [1])), x)
    return m.b(m.add(shifted, m.neg(m.log(m.sum(m.exp(shifted), [1])))))


@log_softmax("maximum_in_bfloat16")
def _(m, x):
    shifted = m.sub(m.f(x), m.f(m.max(x, [1])))
    return m.b(m.sub(shifted, m.log(m.sum(m.exp(shifted), [1]))))


@log_softmax("batch_and_length")
def _(m, x):
    x = m.f(m.reshape(x, [N // 4, 4, D]))
    shifted = m.sub(x, m.max(x, [2]))
    return m.b(m.reshape(m.sub(shifted, m.log(m.sum(m.exp(shifted), [2]))), ROWS))


@log_softmax("base_two")
def _(m, x):
    x = m.f(x)
    shifted = m.sub(x, m.max(x, [1]))
    total = m.sum(m.exp2(m.mul(shifted, LOG2_E)), [1])
    return m.b(m.sub(shifted, m.mul(m.log2(total), math.log(2))))


# ---- masked attention softmax: scores [batch, heads, queries, keys], a mask of [batch, keys]

B, HEADS, Q, K = sized((2, 4, 16, 128), (8, 32, 512, 512))
SCORES = [B, HEADS, Q, K]
SCALE = 1 / math.sqrt(64)
LEAST = -10000.0


def masked_inputs() -> list[Tensor]:
    lengths = K - 28 - 23 * torch.arange(B)
    return [rand(*SCORES), torch.arange(K)[None, :] < lengths[:, None]]


def masked_reference(x: Tensor, mask: Tensor) -> Tensor:
    keep = (mask != 0)[:, None, None, :]
    return (x * SCALE).masked_fill(~keep, LEAST).softmax(-1)


masked = family("masked_softmax", masked_inputs, masked_reference)


def rows_of(m: Math, mask: Any) -> Any:
    return m.spread(mask, SCORES, [0, 3])


def attention(m: Math, x: Any) -> Any:
    e = m.exp(m.sub(x, m.max(x, [3])))
    return m.b(m.div(e, m.sum(e, [3])))


@masked("thunder")
def _(m, x, mask):
    return attention(m, m.where(rows_of(m, mask), m.mul(m.f(x), SCALE), LEAST))


@masked("masked_fill_of_the_inverse")
def _(m, x, mask):
    hidden = m.logical_not(rows_of(m, mask))
    return attention(m, m.where(hidden, LEAST, m.mul(m.f(x), SCALE)))


@masked("quotient")
def _(m, x, mask):
    return attention(m, m.where(rows_of(m, mask), m.div(m.f(x), 8.0), LEAST))


@masked("equal_to_zero")
def _(m, x, mask):
    hidden = m.eq(m.f(rows_of(m, mask)), 0.0)
    least = m.full(SCORES, LEAST)
    return attention(m, m.where(hidden, least, m.mul(m.f(x), SCALE)))


@masked("one_minus_mask")
def _(m, x, mask):
    inverse = m.sub(1.0, m.f(m.spread(mask, [B, 1, 1, K], [0, 3])))
    hidden = m.ne(m.spread(inverse, SCORES, [0, 1, 2, 3]), 0.0)
    return attention(m, m.where(hidden, LEAST, m.mul(m.f(x), SCALE)))


@masked("reciprocal")
def _(m, x, mask):
    x = m.where(m.logical_not(m.logical_not(rows_of(m, mask))), m.mul(SCALE, m.f(x)), LEAST)
    e = m.exp(m.sub(x, m.max(x, [3])))
    return m.b(m.mul(e, m.reciprocal(m.sum(e, [3]))))


@masked("gpt2")
def _(m, x, mask):
    """w * b - 1e4 * (1 - b), as the first model code of GPT-2 has it."""
    keep = m.f(rows_of(m, mask))
    kept = m.mul(m.mul(m.f(x), SCALE), keep)
    return attention(m, m.sub(kept, m.mul(m.sub(1.0, keep), -LEAST)))


@masked("batches_of_heads")
def _(m, x, mask):
    """As BLOOM's model code has it, whose product of queries and keys is one of matrices."""
    flat = [B * HEADS, Q, K]
    x = m.reshape(m.mul(m.f(m.reshape(x, flat)), SCALE), SCORES)
    x = m.reshape(m.where(rows_of(m, mask), x, LEAST), flat)
    e = m.exp(m.sub(x, m.max(x, [2])))
    return m.reshape(m.b(m.div(e, m.sum(e, [2]))), SCORES)


# ---- cross-entropy: the loss of each row

LABELS, VOCABULARY = sized((48, 512), (4096, 32000))
LABELLED = [LABELS, VOCABULARY]


def cross_inputs() -> list[Tensor]:
    return [rand(*LABELLED), torch.randint(VOCABULARY, (LABELS,), **random(3))]


def cross_reference(x: Tensor, label: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(x, label.long(), reduction="none")


cross = family("cross_entropy", cross_inputs, cross_reference, 4e-2)


def at_label(m: Math, x: Any, label: Any) -> Any:
    found = m.take_along_axis(x, m.unsqueeze(label, [False, True]), dim=1)
    return m.squeeze(found, [1])


@cross("log_softmax_then_label")
def _(m, x, label):
    x = m.f(x)
    shifted = m.sub(x, m.max(x, [1]))
    return m.neg(at_label(m, m.sub(shifted, m.log(m.sum(m.exp(shifted), [1]))), label))


@cross("log_sum_exp_minus_label")
def _(m, x, label):
    x = m.f(x)
    most = m.max(x, [1], False)
    total = m.sum(m.exp(m.sub(x, m.unsqueeze(most, [False, True]))), [1], False)
    return m.sub(m.add(m.log(total), most), at_label(m, x, label))


@cross("label_of_bfloat16")
def _(m, x, label):
    wide = m.f(x)
    most = m.max(wide, [1], False)
    total = m.sum(m.exp(m.sub(wide, m.unsqueeze(most, [False, True]))), [1], False)
    return m.sub(m.log(total), m.sub(m.f(at_label(m, x, label)), most))


@cross("one_hot")
def _(m, x, label):
    x = m.f(x)
    shifted = m.sub(x, m.max(x, [1]))
    columns = m.spread(m.iota(VOCABULARY), LABELLED, [1])
    hot = m.eq(columns, m.spread(label, LABELLED, [0]))
    at = m.sum(m.where(hot, shifted, 0.0), [1], False)
    return m.sub(m.log(m.sum(m.exp(shifted), [1], False)), at)


@cross("shifted_twice")
def _(m, x, label):
    most = m.max(m.f(x), [1])
    total = m.log(m.sum(m.exp(m.sub(m.f(x), most)), [1], False))
    return m.sub(total, at_label(m, m.sub(m.f(x), most), label))


@cross("added_negations")
def _(m, x, label):
    x = m.f(x)
    shifted = m.add(x, m.neg(m.max(x, [1])))
    normal = m.add(shifted, m.neg(m.log(m.sum(m.exp(shifted), [1]))))
    return m.mul(at_label(m, normal, label), -1.0)


@cross("one_hot_product")
def _(m, x, label):
    """As losses of soft targets have it."""
    x = m.f(x)
    shifted = m.sub(x, m.max(x, [1]))
    normal = m.sub(shifted, m.log(m.sum(m.exp(shifted), [1])))
    hot = m.eq(m.unsqueeze(m.iota(VOCABULARY), [True, False]), m.unsqueeze(label, [False, True]))
    return m.neg(m.sum(m.mul(normal, m.f(hot)), [1], False))


@cross("base_two")
def _(m, x, label):
    x = m.f(x)
    most = m.max(x, [1])
    total = m.sum(m.exp2(m.mul(m.sub(x, most), LOG2_E)), [1], False)
    total = m.add(m.mul(m.log2(total), math.log(2)), m.squeeze(most, [1]))
    return m.sub(total, at_label(m, x, label))
