"""The analyzer and the tee do not get slower by more than is tolerated, in instructions as Valgrind counts them."""

import pytest

from bench.guard import MEASURED, TOLERANCE, measure, reference, too_slow
from tests.parts import require_program

SLOWER = {work: f"{work}:{TOLERANCE + 0.15:.2f}" for work in MEASURED}
"""The same with so much of it done again."""
A_LITTLE = {work: f"{work}:0.10" for work in MEASURED}


@pytest.fixture(scope="module")
def found() -> dict[str, float]:
    require_program("valgrind", "apt-get install valgrind")
    return measure(*MEASURED, *SLOWER.values(), *A_LITTLE.values())


def test_no_work_has_become_slow(found: dict[str, float]) -> None:
    now = {work: found[work] for work in MEASURED}
    assert not too_slow(now, reference()), (
        f"multiples of a bare decode: {now}, once {reference()}; what is meant to cost more: "
        "python -m bench.guard --update"
    )


@pytest.mark.parametrize("work", MEASURED)
def test_work_of_which_a_good_part_is_done_twice_is_found_slow(work: str, found: dict[str, float]) -> None:
    assert too_slow({work: found[SLOWER[work]]}, {work: found[work]}) == [work]


@pytest.mark.parametrize("work", MEASURED)
def test_work_that_is_a_little_slower_is_tolerated(work: str, found: dict[str, float]) -> None:
    assert found[work] < found[A_LITTLE[work]]
    assert not too_slow({work: found[A_LITTLE[work]]}, {work: found[work]})
