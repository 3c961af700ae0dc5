"""The analyzer as a child of the proxy."""

from sidecar.service import run
from sidecar.supervised import serve

_LINGER = 0.2  # seconds; records that are in the socket still come in


def main() -> None:
    serve(run, _LINGER)


if __name__ == "__main__":
    main()
