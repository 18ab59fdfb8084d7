# SPDX-License-Identifier: BSD-3-Clause
"""What is accepted for the sake of the contract and changes nothing says so, once and by name."""

from __future__ import annotations

from processes import run_script

_PRELUDE = """
import warnings
import torch
from nvfuse_direct import (
    CommunicatorBackend, CompileParams, DataType, FusionDefinition, KernelExecutor, idm, multidevice
)

def defined():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.neg(x))
    return fd

fd = defined()
x = torch.ones(8)
warnings.simplefilter("always")
"""


def warnings_of(script: str, **environment: str) -> list[str]:
    """The messages of all UserWarnings of a process of its own."""
    body = "with warnings.catch_warnings(record=True) as caught:\n" + "\n".join(
        "    " + line for line in script.strip().splitlines()
    )
    report = "\nfor w in caught:\n    assert w.category is UserWarning\n    print(w.message)\n"
    done = run_script(_PRELUDE + body + report, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_options_of_calls_warn_once_and_by_name() -> None:
    options = '_enable_options=["fuse_matmul"], _disable_options=["magic_zero", "fma"]'
    assert warnings_of(f"fd.execute([x], {options})\nfd.execute([x], {options})") == [
        "The enable_option fuse_matmul changes nothing: products are evaluated by torch",
        "The disable_option magic_zero changes nothing: kernels have no magic zeros",
    ]


def test_options_of_the_environment_warn() -> None:
    said = warnings_of(
        "fd.execute([x])\nfd.execute([x])",
        NVFUSER_ENABLE="p2p_transport(Tma),static_fusion_count",
        NVFUSER_DISABLE="nvtx",
        NVFUSER_DUMP="sync_map",
    )
    assert said == [
        "The enable_option p2p_transport changes nothing: several devices are not supported yet",
        "The disable_option nvtx changes nothing: there are no NVTX ranges",
        "The dump_option sync_map changes nothing: lower prints the kernel after each pass that "
        "changed it",
    ]


def test_no_warning_of_options_that_change_something() -> None:
    script = 'fd.execute([x], _enable_options=["fast_math"], _disable_options=["fma"])'
    assert warnings_of(script, NVFUSER_ENABLE="kernel_debug", NVFUSER_DISABLE="nvrtc_caching") == []


def test_ignored_options_of_a_call_find_its_plan() -> None:
    script = """
fd.execute([x])
plans = fd.fec._num_plans
fd.execute([x], _enable_options=["fuse_matmul"], _disable_options=["index_hoist"])
assert fd.fec._num_plans == plans
fd.execute([x], _disable_options=["fma"])
assert fd.fec._num_plans == plans + 1
"""
    assert len(warnings_of(script)) == 2


def test_a_filter_makes_an_error_of_the_warning() -> None:
    script = """
warnings.simplefilter("error")
try:
    fd.execute([x], _enable_options=["kernel_db"])
except UserWarning as warning:
    print(warning)
"""
    assert warnings_of(script) == [
        "The enable_option kernel_db changes nothing: compiled kernels are always kept on disk, "
        "unless NVFUSER_DISABLE=nvrtc_caching"
    ]


def test_compile_parameters() -> None:
    said = warnings_of(
        """
with_it = CompileParams()
without = CompileParams(enable_magic_zero=False)
assert not without.enable_magic_zero
with_it.enable_magic_zero = False
executor = KernelExecutor()
executor.compile(fd.fusion, [x], compile_params=CompileParams(maxrregcount=64))
executor.run([x])
executor.run([x], compile_params=CompileParams(maxrregcount=64))
executor.run([x], compile_params=CompileParams(maxrregcount=32))
"""
    )
    assert said == [
        "CompileParams.enable_magic_zero changes nothing: kernels have no magic zeros",
        "KernelExecutor.run(compile_params=) changes nothing: the kernel was compiled with those "
        "of compile()",
    ]


def test_arguments_of_the_id_model() -> None:
    said = warnings_of(
        """
idm.IdModel(fd.fusion, build_graphs=True)
idm.IdModel(fd.fusion, allow_self_mapping=False, validate=True)
"""
    )
    assert [message.split(" changes nothing")[0] for message in said] == [
        "IdModel(allow_self_mapping=False)",
        "IdModel(validate=True)",
    ]


def test_parameters_of_several_devices() -> None:
    said = warnings_of(
        """
params = multidevice.MultiDeviceExecutorParams()
params.number_of_streams = 4
params.number_of_streams = 8
params.backend_type = CommunicatorBackend.cuda
assert params.number_of_streams == 8
"""
    )
    assert [message.split(" changes nothing")[0] for message in said] == [
        "MultiDeviceExecutorParams.number_of_streams",
        "MultiDeviceExecutorParams.backend_type",
    ]
