"""What fd.ops and fd.sched are to type checkers; there is no such module at run time."""

import builtins
import collections.abc
import torch
import typing
from . import DataType, Fusion, HeuristicParams, ParallelType, SchedulerType, TensorView, Val

class Operations:
    @typing.overload
    @staticmethod
    def abs(x: TensorView, /) -> TensorView:
        """Absolute value; modulus of a complex number.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def abs(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def acos(x: TensorView, /) -> TensorView:
        """Inverse cosine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def acos(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def acosh(x: TensorView, /) -> TensorView:
        """Inverse hyperbolic cosine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def acosh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def add(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x + y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def add(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def add(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def addcmul(a: TensorView, b: TensorView | Val | bool | int | float | builtins.complex, c: TensorView | Val | bool | int | float | builtins.complex, alpha: Val | bool | int | float | builtins.complex, /) -> TensorView:
        """a + b * c * alpha; alpha is a scalar."""
    @typing.overload
    @staticmethod
    def addcmul(a: TensorView | Val | bool | int | float | builtins.complex, b: TensorView, c: TensorView | Val | bool | int | float | builtins.complex, alpha: Val | bool | int | float | builtins.complex, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def addcmul(a: TensorView | Val | bool | int | float | builtins.complex, b: TensorView | Val | bool | int | float | builtins.complex, c: TensorView, alpha: Val | bool | int | float | builtins.complex, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def addcmul(a: Val | bool | int | float | builtins.complex, b: Val | bool | int | float | builtins.complex, c: Val | bool | int | float | builtins.complex, alpha: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def argsort(arg: TensorView, dim: typing.SupportsIndex, descending: bool = False, stable: bool = False) -> TensorView:
        """Indices (Int) that sort arg along dim; equal elements keep their order if `stable`."""
    @typing.overload
    @staticmethod
    def asin(x: TensorView, /) -> TensorView:
        """Inverse sine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def asin(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def asinh(x: TensorView, /) -> TensorView:
        """Inverse hyperbolic sine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def asinh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def atan(x: TensorView, /) -> TensorView:
        """Inverse tangent.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def atan(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def atan2(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Angle of the point (y, x).

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def atan2(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def atan2(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def atanh(x: TensorView, /) -> TensorView:
        """Inverse hyperbolic tangent.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def atanh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def bitwise_and(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Bitwise and.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
        """
    @typing.overload
    @staticmethod
    def bitwise_and(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def bitwise_and(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def bitwise_left_shift(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x shifted left by y bits.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
        """
    @typing.overload
    @staticmethod
    def bitwise_left_shift(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def bitwise_left_shift(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def bitwise_not(x: TensorView, /) -> TensorView:
        """Bitwise complement; logical not of a bool.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
        """
    @typing.overload
    @staticmethod
    def bitwise_not(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def bitwise_or(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Bitwise or.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
        """
    @typing.overload
    @staticmethod
    def bitwise_or(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def bitwise_or(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def bitwise_right_shift(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Arithmetic shift right by y bits.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
        """
    @typing.overload
    @staticmethod
    def bitwise_right_shift(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def bitwise_right_shift(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def bitwise_xor(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Bitwise exclusive or.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
        """
    @typing.overload
    @staticmethod
    def bitwise_xor(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def bitwise_xor(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def broadcast(arg: TensorView, is_broadcast_dim: collections.abc.Sequence[bool]) -> TensorView:
        """Inserts dimensions of size 1 where is_broadcast_dim is True."""
    @staticmethod
    def broadcast_in_dim(arg: TensorView, shape: collections.abc.Sequence[int | Val], broadcast_dims: collections.abc.Sequence[int]) -> TensorView:
        """Dimension i of arg becomes dimension broadcast_dims[i] of the result, which is expanded to `shape` (-1 keeps a size).
        """
    @typing.overload
    @staticmethod
    def cast(arg: TensorView, dtype: DataType | torch.dtype | str) -> TensorView:
        """Converts to another dtype, rounding to nearest even; equal dtypes give a copy.

        RuntimeError: no such conversion (fp8 and fp4 convert to and from the wider floats only).
        """
    @typing.overload
    @staticmethod
    def cast(arg: Val | bool | int | float | builtins.complex, dtype: DataType | torch.dtype | str) -> Val: ...
    @staticmethod
    def cat(tensors: collections.abc.Sequence[TensorView], dim: typing.SupportsIndex = 0, manual_padding: bool = False) -> TensorView:
        """Concatenates along `dim`. With manual_padding every tensor is the result of pad()."""
    @typing.overload
    @staticmethod
    def ceil(x: TensorView, /) -> TensorView:
        """Smallest integer not below x.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def ceil(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def clamp(x: TensorView, y: Val | bool | int | float | builtins.complex | None, z: Val | bool | int | float | builtins.complex | None, /) -> TensorView:
        """x limited to [y, z].

        Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def clamp(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex | None, z: Val | bool | int | float | builtins.complex | None, /) -> Val: ...
    @typing.overload
    @staticmethod
    def complex(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Complex number from real and imaginary part.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def complex(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def complex(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def cos(x: TensorView, /) -> TensorView:
        """Cosine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def cos(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def cosh(x: TensorView, /) -> TensorView:
        """Hyperbolic cosine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def cosh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def cummax(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """Running maximum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
        """
    @staticmethod
    def cummin(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """Running minimum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
        """
    @staticmethod
    def cumprod(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """Running product along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
        """
    @staticmethod
    def cumsum(arg: TensorView, dim: typing.SupportsIndex, init: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """Running sum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
        """
    @staticmethod
    def cutlass_nvfp4_grouped_mm(mat1: TensorView, mat2: TensorView, scale1: TensorView, scale2: TensorView, alpha: TensorView, problem_sizes: TensorView, expert_offsets: TensorView, sf_offsets: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """A product of NVFP4 matrices for each group: mat1 [M, K], mat2 [groups, K, N] (K fastest), block scales (Float8_e4m3fn, 128x4 swizzled), alpha Float [groups], problem_sizes Int32 [groups, 3] (M, N, K), the first row of each group in mat1 and in scale1. The result is [M, N] of `dtype`.
        """
    @typing.overload
    @staticmethod
    def div(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x / y; truncating for integers.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def div(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def div(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def embedding_fwd(input: TensorView, weight: TensorView, padding_idx: Val | bool | int | float | builtins.complex | None = None, max_norm: Val | bool | int | float | builtins.complex | None = None, norm_type: Val | bool | int | float | builtins.complex | None = None, scale_grad_by_freq: Val | bool | int | float | builtins.complex | None = None, sparse: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """Rows of the weight (rank 2) at the positions in input: input.shape + [columns]. With max_norm rows of a larger norm (of order norm_type, 2.0 by default) are scaled to it. padding_idx, scale_grad_by_freq and sparse concern gradients only. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
        """
    @typing.overload
    @staticmethod
    def eq(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x == y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def eq(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def eq(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def erf(x: TensorView, /) -> TensorView:
        """Error function.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def erf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def erfc(x: TensorView, /) -> TensorView:
        """Complementary error function.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def erfc(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def erfcinv(x: TensorView, /) -> TensorView:
        """Inverse of erfc: erfinv(1 - x).

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def erfcinv(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def erfinv(x: TensorView, /) -> TensorView:
        """Inverse of erf.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def erfinv(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def exp(x: TensorView, /) -> TensorView:
        """e to the x.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def exp(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def exp2(x: TensorView, /) -> TensorView:
        """2 to the x.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def exp2(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def expand(arg: TensorView, shape: collections.abc.Sequence[int | Val]) -> TensorView:
        """Gives dimensions of size 1 the size in `shape`; -1 keeps; more leading dimensions may be added.
        """
    @typing.overload
    @staticmethod
    def expm1(x: TensorView, /) -> TensorView:
        """e to the x, minus 1, accurate near 0.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def expm1(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def floor(x: TensorView, /) -> TensorView:
        """Largest integer not above x.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def floor(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def fmod(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Remainder with the sign of x (C fmod).

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def fmod(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def fmod(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def frac(x: TensorView, /) -> TensorView:
        """Fractional part, with the sign of x.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def frac(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def full(shape: collections.abc.Sequence[int | Val], fill_value: Val | bool | int | float | builtins.complex, dtype: DataType | torch.dtype | str) -> TensorView:
        """Tensor of one value, converted to dtype."""
    @staticmethod
    def gather(arg: TensorView, index: TensorView, dim: typing.SupportsIndex) -> TensorView:
        """out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0 (torch.gather). Ranks are equal; the sizes of the index but that of dim are at most those of arg. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
        """
    @typing.overload
    @staticmethod
    def gcd(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Greatest common divisor.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
        """
    @typing.overload
    @staticmethod
    def gcd(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def gcd(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def ge(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x >= y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def ge(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def ge(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def grouped_mm(mat1: TensorView, mat2: TensorView, offsets: TensorView) -> TensorView:
        """A product of matrices for each group. offsets (Int32 [groups]) are the ends of the groups: [M, K] x [K, N] -> [groups, M, N] with K in groups, [groups, M, K] x [K, N] -> [M, N] with N in groups, [M, K] x [groups, K, N] -> [M, N] with M in groups.
        """
    @typing.overload
    @staticmethod
    def grouped_mm(mat1: TensorView, mat2: TensorView, offsets: TensorView, scale1: TensorView, scale2: TensorView, alpha: TensorView | None = None, bias: TensorView | None = None, beta: TensorView | None = None, dtype: DataType | torch.dtype | str = ..., output_block_scale_size: typing.SupportsIndex = 0, output_block_scale_dtype: DataType | torch.dtype | str = ..., output_gamma: bool = False) -> tuple[TensorView, TensorView | None, TensorView | None]:
        """grouped_mm of operands with scales; returns (out, None, None) with out of `dtype`. The scales have the rank of the operand or the result, whichever is more, and size 1 along K, or are block scales. bias and beta come together. Block-scaled output is not yet supported.
        """
    @typing.overload
    @staticmethod
    def gt(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x > y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def gt(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def gt(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def imag(x: TensorView, /) -> TensorView:
        """Imaginary part of a complex number.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def imag(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def index_select(arg: TensorView, index: TensorView, dim: typing.SupportsIndex) -> TensorView:
        """Entries index[0], index[1], ... of arg along dim. The index has rank 1, or 0, which gives size 1. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
        """
    @staticmethod
    def iota(length: Val | bool | int | float | builtins.complex, start: Val | bool | int | float | builtins.complex | None = None, step: Val | bool | int | float | builtins.complex | None = None, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """start + i * step for i in [0, length); start defaults to 0 and step to 1."""
    @typing.overload
    @staticmethod
    def isfinite(x: TensorView, /) -> TensorView:
        """True where x is neither infinite nor NaN.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def isfinite(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def isinf(x: TensorView, /) -> TensorView:
        """True where x is infinite.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def isinf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def isnan(x: TensorView, /) -> TensorView:
        """True where x is NaN.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def isnan(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def isneginf(x: TensorView, /) -> TensorView:
        """True where x is -inf.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def isneginf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def isposinf(x: TensorView, /) -> TensorView:
        """True where x is +inf.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def isposinf(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def isreal(x: TensorView, /) -> TensorView:
        """True where the imaginary part is 0.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def isreal(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def le(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x <= y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def le(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def le(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def lerp(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x + z * (y - x).

        Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def lerp(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def lerp(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def lerp(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def lgamma(x: TensorView, /) -> TensorView:
        """Logarithm of the absolute gamma function.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def lgamma(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def linear(arg1: TensorView, arg2: TensorView, bias: TensorView | None = None, alpha: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """alpha * (arg1 @ arg2^T) + bias: arg1 [*i, K], arg2 (the weight) [*w, N, K], bias [*w, N] or None, alpha a number, 1 by default; the result is [*w, *i, N]. All tensors have the same dtype, which is the result's.
        """
    @typing.overload
    @staticmethod
    def log(x: TensorView, /) -> TensorView:
        """Natural logarithm.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def log(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def log10(x: TensorView, /) -> TensorView:
        """Logarithm to base 10.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def log10(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def log1p(x: TensorView, /) -> TensorView:
        """log(1 + x), accurate near 0.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def log1p(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def log2(x: TensorView, /) -> TensorView:
        """Logarithm to base 2.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def log2(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def logical_and(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x and y, as bools.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def logical_and(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def logical_and(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def logical_not(x: TensorView, /) -> TensorView:
        """True where x is zero.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def logical_not(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def logical_or(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x or y, as bools.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def logical_or(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def logical_or(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def logical_right_shift(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Shift right that fills with zeros; 0 if y is the bit width or more. Integers only."""
    @typing.overload
    @staticmethod
    def logical_right_shift(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def logical_right_shift(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def lt(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x < y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def lt(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def lt(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def matmul(arg1: TensorView, arg2: TensorView, alpha: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """Product of matrices with the shape rules of torch.matmul: operands of rank 1 are a row and a column, dimensions before the last two are repeated where one has size 1. Both have the same dtype, which is the result's. The product is multiplied by the number alpha, if there is one, before it is rounded.
        """
    @typing.overload
    @staticmethod
    def max(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
        """
    @typing.overload
    @staticmethod
    def max(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
        """
    @typing.overload
    @staticmethod
    def max(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
        """
    @typing.overload
    @staticmethod
    def maximum(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Larger of x and y; NaN if either is.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def maximum(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def maximum(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def min(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
        """
    @typing.overload
    @staticmethod
    def min(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
        """
    @typing.overload
    @staticmethod
    def min(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
        """
    @typing.overload
    @staticmethod
    def minimum(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Smaller of x and y; NaN if either is.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def minimum(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def minimum(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def mod(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """C remainder: x - y * trunc(x / y).

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def mod(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def mod(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def mul(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x * y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def mul(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def mul(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def ne(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x != y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def ne(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def ne(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def neg(x: TensorView, /) -> TensorView:
        """Negation.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def neg(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def nextafter(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Next float after x toward y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The promoted dtype must be Float or Double.
        """
    @typing.overload
    @staticmethod
    def nextafter(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def nextafter(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def normal(mean: Val | bool | int | float | builtins.complex, std: Val | bool | int | float | builtins.complex, shape: collections.abc.Sequence[int | Val], *, rng_seed: Val | bool | int | float | builtins.complex | None = None, rng_offset: Val | bool | int | float | builtins.complex | None = None, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Normal numbers, from the device's generator or an explicit seed and offset (Philox 4x32-10).
        """
    @staticmethod
    def nv_block_quantize(input: TensorView, global_scale: TensorView | None = None, swizzle_block_scales: bool = False, block_size: typing.SupportsIndex = 16, dtype: DataType | torch.dtype | str = ...) -> tuple[TensorView, TensorView]:
        """(quantized, block_scales) of input (Float, Half or BFloat16, rank >= 1) with a scale for each block of the innermost dimension: Float4_e2m1fn with blocks of 16 and Float8_e4m3fn scales, or Float8_e4m3fn with blocks of 32 and Float8_e8m0fnu scales.
        """
    @staticmethod
    def nv_grouped_block_quantize(input: TensorView, input_offsets: TensorView, output_offsets: TensorView, global_scale: TensorView | None = None, block_size: typing.SupportsIndex = 16, dtype: DataType | torch.dtype | str = ...) -> tuple[TensorView, TensorView]:
        """nv_block_quantize of a matrix whose rows are in groups: the scales of each group are stored 128x4 swizzled and padded, from row output_offsets[group] on.
        """
    @staticmethod
    def pad(arg: TensorView, pad_widths: collections.abc.Sequence[int | Val], value: Val | bool | int | float | builtins.complex | None = None) -> TensorView:
        """Pads with `value` (default zero). Widths as torch: left and right of the last dimension first; negative widths crop.
        """
    @staticmethod
    def permute(arg: TensorView, dims: collections.abc.Sequence[int]) -> TensorView:
        """Dimension i of the result is dimension dims[i] of arg."""
    @typing.overload
    @staticmethod
    def pow(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x to the power y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def pow(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def pow(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def preprocess_grouped_matmul_input_sf(input: TensorView, input_offsets: TensorView, output_offsets: TensorView) -> TensorView:
        """Block scales [rows, columns] of a matrix whose rows are in groups, stored 128x4 swizzled and padded, each group from row output_offsets[group] on.
        """
    @typing.overload
    @staticmethod
    def prod(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
        """
    @typing.overload
    @staticmethod
    def prod(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
        """
    @typing.overload
    @staticmethod
    def prod(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
        """
    @staticmethod
    def rand_like(x: TensorView, /) -> TensorView:
        """Uniform numbers in [0, 1) of the shape and floating dtype of x."""
    @staticmethod
    def randn_like(x: TensorView, /) -> TensorView:
        """Standard normal numbers of the shape and floating dtype of x."""
    @typing.overload
    @staticmethod
    def real(x: TensorView, /) -> TensorView:
        """Real part; a copy for real dtypes.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def real(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def reciprocal(x: TensorView, /) -> TensorView:
        """1 / x.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def reciprocal(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def relu(x: TensorView, /) -> TensorView:
        """max(x, 0).

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def relu(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def remainder(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """Remainder with the sign of y (torch.remainder).

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def remainder(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def remainder(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def reshape(arg: TensorView, new_shape: collections.abc.Sequence[int | Val]) -> TensorView:
        """Row-major reshape; one entry may be -1."""
    @typing.overload
    @staticmethod
    def round(x: TensorView, /) -> TensorView:
        """Nearest integer, ties to even.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def round(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def rsqrt(x: TensorView, /) -> TensorView:
        """1 / sqrt(x).

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def rsqrt(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def scaled_mm(mat1: TensorView, mat2: TensorView, scale1: TensorView, scale2: TensorView, alpha: TensorView | None = None, bias: TensorView | None = None, beta: TensorView | None = None, dtype: DataType | torch.dtype | str = ..., output_block_scale_size: typing.SupportsIndex = 0, output_block_scale_dtype: DataType | torch.dtype | str = ..., output_gamma: bool = False) -> tuple[TensorView, TensorView | None, TensorView | None]:
        """mat1 [M, K] x mat2 [K, N], each with its scales (one for the tensor, for rows and columns, or for blocks along K), as torch evaluates it; returns (out, None, None) with out of `dtype`. beta needs bias. Block-scaled output is not yet supported.
        """
    @staticmethod
    def scatter(arg: TensorView, index: TensorView, src: TensorView | Val | bool | int | float | builtins.complex, dim: typing.SupportsIndex) -> TensorView:
        """Copy of arg with out[index[i, j, ...], j, ...] = src[i, j, ...] for dim 0 (torch.scatter). src is a tensor or a scalar. Positions out of range are dropped; of equal ones the last wins.
        """
    @staticmethod
    def sdpfa_bwd(grad_output: TensorView, query: TensorView, key: TensorView, value: TensorView, output: TensorView, logsumexp: TensorView, dropout_p: Val | bool | int | float | builtins.complex | None, is_causal: Val | bool | int | float | builtins.complex | None, philox_seed: TensorView, philox_offset: TensorView, scale: Val | bool | int | float | builtins.complex | None) -> tuple[TensorView, TensorView, TensorView]:
        """(grad_query, grad_key, grad_value) of sdpfa_fwd, of whose results output, logsumexp, philox_seed and philox_offset are given. None stands for the defaults of the scalars.
        """
    @staticmethod
    def sdpfa_fwd(query: TensorView, key: TensorView, value: TensorView, bias: TensorView | None = None, mask: TensorView | None = None, dropout_p: Val | bool | int | float | builtins.complex | None = None, is_causal: Val | bool | int | float | builtins.complex | None = None, scale: Val | bool | int | float | builtins.complex | None = None) -> tuple[TensorView, TensorView, TensorView, TensorView]:
        """Scaled dot product attention: (output, logsumexp, philox_seed, philox_offset) of query [..., H, L, E], key and value [..., G, S, E]; each head of theirs is that of H/G heads of the query, one after the other. bias is added to the scores, mask (Bool) keeps where it is true. dropout_p is 0.0, is_causal False, scale 1/sqrt(E) by default. Draws from the generator as torch does.
        """
    @typing.overload
    @staticmethod
    def segment_set(x: TensorView, /) -> TensorView:
        """Copy that forces a kernel boundary."""
    @typing.overload
    @staticmethod
    def segment_set(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def select(arg: TensorView, index: TensorView | Val | bool | int | float | builtins.complex, dim: typing.SupportsIndex) -> TensorView:
        """Entry `index` of arg along dim, which the result lacks. The index is a scalar (negative: from the end) or a tensor of rank 0.
        """
    @typing.overload
    @staticmethod
    def set(x: TensorView, /) -> TensorView:
        """Copy; may be elided."""
    @typing.overload
    @staticmethod
    def set(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def shape(arg: TensorView, /) -> list[Val]:
        """Sizes of all dimensions as scalars."""
    @typing.overload
    @staticmethod
    def sigmoid(x: TensorView, /) -> TensorView:
        """1 / (1 + exp(-x)).

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def sigmoid(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def sign(x: TensorView, /) -> TensorView:
        """-1, 0 or 1.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def sign(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def signbit(x: TensorView, /) -> TensorView:
        """True where the sign bit is set, -0.0 included.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
        """
    @typing.overload
    @staticmethod
    def signbit(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def silu(x: TensorView, /) -> TensorView:
        """x * sigmoid(x).

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def silu(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def sin(x: TensorView, /) -> TensorView:
        """Sine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def sin(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def sinh(x: TensorView, /) -> TensorView:
        """Hyperbolic sine.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def sinh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def size(arg: TensorView, dim: typing.SupportsIndex) -> Val:
        """Size of a dimension (the expanded one) as a scalar."""
    @staticmethod
    def slice(arg: TensorView, start_indices: collections.abc.Sequence[int | Val], end_indices: collections.abc.Sequence[int | Val], strides: collections.abc.Sequence[int | Val] | None = None, manual_normalization: bool = False) -> TensorView:
        """Elements [start, end) of each dimension; ends are clamped to the size unless manual_normalization.
        """
    @typing.overload
    @staticmethod
    def sqrt(x: TensorView, /) -> TensorView:
        """Square root.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def sqrt(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def squeeze(arg: TensorView, dims: collections.abc.Sequence[int], squeeze_expanded: bool = False) -> TensorView:
        """Removes dimensions of size 1 (expanded ones only with the flag)."""
    @staticmethod
    def stride_order(arg: TensorView, stride_order: collections.abc.Sequence[int]) -> TensorView:
        """Copy in another memory order: stride_order[i] is the rank of dimension i's stride, 0 the fastest.
        """
    @typing.overload
    @staticmethod
    def sub(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x - y.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def sub(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def sub(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def sum(arg: TensorView, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
        """
    @typing.overload
    @staticmethod
    def sum(arg: TensorView, dim: typing.SupportsIndex, keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
        """
    @typing.overload
    @staticmethod
    def sum(arg: TensorView, dims: collections.abc.Sequence[int], keepdim: bool = False, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
        """
    @staticmethod
    def take_along_axis(arg: TensorView, index: TensorView, dim: typing.SupportsIndex) -> TensorView:
        """out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0. Ranks are equal; sizes other than that of dim are equal or 1, which broadcasts. Floats as positions are truncated. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
        """
    @typing.overload
    @staticmethod
    def tan(x: TensorView, /) -> TensorView:
        """Tangent.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def tan(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def tanh(x: TensorView, /) -> TensorView:
        """Hyperbolic tangent.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def tanh(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def threshold(x: TensorView, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> TensorView:
        """z where x <= y, x elsewhere.

        Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def threshold(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def topk(arg: TensorView, k: Val | bool | int | float | builtins.complex, dim: typing.SupportsIndex = -1, largest: bool = True, sorted: bool = False) -> tuple[TensorView, TensorView]:
        """(values, indices) of the k largest (or smallest) elements along dim; k is an integer scalar, the indices are Int. In order if `sorted`. RuntimeError if k is negative or exceeds the size.
        """
    @staticmethod
    def triu(arg: TensorView, diagonal: typing.SupportsIndex = 0) -> TensorView:
        """Zero below the given diagonal of the last two dimensions."""
    @typing.overload
    @staticmethod
    def truediv(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """x / y in floating point.

        Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
        """
    @typing.overload
    @staticmethod
    def truediv(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def truediv(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @typing.overload
    @staticmethod
    def trunc(x: TensorView, /) -> TensorView:
        """Rounds toward zero.

        Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
        """
    @typing.overload
    @staticmethod
    def trunc(x: Val | bool | int | float | builtins.complex, /) -> Val: ...
    @staticmethod
    def uniform(minval: Val | bool | int | float | builtins.complex, maxval: Val | bool | int | float | builtins.complex, shape: collections.abc.Sequence[int | Val], *, rng_seed: Val | bool | int | float | builtins.complex | None = None, rng_offset: Val | bool | int | float | builtins.complex | None = None, dtype: DataType | torch.dtype | str = ...) -> TensorView:
        """Uniform numbers in [minval, maxval), from the device's generator or an explicit seed and offset (Philox 4x32-10).
        """
    @staticmethod
    def var(arg: TensorView, dims: collections.abc.Sequence[int], correction: float = 1, keepdim: bool = False) -> TensorView:
        """Variance over dims, in two passes; Float for integers and 16-bit floats, real for complex numbers. Divided by max(n - correction, 0). The reduced dimensions come back with size 1 if keepdim.
        """
    @staticmethod
    def var_mean(arg: TensorView, dims: collections.abc.Sequence[int], correction: float = 1, keepdim: bool = False) -> tuple[TensorView, TensorView]:
        """(variance, mean) over dims, by Welford's algorithm. RuntimeError for 16-bit and smaller floats, which are to be cast first. Divided by max(n - correction, 0). The reduced dimensions come back with size 1 if keepdim.
        """
    @staticmethod
    def welford(arg: TensorView, dims: collections.abc.Sequence[int]) -> tuple[TensorView, TensorView, TensorView]:
        """(mean, sum of squared deviations from it, number of elements) over dims; the number has dtype Index.
        """
    @typing.overload
    @staticmethod
    def where(x: TensorView, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView:
        """y where x is true, z elsewhere.

        Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The condition must be Bool; the result has the promoted dtype of the other two.
        """
    @typing.overload
    @staticmethod
    def where(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView, z: TensorView | Val | bool | int | float | builtins.complex, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def where(x: TensorView | Val | bool | int | float | builtins.complex, y: TensorView | Val | bool | int | float | builtins.complex, z: TensorView, /) -> TensorView: ...
    @typing.overload
    @staticmethod
    def where(x: Val | bool | int | float | builtins.complex, y: Val | bool | int | float | builtins.complex, z: Val | bool | int | float | builtins.complex, /) -> Val: ...

class ScheduleOperators:
    @staticmethod
    def bounded_transform_backward(__from: TensorView, pos: typing.SupportsIndex, to: collections.abc.Sequence[TensorView], propagate_parallel_type: bool = False) -> None:
        """Replays the first `pos` loop axes of `from` (-1: all) on what lies between it and the tensors in `to`, which are left as they are.
        """
    @staticmethod
    def can_schedule(fusion: Fusion, scheduler_type: SchedulerType, inputs: collections.abc.Iterable[typing.Any]) -> tuple[bool, str]:
        """Whether a scheduler takes the fusion, and if not, why."""
    @staticmethod
    def compute_heuristics(fusion: Fusion, scheduler_type: SchedulerType, inputs: collections.abc.Iterable[typing.Any]) -> HeuristicParams:
        """Parameters for these inputs. RuntimeError: the scheduler can't take the fusion."""
    @staticmethod
    def find_compatible_schedulers(fusion: Fusion, inputs: collections.abc.Iterable[typing.Any]) -> list[SchedulerType]: ...
    @staticmethod
    def inline_at(reference_tv: TensorView, pos: typing.SupportsIndex = -1, best_effort: bool = False, selected_tensors: collections.abc.Sequence[TensorView] = []) -> None:
        """Inlines at the positions that correspond to the reference's first `pos` loop axes."""
    @staticmethod
    def inline_most(selected_tensors: collections.abc.Sequence[TensorView] = []) -> None:
        """Inlines all (or the selected) tensors as deep as is legal."""
    @staticmethod
    def parallelize_like(reference_tv: TensorView, pos: typing.SupportsIndex = -1, selected_tensors: collections.abc.Sequence[TensorView] = [], selected_parallel_types: set[ParallelType] = ..., propagate_padding: bool = True) -> None:
        """Copies the reference's parallel types to the corresponding axes of the other tensors."""
    @typing.overload
    @staticmethod
    def schedule(fusion: Fusion, scheduler_type: SchedulerType, heuristic_params: HeuristicParams) -> None:
        """Schedules with given parameters."""
    @typing.overload
    @staticmethod
    def schedule(fusion: Fusion, scheduler_type: SchedulerType, inputs: collections.abc.Iterable[typing.Any]) -> HeuristicParams:
        """Schedules for inputs; returns the parameters."""
    @staticmethod
    def transform_like(reference_tv: TensorView, selected_tensors: collections.abc.Sequence[TensorView] = []) -> None:
        """Replays the reference's loop transforms on all (or the selected) tensors."""
    @staticmethod
    def warp_specialize(tv: TensorView, number_of_stages: typing.SupportsIndex, prefetch_distance: typing.SupportsIndex, parallel_type: ParallelType, num_registers: tuple[typing.SupportsIndex, typing.SupportsIndex] | None = None) -> None:
        """Loads the tensor into a circular buffer by extra warps along a thread dimension. `num_registers`: of each of their threads, and of each thread that computes.
        """
