"""The examples in the docstrings run, in every module."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import retrykit

MODULES = [
    each.name
    for each in pkgutil.walk_packages(retrykit.__path__, "retrykit.")
    if not each.name.endswith("__main__")
]


@pytest.mark.parametrize("name", ["retrykit", *MODULES])
def test_the_examples_of_a_module_run(name: str) -> None:
    """Each gives what the docstring says that it gives."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(import_module(name), optionflags=flags).failed == 0


def test_there_are_examples() -> None:
    """The search finds them."""
    found = doctest.DocTestFinder().find(import_module("retrykit.classify"))
    assert sum(bool(each.examples) for each in found) > 5
