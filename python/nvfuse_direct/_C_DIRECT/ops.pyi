"""Operations; also reachable as fd.ops."""

import collections.abc
import typing
from . import BroadcastOp, CacheOp, CircularBufferOptions, ClusterDims, Communicator, CommunicatorBackend, CompileParams, DataType, DeviceMesh, DisjointValSets, Expr, Fusion, FusionExecutorCache, FusionGuard, FusionProfile, GemmTile, HeuristicParams, IdMappingMode, IdModel, IterDomain, KernelExecutor, KernelProfile, LRUCache, LaunchParams, LoadStoreOpType, MatMulTileOptions, MatmulBufferingLoopLevel, MatmulCircularBufferingStrategy, MatmulParams, MatmulTileRasterizationOrder, MatmulTilingStrategy, MemoryType, Merge, MmaMacro, MmaMacroArch, MmaMacroEncode, MultiDeviceExecutor, MultiDeviceExecutorParams, ParallelType, PointwiseParams, ReductionParams, ReshapeOp, SchedulerType, Sharding, Split, SqueezeOp, Statement, SupportedVectorization, TensorDomain, TensorView, TransposeParams, Val, ValGraph, _FusionDefinitionBase

def abs(x: object, /) -> object:
    """Absolute value; modulus of a complex number.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def acos(x: object, /) -> object:
    """Inverse cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def acosh(x: object, /) -> object:
    """Inverse hyperbolic cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def add(x: object, y: object, /) -> object:
    """x + y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def addcmul(a: object, b: object, c: object, alpha: object, /) -> object:
    """a + b * c * alpha; alpha is a scalar."""

def argsort(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, descending: bool = False, stable: bool = False) -> object:
    """Indices (Int) that sort arg along dim; equal elements keep their order if `stable`."""

def asin(x: object, /) -> object:
    """Inverse sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def asinh(x: object, /) -> object:
    """Inverse hyperbolic sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def atan(x: object, /) -> object:
    """Inverse tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def atan2(x: object, y: object, /) -> object:
    """Angle of the point (y, x).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def atanh(x: object, /) -> object:
    """Inverse hyperbolic tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def bitwise_and(x: object, y: object, /) -> object:
    """Bitwise and.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """

def bitwise_left_shift(x: object, y: object, /) -> object:
    """x shifted left by y bits.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """

def bitwise_not(x: object, /) -> object:
    """Bitwise complement; logical not of a bool.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """

def bitwise_or(x: object, y: object, /) -> object:
    """Bitwise or.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """

def bitwise_right_shift(x: object, y: object, /) -> object:
    """Arithmetic shift right by y bits.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """

def bitwise_xor(x: object, y: object, /) -> object:
    """Bitwise exclusive or.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """

def broadcast(arg: object, is_broadcast_dim: object) -> object:
    """Inserts dimensions of size 1 where is_broadcast_dim is True."""

def broadcast_in_dim(arg: object, shape: object, broadcast_dims: object) -> object:
    """Dimension i of arg becomes dimension broadcast_dims[i] of the result, which is expanded to `shape` (-1 keeps a size).
    """

def cast(arg: object, dtype: DataType) -> object:
    """Converts to another dtype, rounding to nearest even; equal dtypes give a copy.

    RuntimeError: no such conversion (fp8 and fp4 convert to and from the wider floats only).
    """

def cat(tensors: object, dim: typing.SupportsInt | typing.SupportsIndex = 0, manual_padding: bool = False) -> object:
    """Concatenates along `dim`. With manual_padding every tensor is the result of pad()."""

def ceil(x: object, /) -> object:
    """Smallest integer not below x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def clamp(x: object, y: object, z: object, /) -> object:
    """x limited to [y, z].

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def complex(x: object, y: object, /) -> object:
    """Complex number from real and imaginary part.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def cos(x: object, /) -> object:
    """Cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def cosh(x: object, /) -> object:
    """Hyperbolic cosine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def cummax(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, init: object = None) -> object:
    """Running maximum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cummin(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, init: object = None) -> object:
    """Running minimum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cumprod(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, init: object = None) -> object:
    """Running product along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cumsum(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, init: object = None) -> object:
    """Running sum along dim, the element itself included, in the dtype of arg; `init` is combined with every element. RuntimeError for a tensor of rank 0 and for an expanded dimension.
    """

def cutlass_nvfp4_grouped_mm(mat1: object, mat2: object, scale1: object, scale2: object, alpha: object, problem_sizes: object, expert_offsets: object, sf_offsets: object, dtype: DataType = ...) -> object:
    """A product of NVFP4 matrices for each group: mat1 [M, K], mat2 [groups, K, N] (K fastest), block scales (Float8_e4m3fn, 128x4 swizzled), alpha Float [groups], problem_sizes Int32 [groups, 3] (M, N, K), the first row of each group in mat1 and in scale1. The result is [M, N] of `dtype`.
    """

def div(x: object, y: object, /) -> object:
    """x / y; truncating for integers.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def embedding_fwd(input: object, weight: object, padding_idx: object = None, max_norm: object = None, norm_type: object = None, scale_grad_by_freq: object = None, sparse: object = None) -> object:
    """Rows of the weight (rank 2) at the positions in input: input.shape + [columns]. With max_norm rows of a larger norm (of order norm_type, 2.0 by default) are scaled to it. padding_idx, scale_grad_by_freq and sparse concern gradients only. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

def eq(x: object, y: object, /) -> object:
    """x == y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def erf(x: object, /) -> object:
    """Error function.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def erfc(x: object, /) -> object:
    """Complementary error function.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def erfcinv(x: object, /) -> object:
    """Inverse of erfc: erfinv(1 - x).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def erfinv(x: object, /) -> object:
    """Inverse of erf.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def exp(x: object, /) -> object:
    """e to the x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def exp2(x: object, /) -> object:
    """2 to the x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def expand(arg: object, shape: object) -> object:
    """Gives dimensions of size 1 the size in `shape`; -1 keeps; more leading dimensions may be added.
    """

def expm1(x: object, /) -> object:
    """e to the x, minus 1, accurate near 0.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def floor(x: object, /) -> object:
    """Largest integer not above x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def fmod(x: object, y: object, /) -> object:
    """Remainder with the sign of x (C fmod).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def frac(x: object, /) -> object:
    """Fractional part, with the sign of x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def full(shape: object, fill_value: object, dtype: DataType) -> object:
    """Tensor of one value, converted to dtype."""

def gather(arg: object, index: object, dim: typing.SupportsInt | typing.SupportsIndex) -> object:
    """out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0 (torch.gather). Ranks are equal; the sizes of the index but that of dim are at most those of arg. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

def gcd(x: object, y: object, /) -> object:
    """Greatest common divisor.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands must be integers (or Bool where that makes sense).
    """

def ge(x: object, y: object, /) -> object:
    """x >= y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

@typing.overload
def grouped_mm(mat1: object, mat2: object, offsets: object) -> object:
    """A product of matrices for each group. offsets (Int32 [groups]) are the ends of the groups: [M, K] x [K, N] -> [groups, M, N] with K in groups, [groups, M, K] x [K, N] -> [M, N] with N in groups, [M, K] x [groups, K, N] -> [M, N] with M in groups.
    """
@typing.overload
def grouped_mm(mat1: object, mat2: object, offsets: object, scale1: object, scale2: object, alpha: object = None, bias: object = None, beta: object = None, dtype: DataType = ..., output_block_scale_size: typing.SupportsInt | typing.SupportsIndex = 0, output_block_scale_dtype: DataType = ..., output_gamma: bool = False) -> tuple:
    """grouped_mm of operands with scales; returns (out, None, None) with out of `dtype`. The scales have the rank of the operand or the result, whichever is more, and size 1 along K, or are block scales. bias and beta come together. Block-scaled output is not yet supported.
    """

def gt(x: object, y: object, /) -> object:
    """x > y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def imag(x: object, /) -> object:
    """Imaginary part of a complex number.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def index_select(arg: object, index: object, dim: typing.SupportsInt | typing.SupportsIndex) -> object:
    """Entries index[0], index[1], ... of arg along dim. The index has rank 1, or 0, which gives size 1. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

def iota(length: object, start: object = None, step: object = None, dtype: DataType = ...) -> object:
    """start + i * step for i in [0, length); start defaults to 0 and step to 1."""

def isfinite(x: object, /) -> object:
    """True where x is neither infinite nor NaN.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def isinf(x: object, /) -> object:
    """True where x is infinite.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def isnan(x: object, /) -> object:
    """True where x is NaN.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def isneginf(x: object, /) -> object:
    """True where x is -inf.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def isposinf(x: object, /) -> object:
    """True where x is +inf.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def isreal(x: object, /) -> object:
    """True where the imaginary part is 0.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def le(x: object, y: object, /) -> object:
    """x <= y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def lerp(x: object, y: object, z: object, /) -> object:
    """x + z * (y - x).

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def lgamma(x: object, /) -> object:
    """Logarithm of the absolute gamma function.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def linear(arg1: object, arg2: object, bias: object = None) -> object:
    """arg1 @ arg2^T + bias: arg1 [*i, K], arg2 (the weight) [*w, N, K], bias [*w, N] or None; the result is [*w, *i, N]. All have the same dtype, which is the result's.
    """

def log(x: object, /) -> object:
    """Natural logarithm.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def log10(x: object, /) -> object:
    """Logarithm to base 10.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def log1p(x: object, /) -> object:
    """log(1 + x), accurate near 0.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def log2(x: object, /) -> object:
    """Logarithm to base 2.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def logical_and(x: object, y: object, /) -> object:
    """x and y, as bools.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def logical_not(x: object, /) -> object:
    """True where x is zero.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def logical_or(x: object, y: object, /) -> object:
    """x or y, as bools.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def logical_right_shift(x: object, y: object, /) -> object:
    """Shift right that fills with zeros; 0 if y is the bit width or more. Integers only."""

def lt(x: object, y: object, /) -> object:
    """x < y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def matmul(arg1: object, arg2: object) -> object:
    """Product of matrices with the shape rules of torch.matmul: operands of rank 1 are a row and a column, dimensions before the last two are repeated where one has size 1. Both have the same dtype, which is the result's.
    """

@typing.overload
def max(arg: object, dtype: DataType = ...) -> object:
    """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def max(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def max(arg: object, dims: object, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Greatest of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

def maximum(x: object, y: object, /) -> object:
    """Larger of x and y; NaN if either is.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

@typing.overload
def min(arg: object, dtype: DataType = ...) -> object:
    """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def min(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def min(arg: object, dims: object, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Least of elements. NaN if one is. dtype must be left out. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

def minimum(x: object, y: object, /) -> object:
    """Smaller of x and y; NaN if either is.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def mod(x: object, y: object, /) -> object:
    """C remainder: x - y * trunc(x / y).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def mul(x: object, y: object, /) -> object:
    """x * y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def ne(x: object, y: object, /) -> object:
    """x != y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def neg(x: object, /) -> object:
    """Negation.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def nextafter(x: object, y: object, /) -> object:
    """Next float after x toward y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. The promoted dtype must be Float or Double.
    """

def normal(mean: object, std: object, shape: object, *, rng_seed: object = None, rng_offset: object = None, dtype: DataType = ...) -> object:
    """Normal numbers, from the device's generator or an explicit seed and offset (Philox 4x32-10).
    """

def nv_block_quantize(input: object, global_scale: object = None, swizzle_block_scales: bool = False, block_size: typing.SupportsInt | typing.SupportsIndex = 16, dtype: DataType = ...) -> tuple[object, object]:
    """(quantized, block_scales) of input (Float, Half or BFloat16, rank >= 1) with a scale for each block of the innermost dimension: Float4_e2m1fn with blocks of 16 and Float8_e4m3fn scales, or Float8_e4m3fn with blocks of 32 and Float8_e8m0fnu scales.
    """

def nv_grouped_block_quantize(input: object, input_offsets: object, output_offsets: object, global_scale: object = None, block_size: typing.SupportsInt | typing.SupportsIndex = 16, dtype: DataType = ...) -> tuple[object, object]:
    """nv_block_quantize of a matrix whose rows are in groups: the scales of each group are stored 128x4 swizzled and padded, from row output_offsets[group] on.
    """

def pad(arg: object, pad_widths: object, value: object = None) -> object:
    """Pads with `value` (default zero). Widths as torch: left and right of the last dimension first; negative widths crop.
    """

def permute(arg: object, dims: object) -> object:
    """Dimension i of the result is dimension dims[i] of arg."""

def pow(x: object, y: object, /) -> object:
    """x to the power y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def preprocess_grouped_matmul_input_sf(input: object, input_offsets: object, output_offsets: object) -> object:
    """Block scales [rows, columns] of a matrix whose rows are in groups, stored 128x4 swizzled and padded, each group from row output_offsets[group] on.
    """

@typing.overload
def prod(arg: object, dtype: DataType = ...) -> object:
    """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def prod(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def prod(arg: object, dims: object, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Product of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

def rand_like(x: object, /) -> object:
    """Uniform numbers in [0, 1) of the shape and floating dtype of x."""

def randn_like(x: object, /) -> object:
    """Standard normal numbers of the shape and floating dtype of x."""

def real(x: object, /) -> object:
    """Real part; a copy for real dtypes.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def reciprocal(x: object, /) -> object:
    """1 / x.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def relu(x: object, /) -> object:
    """max(x, 0).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def remainder(x: object, y: object, /) -> object:
    """Remainder with the sign of y (torch.remainder).

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

def reshape(arg: object, new_shape: object) -> object:
    """Row-major reshape; one entry may be -1."""

def round(x: object, /) -> object:
    """Nearest integer, ties to even.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def rsqrt(x: object, /) -> object:
    """1 / sqrt(x).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def scaled_mm(mat1: object, mat2: object, scale1: object, scale2: object, alpha: object = None, bias: object = None, beta: object = None, dtype: DataType = ..., output_block_scale_size: typing.SupportsInt | typing.SupportsIndex = 0, output_block_scale_dtype: DataType = ..., output_gamma: bool = False) -> tuple:
    """mat1 [M, K] x mat2 [K, N], each with its scales (one for the tensor, for rows and columns, or for blocks along K), as torch evaluates it; returns (out, None, None) with out of `dtype`. beta needs bias. Block-scaled output is not yet supported.
    """

def scatter(arg: object, index: object, src: object, dim: typing.SupportsInt | typing.SupportsIndex) -> object:
    """Copy of arg with out[index[i, j, ...], j, ...] = src[i, j, ...] for dim 0 (torch.scatter). src is a tensor or a scalar. Positions out of range are dropped; of equal ones the last wins.
    """

def sdpfa_bwd(grad_output: object, query: object, key: object, value: object, output: object, logsumexp: object, dropout_p: object, is_causal: object, philox_seed: object, philox_offset: object, scale: object) -> tuple[object, object, object]:
    """(grad_query, grad_key, grad_value) of sdpfa_fwd, of whose results output, logsumexp, philox_seed and philox_offset are given. None stands for the defaults of the scalars.
    """

def sdpfa_fwd(query: object, key: object, value: object, bias: object = None, mask: object = None, dropout_p: object = None, is_causal: object = None, scale: object = None) -> tuple[object, object, object, object]:
    """Scaled dot product attention: (output, logsumexp, philox_seed, philox_offset) of query [..., H, L, E], key and value [..., H, S, E]. bias is added to the scores, mask (Bool) keeps where it is true. dropout_p is 0.0, is_causal False, scale 1/sqrt(E) by default. Draws from the generator as torch does.
    """

def segment_set(x: object, /) -> object:
    """Copy that forces a kernel boundary."""

def select(arg: object, index: object, dim: typing.SupportsInt | typing.SupportsIndex) -> object:
    """Entry `index` of arg along dim, which the result lacks. The index is a scalar (negative: from the end) or a tensor of rank 0.
    """

def set(x: object, /) -> object:
    """Copy; may be elided."""

def shape(arg: object, /) -> list:
    """Sizes of all dimensions as scalars."""

def sigmoid(x: object, /) -> object:
    """1 / (1 + exp(-x)).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def sign(x: object, /) -> object:
    """-1, 0 or 1.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def signbit(x: object, /) -> object:
    """True where the sign bit is set, -0.0 included.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result is Bool.
    """

def silu(x: object, /) -> object:
    """x * sigmoid(x).

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def sin(x: object, /) -> object:
    """Sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def sinh(x: object, /) -> object:
    """Hyperbolic sine.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def size(arg: object, dim: typing.SupportsInt | typing.SupportsIndex) -> object:
    """Size of a dimension (the expanded one) as a scalar."""

def slice(arg: object, start_indices: object, end_indices: object, strides: object = None, manual_normalization: bool = False) -> object:
    """Elements [start, end) of each dimension; ends are clamped to the size unless manual_normalization.
    """

def sqrt(x: object, /) -> object:
    """Square root.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def squeeze(arg: object, dims: object, squeeze_expanded: bool = False) -> object:
    """Removes dimensions of size 1 (expanded ones only with the flag)."""

def stride_order(arg: object, stride_order: object) -> object:
    """Copy in another memory order: stride_order[i] is the rank of dimension i's stride, 0 the fastest.
    """

def sub(x: object, y: object, /) -> object:
    """x - y.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; 16-bit and smaller floats become Float.
    """

@typing.overload
def sum(arg: object, dtype: DataType = ...) -> object:
    """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over all dimensions: the result has rank 0.
    """
@typing.overload
def sum(arg: object, dim: typing.SupportsInt | typing.SupportsIndex, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over one dimension.
    """
@typing.overload
def sum(arg: object, dims: object, keepdim: bool = False, dtype: DataType = ...) -> object:
    """Sum of elements. arg is converted to dtype first; by default integers and bools become Int, other dtypes are kept. The reduced dimensions come back with size 1 if keepdim. Over several dimensions; RuntimeError if the list is empty.
    """

def take_along_axis(arg: object, index: object, dim: typing.SupportsInt | typing.SupportsIndex) -> object:
    """out[i, j, ...] = arg[index[i, j, ...], j, ...] for dim 0. Ranks are equal; sizes other than that of dim are equal or 1, which broadcasts. Floats as positions are truncated. Positions are integers in [0, size); outside of it nothing is read and the element is 0.
    """

def tan(x: object, /) -> object:
    """Tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def tanh(x: object, /) -> object:
    """Hyperbolic tangent.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def threshold(x: object, y: object, z: object, /) -> object:
    """z where x <= y, x elsewhere.

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def topk(arg: object, k: object, dim: typing.SupportsInt | typing.SupportsIndex = -1, largest: bool = True, sorted: bool = False) -> tuple[object, object]:
    """(values, indices) of the k largest (or smallest) elements along dim; k is an integer scalar, the indices are Int. In order if `sorted`. RuntimeError if k is negative or exceeds the size.
    """

def triu(arg: object, diagonal: typing.SupportsInt | typing.SupportsIndex = 0) -> object:
    """Zero below the given diagonal of the last two dimensions."""

def truediv(x: object, y: object, /) -> object:
    """x / y in floating point.

    Operands (x, y): tensors, scalars or Python numbers; shapes broadcast. Operands are promoted; integers, bools and 16-bit and smaller floats become Float.
    """

def trunc(x: object, /) -> object:
    """Rounds toward zero.

    Operands (x): tensors, scalars or Python numbers; shapes broadcast. The result has the dtype of the operand.
    """

def uniform(minval: object, maxval: object, shape: object, *, rng_seed: object = None, rng_offset: object = None, dtype: DataType = ...) -> object:
    """Uniform numbers in [minval, maxval), from the device's generator or an explicit seed and offset (Philox 4x32-10).
    """

def var(arg: object, dims: object, correction: typing.SupportsFloat | typing.SupportsIndex = 1, keepdim: bool = False) -> object:
    """Variance over dims, in two passes; Float for integers and 16-bit floats, real for complex numbers. Divided by max(n - correction, 0). The reduced dimensions come back with size 1 if keepdim.
    """

def var_mean(arg: object, dims: object, correction: typing.SupportsFloat | typing.SupportsIndex = 1, keepdim: bool = False) -> tuple[object, object]:
    """(variance, mean) over dims, by Welford's algorithm. RuntimeError for 16-bit and smaller floats, which are to be cast first. Divided by max(n - correction, 0). The reduced dimensions come back with size 1 if keepdim.
    """

def welford(arg: object, dims: object) -> tuple[object, object, object]:
    """(mean, sum of squared deviations from it, number of elements) over dims; the number has dtype Index.
    """

def where(x: object, y: object, z: object, /) -> object:
    """y where x is true, z elsewhere.

    Operands (x, y, z): tensors, scalars or Python numbers; shapes broadcast. The condition must be Bool; the result has the promoted dtype of the other two.
    """
