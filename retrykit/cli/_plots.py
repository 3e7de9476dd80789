"""The pictures: a plan's envelope, and simulations side by side.

Drawn without a display and without anybody's settings of matplotlib, so that the same numbers give
the same picture everywhere. The colours are those of Okabe and Ito, which colour-blind readers tell
apart; what matters differs in brightness or in shape as well, for print.
"""

from __future__ import annotations

import io
import logging
import math
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from retrykit.cli._errors import BadInput, one_line
from retrykit.cli._format import duration, percent, times

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from retrykit.cli._plan import Plan
    from retrykit.cli._simulate import Result, Scenario

FORMATS: Final = (".png", ".svg", ".pdf")

BLACK: Final = "#000000"
GREY: Final = "#8c8c8c"
BLUE: Final = "#0072b2"
SKY: Final = "#9dd0ee"
ORANGE: Final = "#e69f00"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"

_STYLES: Final = (
    (BLUE, "-", "o"),
    (VERMILION, "--", "s"),
    (GREEN, "-.", "^"),
    (BLACK, ":", "D"),
    (ORANGE, "-", "v"),
)
_LONGEST_NAME: Final = 40
_MOST_IN_A_ROW: Final = 3
_MOST_TOLD: Final = 12
"""How many attempts have their likely start written beside them."""
_FAR: Final = 2.0
"""A deadline so many times the latest start away is not in the picture."""


def check(file: str) -> None:
    """Refuse a file that no picture could be written to, before anything is computed."""
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise BadInput(f"--plot must name a {', '.join(FORMATS)} file, got {file!r}")
    if not path.parent.is_dir():
        raise BadInput(f"--plot: there is no folder {str(path.parent)!r}")
    if path.is_dir():
        raise BadInput(f"--plot: {file!r} is a folder")


def draw_plan(name: str, plan: Plan, file: str) -> None:
    """Draw when each attempt is made, and what that saves."""
    with _figure(file, 10.0, 4.3) as figure:
        figure.suptitle(f"Retry plan: {_plain(name)}", fontsize=13, fontweight="bold")
        figure.text(0.5, 0.905, _told(plan), ha="center", fontsize=9, color="#444444")
        waits, chances = figure.subplots(1, 2, width_ratios=(1.35, 1))
        _draw_starts(waits, plan)
        _draw_chances(chances, plan)
        figure.subplots_adjust(left=0.07, right=0.98, top=0.8, bottom=0.13, wspace=0.2)


def _told(plan: Plan) -> str:
    policy = plan.policy
    attempts = "no limit" if math.isinf(plan.attempts) else f"{plan.attempts:,.0f}"
    deadline = "none" if policy.deadline is None else duration(policy.deadline)
    told = f"attempts: {attempts}   ·   deadline: {deadline}   ·   {type(policy.backoff).__name__}"
    return told if plan.reason is None else f"{told}   ·   for {plan.reason}"


def _draw_starts(axes: Any, plan: Plan) -> None:
    """A bar for each attempt, from the earliest to the latest time at which it starts."""
    from matplotlib.patheffects import withStroke

    deadline = plan.policy.deadline
    rows = plan.rows
    longest = max(rows[-1].start.greatest, 1e-3)
    right: float = longest * 1.05
    if deadline is not None and deadline < longest * _FAR:
        right = deadline * 1.2 if deadline < longest else max(right, deadline * 1.08)
    numbers = [row.attempt for row in rows]
    least = [row.start.least for row in rows]
    width = [row.start.greatest - row.start.least for row in rows]
    axes.barh(
        numbers,
        width,
        left=least,
        height=0.62,
        color=SKY,
        edgecolor=BLUE,
        linewidth=0.8,
        label="earliest to latest start",
    )
    axes.plot(
        [row.start.median for row in rows],
        numbers,
        color=BLUE,
        marker="o",
        markersize=5,
        linewidth=1.3,
        label="likely start (median)",
    )
    if len(rows) <= _MOST_TOLD:
        for row in rows[1:]:
            if row.start.median < min(right, deadline or right) * 0.9:
                axes.annotate(
                    duration(row.start.median),
                    (row.start.median, row.attempt),
                    xytext=(6, 5),
                    textcoords="offset points",
                    fontsize=8.5,
                    va="center",
                    path_effects=[withStroke(linewidth=2.5, foreground="white")],
                )
    if deadline is not None and deadline < right:
        axes.axvspan(
            deadline,
            right,
            facecolor="#eeeeee",
            hatch="///",
            edgecolor="#c4c4c4",
            linewidth=0,
            zorder=3,
        )
        label = f"deadline ({duration(deadline)}): no attempt starts after it"
        axes.axvline(deadline, color=VERMILION, linewidth=2, zorder=4, label=label)
    elif deadline is not None:
        label = f"deadline: {duration(deadline)}, far to the right"
        axes.plot([], [], color=VERMILION, linewidth=2, label=label)
    axes.set_xlim(-right * 0.015, right)
    axes.set_ylim(rows[-1].attempt + 0.7, 0.3)
    axes.set_yticks(_ticks(numbers))
    axes.set_ylabel("attempt")
    axes.set_xlabel("seconds since the call began, if every attempt fails")
    axes.set_title("When is each attempt made?", fontsize=11)
    axes.grid(axis="x", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda each: "deadline" in labels[each])
    axes.legend(
        handles=[handles[each] for each in order], fontsize=8.5, loc="best", framealpha=0.95
    )


def _draw_chances(axes: Any, plan: Plan) -> None:
    """A line for each failure rate: the chance that a call has succeeded by then."""
    numbers = [row.attempt for row in plan.rows]
    lowest: float = 1
    for index, rate in enumerate(plan.rates):
        colour, line, marker = _STYLES[index % len(_STYLES)]
        saved = [row.saved[index] * 100 for row in plan.rows]
        lowest = min(lowest, saved[0] / 100)
        axes.plot(
            numbers,
            saved,
            color=colour,
            linestyle=line,
            marker=marker,
            markersize=5,
            linewidth=1.6,
            label=f"{rate * 100:g} % fail: {percent(saved[-1] / 100)} of calls saved",
        )
    axes.set_ylim(max(math.floor(lowest * 10) * 10 - 5, -3), 102)
    axes.set_xlim(0.6, numbers[-1] + 0.4)
    axes.set_xticks(_ticks(numbers))
    axes.set_xlabel("attempts made so far")
    axes.set_ylabel("calls that have succeeded, %")
    axes.set_title("What do the attempts save?", fontsize=11)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8.5, loc="lower right", framealpha=0.95)


def _ticks(numbers: Sequence[int]) -> list[int]:
    step = max(1, math.ceil(len(numbers) / 12))
    return [each for each in numbers if (each - 1) % step == 0]


def draw_simulation(scenario: Scenario, results: Sequence[Result], file: str) -> None:
    """Draw the load and the success of each policy, side by side, over the same time."""
    columns = min(len(results), _MOST_IN_A_ROW)
    bands = math.ceil(len(results) / columns)
    wide = columns > 1
    # In inches, as the margins below.
    width, height = (1.0 + 4.7 * columns if wide else 8.2), 0.9 + 4.6 * bands
    with _figure(file, width, height) as figure:
        title = _headline(scenario, wide)
        figure.suptitle(title, fontsize=12, fontweight="bold", y=1 - 0.16 / height)
        grid = figure.add_gridspec(
            bands,
            columns,
            left=0.75 / width,
            right=1 - 0.15 / width,
            top=1 - 0.95 / height,
            bottom=(0.85 if wide else 1.0) / height,
            wspace=0.1,
            hspace=0.4,
        )
        most = max(scenario.capacity, *(max(result.offered) for result in results)) * 1.12
        handles: list[Any] = []
        for index, result in enumerate(results):
            band, column = divmod(index, columns)
            cell = grid[band, column].subgridspec(2, 1, height_ratios=(2.4, 1), hspace=0.1)
            load, success = figure.add_subplot(cell[0]), figure.add_subplot(cell[1])
            handles = _draw_load(load, scenario, result, most)
            _draw_success(success, scenario, result)
            if column:
                load.set_yticklabels([])
                success.set_yticklabels([])
            else:
                load.set_ylabel("requests a second")
                success.set_ylabel("calls saved, %")
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=len(handles) if wide else 3,
            fontsize=8.5,
            frameon=False,
        )


def _headline(scenario: Scenario, wide: bool) -> str:
    load = f"{scenario.rate:g} calls a second, a server for {scenario.capacity:g}"
    if scenario.outage is None:
        return f"{load}, no outage"
    start, end = scenario.outage
    return (
        f"{'What retries do to a server: ' if wide else ''}{load}, an outage of {end - start:g} s"
    )


def _draw_load(axes: Any, scenario: Scenario, result: Result, highest: float) -> list[Any]:
    """What was offered, and what of it was served."""
    seconds = list(range(len(result.offered) + 1))
    refused = axes.stairs(result.offered, seconds, fill=True, color=ORANGE, label="refused")
    served = axes.stairs(result.served, seconds, fill=True, color=BLUE, label="served")
    (outline,) = axes.plot(
        [], [], color=VERMILION, linewidth=1.2, label="offered load: all requests"
    )
    axes.stairs(result.offered, seconds, color=VERMILION, linewidth=1.2)
    capacity = axes.axhline(
        scenario.capacity,
        color=BLACK,
        linewidth=1.2,
        linestyle="--",
        label="capacity of the server",
    )
    handles = [served, refused, outline, capacity]
    if scenario.outage is not None:
        handles.append(_shade_outage(axes, scenario.outage))
    axes.set_xlim(0, scenario.duration)
    axes.set_ylim(0, highest)
    axes.set_xticklabels([])
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_title(f"{_plain(result.name)}\n{_outcome(scenario, result)}", fontsize=10.5)
    return handles


def _outcome(scenario: Scenario, result: Result) -> str:
    load = f"amplification {times(result.amplification)}"
    if scenario.outage is None:
        return f"{load}, peak load {times(result.peak)}"
    if result.recovery is None:
        return f"{load} in the outage, no recovery"
    if result.recovery == 0:
        return f"{load} in the outage, recovers at once"
    return f"{load} in the outage, recovers in {result.recovery:g} s"


def _draw_success(axes: Any, scenario: Scenario, result: Result) -> None:
    """Of the calls that began in each second, the share that succeeded at last."""
    shares = [
        (second + 0.5, share * 100)
        for second, share in enumerate(result.success)
        if share is not None
    ]
    axes.plot(*zip(*shares, strict=True) if shares else ((), ()), color=GREEN, linewidth=1.6)
    if scenario.outage is not None:
        _shade_outage(axes, scenario.outage)
        if result.recovery is not None and result.recovery > 0:
            moment = scenario.outage[1] + result.recovery
            axes.axvline(moment, color=BLACK, linewidth=1, linestyle=":")
            axes.annotate(
                "recovered",
                (moment, 50),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=8,
                va="center",
            )
    axes.set_xlim(0, scenario.duration)
    axes.set_ylim(-5, 108)
    axes.set_yticks([0, 50, 100])
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("seconds (of virtual time)")


def _shade_outage(axes: Any, outage: tuple[float, float]) -> Any:
    return axes.axvspan(
        *outage,
        facecolor="none",
        hatch="///",
        edgecolor=GREY,
        linewidth=0,
        label="outage: everything is refused",
    )


def _plain(name: str) -> str:
    """A name as matplotlib draws it unchanged: a dollar would begin a formula."""
    name = one_line(name)
    name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return name.replace("$", r"\$")


@contextmanager
def _figure(file: str, width: float, height: float) -> Generator[Any]:
    """A figure, saved to the file once it is drawn; half a file is never left behind."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kind = Path(file).suffix.lower().removeprefix(".")
    settings: Any = {"svg.hashsalt": "retrykit", "hatch.linewidth": 0.5, "hatch.color": GREY}
    picture = io.BytesIO()
    with style.context(["default", settings]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font does not have
        figure: Any = Figure(figsize=(width, height), dpi=100)
        FigureCanvasAgg(figure)
        yield figure
        dated = {} if kind == "png" else {"Date" if kind == "svg" else "CreationDate": None}
        figure.savefig(picture, format=kind, metadata=dated)
    try:
        Path(file).write_bytes(picture.getvalue())
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror or error}") from None
