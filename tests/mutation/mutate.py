"""Mutation testing of the decision core: change one thing at a time and see that a test fails.

    python tests/mutation/mutate.py                  # every module below
    python tests/mutation/mutate.py budget jitter    # some of them
    python tests/mutation/mutate.py --list budget    # the mutants, without running anything

A mutant that no test notices is a survivor. At least 95 % of each module's mutants must die, and
each survivor must stand, with its reason, in `survivors.txt` beside this file: the exit status is 1
otherwise. Nothing is written into the source tree: each mutant has a folder and a process of its
own. Needs `os.fork` and symbolic links.
"""

from __future__ import annotations

import argparse
import ast
import copy
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
REASONS = HERE / "survivors.txt"
LEAST = 0.95
LONGEST = 6.0
"""A mutant that takes so many times as long as the unchanged module never ends: it is dead."""

TESTS = {
    "_executor": [
        "test_executor.py",
        "test_classify.py",
        "test_policy.py",
        "test_foreign.py",
        "test_model.py",
    ],
    "backoff": ["test_backoff.py", "test_policy.py", "test_executor.py"],
    "jitter": ["test_jitter.py", "test_backoff.py"],
    "server_delay": ["test_server_delay.py", "test_executor.py"],
    "budget": ["test_budget.py", "test_executor.py"],
}
"""The modules, and the tests that are to notice; the quickest to do so first."""


# The mutants


@dataclass(frozen=True)
class Mutant:
    """One change."""

    name: str
    source: str


COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
CALLS = {"min": "max", "max": "min", "all": "any", "any": "all"}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What one node may become."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                changed = copy.deepcopy(node)
                changed.ops[place] = COMPARISONS[type(operator)]()
                yield changed
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            changed = copy.deepcopy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            yield changed
        case ast.BoolOp():
            changed = copy.deepcopy(node)
            changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str() as value):
            yield ast.Constant(f"{value}X")
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            changed = copy.deepcopy(node)
            changed.func = ast.Name(CALLS[name], ast.Load())
            yield changed
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(
            node.test, (ast.Compare, ast.UnaryOp)
        ):
            changed = copy.deepcopy(node)
            changed.test = ast.UnaryOp(ast.Not(), node.test)
            yield changed
        case ast.Return(value=ast.expr() as value) if not _is_false(value):
            yield ast.Return(ast.Constant(None))
        case ast.Assign(targets=[ast.Attribute()]) | ast.Expr(value=ast.Call() | ast.Yield()):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _is_false(value: ast.expr) -> bool:
    """Whether it is as good as `None` already."""
    return isinstance(value, ast.Constant) and value.value in (None, False)


class Sites(ast.NodeVisitor):
    """The nodes worth changing, each with the name of the function that it stands in.

    Left out: annotations, docstrings, protocols, slots, decorators, `if TYPE_CHECKING`.
    """

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.AST]] = []
        self.where: list[str] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if any(True for _ in changes(node)):
            self.found.append((".".join(self.where) or "module", node))
        super().visit(node)

    def _named(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.where.append(node.name)
        for each in node.body:
            self.visit(each)
        self.where.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = {ast.unparse(base) for base in node.bases}
        if "Protocol" not in bases:
            self._named(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.where.append(node.name)
                self.visit(default)
                self.where.pop()
        self._named(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if ast.unparse(node.targets[0]) not in ("__slots__", "__all__"):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in ast.unparse(node.annotation):
            self.visit(node.value)


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of a module's source, under names that survive changes elsewhere in it."""
    tree = ast.parse(source)
    sites = Sites()
    sites.visit(tree)
    names: Counter[str] = Counter()
    found: list[Mutant] = []
    for where, node in sites.found:
        before = _shown(node)
        for changed in changes(node):
            ast.copy_location(changed, node)
            name = f"{where}: {before} -> {_shown(changed)}"
            names[name] += 1
            if names[name] > 1:
                name = f"{name} ({names[name]})"
            mutated = _with(tree, node, changed)
            found.append(Mutant(name, ast.unparse(ast.fix_missing_locations(mutated))))
    return found


def _shown(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split("\n")[0]


def _with(tree: ast.Module, node: ast.AST, changed: ast.AST) -> ast.Module:
    class Replace(ast.NodeTransformer):
        def visit(self, each: ast.AST) -> Any:
            return copy.deepcopy(changed) if each is node else self.generic_visit(each)

    # The transformer changes lists in place, so that it is given a tree of its own; and that keeps
    # the one node, so that it can be told from its equals.
    return Replace().visit(copy.deepcopy(tree, {id(node): node}))


# Running them


def lay_out(folder: Path, module: str, source: str) -> None:
    """The package in `folder`, linked to the real one but for the one changed module."""
    package = folder / "retrykit"
    package.mkdir()
    for each in (ROOT / "retrykit").iterdir():
        if each.name != f"{module}.py":
            (package / each.name).symlink_to(each)
    (package / f"{module}.py").write_text(source)


def run_tests(folder: Path, tests: Sequence[str]) -> int:
    """In a process of its own: the status of the tests with the package in this folder."""
    import hypothesis
    import pytest

    # The processes that a test starts are to see the change too. The compiled modules are shared
    # with the real package, and stay as they are.
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1")
    hypothesis.settings.register_profile(
        "mutation",
        database=None,
        derandomize=True,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],  # shrinking takes time
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutation")
    names = [str(ROOT / "tests" / test) for test in tests]
    # Plugins that are imported already cannot be rewritten, which pytest would warn of.
    calm = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *calm, *names]))


def lives(module: str, source: str, longest: float) -> Callable[[], str | None]:
    """Start the tests; the function says how they ended, or `None` while they go on."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp())
    lay_out(folder, module, source)
    child = os.fork()
    if not child:
        os.setsid()
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        try:
            os._exit(run_tests(folder, TESTS[module]))
        except BaseException:
            os._exit(99)  # the module cannot even be imported, say

    def ended() -> str | None:
        done, status = os.waitpid(child, os.WNOHANG)
        late = time.monotonic() - began > longest
        if not done and not late:
            return None
        if not done:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        shutil.rmtree(folder)
        if not done:
            return "never ended"
        return "survived" if status == 0 else "died"

    return ended


def survivors_of(module: str, mutants: Sequence[Mutant], jobs: int, longest: float) -> list[str]:
    """The names of those that no test noticed."""
    waiting = list(reversed(mutants))
    running: dict[str, Callable[[], str | None]] = {}
    survived: list[str] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            running[mutant.name] = lives(module, mutant.source, longest)
        for name, ended in list(running.items()):
            how = ended()
            if how is None:
                continue
            del running[name]
            if how == "survived":
                survived.append(name)
                print(f"  survived: {name}", flush=True)
            elif how == "never ended":
                print(f"  never ended: {name}", flush=True)
        time.sleep(0.02)
    return survived


def reasons() -> dict[str, str]:
    """The survivors that are known, each with its reason."""
    known: dict[str, str] = {}
    name = ""
    for line in REASONS.read_text().splitlines() if REASONS.exists() else []:
        if line.startswith(("#", " ")) or not line.strip():
            if name and line.startswith(" "):
                known[name] = f"{known[name]} {line.strip()}".strip()
            continue
        name = line.strip()
        known[name] = ""
    return known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", choices=[[], *TESTS], metavar="module")
    parser.add_argument("--list", action="store_true", help="name the mutants and run nothing")
    parser.add_argument("--only", default="", help="only mutants whose name has this in it")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    for heavy in ("hypothesis", "hypothesis.stateful", "pytest", "trio", "trio.testing", "asyncio"):
        __import__(heavy)  # once, for all mutants
    known = reasons()
    wrong = 0
    for module in asked.modules or TESTS:
        path = ROOT / "retrykit" / f"{module}.py"
        source = path.read_text()
        mutants = [each for each in mutants_of(source) if asked.only in each.name]
        if asked.list:
            print(*[f"{module}.{each.name}" for each in mutants], sep="\n")
            continue
        began = time.monotonic()
        unchanged = lives(module, source, math.inf)
        while (how := unchanged()) is None:
            time.sleep(0.05)
        if how != "survived":
            print(f"{module}: the tests fail without any change")
            return 2
        longest = LONGEST * (time.monotonic() - began) * asked.jobs
        began = time.monotonic()
        found = survivors_of(module, mutants, asked.jobs, longest)
        survived = [f"{module}.{name}" for name in found]
        share = 1 - len(survived) / max(len(mutants), 1)
        took = time.monotonic() - began
        print(f"{module}: {share:.1%} of {len(mutants)} mutants died, in {took:.0f} s", flush=True)
        unknown = [name for name in survived if not known.get(name)]
        for name in unknown:
            print(f"  without a reason: {name}")
        if unknown or share < LEAST:
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
