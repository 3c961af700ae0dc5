"""The socket between proxy and analyzer: messages of msgpack, each behind four bytes of length, big-endian.

A proxy says `Hello`, the analyzer answers `Welcome`; then come batches, each an array of records, and the other way
`Acknowledged`.
"""

import asyncio
import struct
from collections.abc import Sequence

import msgspec

from sidecar.capture.outbox import Item
from sidecar.capture.records import Acknowledged, AnyRecord, Hello, Welcome

LENGTH = struct.Struct(">I")
MESSAGE_LIMIT = 64 * 1024 * 1024
"""Bytes of one message that a receiver accepts; a longer one is a foreign or broken writer."""

_encoder = msgspec.msgpack.Encoder()
_batches = msgspec.msgpack.Decoder(list[AnyRecord])
_hellos = msgspec.msgpack.Decoder(Hello)
_welcomes = msgspec.msgpack.Decoder(Welcome)
_acknowledgements = msgspec.msgpack.Decoder(Acknowledged)


class WireError(ValueError):
    """What came over the socket is none of ours; the text says what."""


def encode(message: Hello | Welcome | Acknowledged | Sequence[Item]) -> bytes:
    """A message with its length."""
    body = _encoder.encode(message)
    return LENGTH.pack(len(body)) + body


def decode_batch(body: bytes) -> list[AnyRecord]:
    """A batch; WireError where it is none."""
    return _decoded(_batches, body, "a batch of records")


def decode_hello(body: bytes) -> Hello:
    """The greeting of a proxy; WireError where it is none."""
    return _decoded(_hellos, body, "a greeting")


def decode_welcome(body: bytes) -> Welcome:
    """The analyzer's answer; WireError where it is none."""
    return _decoded(_welcomes, body, "an analyzer")


def decode_acknowledged(body: bytes) -> Acknowledged:
    """What the analyzer says of batches; WireError where it is something else."""
    return _decoded(_acknowledgements, body, "an acknowledgement")


def _decoded[Said](decoder: msgspec.msgpack.Decoder[Said], body: bytes, what: str) -> Said:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise WireError(f"not {what}: {error}") from error


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """The body of the next message. Raises WireError where its length is none of ours, EOFError where none comes."""
    return await reader.readexactly(body_length(await reader.readexactly(LENGTH.size)))


def body_length(prefix: bytes) -> int:
    """The length that a message announces; WireError where nobody of ours would send that much."""
    (length,) = LENGTH.unpack(prefix)
    if length > MESSAGE_LIMIT:
        raise WireError(f"a message of {length} bytes was announced, the limit is {MESSAGE_LIMIT}")
    return int(length)
