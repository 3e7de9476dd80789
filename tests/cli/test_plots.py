"""The pictures: they are written whole, the same each time, and say what they show."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from retrykit import Constant, Exponential, NoJitter, RatioBudget, RetryPolicy, RetryReason
from retrykit.cli._errors import BadInput
from retrykit.cli._plan import make_plan
from retrykit.cli._plots import check, draw_plan, draw_simulation
from retrykit.cli._simulate import Scenario, simulate

SHORT = Scenario(rate=20, capacity=25, outage=(2, 4), duration=15, clients=2)
PLAN = make_plan(RetryPolicy(attempts=6, deadline=10, backoff=Exponential(1)), samples=100)


def size(file: Path) -> tuple[int, int]:
    """Width and height of a PNG in pixels."""
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    return width, height


def told(file: Path) -> str:
    """The texts in an SVG, as matplotlib notes them beside their outlines."""
    return "\n".join(re.findall(r"<!-- (.*?) -->", file.read_text(encoding="utf-8")))


def drawn(tmp_path: Path, policy: RetryPolicy, **settings) -> str:
    """What the picture of a plan says."""
    file = tmp_path / "plan.svg"
    draw_plan("mine", make_plan(policy, samples=100, **settings), str(file))
    return told(file)


def test_a_plan_says_what_it_shows(tmp_path) -> None:
    """Titles, axes with units, a legend."""
    file = tmp_path / "plan.svg"
    draw_plan("mine", PLAN, str(file))
    text = told(file)
    for wanted in (
        "Retry plan: mine",
        "When is each attempt made?",
        "seconds since the call began, if every attempt fails",
        "likely start (median)",
        "deadline (10 s): no attempt starts after it",
        "What do the attempts save?",
        "calls that have succeeded, %",
        "10 % fail",
    ):
        assert wanted in text


def test_what_a_plan_has_not_is_not_drawn(tmp_path) -> None:
    """No deadline; or one so far off that it would squeeze all else."""
    assert "deadline (" not in drawn(tmp_path, RetryPolicy())
    far = RetryPolicy(attempts=3, deadline=600)
    assert "deadline: 10 min, far to the right" in drawn(tmp_path, far)


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(attempts=1),
        RetryPolicy(backoff=Constant(0)),
        RetryPolicy(attempts=200, backoff=Constant(1)),
        RetryPolicy(deadline=0.001, backoff=Constant(5)),
        RetryPolicy(attempts=4, deadline=1, backoff=Exponential(5, jitter=NoJitter())),
    ],
    ids=["one", "no wait", "many", "a deadline at once", "a deadline before all"],
)
def test_any_plan_can_be_drawn(policy: RetryPolicy, tmp_path) -> None:
    """Also where there is next to nothing to draw."""
    text = drawn(tmp_path, policy, reason=RetryReason.THROTTLED)
    assert "for throttled" in text


def test_a_simulation_says_what_it_shows(tmp_path) -> None:
    """Each policy with its load, capacity, outage and how it came out."""
    file = tmp_path / "storm.svg"
    policies = {
        "eager": RetryPolicy(attempts=20, backoff=Constant(0)),
        "careful": RetryPolicy(budget=RatioBudget(reserve=2)),
    }
    results = [simulate(name, policy, SHORT) for name, policy in policies.items()]
    draw_simulation(SHORT, results, str(file))
    text = told(file)
    for wanted in (
        "What retries do to a server: 20 calls a second, a server for 25, an outage of 2 s",
        "eager",
        "careful",
        f"amplification ×{results[0].amplification:.3g} in the outage, no recovery",
        f"amplification ×{results[1].amplification:.3g} in the outage, recovers at once",
        "requests a second",
        "calls saved, %",
        "seconds (of virtual time)",
        "capacity of the server",
        "outage: everything is refused",
        "offered load: all requests",
    ):
        assert wanted in text


def test_a_late_recovery_is_marked(tmp_path) -> None:
    """With the moment, and how long it took; without an outage there is none."""
    slow = Scenario(rate=20, capacity=26, outage=(2, 6), duration=40, clients=2)
    result = simulate("slow", RetryPolicy(backoff=Constant(0.5)), slow)
    assert result.recovery is not None
    assert result.recovery > 0
    draw_simulation(slow, [result], str(tmp_path / "slow.svg"))
    text = told(tmp_path / "slow.svg")
    assert f"recovers in {result.recovery:g} s" in text
    assert "recovered" in text
    calm = Scenario(rate=20, capacity=50, outage=None, duration=12, clients=2)
    draw_simulation(calm, [simulate("calm", RetryPolicy(), calm)], str(tmp_path / "calm.svg"))
    assert "20 calls a second, a server for 50, no outage" in told(tmp_path / "calm.svg")


@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_policies_fits(count: int, tmp_path) -> None:
    """Three beside each other, the others below."""
    result = simulate("mine", RetryPolicy(attempts=2), SHORT)
    draw_simulation(SHORT, [result] * count, str(tmp_path / "storm.png"))
    width, height = size(tmp_path / "storm.png")
    assert width == (820 if count == 1 else 100 + 470 * min(count, 3))
    assert height == 90 + 460 * ((count + 2) // 3)


@pytest.mark.parametrize("outage", [None, (0.0, 15.0), (14.0, 15.0), (0.5, 0.75)])
def test_any_outage_can_be_drawn(outage, tmp_path) -> None:
    """None, all of the run, the end of it, less than a second."""
    scenario = Scenario(rate=20, capacity=25, outage=outage, duration=15, clients=2)
    result = simulate("mine", RetryPolicy(attempts=2), scenario)
    draw_simulation(scenario, [result], str(tmp_path / "storm.png"))
    assert size(tmp_path / "storm.png")


@pytest.mark.parametrize(
    ("kind", "begins"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")],
)
def test_the_files_name_says_its_kind(kind: str, begins: bytes, tmp_path) -> None:
    """In any case."""
    file = tmp_path / f"plan.{kind}"
    draw_plan("mine", PLAN, str(file))
    assert file.read_bytes().startswith(begins)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_numbers_give_the_same_file(kind: str, tmp_path) -> None:
    """Byte by byte, so that a picture under version control changes only with what it shows."""
    first, second = tmp_path / f"1.{kind}", tmp_path / f"2.{kind}"
    draw_plan("mine", PLAN, str(first))
    draw_plan("mine", PLAN, str(second))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    "name", ["$x^$", "$", "_hidden", "日本 🙂", "a\nb\x1b[31m", "x" * 500, "[bold]"]
)
def test_any_name_can_be_drawn(name: str, tmp_path) -> None:
    """None is taken for a formula, left out, or breaks the picture."""
    draw_plan(name, PLAN, str(tmp_path / "plan.png"))
    assert size(tmp_path / "plan.png") == (1000, 430)


def test_nobodys_settings_of_matplotlib_change_it(tmp_path) -> None:
    """Those of the program, say; they are left as they were, too."""
    import matplotlib as mpl

    draw_plan("mine", PLAN, str(tmp_path / "1.png"))
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.bbox": "tight"}):
        draw_plan("mine", PLAN, str(tmp_path / "2.png"))
        assert mpl.rcParams["font.size"] == 30
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("plan", "must name a .png, .svg, .pdf file, got 'plan'"),
        ("plan.jpg", "got 'plan.jpg'"),
        ("-", "got '-'"),
        ("nowhere/plan.png", "there is no folder 'nowhere'"),
        ("folder.png", "'folder.png' is a folder"),
    ],
)
def test_a_file_that_cannot_be_is_refused_first(
    file: str, message: str, tmp_path, monkeypatch
) -> None:
    """Before anything is computed."""
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    with pytest.raises(BadInput, match=re.escape(message)):
        check(file)


def test_a_file_that_cannot_be_written_is_told() -> None:
    """One line, not a traceback."""
    with pytest.raises(BadInput, match=r"cannot write /proc/plan\.png: "):
        draw_plan("mine", PLAN, "/proc/plan.png")


# The commands


def test_the_plans_option(printed, folder) -> None:
    """It draws, and prints as well."""
    assert "careful" in printed("plan", "careful", "--plot", "plan.png")
    assert size(folder / "plan.png") == (1000, 430)


def test_the_simulations_option(as_json, folder) -> None:
    """Also beside JSON."""
    options = ("--rate", "20", "--capacity", "25", "--outage", "2-4", "--duration", "12")
    found = as_json("simulate", "careful", "exact", *options, "--plot", "storm.svg")
    assert [each["policy"] for each in found["results"]] == ["careful", "exact"]
    assert "careful" in told(folder / "storm.svg")


@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_bad_input(command: str, refused) -> None:
    """One line."""
    assert "must name a .png" in refused(command, "careful", "--plot", "picture.gif")
    assert "there is no folder" in refused(command, "careful", "--plot", "no/picture.png")


# The README's pictures

ROOT = Path(__file__).parents[2]
PICTURES = {
    "plan": ("plan", "bounded"),
    "simulate": ("simulate", "eager", "careful", "--outage", "10s-20s", "--duration", "45s"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_shown_can_be_drawn_again(name: str, as_json, tmp_path) -> None:
    """By the commands that drew them; they are small."""
    file = tmp_path / f"{name}.png"
    config = str(ROOT / "examples" / "retrykit.toml")
    found = as_json(*PICTURES[name], "--config", config, "--plot", str(file))
    shown = ROOT / "examples" / "images" / f"{name}.png"
    assert size(file) == size(shown)
    assert shown.stat().st_size < 100_000
    if name == "plan":
        assert found["rows"][-1]["reached"] < 0.05
    else:
        eager, careful = found["results"]
        assert (eager["recovery"], careful["recovery"]) == (None, 0)
        assert eager["amplification"] > 6
        assert careful["amplification"] < 1.3
