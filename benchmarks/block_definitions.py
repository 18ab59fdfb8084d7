# SPDX-License-Identifier: BSD-3-Clause
"""Transformer blocks by hand as fusion definitions, forward and backward: nanoGPT's and Llama 3's.

They are spelled as a training frontend does: a definition for the forward pass, which also returns
what the backward pass needs, and one for the backward pass, which returns the gradients of the
input and of all weights. The results of norms, GELU and SwiGLU, which the backward pass multiplies,
are kept or computed again, as Writer.recompute says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from block_parts import Sizes, Tv, Writer
from nvfuse_direct import DataType, FusionDefinition


class Inputs:
    """The inputs of a definition by name, declared where they are first read."""

    def __init__(self, fd: FusionDefinition, tensors: dict[str, torch.Tensor]) -> None:
        self.fd, self.tensors = fd, tensors
        self.declared: dict[str, Tv] = {}

    def __getitem__(self, name: str) -> Tv:
        if name not in self.declared:
            self.declared[name] = self.fd.from_pytorch(self.tensors[name], static_sizes=True)
        return self.declared[name]


class Given:
    """Tensors of a definition by name: those that were computed before, and else its inputs."""

    def __init__(self, computed: dict[str, Tv], inputs: Inputs | Given) -> None:
        self.computed, self.inputs = computed, inputs

    def __getitem__(self, name: str) -> Tv:
        return self.computed[name] if name in self.computed else self.inputs[name]


Part = Callable[[Writer, Inputs | Given], dict[str, Tv]]


def both(forward: Part, backward: Part) -> Part:
    """Both passes in one: the result and all gradients. What the backward pass reads of the forward
    pass is kept within a call."""

    def part(w: Writer, t: Inputs | Given) -> dict[str, Tv]:
        results = forward(w, t)
        return {"out": results["out"]} | backward(w, Given(results, t))

    return part


@dataclass
class Definition:
    """A definition and the names of its inputs and outputs."""

    fd: FusionDefinition
    inputs: list[str]
    outputs: list[str]
    ordered: list[str]  # outputs that Writer.by_token() made

    def __call__(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        results = self.fd.execute([tensors[name] for name in self.inputs])
        return dict(zip(self.outputs, results, strict=True))

    def empty_outputs(self) -> dict[str, torch.Tensor]:
        """Tensors as it would return them, on the CPU."""
        tensors = {}
        results: list[Tv] = list(self.fd.fusion.outputs())
        for name, tv in zip(self.outputs, results, strict=True):
            ids = [each for each in tv.get_logical_domain() if not each.is_reduction()]
            sizes = [int(str(each.extent())) for each in ids]
            dtype = _DTYPES[tv.dtype()]
            if name in self.ordered:
                batch, heads, length, head = sizes
                tensor = torch.empty(batch, length, heads, head, dtype=dtype).transpose(1, 2)
            else:
                tensor = torch.empty(sizes, dtype=dtype)
            tensors[name] = tensor
        return tensors


_DTYPES = {
    DataType.BFloat16: torch.bfloat16,
    DataType.Float: torch.float,
    DataType.UInt64: torch.uint64,
}


def define(
    part: Part, sizes: Sizes, tensors: dict[str, torch.Tensor], recompute: bool = False
) -> Definition:
    """The definition of `part` for tensors of these names, sizes and layouts."""
    with FusionDefinition() as fd:
        inputs, writer = Inputs(fd, tensors), Writer(fd, sizes, recompute)
        outputs = part(writer, inputs)
        for output in outputs.values():
            fd.add_output(output)
    ordered = [name for name, tv in outputs.items() if any(tv is x for x in writer.ordered)]
    return Definition(fd, list(inputs.declared), list(outputs), ordered)


# ------------------------------------------------------------------------------------------ nanoGPT


def gpt_forward(w: Writer, t: Inputs | Given) -> dict[str, Tv]:
    ops, s = w.ops, w.sizes
    normal_1, mean_1, rstd_1 = w.layer_norm(t["x"], t["ln_1.weight"], t["ln_1.bias"])
    qkv = ops.linear(normal_1, t["c_attn.weight"], t["c_attn.bias"])
    q, k, v = (w.split(w.part(qkv, index), s.heads) for index in range(3))
    attention, logsumexp, seed, offset = ops.sdpfa_fwd(q, k, v, is_causal=True)
    w.ordered.append(attention)
    projected = ops.linear(
        w.join(attention, s.heads), t["attn.c_proj.weight"], t["attn.c_proj.bias"]
    )
    h = w.add(t["x"], projected)
    normal_2, mean_2, rstd_2 = w.layer_norm(h, t["ln_2.weight"], t["ln_2.bias"])
    fc = ops.linear(normal_2, t["c_fc.weight"], t["c_fc.bias"])
    active = w.gelu(fc)
    projected = ops.linear(active, t["mlp.c_proj.weight"], t["mlp.c_proj.bias"])
    again = {"normal_1": normal_1, "normal_2": normal_2, "active": active}
    return {
        "out": w.add(h, projected),
        "mean_1": mean_1,
        "rstd_1": rstd_1,
        "qkv": qkv,
        "attention": attention,
        "logsumexp": logsumexp,
        "seed": seed,
        "offset": offset,
        "h": h,
        "mean_2": mean_2,
        "rstd_2": rstd_2,
        "fc": fc,
    } | w.unless_computed_again(again)


def gpt_backward(w: Writer, t: Inputs | Given) -> dict[str, Tv]:
    ops, s = w.ops, w.sizes
    grad = t["grad"]
    result: dict[str, Tv] = {"mlp.c_proj.bias": w.column_sum(grad)}
    active = w.gelu(t["fc"]) if w.recompute else t["active"]
    result["mlp.c_proj.weight"] = w.weight_gradient(grad, active, s.width, s.hidden)
    grad_fc = w.gelu_backward(w.input_gradient(grad, t["mlp.c_proj.weight"]), t["fc"])

    statistics = t["mean_2"], t["rstd_2"]
    normal = (
        w.layer_norm_again(t["h"], *statistics, t["ln_2.weight"], t["ln_2.bias"])
        if w.recompute
        else t["normal_2"]
    )
    result["c_fc.bias"] = w.column_sum(grad_fc)
    result["c_fc.weight"] = w.weight_gradient(grad_fc, normal, s.hidden, s.width)
    grad_normal = w.input_gradient(grad_fc, t["c_fc.weight"])
    through, result["ln_2.weight"], result["ln_2.bias"] = w.layer_norm_backward(
        grad_normal, t["h"], *statistics, t["ln_2.weight"]
    )
    grad = w.add(grad, through)

    result["attn.c_proj.bias"] = w.column_sum(grad)
    joined = w.join(t["attention"], s.heads)
    result["attn.c_proj.weight"] = w.weight_gradient(grad, joined, s.width, s.width)
    grad_heads = w.split(w.input_gradient(grad, t["attn.c_proj.weight"]), s.heads)
    q, k, v = (w.split(w.part(t["qkv"], index), s.heads) for index in range(3))
    grads = ops.sdpfa_bwd(
        grad_heads,
        q,
        k,
        v,
        t["attention"],
        t["logsumexp"],
        None,
        True,
        t["seed"],
        t["offset"],
        None,
    )
    grad_qkv = ops.cat([w.join(each, s.heads) for each in grads], -1)

    statistics = t["mean_1"], t["rstd_1"]
    normal = (
        w.layer_norm_again(t["x"], *statistics, t["ln_1.weight"], t["ln_1.bias"])
        if w.recompute
        else t["normal_1"]
    )
    result["c_attn.bias"] = w.column_sum(grad_qkv)
    result["c_attn.weight"] = w.weight_gradient(grad_qkv, normal, 3 * s.width, s.width)
    grad_normal = w.input_gradient(grad_qkv, t["c_attn.weight"])
    through, result["ln_1.weight"], result["ln_1.bias"] = w.layer_norm_backward(
        grad_normal, t["x"], *statistics, t["ln_1.weight"]
    )
    return {"x": w.add(grad, through)} | result


# ------------------------------------------------------------------------------------------ Llama 3


def llama_forward(w: Writer, t: Inputs | Given) -> dict[str, Tv]:
    ops, s = w.ops, w.sizes
    normal_1, factor_1 = w.rms_norm(t["x"], t["input_norm"])
    q, k, v = (ops.linear(normal_1, t[name]) for name in ("q_proj", "k_proj", "v_proj"))
    q = w.by_token(w.rope(w.split(q, s.heads), t["cos"], t["sin"], s.heads))
    k = w.rope(w.split(k, s.key_heads), t["cos"], t["sin"], s.key_heads)
    keys, values = (w.for_all_queries(each) for each in (k, w.split(v, s.key_heads)))
    attention, logsumexp, seed, offset = ops.sdpfa_fwd(q, keys, values, is_causal=True)
    w.ordered.append(attention)
    h = w.add(t["x"], ops.linear(w.join(attention, s.heads), t["o_proj"]))
    normal_2, factor_2 = w.rms_norm(h, t["post_norm"])
    gate, up = (ops.linear(normal_2, t[name]) for name in ("gate_proj", "up_proj"))
    active = w.mul(w.silu(gate), up)
    out = w.add(h, ops.linear(active, t["down_proj"]))
    again = {"normal_1": normal_1, "normal_2": normal_2, "active": active}
    return {
        "out": out,
        "factor_1": factor_1,
        "q": q,
        "k": k,
        "v": v,
        "attention": attention,
        "logsumexp": logsumexp,
        "seed": seed,
        "offset": offset,
        "h": h,
        "factor_2": factor_2,
        "gate": gate,
        "up": up,
    } | w.unless_computed_again(again)


def llama_backward(w: Writer, t: Inputs | Given) -> dict[str, Tv]:
    ops, s = w.ops, w.sizes
    grad, result = t["grad"], {}
    silu = w.silu(t["gate"])
    grad_product = w.input_gradient(grad, t["down_proj"])
    active = w.mul(silu, t["up"]) if w.recompute else t["active"]
    result["down_proj"] = w.weight_gradient(grad, active, s.width, s.hidden)
    grad_up = w.mul(grad_product, silu)
    grad_gate = w.silu_backward(w.mul(grad_product, t["up"]), t["gate"])

    normal = (
        w.rms_norm_again(t["h"], t["factor_2"], t["post_norm"]) if w.recompute else t["normal_2"]
    )
    for name, each in (("gate_proj", grad_gate), ("up_proj", grad_up)):
        result[name] = w.weight_gradient(each, normal, s.hidden, s.width)
    grad_normal = w.add(
        w.input_gradient(grad_gate, t["gate_proj"]), w.input_gradient(grad_up, t["up_proj"])
    )
    through, result["post_norm"] = w.rms_norm_backward(
        grad_normal, t["h"], t["factor_2"], t["post_norm"]
    )
    grad = w.add(grad, through)

    joined = w.join(t["attention"], s.heads)
    result["o_proj"] = w.weight_gradient(grad, joined, s.width, s.width)
    grad_heads = w.split(w.input_gradient(grad, t["o_proj"]), s.heads)
    keys, values = (w.for_all_queries(each) for each in (t["k"], w.split(t["v"], s.key_heads)))
    grad_q, grad_k, grad_v = ops.sdpfa_bwd(
        grad_heads,
        t["q"],
        keys,
        values,
        t["attention"],
        t["logsumexp"],
        None,
        True,
        t["seed"],
        t["offset"],
        None,
    )
    grad_q = w.rope(grad_q, t["cos"], t["sin"], s.heads, backward=True)
    grad_k, grad_v = w.of_all_queries(grad_k), w.of_all_queries(grad_v)
    grad_k = w.rope(grad_k, t["cos"], t["sin"], s.key_heads, backward=True)

    normal = (
        w.rms_norm_again(t["x"], t["factor_1"], t["input_norm"]) if w.recompute else t["normal_1"]
    )
    grad_normal = None
    for name, each, heads in (
        ("q_proj", grad_q, s.heads),
        ("k_proj", grad_k, s.key_heads),
        ("v_proj", grad_v, s.key_heads),
    ):
        each = w.join(each, heads)
        result[name] = w.weight_gradient(each, normal, heads * s.head, s.width)
        part = w.input_gradient(each, t[name])
        grad_normal = part if grad_normal is None else w.add(grad_normal, part)
    through, result["input_norm"] = w.rms_norm_backward(
        grad_normal, t["x"], t["factor_1"], t["input_norm"]
    )
    return {"x": w.add(grad, through)} | result
