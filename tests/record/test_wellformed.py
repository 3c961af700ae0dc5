"""Random well-formed streams of every dialect, recorded and scrubbed: the same is said of them but for what was said."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.files.capture import Capture, records_of
from sidecar.record.line import line_of
from sidecar.record.scrub.scrubber import Scrubber
from tests.budget import budget
from tests.record.recordings import KEY, draft_of
from tests.record.test_corpus import verdicts
from tests.test_wellformed import DIALECTS
from tests.wellformed.wire import played, said


@pytest.mark.parametrize("scrub", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
@budget(20)
@given(data=st.data())
def test_a_recording_says_what_was_said_live(dialect: str, scrub: bool, data: st.DataObject) -> None:
    records = data.draw(played(data.draw(DIALECTS[dialect])))
    line = line_of(draft_of(records), by="test", scrubber=Scrubber(KEY) if scrub else None)
    capture = msgspec.json.decode(line, type=Capture, strict=False)
    live, recorded = said(records), said(list(records_of(capture)))
    if scrub:
        assert verdicts(recorded) == verdicts(live)
    else:
        assert recorded == live
