"""The analyzer and the tee do not get slower by more than is tolerated, in instructions as Valgrind counts them."""

import pytest

from bench.guard import MEASURED, TOLERANCE, measure, reference, too_slow
from tests.parts import require_program


@pytest.fixture(autouse=True, scope="module")
def valgrind() -> str:
    return require_program("valgrind", "apt-get install valgrind")


def test_no_work_has_become_slow() -> None:
    found = {work: measure(work) for work in MEASURED}
    assert not too_slow(found, reference()), (
        f"multiples of a bare decode: {found}, once {reference()}; what is meant to cost more: "
        "python -m bench.guard --update"
    )


@pytest.mark.parametrize("work", ["events", "tee"])
def test_work_that_is_done_twice_for_some_is_found_slow(work: str) -> None:
    share = TOLERANCE + 0.15
    assert too_slow({work: measure(work, share)}, {work: measure(work)}) == [work]


def test_work_that_is_a_little_slower_is_tolerated() -> None:
    assert not too_slow({"events": measure("events", 0.1)}, {"events": measure("events")})
