# SPDX-License-Identifier: BSD-3-Clause
"""What transformer blocks are made of, forward and backward, as operations of a fusion definition:
norms, GELU, SwiGLU, rotary embeddings, heads, products and residuals.

Tensors between these parts are bf16, as they are in torch; what a part does within is float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from nvfuse_direct import DataType, FusionDefinition

EPSILON = 1e-5
Tv = Any


@dataclass(frozen=True)
class Sizes:
    """Of a block: sequences, tokens of each, and the widths of its layers."""

    batch: int
    length: int
    heads: int
    key_heads: int
    head: int
    hidden: int

    @property
    def width(self) -> int:
        return self.heads * self.head

    @property
    def key_width(self) -> int:
        return self.key_heads * self.head


class Writer:
    """Writes the parts of blocks into a definition. Tensors are [batch, length, width]."""

    def __init__(self, fd: FusionDefinition, sizes: Sizes, recompute: bool) -> None:
        self.fd, self.ops, self.sizes = fd, fd.ops, sizes
        # Whether the backward pass computes the results of norms and activations again.
        self.recompute = recompute
        self.rows = sizes.batch * sizes.length
        self.ordered: list[Tv] = []

    def unless_computed_again(self, results: dict[str, Tv]) -> dict[str, Tv]:
        return {} if self.recompute else results

    # ------------------------------------------------------------------------------ elementwise

    def wide(self, x: Tv) -> Tv:
        return self.ops.cast(x, DataType.Float)

    def narrow(self, x: Tv) -> Tv:
        return self.ops.cast(x, DataType.BFloat16)

    def add(self, a: Tv, b: Tv) -> Tv:
        return self.narrow(self.ops.add(self.wide(a), self.wide(b)))

    def gelu(self, x: Tv) -> Tv:
        x = self.wide(x)
        return self.narrow(self.ops.mul(x, self._normal_cdf(x)))

    def gelu_backward(self, grad: Tv, x: Tv) -> Tv:
        ops, x = self.ops, self.wide(x)
        density = ops.mul(ops.exp(ops.mul(ops.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
        slope = ops.add(self._normal_cdf(x), ops.mul(x, density))
        return self.narrow(ops.mul(self.wide(grad), slope))

    def _normal_cdf(self, x: Tv) -> Tv:
        ops = self.ops
        return ops.mul(ops.add(ops.erf(ops.mul(x, math.sqrt(0.5))), 1.0), 0.5)

    def silu(self, x: Tv) -> Tv:
        x = self.wide(x)
        return self.narrow(self.ops.mul(x, self.ops.sigmoid(x)))

    def mul(self, a: Tv, b: Tv) -> Tv:
        return self.narrow(self.ops.mul(self.wide(a), self.wide(b)))

    def silu_backward(self, grad: Tv, x: Tv) -> Tv:
        ops, x = self.ops, self.wide(x)
        sigmoid = ops.sigmoid(x)
        slope = ops.mul(sigmoid, ops.add(ops.mul(x, ops.sub(1.0, sigmoid)), 1.0))
        return self.narrow(ops.mul(self.wide(grad), slope))

    # ------------------------------------------------------------------------------------ norms

    def of_rows(self, x: Tv) -> Tv:
        """One value for each row, for every element of the row."""
        return self.ops.broadcast(x, [False, False, True])

    def of_columns(self, x: Tv) -> Tv:
        return self.ops.broadcast(self.wide(x), [True, True, False])

    def row_mean(self, x: Tv) -> Tv:
        return self.ops.mul(self.ops.sum(x, [2]), 1.0 / self.sizes.width)

    def column_sum(self, x: Tv) -> Tv:
        return self.narrow(self.ops.sum(self.wide(x), [0, 1]))

    def layer_norm(self, x: Tv, weight: Tv, bias: Tv) -> tuple[Tv, Tv, Tv]:
        """The result, the mean and 1 / the standard deviation of each row."""
        variance, mean = self.ops.var_mean(self.wide(x), [2], 0)
        rstd = self.ops.rsqrt(self.ops.add(variance, EPSILON))
        return self.layer_norm_again(x, mean, rstd, weight, bias), mean, rstd

    def _normalized(self, x: Tv, mean: Tv, rstd: Tv) -> Tv:
        centred = self.ops.sub(self.wide(x), self.of_rows(mean))
        return self.ops.mul(centred, self.of_rows(rstd))

    def layer_norm_again(self, x: Tv, mean: Tv, rstd: Tv, weight: Tv, bias: Tv) -> Tv:
        scaled = self.ops.mul(self._normalized(x, mean, rstd), self.of_columns(weight))
        return self.narrow(self.ops.add(scaled, self.of_columns(bias)))

    def layer_norm_backward(
        self, grad: Tv, x: Tv, mean: Tv, rstd: Tv, weight: Tv
    ) -> tuple[Tv, Tv, Tv]:
        """Gradients of x, the weight and the bias."""
        ops, grad = self.ops, self.wide(grad)
        normal = self._normalized(x, mean, rstd)
        weighted = ops.mul(grad, self.of_columns(weight))
        centred = ops.sub(weighted, self.of_rows(self.row_mean(weighted)))
        along = ops.mul(normal, self.of_rows(self.row_mean(ops.mul(weighted, normal))))
        grad_x = ops.mul(ops.sub(centred, along), self.of_rows(rstd))
        grad_weight = self.narrow(ops.sum(ops.mul(grad, normal), [0, 1]))
        return self.narrow(grad_x), grad_weight, self.column_sum(grad)

    def rms_norm(self, x: Tv, weight: Tv) -> tuple[Tv, Tv]:
        """The result, and 1 / the root mean square of each row."""
        wide = self.wide(x)
        mean = self.row_mean(self.ops.mul(wide, wide))
        factor = self.ops.rsqrt(self.ops.add(mean, EPSILON))
        return self.rms_norm_again(x, factor, weight), factor

    def rms_norm_again(self, x: Tv, factor: Tv, weight: Tv) -> Tv:
        normal = self.narrow(self.ops.mul(self.wide(x), self.of_rows(factor)))
        return self.narrow(self.ops.mul(self.wide(normal), self.of_columns(weight)))

    def rms_norm_backward(self, grad: Tv, x: Tv, factor: Tv, weight: Tv) -> tuple[Tv, Tv]:
        """Gradients of x and the weight."""
        ops, grad = self.ops, self.wide(grad)
        normal = ops.mul(self.wide(x), self.of_rows(factor))
        weighted = ops.mul(grad, self.of_columns(weight))
        along = ops.mul(normal, self.of_rows(self.row_mean(ops.mul(weighted, normal))))
        grad_x = ops.mul(ops.sub(weighted, along), self.of_rows(factor))
        return self.narrow(grad_x), self.narrow(ops.sum(ops.mul(grad, normal), [0, 1]))

    # --------------------------------------------------------------------------------- products

    def flat(self, x: Tv, width: int) -> Tv:
        return self.ops.reshape(x, [self.rows, width])

    def input_gradient(self, grad: Tv, weight: Tv) -> Tv:
        return self.ops.matmul(grad, weight)

    def weight_gradient(self, grad: Tv, x: Tv, columns: int, depth: int) -> Tv:
        """Of x [..., depth] @ weight [columns, depth].T: grad.T @ x over all rows."""
        return self.ops.matmul(
            self.ops.permute(self.flat(grad, columns), [1, 0]), self.flat(x, depth)
        )

    # -------------------------------------------------------------------------------- attention

    def split(self, x: Tv, heads: int) -> Tv:
        """[batch, length, heads * head] as [batch, heads, length, head]."""
        s = self.sizes
        x = self.ops.reshape(x, [s.batch, s.length, heads, s.head])
        return self.ops.permute(x, [0, 2, 1, 3])

    def join(self, x: Tv, heads: int) -> Tv:
        s = self.sizes
        x = self.ops.permute(x, [0, 2, 1, 3])
        return self.ops.reshape(x, [s.batch, s.length, heads * s.head])

    def part(self, x: Tv, index: int) -> Tv:
        """q, k or v of a packed projection."""
        s = self.sizes
        begin = index * s.width
        return self.ops.slice(x, [0, 0, begin], [s.batch, s.length, begin + s.width])

    def rope(self, x: Tv, cos: Tv, sin: Tv, heads: int, backward: bool = False) -> Tv:
        """Rotates x [batch, heads, length, head] by halves of heads; cos and sin [length, head]."""
        ops, s = self.ops, self.sizes
        end, half = [s.batch, heads, s.length, s.head], s.head // 2
        tables = (ops.broadcast(self.wide(each), [True, True, False, False]) for each in (cos, sin))
        wide_cos, wide_sin = tables
        x = self.wide(x)
        turned = ops.mul(x, wide_sin) if backward else x
        low = ops.slice(turned, [0, 0, 0, 0], [*end[:3], half])
        high = ops.slice(turned, [0, 0, 0, half], end)
        turned = ops.cat([high, ops.neg(low)] if backward else [ops.neg(high), low], -1)
        turned = turned if backward else ops.mul(turned, wide_sin)
        return self.narrow(ops.add(ops.mul(x, wide_cos), turned))

    def by_token(self, x: Tv) -> Tv:
        """[batch, heads, length, head] with the heads of a token side by side in memory, as torch
        has it; attention hands its result out in the order of its query."""
        x = self.ops.stride_order(x, [3, 1, 2, 0])
        self.ordered.append(x)
        return x

    def for_all_queries(self, x: Tv) -> Tv:
        """Heads of keys or values, each as often as there are queries for it."""
        ops, s = self.ops, self.sizes
        group = s.heads // s.key_heads
        x = ops.broadcast(x, [False, False, True, False, False])
        x = ops.expand(x, [s.batch, s.key_heads, group, s.length, s.head])
        return ops.reshape(x, [s.batch, s.heads, s.length, s.head])

    def of_all_queries(self, grad: Tv) -> Tv:
        """The gradient of what for_all_queries() got."""
        ops, s = self.ops, self.sizes
        group = s.heads // s.key_heads
        grad = ops.reshape(grad, [s.batch, s.key_heads, group, s.length, s.head])
        return self.narrow(ops.sum(self.wide(grad), [2]))
