"""The README's examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_examples_run_and_are_right() -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == 2
    names: dict[str, object] = {}
    for example in examples:
        assert "assert_close" in example
        exec(compile(example, str(README), "exec"), names)
