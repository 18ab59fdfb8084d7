// SPDX-License-Identifier: BSD-3-Clause
// The Python text of definitions.
#include <ops_for_test.h>

#include <definition/translate.h>
#include <ir/tensor_builder.h>

#include <limits>

namespace nvfuser {
namespace {

using testing_utils::OpsTest;
using Ints = std::vector<int64_t>;
using Vals = std::vector<Val*>;
using Tvs = std::vector<TensorView*>;

class TranslateTest : public OpsTest {};

TEST_F(TranslateTest, Pointwise) {
  auto* a = defineTensor({-1, -1}, {true, true});
  auto* b = defineTensor({2, 1}, {std::nullopt, true}, DataType::Half, false, {0, 1});
  fusion_.addInput(a);
  fusion_.addInput(b);
  Val* s = scalarInput(DataType::Double);
  auto* sum = add(a, b);
  auto* out = mul(mul(sum, s), constant(3.0));
  fusion_.addOutput(out);
  fusion_.addOutput(out, a);
  EXPECT_EQ(translateFusion(&fusion_),
            R"(def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.define_tensor(shape=[2, 1], contiguity=[None, True], dtype=DataType.Half, is_cpu=False, stride_order=[0, 1])
    c0 = fd.define_scalar(None, dtype=DataType.Double)
    tv2 = fd.ops.cast(tv1, dtype=DataType.Float)
    tv3 = fd.ops.add(tv0, tv2)
    tv4 = fd.ops.mul(tv3, c0)
    tv5 = fd.ops.mul(tv4, 3.00000)
    fd.add_output(tv5, tv0)
    fd.add_output(tv5)
)");
}

TEST_F(TranslateTest, ShapeOps) {
  auto* a = defineTensor({-1, 1, 4}, {true, std::nullopt, true});
  fusion_.addInput(a);
  auto* p = permute(a, {2, 0, 1});
  auto* q = squeeze(p, Ints{2});
  auto* r = pad(slice(q, Ints{0, 1}, Ints{2, 3}), Ints{1, 1});
  auto* e = expand(broadcast(q, {true, false, false}), shapeVals({5, -1, -1}));
  fusion_.addOutput(stride_order(r, {0, 1}));
  fusion_.addOutput(reshape(e, Ints{20, -1}));
  EXPECT_EQ(translateFusion(&fusion_),
            R"(def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, 1, 4], contiguity=[True, None, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.ops.permute(tv0, dims=[2, 0, 1])
    tv2 = fd.ops.squeeze(tv1, dims=[2])
    c0 = fd.ops.size(tv0, dim=0)
    c1 = fd.ops.minimum(1, c0)
    c2 = fd.ops.maximum(3, c1)
    c3 = fd.ops.minimum(c2, c0)
    tv3 = fd.ops.slice(tv2, start_indices=[0, c1], end_indices=[2, c3], strides=[1, 1], manual_normalization=True)
    tv4 = fd.ops.pad(tv3, pad_widths=[1, 1, 0, 0], value=0.00000)
    tv7 = fd.ops.stride_order(tv4, stride_order=[0, 1])
    tv5 = fd.ops.broadcast(tv2, is_broadcast_dim=[True, False, False])
    tv6 = fd.ops.expand(tv5, shape=[5, -1, -1])
    tv8 = fd.ops.reshape(tv6, new_shape=[20, c0])
    fd.add_output(tv7)
    fd.add_output(tv8)
)");
}

TEST_F(TranslateTest, Creation) {
  Val* n = scalarInput(DataType::Int);
  fusion_.addOutput(full(Vals{n, constant(int64_t{2})}, constant(int64_t{1}), DataType::Half));
  fusion_.addOutput(iota(n, constant(2.5), nullptr, DataType::Float));
  fusion_.addOutput(uniform({n}, constant(0.0), constant(1.0), DataType::Half));
  fusion_.addOutput(normal({n}, constant(0.0), constant(1.0), DataType::Float, n, n));
  EXPECT_EQ(translateFusion(&fusion_),
            R"(def nvfuser_fusion(fd : FusionDefinition) -> None :
    c0 = fd.define_scalar(None, dtype=DataType.Int)
    tv0 = fd.ops.full(shape=[c0, 2], fill_value=1.00000, dtype=DataType.Half)
    tv1 = fd.ops.iota(length=c0, start=2.50000, step=1.00000, dtype=DataType.Float)
    tv2 = fd.ops.uniform(0.00000, 1.00000, [c0], dtype=DataType.Half)
    tv3 = fd.ops.normal(0.00000, 1.00000, [c0], rng_seed=c0, rng_offset=c0)
    fd.add_output(tv0)
    fd.add_output(tv1)
    fd.add_output(tv2)
    fd.add_output(tv3)
)");
}

TEST_F(TranslateTest, Literals) {
  EXPECT_EQ(pythonLiteral(3.0), "3.00000");
  EXPECT_EQ(pythonLiteral(1e-5), "1.00000e-05");
  EXPECT_EQ(pythonLiteral(0.1234567890123), "0.123456789012300");
  EXPECT_EQ(std::stod(pythonLiteral(0.1 + 0.2)), 0.1 + 0.2);
  EXPECT_EQ(pythonLiteral(-std::numeric_limits<double>::infinity()), "float(\"-inf\")");
  EXPECT_EQ(pythonLiteral(std::complex<double>(2, -1)), "2.00000-1.00000j");
  EXPECT_EQ(pythonLiteral(true), "True");
  EXPECT_EQ(pythonLiteral(int64_t{7}), "7");
}

} // namespace
} // namespace nvfuser
