"""`python -m sidecar`."""

from sidecar.cli import main

main()
