"""What is known about statuses, methods, exceptions and headers, as data."""
