"""Speech, transcriptions and images: whole bodies, bodies that are no JSON, and families beside the corpus."""

from typing import Any

from tests.dialects.exchanges import JSON, answer, sse


def test_audio_itself_is_a_complete_answer() -> None:
    said = answer("/v1/audio/speech", ["ID3\x04\0", "\0\0"], request={"model": "t"}, content_type="audio/mpeg")
    assert (said["dialect"], said["outcome"], said["quirks"]) == ("openai.speech", "complete", [])
    said = answer("/v1/audio/speech", ["\0" * 32], request={"model": "t"}, content_type="audio/pcm")
    assert (said["outcome"], said["quirks"]) == ("complete", [])


def test_a_web_page_is_no_audio() -> None:
    said = answer("/v1/audio/speech", "<html><body>Busy</body></html>", request={}, content_type="text/html")
    assert (said["outcome"], said["quirks"]) == ("unparsed", ["error_html_body"])


def test_subtitles_are_a_complete_answer() -> None:
    body = "1\n00:00:00,000 --> 00:00:01,000\nThe boat\n"
    said = answer("/v1/audio/transcriptions", body, request={"model": "w"}, content_type="text/plain")
    assert (said["outcome"], said["quirks"]) == ("complete", [])


def test_a_whole_transcription_is_read() -> None:
    body = '{"text":"The boat.","usage":{"type":"tokens","input_tokens":7,"output_tokens":3,"total_tokens":10}}'
    said = answer("/v1/audio/transcriptions", body, request={"model": "w"}, content_type=JSON)
    assert (said["outcome"], said["text"], said["usage"]["output_tokens"]) == ("complete", "The boat.", 3)


def test_diarized_segments_repeat_their_deltas_or_bring_the_text() -> None:
    segment = {"type": "transcript.text.segment", "id": "s", "speaker": "A", "text": "The boat."}
    done = {"type": "transcript.text.done", "text": "The boat."}
    delta = {"type": "transcript.text.delta", "delta": "The boat.", "segment_id": "s"}
    for events in ([delta, segment, done], [segment, done]):
        said = answer("/v1/audio/transcriptions", sse(*events, named=False))
        assert (said["text"], said["output_chunks"]) == ("The boat.", 1)
        assert (said["outcome"], said["terminator"], said["quirks"]) == ("complete", "transcript.text.done", [])


def test_duration_is_no_token_count() -> None:
    done = {"type": "transcript.text.done", "text": "Hi", "usage": {"type": "duration", "seconds": 3}}
    said = answer("/v1/audio/transcriptions", sse({"type": "transcript.text.delta", "delta": "Hi"}, done, named=False))
    assert (said["usage"], said["quirks"]) == (None, [])


def test_edits_end_with_their_own_event_once_per_image_asked_for() -> None:
    done: dict[str, Any] = {
        "type": "image_edit.completed",
        "b64_json": "AAAA",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    partial = {"type": "image_edit.partial_image", "b64_json": "AA", "partial_image_index": 0}
    said = answer("/openai/v1/images/edits", sse(partial, done))
    assert (said["terminator"], said["output_chunks"], said["outcome"]) == ("image_edit.completed", 2, "complete")
    done.pop("usage")
    said = answer("/v1/images/edits", sse(done, done), request={"stream": True, "n": 2})
    assert (said["output_chunks"], said["quirks"]) == (2, [])


def test_a_whole_image_is_complete() -> None:
    body = '{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}'
    said = answer("/v1/images/generations", body, request={"prompt": "a kite"}, content_type=JSON)
    assert (said["outcome"], said["usage"]["output_tokens"], said["quirks"]) == ("complete", 2, [])
