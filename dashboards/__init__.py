"""Dashboards, alert rules and provisioning, and what generates them. See README.md here."""
