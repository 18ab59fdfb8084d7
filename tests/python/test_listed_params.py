# SPDX-License-Identifier: BSD-3-Clause
"""Parameters that are lists of fields."""

from __future__ import annotations

import pytest
from nvfuse_direct import (
    CircularBufferOptions,
    ClusterDims,
    GemmTile,
    MatmulCircularBufferingStrategy,
    MatmulParams,
    MatMulTileOptions,
    MatmulTileRasterizationOrder,
    MatmulTilingStrategy,
    MmaMacroArch,
    MmaMacroEncode,
    ParallelType,
    ReductionParams,
    SchedulerType,
    SupportedVectorization,
)


def test_matmul_params_have_the_defaults_of_the_contract() -> None:
    p = MatmulParams()
    assert p.scheduler_type == SchedulerType.matmul
    assert p.tile_sizes == MatMulTileOptions(GemmTile(128, 128, 32), GemmTile(64, 64, 32))
    assert p.circular_buffer_options == CircularBufferOptions(False, False, 2, 1)
    assert p.circular_buffer_options.smem_circular_buffer_stage == 2
    assert p.grid_traversal_factor == (1, 1)
    assert p.use_ldst_matrix and not p.use_smem_epilogue
    assert p.splitk_factor == 1
    assert p.tiling_strategy == MatmulTilingStrategy.one_tile_per_cta
    assert p.circular_buffering_strategy == MatmulCircularBufferingStrategy.pipelined
    assert p.cta_order == MatmulTileRasterizationOrder.row_major
    assert p.cluster_dims == ClusterDims(1, 1)
    assert p.mma_macro.arch == MmaMacroArch.no_mma


def test_matmul_params_compare_hash_and_print_by_field() -> None:
    a, b = MatmulParams(), MatmulParams()
    assert a == b and a.hash() == b.hash()
    changes = {
        "tile_sizes": MatMulTileOptions(GemmTile(64, 128, 32), GemmTile(64, 64, 32)),
        "supported_vec_size": SupportedVectorization(8, 8, 4),
        "grid_traversal_factor": (2, 1),
        "use_smem_epilogue": True,
        "splitk_factor": 4,
        "cluster_dims": ClusterDims(2, 1),
        "mma_macro": MmaMacroEncode(MmaMacroArch.hopper, 64, 256, 16).mma_macro(),
        "cta_order": MatmulTileRasterizationOrder.column_major,
    }
    for field, value in changes.items():
        changed = MatmulParams()
        setattr(changed, field, value)
        assert getattr(changed, field) == value
        assert changed != a and changed.hash() != a.hash() and repr(changed) != repr(a)
    text = repr(a)
    assert "tile_sizes: (cta_tile: (m: 128, n: 128, k: 32), warp_tile: (m: 64, n: 64" in text
    assert repr(GemmTile(1, 2, 3)) == "GemmTile(m: 1, n: 2, k: 3)"
    with pytest.raises(TypeError):
        hash(GemmTile(1, 2, 3))


def test_macros_are_the_instructions_that_exist() -> None:
    arch = MmaMacroArch
    macro = MmaMacroEncode(arch.hopper, 64, 128, 16).mma_macro()
    assert (macro.arch, macro.m, macro.n, macro.k) == (arch.hopper, 64, 128, 16)
    assert macro == MmaMacroEncode(arch.hopper, 64, 128, 16).mma_macro()
    for good in (
        (arch.turing, 16, 8, 8),
        (arch.ampere, 16, 16, 16),
        (arch.hopper, 64, 8, 16),
        (arch.blackwell_1cta, 128, 256, 16),
        (arch.blackwell_2cta, 256, 32, 16),
    ):
        MmaMacroEncode(*good).mma_macro()
    for bad in (
        (arch.ampere, 16, 8, 8),
        (arch.hopper, 64, 264, 16),
        (arch.hopper, 64, 12, 16),
        (arch.blackwell_1cta, 128, 8, 16),
        (arch.blackwell_2cta, 64, 32, 16),
        (arch.volta, 16, 16, 16),
    ):
        with pytest.raises(RuntimeError, match="no tensor core instruction"):
            MmaMacroEncode(*bad).mma_macro()


def test_what_no_reduction_schedule_reads_follows_or_is_refused() -> None:
    p = ReductionParams()
    assert not p.cross_block_inner_reduction and p.block_dim_inner_reduction == ParallelType.serial
    p.fastest_dim = True
    p.lparams.bdimx = 128
    p.unroll_factor_inner_reduction = 4
    assert p.cross_block_inner_reduction and p.block_dim_inner_reduction == ParallelType.block_x
    assert p.vectorize_inner_reduction and not p.vectorize_iter_dom
    p.vectorize_inner_reduction = True
    for name, value in (
        ("vectorize_inner_reduction", False),
        ("schedule_3d", True),
        ("vectorization_factor_outer", 4),
        ("block_dim_inner_reduction_extra", ParallelType.block_z),
    ):
        with pytest.raises(RuntimeError, match=f"ReductionParams.{name} is read by no schedule"):
            setattr(p, name, value)
    assert "schedule_3d" not in repr(p)


def test_rows_of_a_thread_of_persistent_columns() -> None:
    p = ReductionParams()
    assert p.batches_per_block_outer_reduction == 1
    p.persistent_kernel = True
    p.reduced_extents = [10, 100]
    p.lparams.bdimy = 16
    p.cluster_size = 4
    assert p.batches_per_block_outer_reduction == 16
