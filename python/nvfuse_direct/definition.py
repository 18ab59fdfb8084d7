# SPDX-License-Identifier: BSD-3-Clause
"""FusionDefinition: the context manager that defines a fusion and runs it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from . import _C_DIRECT
from ._C_DIRECT import (
    DataType,
    Fusion,
    FusionExecutorCache,
    FusionGuard,
    KernelExecutor,
    SchedulerType,
    TensorView,
    Val,
)

if TYPE_CHECKING:
    import torch

    from ._C_DIRECT._namespaces import Operations, ScheduleOperators

Definition = TypeVar("Definition", bound="FusionDefinition")


class FusionDefinition(_C_DIRECT._FusionDefinitionBase):
    """Defines a fusion inside a ``with`` block and runs it afterwards.

    Attributes: ``ops`` and ``sched`` are the modules of operations and schedule operators. ``fec``
    (FusionExecutorCache) exists after the first execute(), ``ke`` (KernelExecutor) after the first
    manual_execute().

    Wherever a DataType is expected, torch's dtypes and their names ("float32") are taken too.
    copy.copy() and copy.deepcopy() make a definition of its own, schedule included, that compiles
    anew; pickle keeps the definition as text, and raises TypeError for a fusion with a schedule.
    """

    ops: Operations
    sched: ScheduleOperators
    fec: FusionExecutorCache
    ke: KernelExecutor
    fake_inputs: list[Any]

    def __init__(self) -> None:
        self._fusion: Fusion | None = None
        self._fusion_guard: FusionGuard | None = None
        self.ops = cast("Operations", _C_DIRECT.ops)
        self.sched = cast("ScheduleOperators", _C_DIRECT.schedule)

    # --- definition ---

    def __enter__(self: Definition) -> Definition:
        """Starts a new, empty fusion."""
        self._fusion = Fusion()
        self._fusion_guard = FusionGuard(self._fusion)
        for name in ("fec", "ke"):
            if hasattr(self, name):
                delattr(self, name)
        return self

    def __exit__(self, exc_type: Any, exc: Any, tb: Any) -> None:
        self._fusion_guard = None

    @property
    def fusion(self) -> Fusion:
        """The fusion; the executor cache's once there is one."""
        fec = getattr(self, "fec", None)
        return cast(Fusion, self._fusion) if fec is None else fec.fusion()

    @overload
    def define_tensor(
        self,
        shape: Sequence[int],
        contiguity: bool | Sequence[bool | None] = ...,
        dtype: DataType | torch.dtype | str = ...,
        is_cpu: bool = ...,
        stride_order: Sequence[int] | None = ...,
        *,
        name: str | None = ...,
    ) -> TensorView: ...
    @overload
    def define_tensor(
        self,
        *,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: DataType | torch.dtype | str = ...,
        static_sizes: bool = ...,
        is_cpu: bool = ...,
        name: str | None = ...,
    ) -> TensorView: ...
    @overload
    def define_tensor(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        /,
        dtype: DataType | torch.dtype | str = ...,
        *,
        static_sizes: bool = ...,
        is_cpu: bool = ...,
        name: str | None = ...,
    ) -> TensorView: ...
    def define_tensor(self, *args: Any, **kwargs: Any) -> TensorView:
        """A tensor input, which messages call `name`, or else by its number.

        Declared by shape (-1 symbolic, 0 empty, 1 broadcast, > 1 static), contiguity (in memory
        order; None of what is broadcast; one flag for all), dtype (Float) and stride_order (the
        rank of each dimension's stride, 0 the fastest), or by the sizes and strides of a tensor.
        TypeError, RuntimeError: these do not fit together.
        """
        tv = _C_DIRECT.define_tensor(*args, **kwargs)
        self.fusion.add_input(tv)
        return tv

    def define_scalar(
        self,
        value: complex | DataType | torch.dtype | str | None = None,
        dtype: DataType | torch.dtype | str | None = None,
        *,
        name: str | None = None,
    ) -> Val:
        """A scalar: an input if symbolic (``define_scalar(dtype)``), else a constant.

        Messages call the input `name`, or else by its number.
        """
        scalar = _C_DIRECT.define_scalar(value, dtype, name=name)
        if scalar.is_symbolic():
            self.fusion.add_input(scalar)
        return scalar

    def define_vector(self, size: int, name: str | None = None) -> list[Val]:
        """``size`` symbolic integers, each an input; messages call them name[0], name[1], ..."""
        return [
            self.define_scalar(DataType.Int, name=None if name is None else f"{name}[{i}]")
            for i in range(size)
        ]

    def from_pytorch(
        self, tensor: Any, static_sizes: bool = False, name: str | None = None
    ) -> TensorView:
        """A tensor input with the layout and dtype of a real tensor; messages call it `name`.

        Sizes are symbolic but for 1, or all constant with static_sizes. A 0-d CPU tensor becomes a
        CPU scalar when CUDA is there, so that it can stand next to CUDA tensors.
        """
        import torch

        tensor = tensor if isinstance(tensor, torch.Tensor) else torch.from_dlpack(tensor)
        if tensor.device.type not in ("cpu", "cuda"):
            raise ValueError(
                f"Found unsupported device {tensor.device}, "
                "only scalar CPU or CUDA tensors are supported"
            )
        return self.define_tensor(
            sizes=tuple(tensor.size()),
            strides=tuple(tensor.stride()),
            dtype=tensor.dtype,
            static_sizes=static_sizes,
            is_cpu=tensor.device.type == "cpu" and tensor.dim() == 0 and torch.cuda.is_available(),
            name=name,
        )

    def add_output(self, output: TensorView, alias_input: TensorView | None = None) -> None:
        """Adds an output; with alias_input it is written in place into that input's storage."""
        if alias_input is None:
            self.fusion.add_output(output)
        else:
            self.fusion.add_output(output, alias_input)

    def validate_definition(self) -> tuple[bool, str | None]:
        """Whether there is something to run, and if not, why."""
        fusion = self._defined_fusion()
        if fusion is None:
            return (
                False,
                "Fusion does not exist! "
                "Use `with FusionDefinition() as fd: ...` to define a fusion.",
            )
        if not fusion.outputs() or not fusion.vals():
            return (
                False,
                "Fusion is empty! It has no outputs: call fd.add_output(tensor) "
                "inside the `with` block for each tensor to compute.",
            )
        return True, None

    def _check_definition(self) -> None:
        valid, why_not = self.validate_definition()
        if not valid:
            raise NotImplementedError(why_not)

    # --- execution ---

    @staticmethod
    def _get_device_index(device: Any) -> int | None:
        """Index of a CUDA device: None, an int, a string or a torch.device.

        None stays None, "cuda" is the current device. AssertionError: another kind of device, or
        an index that is not below 256.
        """
        if device is None:
            return None
        import torch

        if not isinstance(device, int):
            device = torch.device(device)
            if device.type != "cuda":
                raise AssertionError(
                    f"If device argument is passed it must be a CUDA device, got {device}"
                )
            device = torch.cuda.current_device() if device.index is None else device.index
        if not 0 <= device < 256:
            raise AssertionError(f"Device index out of range [0, 256): {device}")
        return device

    if TYPE_CHECKING:
        # A method of the base class, in C for the sake of its cost.
        def execute(
            self,
            inputs: Iterable[Any],
            *,
            device: torch.device | str | int | None = None,
            save_repro_inputs: bool = False,
            _enable_options: Sequence[str] = (),
            _disable_options: Sequence[str] = (),
        ) -> list[torch.Tensor]: ...

    def _make_executor_cache(self) -> FusionExecutorCache:
        if hasattr(self, "ke"):
            raise AssertionError(
                "KernelExecutor already exists! Use manual_execute() to execute the fusion."
            )
        self._check_definition()
        if _C_DIRECT._dumps_definition():
            print(self)
        self.fec = FusionExecutorCache(self.fusion)
        return self.fec

    def manual_execute(
        self, inputs: Iterable[Any], heuristic_params: Any = None
    ) -> list[torch.Tensor]:
        """Compiles the fusion exactly as it was scheduled, once, and runs it.

        Extents that are symbolic may be 0 and 1 as well. RuntimeError: sizes that do not fit
        together (only what was defined with size 1 is broadcast); vectors that do not divide; a
        loop that is bound to threads or blocks has no iterations, but not all outputs are empty.
        """
        inputs = list(inputs)
        if hasattr(self, "fec"):
            raise AssertionError(
                "FusionExecutorCache already exists! Use execute() to execute the fusion."
            )
        launch: tuple[Any, ...] = ()
        if heuristic_params is not None:
            launch = (heuristic_params.lparams, heuristic_params.cparams)
        if not hasattr(self, "ke"):
            self._check_definition()
            executor = KernelExecutor()
            scheduler = (
                SchedulerType.none if heuristic_params is None else heuristic_params.scheduler_type
            )
            if heuristic_params is not None:
                executor.compile(self.fusion, inputs, *launch, scheduler)  # type: ignore[call-arg]
            else:
                executor.compile(self.fusion, inputs)
            self.ke = executor
        return self.ke.run(inputs, *launch)

    def validate(
        self,
        inputs: Iterable[Any],
        reference_outputs: Sequence[Any] | None = None,
        device: Any = None,
        **kwargs: Any,
    ) -> list[Any]:
        """execute() and a check of the outputs.

        Without reference_outputs the definition is evaluated op by op with torch.
        AssertionError: a mismatch (tolerances: get_val_tolerances()).
        """
        inputs = list(inputs)
        before = _copies_of_updated(self.fusion, inputs) if reference_outputs is None else inputs
        outputs = self.execute(inputs, device=device, **kwargs)
        self._validate(before, outputs, reference_outputs)
        return outputs

    def manual_validate(
        self, inputs: Iterable[Any], reference_outputs: Sequence[Any] | None = None
    ) -> list[Any]:
        """manual_execute() and a check of the outputs; see validate()."""
        inputs = list(inputs)
        before = _copies_of_updated(self.fusion, inputs) if reference_outputs is None else inputs
        outputs = self.manual_execute(inputs)
        self._validate(before, outputs, reference_outputs)
        return outputs

    def _validate(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        reference_outputs: Sequence[Any] | None = None,
    ) -> None:
        """AssertionError if outputs of a call differ from references (see validate()).

        Args: inputs as they were before the call.
        """
        from .validation import check_outputs

        check_outputs(self.fusion, outputs, inputs, reference_outputs)

    # --- copies ---

    def _own_attributes(self) -> dict[str, Any]:
        """What users set on the object, which copies keep."""
        ours = {"_fusion", "_fusion_guard", "ops", "sched", "ke", "fake_inputs"}
        return {name: value for name, value in self.__dict__.items() if name not in ours}

    def _defined_fusion(self) -> Fusion | None:
        """The fusion, or None if none was begun."""
        begun = self.__dict__.get("_fusion") is not None or hasattr(self, "fec")
        return self.fusion if begun else None

    def __copy__(self: Definition) -> Definition:
        fusion = self._defined_fusion()
        fusion = None if fusion is None else _C_DIRECT._copy_fusion(fusion)
        return _restored(type(self), fusion, self._own_attributes())

    def __deepcopy__(self: Definition, memo: dict[int, Any]) -> Definition:
        new = self.__copy__()
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self._own_attributes(), memo))
        return new

    def __reduce__(self) -> tuple[Callable[..., FusionDefinition], tuple[Any, ...]]:
        fusion = self._defined_fusion()
        if fusion is not None and _C_DIRECT._is_scheduled(fusion):
            raise TypeError(
                "A fusion with a schedule can't be pickled: its text holds the definition alone. "
                "copy.deepcopy() keeps schedules."
            )
        text = None if fusion is None else _C_DIRECT.translate_fusion(fusion)
        return _unpickled, (type(self), text, self._own_attributes())

    # --- text ---

    def __repr__(self) -> str:
        fusion = self._defined_fusion()
        return "FusionDefinition()" if fusion is None else _C_DIRECT.translate_fusion(fusion)

    def repro_script_for(self, inputs: Iterable[Any] | None = None) -> str:
        """A script that defines this fusion and, given inputs, runs it on such tensors."""
        from .repro import repro_script

        return repro_script(self, None if inputs is None else list(inputs))

    def last_repro_script(self) -> str:
        """repro_script_for() the inputs of the last execute(..., save_repro_inputs=True)."""
        if not hasattr(self, "fake_inputs"):
            raise AssertionError(
                "fd.last_repro_script() cannot provide a repro because "
                "fd.execute(inputs, save_repro_inputs=True) was not executed!"
            )
        return self.repro_script_for(self.fake_inputs)

    def _save_inputs(self, inputs: Iterable[Any]) -> None:
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode

        mode = FakeTensorMode()
        self.fake_inputs = [
            mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs
        ]


def _restored(
    kind: type[Definition], fusion: Fusion | None, attributes: dict[str, Any]
) -> Definition:
    """A definition of the given class that has this fusion, without calling its __init__."""
    fd = kind.__new__(kind)
    FusionDefinition.__init__(fd)
    fd._fusion = fusion
    fd.__dict__.update(attributes)
    return fd


def _unpickled(kind: type[Definition], text: str | None, attributes: dict[str, Any]) -> Definition:
    from .fallback import define

    return _restored(kind, None if text is None else define(text), attributes)


def _copies_of_updated(fusion: Fusion, inputs: list[Any]) -> list[Any]:
    """The inputs with copies of those that running the fusion overwrites."""
    updated = [alias for alias, _ in _C_DIRECT._output_aliases(fusion) if alias is not None]
    if not updated:
        return inputs
    declared = fusion.inputs()
    flat: list[Any] = []
    for x in inputs:
        flat.extend(x if isinstance(x, list | tuple) else [x])
    return [x.clone() if declared[i] in updated else x for i, x in enumerate(flat)]
