"""Of the headers, those are kept that are read; which these are, the sources say."""

import re
from pathlib import Path

from sidecar import dialects, headers

_PACKAGE = Path(headers.__file__).parent
_READ = re.compile(r'head\.headers\.get\(\s*"([a-z-]+)"|"([a-z-]+)" in head\.headers')


def test_no_header_of_a_request_is_read_that_is_not_kept() -> None:
    folders = (Path(dialects.__file__).parent, _PACKAGE)
    files = [path for folder in folders for path in folder.glob("*.py")]
    read = {name for path in files for pair in _READ.findall(path.read_text()) for name in pair if name}
    assert read
    assert read <= headers.OF_REQUEST


def test_what_is_kept_is_joined_and_in_lower_case() -> None:
    given = [("Accept", "a"), ("COOKIE", "x"), ("accept", "b")]
    assert headers.only(headers.OF_REQUEST, headers.lower(given)) == {"accept": "a, b"}
