"""Credentials in bodies, wherever a boundary cuts them; and the audio of a socket, of which only the size stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.files.capture import with_silence
from sidecar.record.audio import without_audio
from sidecar.record.secrets import redact_pieces, redact_secrets

SECRETS = [
    '"authorization": "Bearer CANARY"',
    '"api_key":"CANARY"',
    '"client_secret": "CANARY \\" CANARY"',
    '{\\"password\\": \\"CANARY\\"}',
    "my key sk-proj-CANARYCANARYCANARY_1",
    "Authorization: Bearer CANARYCANARY.CANARY",
    "AIzaCANARYCANARYCANARYCANARYCANARYCANARY",
    "eyJCANARYCANARY.eyJCANARYCANARY.CANARYCANARY",
    "https://joe:CANARY@host/path",
    "https://host/path?key=CANARY&x=1",
    "ghp_CANARYCANARYCANARYCANARY",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_credential_is_blanked_at_its_length(text: str) -> None:
    found = redact_secrets(text.encode())
    assert b"CANARY" not in found.split(b'\\"')[0] or text.count("CANARY") > 1
    assert found.count(b"CANARY") <= text.count('\\" CANARY')
    assert len(found) == len(text)


@pytest.mark.parametrize(
    "text", ["sk-1", "a: b", '"max_tokens": 5', '"token": "a"', "http://host:80/x@y", "basic usage"]
)
def test_what_is_none_stays(text: str) -> None:
    assert redact_secrets(text.encode()) == text.encode()


@given(st.sampled_from([text for text in SECRETS if text.count("CANARY") == 1 or "sk-" in text]), st.data())
def test_a_credential_that_is_cut_is_found(text: str, data: st.DataObject) -> None:
    whole = f"before {text} behind".encode()
    cut = data.draw(st.integers(0, len(whole)))
    pieces = redact_pieces([whole[:cut], whole[cut:]])
    assert [len(piece) for piece in pieces] == [cut, len(whole) - cut]
    assert b"CANARY" not in b"".join(pieces)


AUDIO = "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "response.output_audio.delta", "delta": AUDIO},
        {"type": "response.audio.delta", "delta": "AAcO"},
        {"type": "input_audio_buffer.append", "audio": AUDIO},
        {"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": AUDIO}}},
        {"serverContent": {"modelTurn": {"parts": [{"inlineData": {"data": AUDIO}}, {"inlineData": {"data": AUDIO}}]}}},
        {"vendor": "B" * 2000},
    ],
)
def test_audio_is_left_out_and_its_size_stays(message: dict[str, object]) -> None:
    data = json.dumps(message).encode()
    kept, audio = without_audio(data)
    assert audio
    assert AUDIO.encode() not in kept
    silent = with_silence(kept, audio)
    assert len(silent) == len(data)
    assert json.loads(silent).keys() == message.keys()
    assert AUDIO.encode() not in silent


@pytest.mark.parametrize(
    "message",
    [
        {"type": "response.output_audio_transcript.delta", "delta": "Yesterday"},
        {"type": "response.output_text.delta", "delta": "Supercalifragilistic"},
        {"text": "plain"},
    ],
)
def test_text_is_no_audio(message: dict[str, object]) -> None:
    data = json.dumps(message).encode()
    assert without_audio(data) == (data, [])


def test_a_message_that_is_nothing_but_audio() -> None:
    kept, audio = without_audio(b"\xff\xfe\x00\x01")
    assert (kept, audio) == (b"", [(0, 4)])
    assert with_silence(kept, audio) == b"\0" * 4


def test_audio_that_was_cut_off_in_a_long_message() -> None:
    data = b'{"type":"response.audio.delta","delta":"' + b"QUJD" * 1000
    kept, audio = without_audio(data)
    assert kept == b'{"type":"response.audio.delta","delta":"'
    assert len(with_silence(kept, audio)) == len(data)


@given(st.binary(max_size=200) | st.text(st.sampled_from('{}":,audiot delta=AAAA'), max_size=300).map(str.encode))
def test_whatever_the_message_its_length_comes_back(data: bytes) -> None:
    kept, audio = without_audio(data)
    assert len(with_silence(kept, audio)) == len(data)


@pytest.mark.parametrize("audio", [[(99, 1)], [(0, -1)], [(0, 10**12)], [(3, 2), (1, 1)]])
def test_offsets_that_make_no_sense_are_an_error(audio: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError):
        with_silence(b"abcd", audio)
