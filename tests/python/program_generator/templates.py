# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of statements, each with its weight."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .statements import Unsuitable, Variable, Writer, is_one

# Arguments are kept where a function is defined and not too large, mostly.
SMOOTH = [
    "torch.sin({x})",
    "torch.cos({x})",
    "torch.tanh({x})",
    "{x}.sigmoid()",
    "torch.erf({x})",
    "F.silu({x})",
    "F.gelu({x})",
    "F.gelu({x}, approximate='tanh')",
    "F.softplus({x})",
    "torch.atan({x})",
    "torch.asinh({x})",
    "torch.exp(-{x}.abs())",
    "torch.exp({x}.clamp(-4, 3))",
    "torch.exp2(torch.tanh({x}))",
    "torch.expm1({x}.clamp(max=2))",
    "{x}.abs().sqrt()",
    "torch.rsqrt({x}.abs() + 1)",
    "torch.log1p({x}.abs())",
    "({x} * {x} + 1).log()",
    "{x}.square()",
    "1 / ({x}.abs() + 0.5)",
    "torch.reciprocal({x} * {x} + 1)",
    "{x} ** 2",
    "{x} ** 3",
    "{x}.abs().pow(0.5)",
    "torch.lgamma({x}.abs() + 1)",
    "torch.erfc({x})",
    "torch.sinh({x}.clamp(-3, 3))",
    "torch.log2({x}.abs() + 0.25)",
    "torch.log10({x}.abs() + 2)",
    "{x}.abs().add(1).acosh()",
    "torch.asin(torch.tanh({x}) * 0.9)",
    "F.leaky_relu({x}, 0.1)",
    "F.elu({x})",
    "F.hardswish({x})",
    "F.mish({x})",
    "F.hardtanh({x}, -1.0, 1.5)",
    "F.logsigmoid({x})",
]
WILD = [
    "{x}.exp()",
    "{x}.sqrt()",
    "{x}.log()",
    "1 / {x}",
    "torch.acos({x})",
    "torch.tan({x})",
    "{x}.rsqrt()",
    "torch.atanh({x})",
    "torch.cosh({x})",
    "{x}.reciprocal()",
]
EXACT = [
    "-{x}",
    "{x}.abs()",
    "torch.relu({x})",
    "torch.neg({x})",
    "{x}.clamp(-1, 1)",
    "{x}.clamp(min=0)",
    "F.relu({x})",
    "{x}.clone()",
    "torch.clamp({x}, max=1.5)",
]
JUMPS = [
    "torch.floor({x})",
    "{x}.ceil()",
    "torch.round({x})",
    "{x}.trunc()",
    "torch.sign({x})",
    "{x}.frac()",
    "torch.fmod({x}, 2)",
    "torch.remainder({x}, 1.5)",
    "torch.sign({x}) * 2",
]
INTEGER = [
    "-{x}",
    "{x}.abs()",
    "{x} * 3 - 1",
    "~{x}",
    "{x} % 5",
    "{x} // 3",
    "torch.sign({x})",
    "{x} & 6",
    "{x} | 8",
    "{x} ^ 5",
    "{x} << 2",
    "{x} >> 1",
    "torch.clamp({x}, -2, 2)",
    "{x} ** 2",
    "torch.div({x}, 2, rounding_mode='trunc')",
    "torch.remainder({x}, -3)",
    "torch.fmod({x}, 4)",
]


def unary(w: Writer) -> None:
    x = w.real()
    kind = w.rng.choices([SMOOTH, WILD, EXACT, JUMPS], [10, 1, 3, 2 if x.exact else 0])[0]
    form = w.choice(*kind)
    exact = kind in (EXACT, JUMPS) and "remainder" not in form
    w.write(f"{w.fresh()} = {form.format(x=x.name)}", [x], exact)


def integer_unary(w: Writer) -> None:
    x = w.pick(lambda v: v.is_int or v.is_bool)
    text = w.choice("~{x}", "torch.logical_not({x})") if x.is_bool else w.choice(*INTEGER)
    w.write(f"{w.fresh()} = {text.format(x=x.name)}", [x], True)


def _number(w: Writer, x: Variable) -> str:
    options = ["2", "0.5", "-1.5", "3", "1", "0.1"] if x.is_float else ["2", "3", "-1"]
    options += [number.name for number in w.program.numbers]
    if x.rank:
        options += [f"{x.name}.size({w.dim(x)})"] * 2
    return w.choice(*options)


def with_number(w: Writer) -> None:
    x = w.pick(lambda v: not v.is_bool)
    n = _number(w, x)
    forms = [
        "{x} + {n}",
        "{x} * {n}",
        "{n} - {x}",
        "{x} - {n}",
        "torch.add({x}, {n})",
        "{x}.mul({n})",
    ]
    if x.is_float:
        forms += ["{x} / ({n} + 5)", "torch.sub({x}, {n}, alpha=2)", "torch.rsub({x}, {n})"]
    if x.is_int and w.chance(0.3):
        forms = ["{x} / 3", "{x} * 0.5", "{x} + 0.25", "2.0 ** {x}.clamp(-3, 3)"]
    w.write(f"{w.fresh()} = {w.choice(*forms).format(x=x.name, n=n)}", [x], not x.is_float)


def binary(w: Writer) -> None:
    x = w.pick(lambda v: not v.is_bool)
    y_text, y = w.partner(x, lambda v: v is not x and not v.is_bool)
    if w.chance(0.1):
        y_text, y = w.partner(x, lambda v: not v.is_bool)
    exact = False
    if x.is_int and y.is_int:
        forms = [
            "{x} + {y}",
            "{x} - {y}",
            "{x} * {y}",
            "torch.minimum({x}, {y})",
            "torch.maximum({x}, {y})",
            "{x} & {y}",
            "{x} | {y}",
            "{x} ^ {y}",
            "{x} // ({y}.abs() + 1)",
            "{x} % ({y}.abs() + 2)",
            "torch.fmod({x}, {y} * {y} + 1)",
            "torch.gcd({x}, {y})",
            "{x} / ({y}.abs() + 1)",
        ]
    else:
        forms = [
            "{x} + {y}",
            "{y} + {x}",
            "{x} - {y}",
            "{y} - {x}",
            "{x} * {y}",
            "{x} * {y}",
            "{x}.mul({y})",
            "{x} / ({y}.abs() + 0.5)",
            "torch.add({x}, {y}, alpha=0.5)",
        ]
        if x.is_float and y.is_float:
            forms += [
                "torch.atan2({x}, {y})",
                "torch.addcmul({x}, {y}, {y})",
                "{x} * torch.sigmoid({y})",
                "torch.addcmul({y}, {x}, {y}, value=0.5)",
                "torch.hypot({x}, {y})",
            ]
            if x.dtype == y.dtype:
                forms += ["torch.lerp({x}, {y}, 0.25)", "torch.lerp({x}, {y}, torch.sigmoid({x}))"]
        if w.chance(0.15):
            exact, forms = True, ["torch.maximum({x}, {y})", "torch.minimum({y}, {x})"]
    form = w.choice(*forms)
    w.write(f"{w.fresh()} = {form.format(x=x.name, y=y_text)}", [x, y], exact)


def outer(w: Writer) -> None:
    """One value along two axes."""
    x = w.pick(lambda v: not v.is_bool and 1 <= v.rank <= 3)
    a, b = w.rng.sample(range(x.rank + 1), 2)
    y = x if w.chance(0.6) else w.pick(lambda v: v.rank == x.rank and not v.is_bool)
    form = w.choice(
        "{x}.unsqueeze({a}) * {y}.unsqueeze({b})",
        "{x}.unsqueeze({a}) - {y}.unsqueeze({b})",
        "torch.maximum({x}.unsqueeze({a}), {y}.unsqueeze({b}))",
    )
    if not _broadcasts(x, y, a, b):
        raise Unsuitable
    exact = "maximum" in form
    w.write(f"{w.fresh()} = {form.format(x=x.name, y=y.name, a=a, b=b)}", [x, y], exact)


def _broadcasts(x: Variable, y: Variable, a: int, b: int) -> bool:
    one = (1,) * len(x.metas)
    left, right = list(x.shape), list(y.shape)
    left.insert(a, one)
    right.insert(b, one)
    return all(p == q or is_one(p) or is_one(q) for p, q in zip(left, right, strict=True))


def compare(w: Writer) -> None:
    x = w.pick(lambda v: v.exact and not v.dtype.is_complex)
    operator = w.choice("<", "<=", ">", ">=", "==", "!=")
    if w.chance(0.4):
        n = w.choice("0", "1", "-1") if x.is_int else w.choice("0", "0.5", "-1.5")
        text, reads = f"{x.name} {operator} {n}", [x]
    else:
        y_text, y = w.partner(x, lambda v: v.exact and v is not x and not v.dtype.is_complex)
        text, reads = f"{x.name} {operator} {y_text}", [x, y]
    w.write(f"{w.fresh()} = {text}", reads, True)


def logical(w: Writer) -> None:
    x = w.pick(lambda v: v.is_bool)
    y_text, y = w.partner(x, lambda v: v.is_bool)
    form = w.choice(
        "{x} & {y}",
        "{x} | {y}",
        "{x} ^ {y}",
        "torch.logical_and({x}, {y})",
        "{x} | ~{y}",
        "{x} == {y}",
        "torch.logical_or({x}, {y})",
    )
    w.write(f"{w.fresh()} = {form.format(x=x.name, y=y_text)}", [x, y], True)


def where(w: Writer) -> None:
    x = w.pick()
    mask_text, mask = w.partner(x, lambda v: v.is_bool)
    if w.chance(0.4) and not x.is_bool:
        form = w.choice(
            "torch.where({m}, {x}, 0)",
            "{x}.masked_fill({m}, -1)",
            "torch.where({m}, 1, {x})",
            "torch.where({m}, {x}, {x}.neg())",
            "{x}.masked_fill(~{m}, 2)",
        )
        w.write(f"{w.fresh()} = {form.format(m=mask_text, x=x.name)}", [mask, x], True)
        return
    y_text, y = w.partner(x, lambda v: v is not x)
    w.write(f"{w.fresh()} = torch.where({mask_text}, {x.name}, {y_text})", [mask, x, y], True)


def reduce(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    dims = w.dims(x)
    keep = w.choice(", keepdim=True", "")
    d: object = dims[0] if len(dims) == 1 and w.chance(0.5) else tuple(dims)
    one = dims[0]
    if x.is_bool:
        forms = ["{x}.sum({d}{keep})", "{x}.any({one}{keep})", "{x}.all({one}{keep})"]
    elif x.is_int:
        forms = [
            "{x}.sum({d}{keep})",
            "torch.amax({x}, {d}{keep})",
            "{x}.amin({d}{keep})",
            "{x}.clamp(-1, 1).prod({one}{keep})",
            "{x}.sum()",
        ]
    elif x.dtype.is_complex:
        forms = ["{x}.sum({d}{keep})", "{x}.mean({d}{keep})"]
    else:
        forms = [
            "{x}.sum({d}{keep})",
            "torch.sum({x}, {d}{keep})",
            "{x}.mean({d}{keep})",
            "{x}.mean({d}{keep})",
            "{x}.var({d}{keep})",
            "torch.var({x}, {d}, correction=0{keep})",
            "{x}.std({d}{keep})",
            "torch.logsumexp({x}, {d}{keep})",
            "{x}.clamp(-1.2, 1.2).prod({one}{keep})",
            "{x}.sum()",
            "{x}.mean()",
            "{x}.norm(dim={d}{keep})",
            "torch.sum({x}, {d}, dtype=torch.float64{keep})",
            "{x}.square().mean({d}{keep})",
        ]
        if w.chance(0.3):
            forms = ["{x}.amax({d}{keep})", "torch.amin({x}, {d}{keep})", "{x}.max()", "{x}.min()"]
    form = w.choice(*forms)
    exact = not x.is_float or any(name in form for name in ("amax", "amin", "max()", "min()"))
    w.write(f"{w.fresh()} = {form.format(x=x.name, d=d, one=one, keep=keep)}", [x], exact)


def reduce_to_two(w: Writer) -> None:
    x = w.real(1)
    keep = w.choice(", keepdim=True", "")
    a, b = w.fresh(), w.fresh()
    if w.chance(0.5):
        d = w.dim(x)
        form = w.choice("{x}.max({d}{keep})", "torch.min({x}, {d}{keep})")
        w.write(f"{a}, _ = {form.format(x=x.name, d=d, keep=keep)}", [x], True)
        return
    correction = w.choice(0, 1)
    text = f"torch.var_mean({x.name}, {tuple(w.dims(x))}, correction={correction}{keep})"
    w.write(f"{a}, {b} = {text}", [x], False)


def normalize(w: Writer) -> None:
    x = w.real(1)
    d = w.dim(x)
    name, out = x.name, w.fresh()
    choice = w.rng.random()
    if choice < 0.45:
        form = w.choice(
            "{x}.softmax({d})",
            "F.log_softmax({x}, {d})",
            "torch.softmax({x}, dim={d})",
            "{x} - {x}.logsumexp({d}, keepdim=True)",
            "{x} / ({x}.norm(dim={d}, keepdim=True) + 1)",
            "F.softmax({x}.float(), {d})",
            "{x} - {x}.mean({d}, keepdim=True)",
            "torch.exp({x} - {x}.amax({d}, keepdim=True))",
            "({x} - {x}.mean({d}, keepdim=True)) * torch.rsqrt({x}.var({d}, keepdim=True) + 1e-3)",
        )
        w.write(f"{out} = {form.format(x=name, d=d)}", [x], False)
        return
    if x.rank > 1 and w.chance(0.3):
        shape, width = f"({name}.size(-2), {name}.size(-1))", x.shape[-2:]
    else:
        shape, width = f"({name}.size(-1),)", x.shape[-1:]
    reads, extra = [x], ""
    weights = [v for v in w.variables.values() if v.dtype == x.dtype and v.shape == width]
    if weights and w.chance(0.7):
        weight = w.rng.choice(weights)
        reads.append(weight)
        extra = f", weight={weight.name}"
        if choice < 0.75 and w.chance(0.6):
            bias = w.rng.choice(weights)
            reads.append(bias)
            extra += f", bias={bias.name}"
    function = "layer_norm" if choice < 0.75 else "rms_norm"
    w.write(f"{out} = F.{function}({name}, {shape}{extra}, eps=1e-3)", reads, False)


def scan(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1 and not v.is_bool and not v.dtype.is_complex)
    d = w.dim(x)
    if w.chance(0.7):
        form = w.choice(
            "{x}.cumsum({d})", "torch.cumsum({x}, dim={d})", "{x}.clamp(-1, 1).cumprod({d})"
        )
        w.write(f"{w.fresh()} = {form.format(x=x.name, d=d)}", [x], not x.is_float)
    else:
        w.write(f"{w.fresh()}, _ = {x.name}.{w.choice('cummax', 'cummin')}({d})", [x], True)


def reorder(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 2)
    order = list(range(x.rank))
    w.rng.shuffle(order)
    a, b = w.rng.sample(range(-x.rank, x.rank), 2)
    options = [
        f"{x.name}.permute({', '.join(map(str, order))})",
        f"{x.name}.transpose({a}, {b})",
        f"torch.movedim({x.name}, {a}, {b})",
    ]
    if x.rank == 2:
        options += [f"{x.name}.t()"] * 3
    w.write(f"{w.fresh()} = {w.choice(*options)}", [x], True, view=True)


def unsqueeze(w: Writer) -> None:
    x = w.pick(lambda v: v.rank <= 4)
    ones = [d for d, sizes in enumerate(x.shape) if is_one(sizes)]
    if ones and w.chance(0.5):
        text = f"{x.name}.squeeze({w.rng.choice(ones)})"
    else:
        text = f"{x.name}.unsqueeze({w.rng.randint(-x.rank - 1, x.rank)})"
    w.write(f"{w.fresh()} = {text}", [x], True, view=True)


def reshape(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    name, options = x.name, [f"{x.name}.reshape(-1)", f"{x.name}.flatten()"]
    if x.rank >= 2:
        d = w.rng.randrange(x.rank - 1)
        options += [f"{name}.flatten({d}, {d + 1})"] * 2
        sizes = [f"{name}.size({i})" for i in range(x.rank)]
        merged = [*sizes[:d], f"{sizes[d]} * {sizes[d + 1]}", *sizes[d + 2 :]]
        options += [
            f"{name}.reshape({', '.join(merged)})",
            f"{name}.reshape({', '.join(reversed(sizes))})",
        ]
        inferred = list(merged)
        inferred[d] = "-1"
        options.append(f"{name}.reshape({', '.join(inferred)})")
    for d, sizes in enumerate(x.shape):
        for factor in (2, 3, 4):
            if all(n % factor == 0 and n for n in sizes):
                parts = w.choice(
                    f"({factor}, -1)",
                    f"(-1, {factor})",
                    f"({name}.size({d}) // {factor}, {factor})",
                )
                options += [f"{name}.unflatten({d}, {parts})"] * 3
    w.write(f"{w.fresh()} = {w.choice(*options)}", [x], True, view=True)


def merge_back(w: Writer) -> None:
    """A reshape to the shape of another variable."""
    x = w.pick(lambda v: v.rank >= 1)
    same = [
        v
        for v in w.variables.values()
        if v is not x
        and v.rank != x.rank
        and all(a.numel() == b.numel() for a, b in zip(v.metas, x.metas, strict=True))
    ]
    if not same:
        raise Unsuitable
    text = w.choice("{x}.reshape({y}.shape)", "{x}.reshape({y}.size())", "{x}.reshape_as({y})")
    y = w.rng.choice(same)
    w.write(f"{w.fresh()} = {text.format(x=x.name, y=y.name)}", [x], True, view=True)


def expand(w: Writer) -> None:
    x = w.pick(lambda v: v.rank <= 3)
    y = w.pick(lambda v: v.rank >= 1 and v is not x)
    if w.chance(0.5):
        text = w.choice(
            "{t}.expand_as({y})", "torch.broadcast_to({t}, {y}.shape)", "{t}.expand({y}.size())"
        )
        w.write(f"{w.fresh()} = {text.format(t=w.fitted(x, y), y=y.name)}", [x], True, view=True)
        return
    ones = [d for d, sizes in enumerate(x.shape) if is_one(sizes)]
    entries = ["-1"] * x.rank
    for d in ones:
        entries[d] = w.choice("3", "1", "8", w.size_text(w.rng.choice(y.shape)))
    if not ones or w.chance(0.3):
        entries.insert(0, w.choice("2", "5", w.size_text(w.rng.choice(y.shape))))
    w.write(f"{w.fresh()} = {x.name}.expand({', '.join(entries)})", [x], True, view=True)


def cut(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    d = w.dim(x, signed=False)
    a = w.rng.randint(0, 3)
    b = a + w.rng.randint(0, 5)
    size = f"{x.name}.size({d})"
    ranges = [
        f"{a}:",
        f":{b}",
        f"{a}:{b}",
        f":-{a + 1}",
        f"-{a + 1}:",
        f"{a}:-1",
        f"{a}:{a + 1}",
        f":{size} // 2",
        f"{size} // 3:",
        f"{size} - {a + 1}:",
    ]
    index = [":"] * x.rank
    index[d] = w.choice(*ranges)
    options = [f"{x.name}[{', '.join(index)}]"] * 4
    options += [
        f"{x.name}.narrow({d}, {a}, {max(b - a, 1)})",
        f"{x.name}.narrow({d}, 1, {size} - 1)",
    ]
    if w.chance(0.3):
        index[d] = w.choice("0", "-1", str(a))
        options = [
            f"{x.name}[{', '.join(index)}]",
            f"{x.name}.select({d}, {a})",
            f"{x.name}[..., {a}]",
        ]
    if w.chance(0.15) and x.rank > 1:
        options = [f"{x.name}[1:, ..., :{b + 1}]", f"{x.name}[{a}, ..., :-1]"]
    w.write(f"{w.fresh()} = {w.choice(*options)}", [x], True, view=True)


def beside_element(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1 and not v.is_bool)
    d = w.dim(x, signed=False)
    middle = f"{x.name}.size({d}) // 2"
    index = [":"] * x.rank
    index[d] = w.choice(":1", "-1:", f"{middle}:{middle} + 1")
    if w.chance(0.2):
        index[w.dim(x, signed=False)] = w.choice(":1", "-1:")
    element = f"{x.name}[{', '.join(index)}]"
    form = w.choice(
        "{x} * {e}", "{x} - {e}", "{e} - {x}", "{e} + {x} * 2", "torch.maximum({x}, {e})"
    )
    if x.dtype.is_complex and "maximum" in form:
        raise Unsuitable
    w.write(f"{w.fresh()} = {form.format(x=x.name, e=element)}", [x], False)


def wide_integer(w: Writer) -> None:
    """Integers beyond 32 bits, and what is small again of them."""
    x = w.pick(lambda v: v.rank >= 1)
    factor = w.choice("2147483659", "3000000019", "4294967311", "50000000000")
    size = f"{x.name}.size({w.dim(x)})"
    numbers = [factor, f"{size} * {factor}", f"({size} - 3) * {factor}"]
    numbers += [f"{number.name} * {factor}" for number in w.program.numbers if number.name == "k"]
    number = w.choice(*numbers)
    length = w.size_text(w.rng.choice(x.shape))
    options = [
        f"torch.arange({length}) * {factor}",
        f"torch.arange({factor}, {factor} + {length} * {factor}, {factor})",
        f"torch.arange({number}, {number} + {length})",
    ]
    if x.is_int or x.is_bool:
        value = f"{x.name}.long().clamp(-9, 9)"
        options += [f"{value} * ({number})", f"({value} * {factor} + {number})"] * 2
    back = w.choice("({y}) % 1009", "({y}) // 1000003", "({y}) >> 20", "({y}) > {number}")
    text = back.format(y=w.choice(*options), number=number)
    w.write(f"{w.fresh()} = {text}", [x], True)


def chunk(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    d = w.dim(x)
    count = w.choice(2, 2, 3)
    names = ", ".join(w.fresh() for _ in range(count))
    w.write(f"{names} = {x.name}.chunk({count}, {d})", [x], True, view=True)


def cat(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    d = w.dim(x, signed=False)

    def fits(v: Variable) -> bool:
        return v.rank == x.rank and all(
            a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)) if i != d
        )

    parts = [x, *(w.pick(fits) for _ in range(w.rng.randint(1, 2)))]
    w.rng.shuffle(parts)
    names = ", ".join(v.name for v in parts)
    same = all(v.shape == x.shape for v in parts)
    if same and w.chance(0.3):
        w.write(f"{w.fresh()} = torch.stack([{names}], {w.rng.randint(0, x.rank)})", parts, True)
    else:
        w.write(f"{w.fresh()} = torch.cat([{names}], {w.choice(d, d - x.rank)})", parts, True)


def pad(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    count = w.rng.randint(1, min(2, x.rank))
    low = -1 if w.chance(0.3) else 0
    widths = ", ".join(str(w.rng.randint(low, 3)) for _ in range(2 * count))
    value = "" if x.is_bool or w.chance(0.5) else w.choice(", value=1", ", value=-2")
    w.write(f"{w.fresh()} = F.pad({x.name}, ({widths}){value})", [x], True)


def triangle(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 2)
    w.write(f"{w.fresh()} = {x.name}.{w.choice('triu', 'tril')}({w.rng.randint(-2, 2)})", [x], True)


def roll(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    d = w.rng.choice([i for i, sizes in enumerate(x.shape) if min(sizes) > 0] or [-1])
    if d < 0:
        raise Unsuitable
    w.write(f"{w.fresh()} = torch.roll({x.name}, 1, {d})", [x], True)


def convert(w: Writer) -> None:
    x = w.pick()
    options = [
        "{x}.float()",
        "{x}.double()",
        "{x}.to(torch.bfloat16)",
        "{x}.half()",
        "{x}.to(dtype=torch.float32)",
    ]
    if x.exact and not x.dtype.is_complex:
        options += ["{x}.int()", "{x}.long()", "{x}.bool()", "{x}.to(torch.int64)"]
    if x.is_float:
        options += ["torch.complex({x}.float(), {x}.float() * 0.5)"] if w.chance(0.1) else []
    if x.dtype.is_complex:
        options = [
            "{x}.real",
            "{x}.imag",
            "{x}.abs()",
            "torch.view_as_real({x})[..., 0]",
            "{x}.conj() * {x}",
        ]
    text = w.choice(*options).format(x=x.name)
    exact = (
        not (x.is_float or x.dtype.is_complex)
        or ".int()" in text
        or ".long()" in text
        or ".bool()" in text
    )
    exact = exact or "int64" in text or ".real" in text or ".imag" in text or ".double()" in text
    if not x.is_float and ("bfloat16" in text or "half" in text):
        exact = False
    w.write(f"{w.fresh()} = {text}", [x], exact, view=True)


def create(w: Writer) -> None:
    y = w.pick(lambda v: v.rank >= 1)
    sizes = [w.size_text(y.shape[d]) for d in range(y.rank) if w.chance(0.8)]
    dtype = w.choice(", dtype=torch.float32", ", dtype=torch.float64", ", dtype=torch.int64", "")
    length = w.size_text(w.rng.choice(y.shape))
    options = [
        f"torch.full(({''.join(s + ', ' for s in sizes)}), -2.0)",
        f"torch.full(({''.join(s + ', ' for s in sizes)}), 1.5)",
        f"torch.zeros_like({y.name})",
        f"torch.ones_like({y.name})",
        f"torch.arange({length}{dtype})",
        f"torch.arange({length})",
        f"torch.arange(1, {length} + 1{dtype})",
        f"torch.full_like({y.name}, 2)",
        f"torch.zeros({', '.join(sizes) or '1'}{dtype})",
    ]
    w.write(f"{w.fresh()} = {w.choice(*options)}", [], True)


def _index(
    w: Writer, accepts: Callable[[Variable], bool], x: Variable, d: int
) -> tuple[str, Variable]:
    """Positions within dimension d of x, which is nowhere empty."""
    if d >= x.rank or min(x.shape[d]) < 1:
        raise Unsuitable
    index = w.pick(lambda v: v.is_int and accepts(v))
    size = x.name + f".size({d})"
    return w.choice(
        f"({index.name} % {size})",
        f"{index.name}.clamp(0, {size} - 1)",
        f"torch.remainder({index.name}, {size})",
    ), index


def lookup(w: Writer) -> None:
    x = w.pick(lambda v: v.rank >= 1)
    d = w.dim(x, signed=False)
    kind = w.choice("index_select", "gather", "take_along_dim", "embedding", "column")
    if kind == "index_select":
        text, index = _index(w, lambda v: v.rank == 1, x, d)
        w.write(f"{w.fresh()} = {x.name}.index_select({d}, {text})", [x, index], True)
    elif kind == "embedding":
        text, index = _index(w, lambda v: 1 <= v.rank <= 2, x, 0)
        if x.rank != 2 or not x.is_float:
            raise Unsuitable
        w.write(f"{w.fresh()} = F.embedding({text}, {x.name})", [x, index], True)
    elif kind == "column":
        text, index = _index(
            w, lambda v: v.rank == 1 and x.rank == 2 and v.shape[0] == x.shape[0], x, 1
        )
        w.write(f"{w.fresh()} = {x.name}.gather(1, {text}.long()[:, None])", [x, index], True)
    else:

        def fits(v: Variable) -> bool:
            return v.rank == x.rank and all(
                a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)) if i != d
            )

        text, index = _index(w, fits, x, d)
        call = (
            f"gather({d}, {text}.long())"
            if kind == "gather"
            else f"take_along_dim({text}.long(), {d})"
        )
        w.write(f"{w.fresh()} = {x.name}.{call}", [x, index], True)


def scatter(w: Writer) -> None:
    """Positions that differ from each other: rows in reverse or shifted."""
    x = w.pick(lambda v: 1 <= v.rank <= 2 and min(v.shape[-1]) > 0)
    size = f"{x.name}.size(-1)"
    index = w.choice(
        f"({size} - 1 - torch.arange({size}))", f"((torch.arange({size}) + 1) % {size})"
    )
    index += f".expand({x.name}.shape)"
    if w.chance(0.3):
        w.write(f"{w.fresh()} = {x.name}.scatter({-1}, {index}[..., 1:], 1)", [x], True)
        return
    source = w.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
    function = w.choice("{x}.scatter(-1, {i}, {s})", "torch.scatter({x}, -1, {i}, {s})")
    w.write(f"{w.fresh()} = {function.format(x=x.name, i=index, s=source.name)}", [x, source], True)


def product(w: Writer) -> None:
    """Of matrices; what the last dimension of one and the first of the other have in common."""
    x = w.pick(lambda v: v.rank >= 1 and v.is_float and v.dtype != torch.float16)
    width = x.shape[-1]

    def fits(v: Variable) -> bool:
        batches = zip(reversed(v.shape[:-2]), reversed(x.shape[:-2]), strict=False)
        return (
            v.dtype == x.dtype
            and 1 <= v.rank <= 3
            and width in (v.shape[-1], v.shape[-2:][0])
            and all(a == b or is_one(a) or is_one(b) for a, b in batches)
        )

    y = w.pick(fits)
    reads, out = [x, y], w.fresh()
    if y.rank == 2 and y.shape[1] == width and w.chance(0.5):
        biases = [v for v in w.variables.values() if v.dtype == x.dtype and v.shape == y.shape[:1]]
        bias = ""
        if biases and w.chance(0.6):
            reads.append(w.rng.choice(biases))
            bias = f", {reads[-1].name}"
        w.write(f"{out} = F.linear({x.name}, {y.name}{bias})", reads, False)
    elif y.rank >= 2 and y.shape[-1] == width and w.chance(0.7):
        w.write(f"{out} = {x.name} @ {y.name}.transpose(-1, -2)", reads, False)
    else:
        w.write(f"{out} = torch.matmul({x.name}, {y.name})", reads, False)


def order(w: Writer) -> None:
    """Values alone: which of two equal ones comes first is open."""
    x = w.pick(lambda v: v.rank >= 1 and v.is_float)
    d = w.dim(x)
    k = w.choice(1, 2, 3)
    options = [f"torch.topk({x.name}, {k}, {d})", f"{x.name}.topk({k}, {d}, largest=False)"]
    options += [f"{x.name}.sort({d})", f"torch.sort({x.name}, dim={d}, descending=True)"]
    w.write(f"{w.fresh()}, _ = {w.choice(*options)}", [x], True)


def in_place(w: Writer) -> None:
    overlapping = {x.name for x in w.program.inputs if x.layout.kind == "expanded"}
    x = w.pick(lambda v: len(v.memory) == 1 and v.name not in overlapping and not v.is_bool)
    choice = w.rng.random()
    if choice < 0.5:
        form = w.choice(
            "{x}.mul_({n})", "{x}.add_({n})", "{x} += {n}", "{x} *= {n}", "{x}.sub_({n})"
        )
        w.update(x, form.format(x=x.name, n=_number(w, x)), [], not x.is_float)
    elif choice < 0.6 and x.is_float:
        w.update(x, f"{x.name}.{w.choice('relu_', 'neg_', 'abs_')}()", [], True)
    elif choice < 0.65:
        w.update(x, f"{x.name}.{w.choice('zero_()', 'fill_(2)')}", [], True)
    else:
        y_text, y = w.partner(x, lambda v: v is not x and not v.memory & x.memory)
        form = w.choice(
            "{x}.copy_({y})",
            "{x}.add_({y})",
            "{x} += {y}",
            "{x}.mul_({y})",
            "{x} -= {y}",
            "{x}.add_({y}, alpha=0.5)",
        )
        if "copy" in form and y.is_float and not (x.is_float and y.exact):
            raise Unsuitable
        w.update(x, form.format(x=x.name, y=y_text), [y], "copy" in form and x.dtype == y.dtype)


TEMPLATES: list[tuple[Callable[[Writer], None], float]] = [
    (unary, 9),
    (integer_unary, 2),
    (with_number, 4),
    (binary, 14),
    (outer, 2),
    (compare, 2),
    (logical, 1),
    (where, 3),
    (reduce, 8),
    (reduce_to_two, 2),
    (normalize, 5),
    (scan, 2),
    (reorder, 4),
    (unsqueeze, 3),
    (reshape, 5),
    (merge_back, 1),
    (expand, 3),
    (cut, 7),
    (chunk, 2),
    (cat, 3),
    (pad, 2),
    (triangle, 1),
    (roll, 1),
    (convert, 3),
    (create, 2),
    (lookup, 3),
    (scatter, 1),
    (in_place, 3),
    (product, 2),
    (order, 1),
]

# Those that came later, and the first seed that has them: the programs of earlier ones stay what
# they were when something was found with them.
LATER: list[tuple[int, Callable[[Writer], None], float]] = [
    (8_500_000, beside_element, 3),
    (9_700_000, wide_integer, 3),
]
