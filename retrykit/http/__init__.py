"""HTTP: which responses and failures are worth another attempt, and when.

The clients' adapters are modules of their own, each imported only where its client is used:
`retrykit.http.requests`, `retrykit.http.httpx`, `retrykit.http.aiohttp`, `retrykit.http.urllib3`.
"""

from retrykit.facts.http import Headers, HttpFacts, facts, verdict
from retrykit.facts.methods import RetryableMethod, classify_method
from retrykit.facts.retry_after import parse_retry_after
from retrykit.http._classifier import HttpClassifier, OnStatus
from retrykit.http._endpoint import ByEndpoint, by_endpoint
from retrykit.http._policy import http_policy, per_host

__all__ = [
    "ByEndpoint",
    "Headers",
    "HttpClassifier",
    "HttpFacts",
    "OnStatus",
    "RetryableMethod",
    "by_endpoint",
    "classify_method",
    "facts",
    "http_policy",
    "parse_retry_after",
    "per_host",
    "verdict",
]
