"""Draws the dashboards with Grafana's own libraries, from a real Prometheus; `make screenshots` writes docs/images/."""
