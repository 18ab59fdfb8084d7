"""Operations; also reachable as fd.ops."""

import builtins
import collections.abc
import torch
import typing
from . import DataType, TensorView, Val

@typing.overload
def abs(x: TensorView, /) -> TensorView:
    """Absolute value; modulus of a complex number.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def abs(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def acos(x: TensorView, /) -> TensorView:
    """Inverse cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def acos(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def acosh(x: TensorView, /) -> TensorView:
    """Inverse hyperbolic cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def acosh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def add(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x + y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def add(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def add(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def addcmul(a: TensorView, b: TensorView | Val | bool | int | float | builtins.complex, c: TensorView | Val | bool | int | float | builtins.complex, alpha: Val | bool | int | float | builtins.complex, /) -> TensorView:
    """a + b * c * alpha; alpha is a scalar."""
@typing.overload
def addcmul(a: TensorView | Val | bool | int | float | builtins.complex, b: TensorView, c: TensorView | Val | bool | int | float | builtins.complex, alpha: Val | bool | int | float | builtins.complex, /) -> TensorView: ...
@typing.overload
def addcmul(a: TensorView | Val | bool | int | float | builtins.complex, b: TensorView | Val | bool | int | float | builtins.complex, c: TensorView, alpha: Val | bool | int | float | builtins.complex, /) -> TensorView: ...
@typing.overload
def addcmul(a: Val | bool | int | float | builtins.complex, b: Val | bool | int | float | builtins.complex, c: Val | bool | int | float | builtins.complex, alpha: Val | bool | int | float | builtins.complex, /) -> Val: ...

def argsort(arg: TensorView, dim: typing.SupportsIndex, descending: bool = False, stable: bool = False) -> TensorView:
    """Indices (Int) that sort arg along dim; equal elements keep their order if `stable`."""

@typing.overload
def asin(x: TensorView, /) -> TensorView:
    """Inverse sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def asin(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def asinh(x: TensorView, /) -> TensorView:
    """Inverse hyperbolic sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def asinh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def atan(x: TensorView, /) -> TensorView:
    """Inverse tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def atan(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def atan2(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Angle of the point (y, x).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def atan2(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def atan2(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def atanh(x: TensorView, /) -> TensorView:
    """Inverse hyperbolic tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def atanh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def bitwise_and(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Bitwise and.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """
@typing.overload
def bitwise_and(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def bitwise_and(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def bitwise_left_shift(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x shifted left by y bits.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """
@typing.overload
def bitwise_left_shift(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def bitwise_left_shift(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def bitwise_not(x: TensorView, /) -> TensorView:
    """Bitwise complement; logical not of a bool.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """
@typing.overload
def bitwise_not(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def bitwise_or(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Bitwise or.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """
@typing.overload
def bitwise_or(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def bitwise_or(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def bitwise_right_shift(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Arithmetic shift right by y bits.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """
@typing.overload
def bitwise_right_shift(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def bitwise_right_shift(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def bitwise_xor(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Bitwise exclusive or.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """
@typing.overload
def bitwise_xor(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def bitwise_xor(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

def broadcast(arg: TensorView, is_broadcast_dim: collections.abc.Sequence[bool]) -> TensorView:
    """Inserts dimensions of size 1 where is_broadcast_dim is True."""

def broadcast_in_dim(arg: TensorView, shape: collections.abc.Sequence[int | Val], broadcast_dims: collections.abc.Sequence[int]) -> TensorView:
    """Dimension i of arg becomes dimension broadcast_dims[i] of the result, which is expanded to `shape` (-1 keeps a size).
    """

@typing.overload
def cast(arg: TensorView, dtype: DataType | torch.dtype | str) -> TensorView:
    """Converts to another dtype, rounding to nearest even; equal dtypes give a copy.

    RuntimeError: no such conversion (fp8 and fp4 convert to and from the wider floats only).
    """
@typing.overload
def cast(arg: Val | bool | int | float | builtins.complex, dtype: DataType | torch.dtype | str) -> Val: ...

def cat(tensors: collections.abc.Sequence[TensorView], dim: typing.SupportsIndex = 0, manual_padding: bool = False) -> TensorView:
    """Concatenates along `dim`. With manual_padding every tensor is the result of pad()."""

@typing.overload
def ceil(x: TensorView, /) -> TensorView:
    """Smallest integer not below x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def ceil(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def clamp(x: TensorView, y: Val | bool | int | float | builtins.complex | None, z: Val | bool | int | float | builtins.complex | None, /) -> TensorView:
    """x limited to [y, z].

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def clamp(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex | None, z: Val | bool | int | float | builtins.complex | None, /) -> Val: ...

@typing.overload
def complex(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Complex number from real and imaginary part.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def complex(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def complex(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def cos(x: TensorView, /) -> TensorView:
    """Cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def cos(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def cosh(x: TensorView, /) -> TensorView:
    """Hyperbolic cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def cosh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def cummax(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """Running maximum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cummin(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """Running minimum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cumprod(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """Running product along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cumsum(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """Running sum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cutlass_nvfp4_grouped_mm(mat1: TensorView, mat2: TensorView, scale1: TensorView, scale2: TensorView, alpha: TensorView, problem_sizes: TensorView, expert_offsets: TensorView, sf_offsets: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """A product of NVFP4 matrices for each group: mat1 [M, K], mat2 [groups, K, N] (K fastest), block scales (Float8_e4m3fn, 128x4 swizzled), alpha Float [groups], problem_sizes Int32 [groups, 3] (M, N, K), the first row of each group in mat1 and in scale1. The result is [M, N] of `dtype`.
    """

@typing.overload
def div(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x / y; truncating for integers.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def div(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def div(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

def embedding_fwd(input: TensorView, weight: TensorView, padding_idx: Val | bool | int | float | builtins.complex | None = None, max_norm: Val | bool | int | float | builtins.complex | None = None, norm_type: Val | bool | int | float | builtins.complex | None = None, scale_grad_by_freq: Val | bool | int | float | builtins.complex | None = None, sparse: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """Rows of the weight (rank 2) at the positions in input: input.shape + [columns]. With max_norm rows of a larger norm (of order norm_type, 2.0 by default) are scaled to it. padding_idx, scale_grad_by_freq and sparse concern gradients only. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

@typing.overload
def eq(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x == y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def eq(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def eq(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def erf(x: TensorView, /) -> TensorView:
    """Error function.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def erf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def erfc(x: TensorView, /) -> TensorView:
    """Complementary error function.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def erfc(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def erfcinv(x: TensorView, /) -> TensorView:
    """Inverse of erfc: erfinv(1 - x).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def erfcinv(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def erfinv(x: TensorView, /) -> TensorView:
    """Inverse of erf.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def erfinv(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def exp(x: TensorView, /) -> TensorView:
    """e to the x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def exp(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def exp2(x: TensorView, /) -> TensorView:
    """2 to the x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def exp2(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def expand(arg: TensorView, shape: collections.abc.Sequence[int | Val]) -> TensorView:
    """Gives dimensions of size 1 the size in `shape`; -1 keeps; more leading dimensions may be added.
    """

@typing.overload
def expm1(x: TensorView, /) -> TensorView:
    """e to the x, minus 1, accurate near 0.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def expm1(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def floor(x: TensorView, /) -> TensorView:
    """Largest integer not above x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def floor(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def fmod(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Remainder with the sign of x (C fmod).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def fmod(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def fmod(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def frac(x: TensorView, /) -> TensorView:
    """Fractional part, with the sign of x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def frac(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def full(shape: collections.abc.Sequence[int | Val], fill_value: Val | bool | int | float | builtins.complex, dtype: DataType | torch.dtype | str) -> TensorView:
    """Tensor of one value, converted to dtype."""

def gather(arg: TensorView, index: TensorView, dim: typing.SupportsIndex) -> TensorView:
    """out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0 (torch.gather). Ranks are equal; the sizes of the index but that of dim are at most those of arg. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

@typing.overload
def gcd(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Greatest common divisor.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """
@typing.overload
def gcd(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def gcd(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def ge(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x >= y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def ge(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def ge(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def grouped_mm(mat1: TensorView, mat2: TensorView, offsets: TensorView) -> TensorView:
    """A product of matrices for each group. offsets (Int32 [groups]) are the ends of the groups: [M, K] x [K, N] -> [groups, M, N] with K in groups, [groups, M, K] x [K, N] -> [M, N] with N in groups, [M, K] x [groups, K, N] -> [M, N] with M in groups.
    """
@typing.overload
def grouped_mm(mat1: TensorView, mat2: TensorView, offsets: TensorView, scale1: TensorView, scale2: TensorView, alpha: TensorView | None = None, bias: TensorView | None = None, beta: TensorView | None = None, dtype: DataType | torch.dtype | str = ..., output_block_scale_size: typing.SupportsIndex = 0, output_block_scale_dtype: DataType | torch.dtype | str = ..., output_gamma: bool = False) -> tuple[TensorView, TensorView | None, TensorView | None]:
    """grouped_mm of operands with scales; returns (out, None, None) with out of `dtype`. The scales have the rank of the operand or the result, whichever is more, and size 1 along K, or are block scales. bias and beta come together. Block-scaled output is not yet supported.
    """

@typing.overload
def gt(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x > y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def gt(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def gt(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def imag(x: TensorView, /) -> TensorView:
    """Imaginary part of a complex number.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def imag(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def index_select(arg: TensorView, index: TensorView, dim: typing.SupportsIndex) -> TensorView:
    """Entries index[0], index[1], ... of arg along dim. The index has rank 1, or 0, which gives size 1. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

def iota(length: Val | bool | int | float | builtins.complex, start: Val | bool | int | float | builtins.complex | None = None, step: Val | bool | int | float | builtins.complex | None = None, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """start + i * step for i in [0, length); start defaults to 0 and step to 1."""

@typing.overload
def isfinite(x: TensorView, /) -> TensorView:
    """True where x is neither infinite nor NaN.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def isfinite(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def isinf(x: TensorView, /) -> TensorView:
    """True where x is infinite.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def isinf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def isnan(x: TensorView, /) -> TensorView:
    """True where x is NaN.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def isnan(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def isneginf(x: TensorView, /) -> TensorView:
    """True where x is -inf.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def isneginf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def isposinf(x: TensorView, /) -> TensorView:
    """True where x is +inf.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def isposinf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def isreal(x: TensorView, /) -> TensorView:
    """True where the imaginary part is 0.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def isreal(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def le(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x <= y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def le(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def le(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def lerp(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x + z * (y - x).

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def lerp(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView: ...
@typing.overload
def lerp(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView, /) -> TensorView: ...
@typing.overload
def lerp(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def lgamma(x: TensorView, /) -> TensorView:
    """Logarithm of the absolute gamma function.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def lgamma(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def linear(arg1: TensorView, arg2: TensorView, bias: TensorView | None = None, alpha: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """alpha * (arg1 @ arg2^T) + bias: arg1 [*i, K], arg2 (the weight) [*w, N, K], bias [*w, N] or None, alpha a number, 1 by default; the result is [*w, *i, N]. All tensors have the same dtype, which is the result's.
    """

@typing.overload
def log(x: TensorView, /) -> TensorView:
    """Natural logarithm.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def log(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def log10(x: TensorView, /) -> TensorView:
    """Logarithm to base 10.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def log10(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def log1p(x: TensorView, /) -> TensorView:
    """log(1 + x), accurate near 0.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def log1p(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def log2(x: TensorView, /) -> TensorView:
    """Logarithm to base 2.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def log2(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def logical_and(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x and y, as bools.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def logical_and(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def logical_and(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def logical_not(x: TensorView, /) -> TensorView:
    """True where x is zero.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def logical_not(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def logical_or(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x or y, as bools.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def logical_or(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def logical_or(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def logical_right_shift(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Shift right that fills with zeros; 0 if y is the bit width or more. Integers only."""
@typing.overload
def logical_right_shift(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def logical_right_shift(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def lt(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x < y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def lt(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def lt(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

def matmul(arg1: TensorView, arg2: TensorView, alpha: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """Product of matrices with the shape rules of torch.matmul: operands of rank 1 are a row and a column, dimensions before the last two are repeated where one has size 1. Both have the same dtype, which is the result's. The product is multiplied by the number alpha, if there is one, before it is rounded.
    """

@typing.overload
def max(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def max(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def max(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

@typing.overload
def maximum(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Larger of x and y; NaN if either is.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def maximum(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def maximum(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def min(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def min(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def min(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

@typing.overload
def minimum(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Smaller of x and y; NaN if either is.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def minimum(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def minimum(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def mod(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """C remainder: x - y * trunc(x / y).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def mod(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def mod(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def mul(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x * y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def mul(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def mul(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def ne(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x != y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def ne(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def ne(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def neg(x: TensorView, /) -> TensorView:
    """Negation.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def neg(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def nextafter(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Next float after x toward y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The promoted dtype must be Float or Double.
    """
@typing.overload
def nextafter(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def nextafter(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

def normal(mean: Val | bool | int | float | builtins.complex, std: Val | bool | int | float | builtins.complex, shape: collections.abc.Sequence[int | Val], *, rng_seed: Val | bool | int | float | builtins.complex | None = None, rng_offset: Val | bool | int | float | builtins.complex | None = None, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Normal numbers, from the device's generator or an explicit seed and offset (Philox 4x32-10).
    """

def nv_block_quantize(input: TensorView, global_scale: TensorView | None = None, swizzle_block_scales: bool = False, block_size: typing.SupportsIndex = 16, dtype: DataType | torch.dtype | str = ...) -> tuple[TensorView, TensorView]:
    """(quantized, block_scales) of input (Float, Half or BFloat16, rank >= 1) with a scale for each block of the innermost dimension: Float4_e2m1fn with blocks of 16 and Float8_e4m3fn scales, or Float8_e4m3fn with blocks of 32 and Float8_e8m0fnu scales.
    """

def nv_grouped_block_quantize(input: TensorView, input_offsets: TensorView, output_offsets: TensorView, global_scale: TensorView | None = None, block_size: typing.SupportsIndex = 16, dtype: DataType | torch.dtype | str = ...) -> tuple[TensorView, TensorView]:
    """nv_block_quantize of a matrix whose rows are in groups: the scales of each group are stored 128x4 swizzled and padded, from row output_offsets[group] on.
    """

def pad(arg: TensorView, pad_widths: collections.abc.Sequence[int | Val], value: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
    """Pads with `value` (default zero). Widths as torch: left and right of the last dimension first; negative widths crop.
    """

def permute(arg: TensorView, dims: collections.abc.Sequence[int]) -> TensorView:
    """Dimension i of the result is dimension dims[i] of arg."""

@typing.overload
def pow(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x to the power y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def pow(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def pow(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

def preprocess_grouped_matmul_input_sf(input: TensorView, input_offsets: TensorView, output_offsets: TensorView) -> TensorView:
    """Block scales [rows, columns] of a matrix whose rows are in groups, stored 128x4 swizzled and padded, each group from row output_offsets[group] on.
    """

@typing.overload
def prod(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def prod(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def prod(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

def rand_like(x: TensorView, /) -> TensorView:
    """Uniform numbers in [0, 1) of the shape and floating dtype of x."""

def randn_like(x: TensorView, /) -> TensorView:
    """Standard normal numbers of the shape and floating dtype of x."""

@typing.overload
def real(x: TensorView, /) -> TensorView:
    """Real part; a copy for real dtypes.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def real(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def reciprocal(x: TensorView, /) -> TensorView:
    """1 / x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def reciprocal(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def relu(x: TensorView, /) -> TensorView:
    """max(x, 0).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def relu(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def remainder(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """Remainder with the sign of y (torch.remainder).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def remainder(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def remainder(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

def reshape(arg: TensorView, new_shape: collections.abc.Sequence[int | Val]) -> TensorView:
    """Row-major reshape; one entry may be -1."""

@typing.overload
def round(x: TensorView, /) -> TensorView:
    """Nearest integer, ties to even.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def round(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def rsqrt(x: TensorView, /) -> TensorView:
    """1 / sqrt(x).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def rsqrt(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def scaled_mm(mat1: TensorView, mat2: TensorView, scale1: TensorView, scale2: TensorView, alpha: TensorView | None = None, bias: TensorView | None = None, beta: TensorView | None = None, dtype: DataType | torch.dtype | str = ..., output_block_scale_size: typing.SupportsIndex = 0, output_block_scale_dtype: DataType | torch.dtype | str = ..., output_gamma: bool = False) -> tuple[TensorView, TensorView | None, TensorView | None]:
    """mat1 [M, K] x mat2 [K, N], each with its scales (one for the tensor, for rows and columns, or for blocks along K), as torch evaluates it; returns (out, None, None) with out of `dtype`. beta needs bias. Block-scaled output is not yet supported.
    """

def scatter(arg: TensorView, index: TensorView, src: TensorView | Val | bool | int | float | builtins.complex, dim: typing.SupportsIndex) -> TensorView:
    """Copy of arg with out[index[i, j, ...], j, ...] = src[i, j, ...] for dim 0 (torch.scatter). src is a tensor or a scalar. Positions out of range are dropped; of equal ones the last wins.
    """

def sdpfa_bwd(grad_output: TensorView, query: TensorView, key: TensorView, value: TensorView, output: TensorView, logsumexp: TensorView, dropout_p: Val | bool | int | float | builtins.complex | None, is_causal: Val | bool | int | float | builtins.complex | None, philox_seed: TensorView, philox_offset: TensorView, scale: Val | bool | int | float | builtins.complex | None) -> tuple[TensorView, TensorView, TensorView]:
    """(grad_query, grad_key, grad_value) of sdpfa_fwd, of whose results output, logsumexp, philox_seed and philox_offset are given. None stands for the defaults of the scalars.
    """

def sdpfa_fwd(query: TensorView, key: TensorView, value: TensorView, bias: TensorView | None = None, mask: TensorView | None = None, dropout_p: Val | bool | int | float | builtins.complex | None = None, is_causal: Val | bool | int | float | builtins.complex | None = None, scale: Val | bool | int | float | builtins.complex | None = None) -> tuple[TensorView, TensorView, TensorView, TensorView]:
    """Scaled dot product attention: (output, logsumexp, philox_seed, philox_offset) of query [..., H, L, E], key and value [..., G, S, E]; each head of theirs is that of H/G heads of the query, one after the other. bias is added to the scores, mask (Bool) keeps where it is true. dropout_p is 0.0, is_causal False, scale 1/sqrt(E) by default. Draws from the generator as torch does.
    """

@typing.overload
def segment_set(x: TensorView, /) -> TensorView:
    """Copy that forces a kernel boundary."""
@typing.overload
def segment_set(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def select(arg: TensorView, index: TensorView | Val | bool | int | float | builtins.complex, dim: typing.SupportsIndex) -> TensorView:
    """Entry `index` of arg along dim, which the result lacks. The index is a scalar (negative: from the end) or a tensor of rank 0.
    """

@typing.overload
def set(x: TensorView, /) -> TensorView:
    """Copy; may be elided."""
@typing.overload
def set(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def shape(arg: TensorView, /) -> list[Val]:
    """Sizes of all dimensions as scalars."""

@typing.overload
def sigmoid(x: TensorView, /) -> TensorView:
    """1 / (1 + exp(-x)).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def sigmoid(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def sign(x: TensorView, /) -> TensorView:
    """-1, 0 or 1.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def sign(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def signbit(x: TensorView, /) -> TensorView:
    """True where the sign bit is set, -0.0 included.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """
@typing.overload
def signbit(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def silu(x: TensorView, /) -> TensorView:
    """x * sigmoid(x).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def silu(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def sin(x: TensorView, /) -> TensorView:
    """Sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def sin(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def sinh(x: TensorView, /) -> TensorView:
    """Hyperbolic sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def sinh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def size(arg: TensorView, dim: typing.SupportsIndex) -> Val:
    """Size of a dimension (the expanded one) as a scalar."""

def slice(arg: TensorView, start_indices: collections.abc.Sequence[int | Val], end_indices: collections.abc.Sequence[int | Val], strides: collections.abc.Sequence[int | Val] | None = None, manual_normalization: bool = False) -> TensorView:
    """Elements [start, end) of each dimension; ends are clamped to the size unless manual_normalization.
    """

@typing.overload
def sqrt(x: TensorView, /) -> TensorView:
    """Square root.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def sqrt(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def squeeze(arg: TensorView, dims: collections.abc.Sequence[int], squeeze_expanded: bool = False) -> TensorView:
    """Removes dimensions of size 1 (expanded ones only with the flag)."""

def stride_order(arg: TensorView, stride_order: collections.abc.Sequence[int]) -> TensorView:
    """Copy in another memory order: stride_order[i] is the rank of dimension i's stride, 0 the fastest.
    """

@typing.overload
def sub(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x - y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """
@typing.overload
def sub(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def sub(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def sum(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def sum(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def sum(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

def take_along_axis(arg: TensorView, index: TensorView, dim: typing.SupportsIndex) -> TensorView:
    """out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0. Ranks are equal; sizes other than that of dim are equal or 1, which broadcasts. Floats as positions are truncated. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

@typing.overload
def tan(x: TensorView, /) -> TensorView:
    """Tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def tan(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def tanh(x: TensorView, /) -> TensorView:
    """Hyperbolic tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def tanh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def threshold(x: TensorView, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> TensorView:
    """z where x <= y, x elsewhere.

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def threshold(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> Val: ...

def topk(arg: TensorView, k: Val | bool | int | float | builtins.complex, dim: typing.SupportsIndex = -1, largest: bool = True, sorted: bool = False) -> tuple[TensorView, TensorView]:
    """(values, indices) of the k largest (or smallest) elements along dim; k is an integer scalar, the indices are Int. In order if `sorted`. RuntimeError if k is negative or exceeds the size.
    """

def triu(arg: TensorView, diagonal: typing.SupportsIndex = 0) -> TensorView:
    """Zero below the given diagonal of the last two dimensions."""

@typing.overload
def truediv(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """x / y in floating point.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """
@typing.overload
def truediv(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
@typing.overload
def truediv(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...

@typing.overload
def trunc(x: TensorView, /) -> TensorView:
    """Rounds toward zero.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """
@typing.overload
def trunc(x: Val | bool | int | float | builtins.complex, /) -> Val: ...

def uniform(minval: Val | bool | int | float | builtins.complex, maxval: Val | bool | int | float | builtins.complex, shape: collections.abc.Sequence[int | Val], *, rng_seed: Val | bool | int | float | builtins.complex | None = None, rng_offset: Val | bool | int | float | builtins.complex | None = None, dtype: DataType | torch.dtype | str = ...) -> TensorView:
    """Uniform numbers in [minval, maxval), from the device's generator or an explicit seed and offset (Philox 4x32-10).
    """

def var(arg: TensorView, dims: collections.abc.Sequence[int], correction: float = 1, keepdim: bool = False) -> TensorView:
    """Variance over dims, in two passes; Float for integers and 16-bit floats, real for complex numbers. Divided by max(n - correction, 0). The reduced dimensions come back with size 1 if keepdim.
    """

def var_mean(arg: TensorView, dims: collections.abc.Sequence[int], correction: float = 1, keepdim: bool = False) -> tuple[TensorView, TensorView]:
    """(variance, mean) over dims, by Welford's algorithm. RuntimeError for 16-bit and smaller floats, which are to be cast first. Divided by max(n - correction, 0). The reduced dimensions come back with size 1 if keepdim.
    """

def welford(arg: TensorView, dims: collections.abc.Sequence[int]) -> tuple[TensorView, TensorView, TensorView]:
    """(mean, sum of squared deviations from it, number of elements) over dims; the number has dtype Index.
    """

@typing.overload
def where(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
    """y where x is true, z elsewhere.

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The condition must be Bool; the result has the promoted dtype of the other two.
    """
@typing.overload
def where(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView: ...
@typing.overload
def where(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView, /) -> TensorView: ...
@typing.overload
def where(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> Val: ...
