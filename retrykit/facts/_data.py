"""Read a table that lies beside this module."""

from __future__ import annotations

from typing import Any


def load(name: str) -> Any:
    """The parsed JSON file of this name. `json` is imported on first use: it is not cheap."""
    import json
    from pathlib import Path

    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
