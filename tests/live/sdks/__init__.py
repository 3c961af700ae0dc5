"""SDKs of vendors through the real proxy: what they see is what the sidecar sees."""

import pytest

pytest.register_assert_rewrite("tests.live.sdks.answers")
