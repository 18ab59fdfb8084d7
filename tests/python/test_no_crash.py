# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: E501  (the attempts are whole programs, one statement a line)
"""No sequence of Python statements may crash the process: each attempt runs in its own process."""

from __future__ import annotations

import re
import textwrap

import pytest
from helpers import run_python

PRELUDE = """
import copy, gc, random, sys, threading, weakref
import torch
import nvfuse_direct
from nvfuse_direct import *
from nvfuse_direct import DataType, FusionDefinition, ParallelType, MemoryType
from helpers import DEVICE, tensor

def expect_error(call, *kinds):
    try:
        call()
    except (kinds or (RuntimeError, TypeError, ValueError, IndexError, AttributeError)) as error:
        text = str(error).lower()
        assert "internal" not in text and "assert" not in text, text
    else:
        raise SystemExit("nothing was raised")

def tolerate(call):
    try:
        return call()
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError,
            NotImplementedError, OverflowError, MemoryError, AssertionError) as error:
        text = str(error).lower()
        assert "internal" not in text, text

def build(ops=1):
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = x
        for _ in range(ops):
            y = fd.ops.neg(y)
        fd.add_output(y)
    return fd, x, y

def touch(tv):
    str(tv), repr(tv), tv == tv, hash(tv), tv.is_tensor(), tv.is_symbolic()
    definition = tv.definition()
    if definition is not None:
        str(definition), str(definition.input(0)), str(definition.output(0))
    for use in tv.uses():
        str(use)
    if tv.is_tensor():
        tv.ndim, tv.dtype(), str(tv.domain())
        for axis in (*tv.get_logical_domain(), *tv.get_loop_domain()):
            str(axis), str(axis.extent()), axis.is_reduction()
"""

ATTEMPTS: dict[str, str] = {
    "handles_outlive_the_definition": """
        fd, x, y = build()
        del fd
        gc.collect()
        for _ in range(100):
            build()
        touch(x), touch(y)
    """,
    "handles_after_execute": """
        fd, x, y = build()
        fd.execute([tensor(4)])
        touch(x), touch(y)
        del fd
        gc.collect()
        touch(x), touch(y)
    """,
    "handles_after_reentering": """
        fd, x, y = build()
        with fd:
            a = fd.define_tensor([-1], True)
            expect_error(lambda: fd.ops.add(a, x))
            expect_error(lambda: fd.add_output(y))
            fd.add_output(fd.ops.abs(a))
        touch(x), touch(y), touch(a)
        fd.execute([tensor(4)])
        touch(x), touch(y), touch(a)
    """,
    "fusion_deleted_by_hand": """
        fd, x, y = build()
        fusion = fd.fusion
        del fd._fusion
        gc.collect()
        touch(x)
        fusion.print_math()
        del fusion
        gc.collect()
        touch(y)
    """,
    "iter_domains_outlive_everything": """
        fd, x, y = build()
        axes = [*x.get_logical_domain(), *y.get_loop_domain()]
        extents = [axis.extent() for axis in axes]
        expressions = [y.definition(), *x.uses()]
        domain = x.domain()
        del fd, x, y
        gc.collect()
        [build() for _ in range(50)]
        for each in (*axes, *extents, *expressions):
            str(each), each == each
        str(domain)
    """,
    "collection_in_every_order": """
        for order in range(60):
            fd, x, y = build(3)
            fd.execute([tensor(5)])
            parts = {"fd": fd, "x": x, "y": y, "fec": fd.fec, "fusion": fd.fusion, "d": y.definition()}
            del fd, x, y
            names = list(parts)
            random.Random(order).shuffle(names)
            while names:
                del parts[names.pop()]
                gc.collect(0)
                for part in parts.values():
                    str(part)
    """,
    "cycles_through_the_collector": """
        class Node: pass
        for _ in range(50):
            fd, x, y = build()
            node = Node()
            node.fd, node.x, fd.node, fd.y = fd, x, node, y
            del fd, x, y, node
        gc.collect()
    """,
    "other_fusions_handles_in_every_op": """
        fd, x, y = build()
        with FusionDefinition() as other:
            a = other.define_tensor([-1], True)
            s = other.define_scalar(DataType.Double)
        with FusionDefinition() as third:
            b = third.define_tensor([-1], True)
            for call in (
                lambda: third.ops.neg(a), lambda: third.ops.add(a, b), lambda: third.ops.add(b, a),
                lambda: third.ops.mul(b, s), lambda: third.ops.where(a, b, b),
                lambda: third.ops.cat([b, a], 0), lambda: third.ops.reshape(a, [1]),
                lambda: third.ops.permute(a, [0]), lambda: third.ops.slice(a, [0], [1]),
                lambda: third.ops.pad(b, [1, s]), lambda: third.ops.full([2], s, DataType.Float),
                lambda: third.ops.full([a.size(0)], 1.0, DataType.Float),
                lambda: third.ops.cast(a, DataType.Half), lambda: third.ops.uniform(0.0, s, [3]),
                lambda: third.add_output(a), lambda: third.add_output(third.ops.neg(b), a),
            ):
                tolerate(call)
            third.add_output(third.ops.neg(b))
        third.execute([tensor(4)])
        tolerate(lambda: third.sched.transform_like(a))
        tolerate(lambda: third.sched.inline_at(x, 1))
        touch(a), touch(b), touch(x)
    """,
    "every_op_without_a_definition": """
        fd, x, y = build()
        names = [name for name in dir(fd.ops) if not name.startswith("_")]
        assert len(names) > 80
        for name in names:
            function = getattr(fd.ops, name)
            for arguments in ((), (x,), (x, y), (x, 1), (1,), (1, 2), (x, y, x), (x, [0]), ([1], 1.0, DataType.Float),
                              (x, [0], [1]), ([x, y], 0), (None,), ("a",), (x, x, x, x), (10**30,), (x, [10**30])):
                tolerate(lambda: function(*arguments))
        touch(x)
    """,
    "every_op_with_wrong_arguments": """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], True)
            i = fd.define_tensor([-1], True, DataType.Int)
            z = fd.define_tensor([], [], DataType.Float)
            s = fd.define_scalar(DataType.Int)
            names = [name for name in dir(fd.ops) if not name.startswith("_")]
            values = [x, i, z, s, None, 0, -1, 10**18, 10**30, 1.5, float("nan"), float("inf"), True, 1j, "a", [], [0],
                      [0, 0], [-1], [5, 5], (1, 2), [x, i], [s], [True, False], DataType.Float, DataType.Null, object()]
            pick = random.Random(0)
            for name in names:
                function = getattr(fd.ops, name)
                for _ in range(40):
                    arguments = [pick.choice(values) for _ in range(pick.randrange(5))]
                    tolerate(lambda: function(*arguments))
            fd.add_output(fd.ops.neg(x))
        for each in fd.fusion.vals():
            str(each)
        tolerate(lambda: repr(fd))
        tolerate(lambda: fd.fusion.print_math())
    """,
    "every_method_of_a_handle_with_wrong_arguments": """
        values = [None, 0, -1, 1, 3, 10**18, 10**30, 1.5, True, "a", [], [0], {0: 1}, {0: 9}, ParallelType.block_x,
                  ParallelType.vectorize, MemoryType.shared, object()]
        for seed in range(30):
            pick = random.Random(seed)
            with FusionDefinition() as fd:
                x = fd.define_tensor([-1, 8], True)
                y = fd.ops.neg(x)
                z = fd.ops.sum(y, 1) if hasattr(fd.ops, "sum") and seed % 2 else fd.ops.abs(y)
                fd.add_output(z)
                for _ in range(40):
                    tv = pick.choice([x, y, z])
                    name = pick.choice([each for each in dir(tv) if not each.startswith("__")])
                    member = getattr(tv, name)
                    if callable(member):
                        chosen = [pick.choice([*values, x, y, z]) for _ in range(pick.randrange(4))]
                        tolerate(lambda: member(*chosen))
                for name in dir(fd.sched):
                    function = getattr(fd.sched, name)
                    if not name.startswith("_") and callable(function) and not isinstance(function, type):
                        chosen = [pick.choice([*values, x, y, z, fd.fusion]) for _ in range(pick.randrange(4))]
                        tolerate(lambda: function(*chosen))
                touch(x), touch(y), touch(z)
            tolerate(lambda: fd.manual_execute([tensor(4, 8)]))
    """,
    "wrong_inputs_to_execute": """
        fd, x, y = build()
        good = tensor(4)
        for bad in (None, 5, "x", [None], [[]], [[[good]]], [good, good], [object()], [float("nan")], [10**30],
                    {"a": 1}, [x], [fd], [good.to_sparse() if DEVICE.type == "cpu" else 1],
                    [torch.empty(4, device="meta")], [good.double()], [good.reshape(2, 2)], [torch.tensor("a") if 0 else ()]):
            tolerate(lambda: fd.execute(bad))
        assert torch.equal(fd.execute([good])[0], -good)
        for bad in ("cuda:99", -1, 256, 10**9, "bogus", object()):
            tolerate(lambda: fd.execute([good], device=bad))
        assert torch.equal(fd.execute([good])[0], -good)
    """,
    "a_very_deep_chain": """
        fd, x, y = build(10_000)
        assert str(y).startswith("T10000")
        text = repr(fd)
        assert text.count("fd.ops.neg") == 10_000
        other, *_ = build(10_000)
        assert fd.fusion == other.fusion
        fd.fusion.print_math()
        touch(y)
        del fd, x, y, other
        gc.collect()
    """,
    "a_deep_chain_runs": """
        fd, x, y = build(1_000)
        a = tensor(4)
        (out,) = fd.execute([a])
        assert torch.equal(out, a)
    """,
    "a_deep_scalar_expression": """
        with FusionDefinition() as fd:
            s = fd.define_scalar(DataType.Double)
            t = s
            for _ in range(5_000):
                t = fd.ops.add(t, 1.0)
            fd.add_output(fd.ops.full([2], t, DataType.Double))
        str(t)
        out = tolerate(lambda: fd.execute([0.5], device=DEVICE))
        assert out is None or out[0][0] == 5000.5
    """,
    "huge_ranks": """
        for rank in (12, 30, 64, 200):
            with FusionDefinition() as fd:
                x = fd.define_tensor([1] * (rank - 1) + [-1], True)
                fd.add_output(fd.ops.neg(x))
            if rank <= 64:
                a = tensor(*([1] * (rank - 1)), 3)
                out = tolerate(lambda: fd.execute([a]))
                assert out is None or torch.equal(out[0], -a)
            repr(fd)
    """,
    "huge_numbers": """
        big = 2**62
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1], True)
            tolerate(lambda: fd.ops.expand(fd.ops.broadcast(x, [True, False]), [big, -1]))
            tolerate(lambda: fd.ops.pad(x, [big, big]))
            tolerate(lambda: fd.ops.full([big, big], 1.0, DataType.Float))
            tolerate(lambda: fd.ops.slice(x, [0], [big]))
            tolerate(lambda: fd.ops.reshape(x, [big, big]))
            tolerate(lambda: fd.ops.iota(big, big, big))
            tolerate(lambda: fd.define_tensor([big, big, big], True))
            tolerate(lambda: x.split(0, big))
            fd.add_output(fd.ops.neg(x))
        for shape in ([big], [2**40, 2**40]):
            with FusionDefinition() as fd:
                fd.add_output(fd.ops.full(shape, 1.0, DataType.Float))
            expect_error(lambda: fd.execute([], device=DEVICE), RuntimeError, MemoryError, OverflowError,
                         torch.OutOfMemoryError)
    """,
    "integer_division_by_zero_and_overflow": """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1], True, DataType.Int)
            y = fd.define_tensor([-1], True, DataType.Int)
            p, q = (fd.define_tensor([-1], True, DataType.Int32) for _ in range(2))
            s = fd.define_scalar(DataType.Int)
            for a, b in ((x, y), (p, q), (x, s)):
                for name in ("div", "mod", "fmod", "remainder", "gcd", "pow", "bitwise_left_shift", "bitwise_right_shift",
                             "logical_right_shift", "truediv"):
                    fd.add_output(getattr(fd.ops, name)(a, b))
        low, low32 = -2**63, -2**31
        a = torch.tensor([low, low, 1, 0, 5], device=DEVICE)
        b = torch.tensor([-1, 0, 0, 0, 100], device=DEVICE)
        fd.execute([a, b, torch.tensor([low32] * 5, device=DEVICE).int(), b.int(), 0])
        fd.execute([a, b, torch.tensor([low32] * 5, device=DEVICE).int(), b.int(), -1])
    """,
    "scalar_division_by_zero": """
        for name in ("div", "mod", "fmod", "remainder", "gcd", "pow", "bitwise_left_shift", "bitwise_right_shift",
                     "logical_right_shift"):
            for left, right in ((1, 0), (-2**63, -1), (0, 0), (1, 1000), (1, -5)):
                def constant():
                    with FusionDefinition() as fd:
                        fd.add_output(fd.ops.full([2], getattr(fd.ops, name)(left, right), DataType.Int))
                    fd.execute([], device=DEVICE)
                tolerate(constant)
                with FusionDefinition() as fd:
                    a, b = fd.define_scalar(DataType.Int), fd.define_scalar(DataType.Int)
                    fd.add_output(fd.ops.full([2], getattr(fd.ops, name)(a, b), DataType.Int))
                tolerate(lambda: fd.execute([left, right], device=DEVICE))
    """,
    "threads_define_and_run_at_once": """
        errors = []
        def work(number):
            try:
                for turn in range(6):
                    with FusionDefinition() as fd:
                        x = fd.define_tensor([-1], True)
                        fd.add_output(fd.ops.mul(fd.ops.abs(x), float(number % 3)))
                    a = tensor(17 + turn, seed=number)
                    assert torch.equal(fd.execute([a])[0], a.abs() * (number % 3))
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not errors, errors
    """,
    "threads_share_one_fusion": """
        with FusionDefinition() as fd:
            x, y = (fd.define_tensor([-1, -1], True) for _ in range(2))
            fd.add_output(fd.ops.sub(x, y))
        errors = []
        def work(number):
            try:
                for turn in range(10):
                    a, b = tensor(3 + turn % 4, 5 + number, seed=turn), tensor(3 + turn % 4, 5 + number, seed=number)
                    assert torch.equal(fd.execute([a, b])[0], a - b)
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not errors, errors
    """,
    "another_thread_uses_the_active_definition": """
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1], True)
            thread = threading.Thread(target=lambda: tolerate(lambda: fd.ops.neg(x)))
            thread.start(), thread.join()
            fd.add_output(fd.ops.abs(x))
        fd.execute([tensor(3)])
    """,
    "exit_without_enter_and_enter_without_exit": """
        fd = FusionDefinition()
        tolerate(lambda: fd.__exit__(None, None, None))
        fd.__enter__()
        x = fd.define_tensor([-1], True)
        fd.__enter__()
        y = fd.define_tensor([-1], True)
        tolerate(lambda: fd.ops.add(x, y))
        other = FusionDefinition().__enter__()
        other.define_tensor([-1], True)
        del fd
        gc.collect()
        touch(x), touch(y)
    """,
    "executor_cache_takes_the_fusion": """
        fd, x, y = build()
        fusion = fd.fusion
        cache = FusionExecutorCache(fusion)
        a = tensor(3)
        assert torch.equal(cache.execute([a])[0], -a)
        tolerate(lambda: str(fusion.print_math()))
        tolerate(lambda: fd.execute([a]))
        touch(x)
        del fd, fusion
        gc.collect()
        assert torch.equal(cache.execute([a])[0], -a)
        tolerate(lambda: FusionExecutorCache(cache.fusion()))
        tolerate(lambda: FusionExecutorCache(None))
        tolerate(lambda: FusionExecutorCache(Fusion()).execute([]))
    """,
    "lru_hits_and_evictions_with_live_handles": """
        cache = LRUCache(max_fusions=2)
        kept = []
        for turn in range(12):
            with FusionDefinition() as fd:
                x = fd.define_tensor([-1], True)
                y = fd.ops.mul(x, float(turn % 4))
                fd.add_output(y)
            fec = cache.cache_compile(fd.fusion)
            kept.append((x, y, fec))
            touch(x), touch(y)
            a = tensor(3)
            assert torch.equal(fec.execute([a])[0], a * float(turn % 4))
        cache.stats()
        del cache, fd
        gc.collect()
        for x, y, fec in kept:
            touch(x), touch(y)
            fec.execute([tensor(5)])
        tolerate(lambda: LRUCache(max_fusions=0))
        tolerate(lambda: LRUCache(max_fusions=-1))
        tolerate(lambda: LRUCache(2).cache_compile(None))
    """,
    "kernel_executor_misuse": """
        executor = KernelExecutor()
        tolerate(lambda: executor.run([]))
        tolerate(lambda: executor.compile(Fusion()))
        fd, x, y = build()
        tolerate(lambda: executor.run([tensor(3)]))
        executor.compile(fd.fusion, [tensor(3)])
        del fd, x, y
        gc.collect()
        a = tensor(7)
        assert torch.equal(executor.run([a])[0], -a)
        tolerate(lambda: executor.run([]))
        tolerate(lambda: executor.run([a, a]))
    """,
    "fusion_guards_in_odd_orders": """
        first, second = Fusion(), Fusion()
        one = FusionGuard(first)
        two = FusionGuard(second)
        del one
        gc.collect()
        tolerate(lambda: define_tensor([-1], True))
        del first
        gc.collect()
        tolerate(lambda: ops.neg(define_tensor([-1], True)))
        del two
        gc.collect()
        tolerate(lambda: define_tensor([-1], True))
    """,
    "inputs_freed_while_outputs_live": """
        fd, x, y = build()
        views = FusionDefinition()
        with views:
            t = views.define_tensor([-1], True)
            views.add_output(views.ops.slice(t, [1], [9]))
            views.add_output(t)
        kept = []
        for turn in range(50):
            a = torch.full((10,), float(turn), device=DEVICE)
            kept.append((turn, fd.execute([a])[0], *views.execute([a])))
            del a
            gc.collect(0)
        for turn, *outputs in kept:
            for output in outputs:
                assert (output.abs() == turn).all()
    """,
    "numpy_arrays_freed_while_outputs_live": """
        import numpy
        if DEVICE.type == "cpu":
            with FusionDefinition() as fd:
                x = fd.define_tensor([-1], True)
                fd.add_output(fd.ops.slice(x, [1], [9]))
            kept = [fd.execute([numpy.full(10, turn, dtype=numpy.float32)])[0] for turn in range(20)]
            gc.collect()
            for turn, each in enumerate(kept):
                assert (each == turn).all()
            frozen = numpy.ones(4, dtype=numpy.float32)
            frozen.flags.writeable = False
            tolerate(lambda: build()[0].execute([frozen]))
            tolerate(lambda: build()[0].execute([numpy.ones(4, dtype=">f4")]))
            tolerate(lambda: build()[0].execute([numpy.ones(4, dtype=object)]))
            tolerate(lambda: build()[0].execute([numpy.ones(4, dtype=numpy.float32)[::-1]]))
    """,
    "a_dlpack_producer_that_misbehaves": """
        class Raises:
            def __dlpack__(self, **k): raise ValueError("no")
            def __dlpack_device__(self): return (1, 0)
        class Nonsense:
            def __dlpack__(self, **k): return 5
            def __dlpack_device__(self): return "x"
        class Twice:
            def __init__(self): self.capsule = torch.ones(4).__dlpack__()
            def __dlpack__(self, **k): return self.capsule
            def __dlpack_device__(self): return (1, 0)
        fd, x, y = build()
        twice = Twice()
        for bad in (Raises(), Nonsense(), twice, twice):
            tolerate(lambda: fd.execute([bad]))
        a = tensor(4)
        assert torch.equal(fd.execute([a])[0], -a)
    """,
    "overlapping_inputs_and_self_overlap": """
        with FusionDefinition() as fd:
            x, y = (fd.define_tensor([-1], False) for _ in range(2))
            fd.add_output(fd.ops.add(x, y), x)
        base = torch.arange(20.0, device=DEVICE)
        tolerate(lambda: fd.execute([base[:10], base[5:15]]))
        tolerate(lambda: fd.execute([base[:1].expand(10), base[5:15]]))
        tolerate(lambda: fd.execute([base[:10], base[:10]]))
    """,
    "interpreter_exit_with_everything_alive": """
        fd, x, y = build()
        fd.execute([tensor(3)])
        cache = LRUCache(4)
        with FusionDefinition() as unfinished:
            a = unfinished.define_tensor([-1], True)
        active = FusionDefinition().__enter__()
        b = active.define_tensor([-1], True)
        sys.modules["keep"] = [fd, x, y, cache, unfinished, a, active, b]
    """,
    "fork_after_use": """
        import os
        fd, x, y = build()
        a = tensor(1000)
        fd.execute([a])
        if DEVICE.type == "cpu":
            child = os.fork()
            if child == 0:
                ok = torch.equal(fd.execute([a])[0], -a)
                os._exit(0 if ok else 3)
            _, status = os.waitpid(child, 0)
            assert status == 0, status
    """,
    "pickle_and_copy": """
        import copy, pickle
        fd, x, y = build()
        for each in (fd, x, y, fd.fusion, y.definition(), DataType.Float):
            tolerate(lambda: pickle.dumps(each))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                tolerate(lambda: pickle.dumps(each, protocol))
            tolerate(lambda: each.__reduce__())
            tolerate(lambda: copy.copy(each))
            tolerate(lambda: copy.deepcopy(each))
        touch(x)
    """,
    "classes_instantiated_by_hand": """
        for name in dir(nvfuse_direct):
            kind = getattr(nvfuse_direct, name)
            if isinstance(kind, type):
                for arguments in ((), (None,), (1,), (1, 2, 3), ("a",)):
                    def make():
                        made = kind(*arguments)
                        str(made)
                        for member in dir(made):
                            if not member.startswith("__"):
                                value = getattr(made, member)
                                if callable(value) and kind.__module__.startswith("nvfuse"):
                                    tolerate(value)
                    tolerate(make)
                if kind.__module__.startswith("nvfuse"):
                    def bare():
                        made = kind.__new__(kind)
                        str(made)
                        for member in dir(made):
                            if not member.startswith("__"):
                                tolerate(lambda: getattr(made, member))
                    tolerate(bare)
    """,
    "every_bound_class_without_its_constructor": """
        def kinds_below(kind):
            for each in kind.__subclasses__():
                yield each
                yield from kinds_below(each)
        base = next(each for each in TensorView.__mro__ if each.__name__ == "pybind11_object")
        expect_error(base, TypeError)
        expect_error(lambda: base.__new__(base), TypeError)
        kinds = [each for each in kinds_below(base) if each.__module__.startswith("nvfuse")]
        assert len(kinds) > 40
        fd, x, y = build()
        for kind in kinds:
            if "__init__" not in vars(kind) or type(vars(kind)["__init__"]).__name__ == "wrapper_descriptor":
                expect_error(lambda: kind.__new__(kind), TypeError)
                expect_error(lambda: type("Derived", (kind,), {})(), TypeError)
                continue
            made = kind.__new__(kind)
            for name in set(dir(made)) - {"__class__", "__init__", "__new__"}:
                value = tolerate(lambda: getattr(made, name))
                if callable(value):
                    for arguments in ((), (x,), (made,), (1,), ("a",)):
                        tolerate(lambda: value(*arguments))
            tolerate(lambda: fd.manual_execute([made]))
            tolerate(lambda: fd.ops.neg(made))
    """,
    "objects_used_before_their_constructor": """
        class Early(KernelExecutor):
            def __init__(self):
                expect_error(self.is_compiled)
                super().__init__()
        assert not Early().is_compiled()
        class Never(PointwiseParams):
            def __init__(self):
                self.vectorization_factor
        expect_error(Never)
        expect_error(lambda: copy.copy(CompileParams.__new__(CompileParams)).__repr__())
        fd, x, y = build()
        def assign():
            fd.fec = FusionExecutorCache.__new__(FusionExecutorCache)
        expect_error(assign)
        fd.execute([tensor(4)])
    """,
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_survives(name: str) -> None:
    source = PRELUDE + textwrap.dedent(ATTEMPTS[name]) + "\nprint('alive')\n"
    done = run_python(source, timeout=300)
    output = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0, f"exit status {done.returncode}\n{output}"
    assert "alive" in done.stdout
    assert not re.search(r"Fatal Python error|terminate called|Segmentation", done.stderr), output
