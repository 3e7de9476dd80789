"""What the commands have found out, as plain values for JSON. What has no end is `null`."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from retrykit.decision import RetryAfter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrykit.cli._explain import Explanation, Reading, Waits
    from retrykit.cli._plan import Plan, Spread
    from retrykit.cli._simulate import Result, Scenario


def of_plan(name: str, plan: Plan) -> dict[str, Any]:
    """A plan: its rows, the worst case, the warnings."""
    policy = plan.policy
    return {
        "policy": name,
        "settings": repr(policy),
        "reason": plan.reason and plan.reason.value,
        "attempts": _finite(plan.attempts),
        "deadline": policy.deadline,
        "attempt_timeout": policy.attempt_timeout,
        "attempt_time": plan.attempt_time,
        "samples": plan.samples,
        "seed": plan.seed,
        "rows": [
            {
                "attempt": row.attempt,
                "wait": _spread(row.wait),
                "start": _spread(row.start),
                "reached": row.reached,
                "saved": {
                    f"{rate:g}": saved for rate, saved in zip(plan.rates, row.saved, strict=True)
                },
            }
            for row in plan.rows
        ],
        "attempts_in_outage": _finite(plan.in_outage),
        "worst_case": {
            "attempts": _finite(plan.worst.attempts),
            "by_deadline": plan.worst.by_deadline,
            "waits": _finite(plan.worst.waits),
            "total": _finite(plan.worst.total),
            "server_wait": _finite(plan.worst.server_wait),
        },
        "budget": None
        if policy.budget is None
        else {"settings": repr(policy.budget), "retries_in_outage": _finite(plan.refused_after)},
        "warnings": [{"code": each.code, "text": each.text} for each in plan.cautions],
    }


def of_simulation(scenario: Scenario, results: Sequence[Result]) -> dict[str, Any]:
    """A simulation: its scenario, and a result for each policy."""
    return {"scenario": asdict(scenario), "results": [_result(result) for result in results]}


def _result(result: Result) -> dict[str, Any]:
    return {
        "policy" if each.name == "name" else each.name: getattr(result, each.name)
        for each in fields(result)
    }


def of_explanation(explained: Explanation) -> dict[str, Any]:
    """A decision on a response, and its rules."""
    decision, row, method = explained.decision, explained.row, explained.method_row
    return {
        "status": explained.status,
        "method": explained.method,
        "retry": explained.retries,
        "reason": explained.reason.value,
        "delay": decision.delay if isinstance(decision, RetryAfter) else None,
        "wait": _waits(explained.waits),
        "asked": explained.asked,
        "asked_by": explained.asked_by,
        "server_said": explained.server_said,
        "rule": {
            "status": row.status,
            "name": row.name,
            "when": [list(group) for group in row.when],
            "kind": row.kind,
            "repeat": row.repeat,
            "reason": row.reason,
            "source": row.source,
        },
        "method_rule": {
            "safety": explained.safety.value,
            "safe": None if method is None else method.safe,
            "idempotent": None if method is None else method.idempotent,
            "source": None if method is None else method.reference,
        },
        "idempotency_key": explained.key if explained.key_counts else None,
    }


def of_reading(reading: Reading) -> dict[str, Any]:
    """What a Retry-After was taken for."""
    return {
        "value": reading.value,
        "seconds": reading.seconds,
        "form": reading.form,
        "rule": reading.rule,
        "decision": reading.decision,
        "limit": reading.limit,
        "wait": _waits(reading.waits),
    }


def _spread(spread: Spread) -> dict[str, float]:
    return spread._asdict()


def _waits(waits: Waits | None) -> dict[str, float] | None:
    return None if waits is None else waits._asdict()


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value
