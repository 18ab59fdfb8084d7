# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other libraries: how they are seen (borrow) and made (new_array, new_view, wrap)."""

import gc
import sys

import numpy as np
import pytest
import torch
from nvfuse_direct import _C_DIRECT

interop = _C_DIRECT._interop

DTYPES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Float8_e4m3fn": torch.float8_e4m3fn,
    "Float8_e5m2": torch.float8_e5m2,
    "Int": torch.int64,
    "Int32": torch.int32,
    "Int16": torch.int16,
    "Int8": torch.int8,
    "UInt8": torch.uint8,
    "Bool": torch.bool,
    "ComplexFloat": torch.complex64,
    "ComplexDouble": torch.complex128,
}
for _name, _attribute in {
    "UInt64": "uint64",
    "UInt32": "uint32",
    "UInt16": "uint16",
    "Float8_e8m0fnu": "float8_e8m0fnu",
    "Float4_e2m1fn_x2": "float4_e2m1fn_x2",
}.items():
    if hasattr(torch, _attribute):
        DTYPES[_name] = getattr(torch, _attribute)


@pytest.fixture(params=["exchange table", "attributes"], autouse=True)
def way_to_torch(request):
    """Every test runs with both ways of reading torch tensors."""
    interop.set_for_testing(request.param == "exchange table", True)
    yield
    interop.set_for_testing(True, True)


@pytest.fixture
def without_torch():
    interop.set_for_testing(True, False)
    yield
    interop.set_for_testing(True, True)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_seen_and_made(name):
    tensor = torch.empty(4, 6, dtype=DTYPES[name])
    seen = interop.describe(tensor)
    assert seen["dtype"] == name
    assert seen["data"] == tensor.data_ptr()
    assert (seen["sizes"], seen["strides"]) == ([4, 6], [6, 1])
    assert seen["device"] == "cpu"
    made, address = interop.new_array([4, 6], [6, 1], name, -1)
    assert type(made) is torch.Tensor
    assert made.dtype == DTYPES[name]
    assert made.data_ptr() == address
    assert made.shape == (4, 6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(3, 4)[1:, 1:],
        lambda: torch.ones(1, 4).expand(3, 4),
        lambda: torch.ones(3, 4).t(),
        lambda: torch.tensor(3.0),
        lambda: torch.empty(0, 4),
        lambda: torch.empty_strided((1, 3), (7, 1)),
        lambda: torch.ones([2] * 12),
        lambda: torch.ones(2, 3, requires_grad=True),
        lambda: torch.nn.Parameter(torch.ones(2, 3)),
    ],
)
def test_layouts(make):
    tensor = make()
    seen = interop.describe(tensor)
    assert seen["sizes"] == list(tensor.shape)
    assert seen["strides"] == list(tensor.stride())
    assert seen["data"] == tensor.data_ptr()
    assert not seen["is_copy"]


def test_lazy_views_are_resolved():
    z = torch.tensor([1 + 2j, 3 - 4j])
    for lazy in (z.conj(), z.conj().imag, z.conj().imag[1], z.conj().imag[:1], z.imag.conj()):
        seen = interop.describe(lazy)
        assert seen["is_copy"] == (lazy.is_conj() or lazy.is_neg())
        assert torch.equal(interop.copy_through_tensor(lazy), lazy.resolve_conj().resolve_neg())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(4, device="meta"),
        lambda: torch.eye(3).to_sparse(),
    ],
)
def test_tensors_without_usable_memory_are_refused(make):
    with pytest.raises(RuntimeError) as error:
        interop.describe(make())
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore")
def test_fake_tensors_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with pytest.raises(RuntimeError):
        interop.describe(FakeTensorMode().from_tensor(torch.ones(3)))


@pytest.mark.parametrize("value", [1, 2.0, True, 1j, "text", None, [1.0]])
def test_numbers_are_no_arrays(value):
    assert interop.describe(value) is None


def test_numpy_arrays_are_seen():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in (array, array.T, array[1:, ::2], array[:0], np.array(2.0)):
        seen = interop.describe(view)
        assert seen["data"] == view.__array_interface__["data"][0]
        assert seen["sizes"] == list(view.shape)
        if view.size > 1:
            assert seen["strides"] == [s // view.itemsize for s in view.strides]
        assert seen["dtype"] == ("Float" if view.dtype == np.float32 else "Double")
    array.flags.writeable = False
    assert interop.describe(array)["read_only"]
    with pytest.raises(RuntimeError):
        interop.describe(np.array(["a"]))
    with pytest.raises(RuntimeError):
        interop.describe(array.astype(">f4"))


def test_array_interface_alone_is_enough():
    class Other:
        def __init__(self, array):
            self.array = array

        @property
        def __array_interface__(self):
            return self.array.__array_interface__

    array = np.arange(6, dtype=np.int16).reshape(2, 3).T
    seen = interop.describe(Other(array))
    assert (seen["sizes"], seen["strides"], seen["dtype"]) == ([3, 2], [1, 3], "Int16")


def test_old_dlpack_producers():
    class Old:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    for _ in range(3):
        seen = interop.describe(Old(array))
    assert (seen["sizes"], seen["strides"], seen["dtype"]) == ([2, 3], [3, 1], "Int")
    gc.collect()
    assert sys.getrefcount(array) == 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["__dlpack__", "__dlpack_device__", "the type"])
def test_interrupts_pass_through(kind, where):
    """An error of an array's own code is told as ours; an interrupt is not about the array."""

    class Meta(type):
        def __getattr__(cls, name):
            raise kind if where == "the type" else AttributeError(name)

    class Interrupted(metaclass=Meta):
        def __dlpack_device__(self):
            if where == "__dlpack_device__":
                raise kind
            return (1, 0)

        def __dlpack__(self, **_options):
            raise kind

    with pytest.raises(kind):
        interop.describe(Interrupted())


def test_new_arrays_have_the_layout_asked_for():
    made, _ = interop.new_array([2, 3, 4], [1, 8, 2], "BFloat16", -1)
    assert made.stride() == (1, 8, 2)
    assert not made.requires_grad
    made.fill_(1)
    made.untyped_storage().resize_(0)  # an ordinary tensor of torch
    empty, _ = interop.new_array([0, 3], [3, 1], "Float", -1)
    assert empty.shape == (0, 3)
    scalar, _ = interop.new_array([], [], "Int", -1)
    assert scalar.shape == ()


def test_views_of_inputs():
    base = torch.arange(24.0).reshape(4, 6)
    view = interop.new_view(base[1:], [3, 2], [6, 3], 1)
    assert torch.equal(view, base[1:, 1::3])
    view[0, 0] = -1
    assert base[1, 1] == -1
    leaf = torch.ones(4, requires_grad=True)
    assert not interop.new_view(leaf, [2], [2], 0).requires_grad
    array = np.arange(6.0)
    view = interop.new_view(array, [3], [2], 1)
    assert isinstance(view, torch.Tensor)
    view[0] = 7
    assert array[1] == 7


def test_tensors_travel_there_and_back():
    tensor = torch.randn(3, 4).t()
    copy = interop.copy_through_tensor(tensor)
    assert torch.equal(copy, tensor)
    assert copy.data_ptr() != tensor.data_ptr()
    shared = interop.share_through_tensor(tensor)
    assert shared.data_ptr() == tensor.data_ptr()
    assert shared.stride() == tensor.stride()
    expected = tensor.clone()
    del tensor
    gc.collect()
    assert torch.equal(shared, expected)


def test_numpy_alone(without_torch):
    made, address = interop.new_array([2, 3], [1, 2], "Float", -1)
    assert type(made) is np.ndarray
    assert made.strides == (4, 8)
    assert made.__array_interface__["data"][0] == address
    made[...] = 3
    array = np.arange(6.0, dtype=np.complex128)
    assert np.array_equal(interop.copy_through_tensor(array), array)
    view = interop.new_view(array, [2], [3], 1)
    assert np.array_equal(view, array[1::3])
    view[0] = 5
    assert array[1] == 5
    flags = np.array([True, False])
    assert interop.copy_through_tensor(flags).dtype == np.bool_
    del made, view
    gc.collect()


def test_outputs_of_a_call():
    a = torch.arange(6.0).reshape(3, 2)
    same, new, view, again = interop.outputs(a)
    assert same is a
    assert again is new
    assert new.shape == a.shape
    assert torch.equal(view, a[1:])
    assert view.data_ptr() == a[1:].data_ptr()


def test_random_state_follows_manual_seed():
    torch.manual_seed(5)
    assert [interop.advance_rng(-1, 4) for _ in range(3)] == [(5, 0), (5, 4), (5, 8)]
    assert interop.advance_rng(-1, 8) == (5, 12)
    assert interop.advance_rng(-1, 4) == (5, 20)
    # Reproducible whatever else draws numbers in between, also after many of them.
    torch.manual_seed(7)
    torch.rand(2000)
    saved = torch.get_rng_state()
    states = [interop.advance_rng(-1, 4) for _ in range(700)]
    assert len(set(states)) == 700
    assert all(offset % 4 == 0 and offset < 2**63 for _, offset in states)
    torch.set_rng_state(saved)
    assert [interop.advance_rng(-1, 4) for _ in range(700)] == states
    torch.manual_seed(-1)
    assert interop.advance_rng(-1, 4) == (2**64 - 1, 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_random_state_of_cuda():
    torch.cuda.manual_seed(5)
    assert [interop.advance_rng(0, 4) for _ in range(3)] == [(5, 0), (5, 4), (5, 8)]
    torch.rand(10, device="cuda")
    assert interop.advance_rng(0, 4)[1] > 12


def test_no_leaks():
    a = torch.randn(64)
    before = sys.getrefcount(a)
    for _ in range(100):
        interop.describe(a)
        interop.describe(a.conj())
        interop.share_through_tensor(a)
        interop.new_view(a, [2], [1], 0)
    gc.collect()
    assert sys.getrefcount(a) == before


def test_a_call_is_cheap():
    a = torch.randn(64, 64)
    interop.time_call(a, a, 100)
    # Short batches: some of them run undisturbed beside other processes too.
    best = min(interop.time_call(a, a, 100) for _ in range(200))
    print(f"borrow two, make one: {best * 1e6:.2f} us")
    assert best < 20e-6  # 3 on a quiet machine
