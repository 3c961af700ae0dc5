"""Writes the committed rules and dashboards from tables: `python -m dashboards.generator` (or `make dashboards`)."""
