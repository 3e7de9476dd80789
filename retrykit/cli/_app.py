"""The commands and their options, read with click; each command's work is in a module of its own.

A command answers its exit status.
"""

from __future__ import annotations

import json
import math
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from retrykit.cli._errors import BadInput, one_line
from retrykit.decision import RetryReason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retrykit import RetryPolicy

F = TypeVar("F", bound="Callable[..., Any]")

# What options take. A function that refuses its text says what is wanted and what it got.


def _duration(text: str) -> float:
    # Only a unit needs the configuration, which takes its time to load.
    try:
        seconds = float(text)
    except ValueError:
        from retrykit.config._durations import parse_duration

        try:
            return parse_duration(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    if not 0 <= seconds < math.inf:
        raise click.BadParameter(f"must be a finite number of at least 0, got {text!r}")
    return seconds


def _limit(text: str) -> float:
    seconds = _duration(text)
    if not seconds:
        raise click.BadParameter(f"must be above 0, got {text!r}")
    return seconds


def _attempts(text: str) -> float:
    if text == "inf":
        return math.inf
    try:
        attempts = int(text)
    except ValueError:
        attempts = 0
    if attempts < 1:
        raise click.BadParameter(f"must be a whole number of at least 1, or inf, got {text!r}")
    return attempts


def _share(text: str) -> float:
    try:
        share = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise click.BadParameter(f"must be between 0 and 1, or 0% and 100%, got {text!r}")
    return share


def _shares(text: str) -> tuple[float, ...]:
    return tuple(map(_share, text.split(",")))


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise click.BadParameter(f"must be a number above 0, got {text!r}")
    return number


def _outage(text: str) -> tuple[float, float] | None:
    if text == "none":
        return None
    start, dash, end = text.partition("-")
    if not dash:
        raise click.BadParameter(f"must be START-END, such as 20s-50s, or none, got {text!r}")
    return _duration(start), _duration(end)


def _statuses(text: str) -> frozenset[int]:
    statuses: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,3})(?:-([0-9]{1,3}))?\s*", part, re.ASCII)
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not low <= high <= 255:
            raise click.BadParameter(
                f"must be statuses from 0 to 255, such as 1,75 or 64-78, got {text!r}"
            )
        statuses.update(range(low, high + 1))
    return frozenset(statuses)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"must be a regular expression, got {text!r}: {error}") from None


def _picture(text: str) -> str:
    from retrykit.cli._plots import check

    check(text)
    return text


def _status(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise click.BadParameter(f"must be a status such as 503, got {text!r}")
    return int(text)


# Options that several commands have


def _command(**settings: Any) -> Callable[[Callable[..., int]], click.Command]:
    return click.command(
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            **settings,
        }
    )


def _option(*names: str, **settings: Any) -> Callable[[F], F]:
    made: Callable[[F], F] = click.option(*names, **settings)
    return made


_config: Final = _option(
    "--config",
    metavar="FILE",
    help="Where the policies are, in place of this folder's retrykit.toml or pyproject.toml.",
)
_endpoint: Final = _option(
    "--endpoint",
    metavar="'METHOD /PATH'",
    help="Take the policy's settings for this request, where endpoints have their own.",
)
_json: Final = _option("--json", "as_json", is_flag=True, help="Print JSON.")
_plot: Final = _option(
    "--plot", metavar="FILE", type=_picture, help="Draw it too: a .png, .svg or .pdf file."
)
_reason: Final = _option(
    "--reason",
    type=click.Choice([reason.value for reason in RetryReason]),
    help="Why attempts fail, for backoffs, limits and budgets that differ by reason (simulate:"
    " server_error where it is not given).",
)


@_command()
@click.argument("policy")
@_config
@_endpoint
@_reason
@_option(
    "--failure-rate",
    "rates",
    metavar="RATE,…",
    type=_shares,
    multiple=True,
    default=["0.1,0.3,0.5"],
    show_default="0.1,0.3,0.5",
    help="Shares of attempts that fail, each by itself, to tell the chance to save a call.",
)
@_option(
    "--attempt-time",
    metavar="DURATION",
    type=_duration,
    default="0",
    show_default=True,
    help="How long a failing attempt takes.",
)
@_option(
    "--rows",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="How many attempts are shown at most.",
)
@_option("--seed", type=int, default=0, show_default=True, help="Of the sampled calls.")
@_plot
@_json
def plan(
    policy: str,
    config: str | None,
    endpoint: str | None,
    reason: str | None,
    rates: tuple[tuple[float, ...], ...],
    attempt_time: float,
    rows: int,
    seed: int,
    plot: str | None,
    as_json: bool,
) -> int:
    """When each attempt of POLICY is made, what it saves, and what looks wrong.

    The least and greatest waits are exact, "likely" is the median of sampled calls. Failures are
    taken to be independent of each other, and no budget to refuse a retry.
    """
    from retrykit.cli._plan import make_plan
    from retrykit.cli._policies import endpoints_of, policy_named

    plan = make_plan(
        policy_named(policy, config, endpoint),
        reason=None if reason is None else RetryReason(reason),
        rates=tuple(dict.fromkeys(chain.from_iterable(rates))),
        attempt_time=attempt_time,
        rows=rows,
        seed=seed,
    )
    if plot is not None:
        from retrykit.cli._plots import draw_plan

        draw_plan(policy, plan, plot)
    if as_json:
        from retrykit.cli._json import of_plan

        _print_json(of_plan(policy, plan))
    else:
        from retrykit.cli._tables import print_plan

        others = endpoints_of(policy, config) if endpoint is None else ()
        print_plan(policy, plan, others)
    return 0


@_command()
@click.argument("policies", metavar="POLICY…", nargs=-1, required=True)
@_config
@_endpoint
@_reason
@_option(
    "--rate",
    metavar="NUMBER",
    type=_positive,
    default="100",
    show_default=True,
    help="Calls a second, of all clients together.",
)
@_option(
    "--clients",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="Each has a budget of its own, as each process has.",
)
@_option(
    "--capacity",
    metavar="NUMBER",
    type=_positive,
    default="125",
    show_default=True,
    help="Requests a second that the server can serve.",
)
@_option(
    "--refusal-cost",
    metavar="SHARE",
    type=_share,
    default="0.2",
    show_default=True,
    help="The work of refusing a request, as a share of serving one.",
)
@_option(
    "--outage",
    metavar="START-END",
    type=_outage,
    default="20s-50s",
    show_default=True,
    help="When the server refuses everything; none: never.",
)
@_option(
    "--duration",
    metavar="DURATION",
    type=_limit,
    default="120s",
    show_default=True,
    help="Of the run, in virtual time.",
)
@_option(
    "--latency",
    metavar="DURATION",
    type=_duration,
    default="50ms",
    show_default=True,
    help="How long the server takes for an answer.",
)
@_option(
    "--failure-rate",
    metavar="RATE",
    type=_share,
    default="0",
    show_default=True,
    help="The share of requests that fail at random all the time.",
)
@_option(
    "--retry-after",
    metavar="DURATION",
    type=_duration,
    default="0",
    show_default=True,
    help="The wait that the server asks for when it refuses.",
)
@_option("--seed", type=int, default=1, show_default=True, help="Of everything that is random.")
@_plot
@_json
def simulate(
    policies: tuple[str, ...],
    config: str | None,
    endpoint: str | None,
    reason: str | None,
    plot: str | None,
    as_json: bool,
    **settings: Any,
) -> int:
    """What each POLICY does to a server in an outage.

    Many clients call one server in virtual time, by the real driver. A request that is served costs
    one unit of the server's capacity; one that is refused costs some of it too, so that retries can
    keep an overload alive after the outage is over. What is refused is retried whatever the
    policy's `on` says.
    """
    from retrykit.cli._console import Plain
    from retrykit.cli._policies import policy_named
    from retrykit.cli._progress import progress
    from retrykit.cli._simulate import Scenario, simulate

    scenario = Scenario(reason=RetryReason(reason or "server_error"), **settings)
    named = {name: policy_named(name, config, endpoint) for name in policies}
    _tell_if_switched_off()
    with progress(Plain(stderr=True), named, scenario.duration) as told:
        results = [simulate(name, policy, scenario, told(name)) for name, policy in named.items()]
    if plot is not None:
        from retrykit.cli._plots import draw_simulation

        draw_simulation(scenario, results, plot)
    if as_json:
        from retrykit.cli._json import of_simulation

        _print_json(of_simulation(scenario, results))
    else:
        from retrykit.cli._tables import print_simulation

        print_simulation(scenario, results)
    return 0


@_command(allow_interspersed_args=False)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_option("--policy", help="Start from this policy of the configuration.")
@_config
@_option(
    "--attempts",
    metavar="NUMBER",
    type=_attempts,
    help="Runs at most, the first included; inf: no limit. Otherwise 5, or no limit where there is"
    " a deadline.",
)
@_option(
    "--backoff",
    metavar="WAIT",
    help="2s: each time; 1s,5s,30s: one after another; exponential:250ms,cap=20s: as in the"
    " configuration.",
)
@_option(
    "--deadline",
    metavar="DURATION",
    type=_limit,
    help="For all runs and waits together; what still runs then is ended.",
)
@_option(
    "--attempt-timeout",
    metavar="DURATION",
    type=_limit,
    help="For each run; one that takes longer is ended, and retried.",
)
@_option(
    "--retry-on-status",
    "statuses",
    metavar="STATUS,…",
    type=_statuses,
    multiple=True,
    help="Retry after these only, such as 75 or 1,64-78. Otherwise after every one but 0.",
)
@_option(
    "--retry-on-output",
    "patterns",
    metavar="REGEX",
    type=_pattern,
    multiple=True,
    help="Retry where a line of the output matches. Without --retry-on-status, only there.",
)
@_option(
    "--grace",
    metavar="DURATION",
    type=_duration,
    default=5.0,
    show_default="5s",
    help="How long what is asked to end may take before it is killed.",
)
@_option(
    "--replay-stdin",
    is_flag=True,
    help="Read standard input to its end first, and give each run all of it.",
)
@_option("--quiet", "-q", is_flag=True, help="Do not tell what is retried.")
def run(
    command: tuple[str, ...],
    policy: str | None,
    config: str | None,
    attempts: float | None,
    backoff: str | None,
    deadline: float | None,
    attempt_timeout: float | None,
    statuses: tuple[frozenset[int], ...],
    patterns: tuple[re.Pattern[str], ...],
    grace: float,
    replay_stdin: bool,
    quiet: bool,
) -> int:
    """Run COMMAND, and again where it fails.

    The exit status is that of the last run: 128 and the signal's number where it died of one (143
    after a time limit, or 124 if it made that a success), also where its output was the reason to
    retry. 127 and 126: it cannot be run at all, which is not retried.

    The command runs in a process group of its own, reads and writes where retrykit does, and at
    once; with --retry-on-output it writes to a pipe. Each run reads a file on standard input from
    the same place on; what a run has read from a pipe is gone for the next one, unless
    --replay-stdin keeps it.

    A time limit ends the whole process group: SIGTERM, and SIGKILL after the grace time. So does a
    SIGINT (Ctrl-C, then the exit status is 130), SIGTERM, SIGHUP or SIGQUIT that retrykit gets: it
    is passed on, and there is no further run. SIGUSR1 and SIGUSR2 go to the command alone.
    """
    import os

    if not hasattr(os, "posix_spawnp"):
        raise BadInput("run needs process groups and signals, which this system does not have")
    from retrykit import RetryPolicy
    from retrykit.cli._policies import backoff_from, policy_named
    from retrykit.cli._run import run as run_command

    given: Any = {
        name: value
        for name, value in (
            ("attempts", attempts),
            ("deadline", deadline),
            ("attempt_timeout", attempt_timeout),
            ("backoff", None if backoff is None else backoff_from(backoff)),
        )
        if value is not None
    }
    if policy is None and config is not None:
        raise BadInput("--config needs --policy, which names one of its policies")
    made: RetryPolicy
    made = RetryPolicy(**given) if policy is None else policy_named(policy, config).replace(**given)
    return run_command(
        command,
        made,
        statuses=frozenset(chain.from_iterable(statuses)) if statuses else None,
        patterns=patterns,
        grace=grace,
        replay_stdin=replay_stdin,
        quiet=quiet,
    )


@_command()
@click.argument("status", type=_status)
@click.argument("method")
@click.argument("headers", metavar="['NAME: VALUE'] …", nargs=-1)
@_option(
    "--key-name",
    "key_names",
    multiple=True,
    metavar="NAME",
    help="A request header that counts as an idempotency key, in place of Idempotency-Key.",
)
@_option(
    "--known",
    multiple=True,
    metavar="WORD",
    help="What only the body tells: throttling_code, request_timeout_code, secondary_limit,"
    " opted_in.",
)
@_json
def explain(
    status: int,
    method: str,
    headers: tuple[str, ...],
    key_names: tuple[str, ...],
    known: tuple[str, ...],
    as_json: bool,
) -> int:
    """What is decided on a response with STATUS to a METHOD request, and by which rule.

    The headers are the response's, such as 'Retry-After: 7', and the request's idempotency key,
    such as 'Idempotency-Key: 8e03978e'.
    """
    from retrykit.cli._explain import explain
    from retrykit.facts.methods import IDEMPOTENCY_KEY
    from retrykit.facts.statuses import FROM_THE_BODY

    for word in known:
        if word not in FROM_THE_BODY:
            raise BadInput(
                f"--known must be one of {', '.join(sorted(FROM_THE_BODY))}, got {word!r}"
            )
    explained = explain(
        status, method, headers, key_names=key_names or IDEMPOTENCY_KEY, known=known
    )
    if as_json:
        from retrykit.cli._json import of_explanation

        _print_json(of_explanation(explained))
    else:
        from retrykit.cli._tables import print_explanation

        print_explanation(explained)
    return 0


@_command(ignore_unknown_options=True)
@click.argument("value", nargs=-1, required=True, type=click.UNPROCESSED)
@_option("--date", metavar="HTTP-DATE", help="The response's own Date, for a value that is a time.")
@_json
def retry_after(value: tuple[str, ...], date: str | None, as_json: bool) -> int:
    """What a Retry-After of VALUE is taken for, and what follows from it."""
    from retrykit.cli._explain import read_retry_after

    reading = read_retry_after(" ".join(value), date=date)
    if as_json:
        from retrykit.cli._json import of_reading

        _print_json(of_reading(reading))
    else:
        from retrykit.cli._tables import print_reading

        print_reading(reading)
    return 0


_COMMANDS: Final = {
    "plan": plan,
    "simulate": simulate,
    "run": run,
    "explain": explain,
    "retry-after": retry_after,
}


def invoke(name: str, arguments: Sequence[str]) -> int:
    """Run one of the commands; a mistake in its arguments is a `BadInput`.

    Not by click's own `main`, which has answers of its own to Ctrl-C and to a broken pipe.
    """
    command = _COMMANDS[name]
    try:
        with command.make_context(f"retrykit {name}", list(arguments)) as context:
            status: int = command.invoke(context)
            return status
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as error:
        raise BadInput(f"{name}: {one_line(error.format_message())}") from None


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def _tell_if_switched_off() -> None:
    from retrykit.cli._policies import switched_off

    if switched_off():
        click.echo("retrykit: RETRYKIT_DISABLED is set, so nothing is retried", err=True)
