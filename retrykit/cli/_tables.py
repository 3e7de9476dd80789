"""What the commands print for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.text import Text

from retrykit.cli._console import Plain, table
from retrykit.cli._errors import one_line
from retrykit.cli._format import duration, percent, plural, times
from retrykit.decision import RetryAfter
from retrykit.facts.methods import RetryableMethod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrykit.cli._explain import Explanation, Reading, Waits
    from retrykit.cli._plan import Plan
    from retrykit.cli._simulate import Result, Scenario

_REPEAT: Final = {
    "never": "never to be repeated",
    "with_token": "to be repeated with an idempotency key only",
    "idempotent": "to be repeated where the method is idempotent, or with an idempotency key",
    "any": "to be repeated whatever the method",
    "by_status": "as the response says",
}


def print_plan(name: str, plan: Plan, endpoints: Sequence[str] = ()) -> None:
    """The table of attempts, what it comes to, and what looks wrong."""
    console = Plain()
    policy = plan.policy
    console.print(Text.assemble((one_line(name), "bold"), ": ", repr(policy)))
    if plan.reason is not None:
        console.print(f"for attempts that fail as {plan.reason}")
    console.print()
    has_deadline = policy.deadline is not None
    rows = table(
        "attempt",
        *("wait\nleast", "\nlikely", "\ngreatest"),
        *("start\nearliest", "\nlikely", "\nlatest"),
        *(["reached"] if has_deadline else []),
        *(f"saved at\n{rate * 100:g} %" for rate in plan.rates),
    )
    for row in plan.rows:
        waits = (row.wait.least, row.wait.median, row.wait.greatest)
        starts = (row.start.least, row.start.median, row.start.greatest)
        rows.add_row(
            str(row.attempt),
            *(("", "", "") if row.attempt == 1 else map(duration, waits)),
            *map(duration, starts),
            *([percent(row.reached)] if has_deadline else []),
            *map(percent, row.saved),
            style="dim" if row.reached == 0 else "",
        )
    console.print(rows)
    if plan.left_out:
        console.print(f"… and {plural(plan.left_out, 'more attempt')}")
    console.print()
    for line in _summary(plan):
        console.print(line)
    if endpoints:
        console.print(
            f"Endpoints with settings of their own (--endpoint): {one_line(', '.join(endpoints))}"
        )
    for caution in plan.cautions:
        console.print(Text.assemble(("Warning: ", "bold yellow"), caution.text))


def _summary(plan: Plan) -> list[str]:
    policy, worst = plan.policy, plan.worst
    text = f"Worst case: {plural(worst.attempts, 'attempt')} and {duration(worst.waits)} of waits"
    if math.isinf(worst.waits):
        text = "Worst case: no end"
    if policy.attempt_timeout is not None:
        text += f", {duration(policy.attempt_timeout)} for each attempt"
    if policy.deadline is None:
        text += ", no deadline"
    elif worst.by_deadline:
        text += f": the deadline of {duration(policy.deadline)} allows no more"
    else:
        text += f": within the deadline of {duration(policy.deadline)}"
    lines = [f"{text}."]
    if plan.attempts > 1 and worst.server_wait is not None:
        lines.append(f"A server's Retry-After can make a wait {duration(worst.server_wait)} long.")
    if plan.attempts > 1:
        calls = f"In an outage a call makes {plan.in_outage:,.3g} attempts on average"
        if math.isinf(plan.in_outage):
            calls = "In an outage a call makes attempts without end"
        if policy.budget is None:
            lines.append(f"{calls}: no budget limits the retries of all calls.")
        elif plan.refused_after is not None and math.isfinite(plan.refused_after):
            paid = plural(plan.refused_after, "retry", "retries")
            lines.append(f"{calls}; the budget pays for {paid} of all calls together.")
    time = f"take {duration(plan.attempt_time)} each" if plan.attempt_time else "fail at once"
    lines.append(
        f"Likely: the median of {plan.samples:,} sampled calls, seed {plan.seed}; attempts {time}."
    )
    return lines


def print_simulation(scenario: Scenario, results: Sequence[Result]) -> None:
    """A line for each policy."""
    console = Plain()
    outage = scenario.outage
    when = "no outage" if outage is None else f"an outage from {outage[0]:g} s to {outage[1]:g} s"
    console.print(
        f"{scenario.rate:g} calls a second from {plural(scenario.clients, 'client')}, a server for"
        f" {scenario.capacity:g} a second, {when}, {scenario.duration:g} s in all"
        f" (seed {scenario.seed})"
    )
    console.print()
    saved = ["calls saved"] if outage is None else ["calls saved\nin the outage", "\notherwise"]
    rows = table(
        "policy",
        "offered\nload",
        "\nserved",
        "\namplification",
        "peak\nload",
        *([] if outage is None else ["\nrecovery"]),
        *saved,
        "mostly\ngave up by",
    )
    for result in results:
        if outage is None:
            cells = [_share(result.succeeded)]
        else:
            recovery = "never" if result.recovery is None else f"{result.recovery:g} s"
            cells = [recovery, _share(result.succeeded_in_outage), _share(result.succeeded_outside)]
        rows.add_row(
            one_line(result.name),
            f"{sum(result.offered):,}",
            f"{sum(result.served):,}",
            times(result.amplification),
            times(result.peak),
            *cells,
            next(iter(result.give_ups), ""),
        )
    console.print(rows)
    console.print()
    within = "" if outage is None else " in the outage"
    after = "" if outage is None else " after it"
    console.print(f"Offered load: all requests. Amplification: requests for each call{within}.")
    console.print(f"Peak load: the most requests in a second{after}, in multiples of the calls.")
    if outage is not None:
        console.print(
            "Recovery: from the end of the outage until 99 % of the calls succeed; never: not in"
            " this run."
        )


def _share(share: float | None) -> str:
    return "" if share is None else percent(share)


def print_explanation(explained: Explanation) -> None:
    """The decision in a line, and the rules below it."""
    console = Plain()
    row = explained.row
    named = f"{explained.status} {row.name}"
    verdict = "retry" if explained.retries else "no retry"
    style = "bold green" if explained.retries else "bold red"
    console.print(
        Text.assemble(
            f"{named} to {_a(explained.method)}: ", (verdict, style), f" ({explained.reason})"
        )
    )
    when = _when(explained)
    console.print(f"  status  {row.kind.replace('_', ' ')}{when}: {_REPEAT[row.repeat]}")
    console.print(f"          {row.reason} [{row.source}]")
    console.print(f"  method  {_method(explained)}")
    for line in (_key(explained), _server(explained), _wait(explained)):
        if line:
            console.print(f"  {line}")


def _a(method: str) -> str:
    return f"an {method}" if method[:1] in "AEIOU" else f"a {method}"


def _when(explained: Explanation) -> str:
    groups = [" and ".join(group) for group in explained.row.when]
    return f", given {' or '.join(groups)}".replace("_", " ") if groups else ""


def _method(explained: Explanation) -> str:
    row = explained.method_row
    if row is None:
        known = explained.method.upper()
        hint = " (methods are case-sensitive)" if known != explained.method else ""
        return f"{explained.method} is not known, and so not idempotent{hint}"
    idempotent = "idempotent" if row.idempotent else "not idempotent"
    return f"{row.method} is {idempotent} [{row.reference}]"


def _key(explained: Explanation) -> str:
    names = " or ".join(explained.key_names)
    if explained.key is not None and not explained.key_counts:
        return f"key     {explained.key} does not count: it is empty, repeated or cannot be sent"
    if explained.key is not None:
        counts = explained.safety is RetryableMethod.IDEMPOTENT_WITH_TOKEN
        return f"key     {explained.key} makes it repeatable" if counts else ""
    if explained.a_key_would_do:
        return f"key     with {_a(names)} header it would be retried"
    return ""


def _server(explained: Explanation) -> str:
    if explained.server_said is None:
        return ""
    said = "yes" if explained.server_said else "no"
    return f"server  its own word on retries, {said}, outranks the table"


def _wait(explained: Explanation) -> str:
    decision = explained.decision
    if not isinstance(decision, RetryAfter):
        return ""
    by = f", as {explained.asked_by} asks" if explained.asked_by and explained.asked else ""
    if explained.waits is None:
        return (
            f"wait    {duration(decision.delay)}{by}: longer than the default limit of a"
            " ServerDelay, so the call ends"
        )
    return f"wait    {_between(explained.waits)}{by or ', by the backoff of http_policy()'}"


def _between(waits: Waits) -> str:
    least, greatest = map(duration, waits)
    return least if least == greatest else f"{least} to {greatest}"


def print_reading(reading: Reading) -> None:
    """What it asks for, and what is done about it."""
    console = Plain()
    asks = "nothing" if reading.seconds is None else duration(reading.seconds)
    console.print(
        Text.assemble(f"Retry-After: {one_line(reading.value)} asks for ", (asks, "bold"))
    )
    console.print(f"  rule  {reading.rule}")
    match reading.decision:
        case "wait" if reading.waits is not None:
            done = f"a retry waits for {_between(reading.waits)}: never sooner, and not all at once"
        case "stop":
            done = (
                f"no retry: longer than the {duration(reading.limit)} that a ServerDelay accepts by"
                " default"
            )
        case _:
            done = "a retry waits for what the backoff draws"
    console.print(f"  then  {done}")
