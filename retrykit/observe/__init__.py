"""Listeners that hand the events on to other tools; each module needs the extra of its name.

`retrykit.observe.structlog`, `retrykit.observe.prometheus`, `retrykit.observe.opentelemetry`. None
of them is imported by `import retrykit`.
"""
