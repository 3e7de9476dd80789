"""Classifiers for what speaks other protocols than HTTP, each in its own module.

- `retrykit.classifiers.sql`: `SqlClassifier`, for databases
- `retrykit.classifiers.grpc`: `GrpcClassifier`
- `retrykit.classifiers.redis`: `RedisClassifier`, also for Valkey
- `retrykit.classifiers.botocore`: `BotocoreClassifier`, for AWS

They know the clients' errors by their shape and import none of them. openai's and anthropic's are
errors of HTTP: `retrykit.http.HttpClassifier` reads them.

All have one question to their user: `idempotent`, whether the function may run again where its work
may have been done already (the connection broke off while the answer was awaited). Unless he says
so it does not, and the call ends with `NOT_IDEMPOTENT`. What certainly was not done is repeated
either way.
"""
