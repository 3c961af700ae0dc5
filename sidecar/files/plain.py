"""Text from the wire made harmless."""

_UNPRINTABLE = dict.fromkeys((*range(32), 127, *range(128, 160)), "�")


def plain(text: str) -> str:
    """Text without control characters and lone surrogates: a terminal obeys some of them."""
    return text.translate(_UNPRINTABLE).encode("utf-8", "replace").decode("utf-8")
