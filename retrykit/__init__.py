"""Retries for any callable: an outcome goes in, a decision comes out."""
