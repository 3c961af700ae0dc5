"""The real llama.cpp server with a tiny model of known sayings: `python -m tests.live.llamacpp [PORT]` runs it.

Attention and feed-forward of the model are zero, so the next token depends on the last one alone: an answer is a chain of
tokens, each in it once. What the prompt ends with selects the chain: the template asks for a tool call where the request
has tools, for a thought where the last message says "think", else for a text. All around the model is the real engine:
tokenizer, chat template, sampler, parser of tool calls and reasoning, usage, and the servers of four APIs.
"""

import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

from tests.live.sayings import CALL_BEGIN, CHAINS, MODEL, TEXT_BEGIN, THOUGHT_BEGIN

_TEMPLATE = (
    """\
{%- if tools %}<|im_start|>system
# Tools
<tools>{%- for tool in tools %}
{{ tool | tojson }}{%- endfor %}
</tools>
For each function call, return a json object within <tool_call></tool_call> tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "assistant" and message.tool_calls %}<|im_start|>assistant
{%- for tool_call in message.tool_calls %}
<tool_call>
{"name": "{{ tool_call.function.name }}", "arguments": {{ tool_call.function.arguments | tojson }}}
</tool_call>{%- endfor %}<|im_end|>
{%- elif message.role == "tool" %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{%- else %}<|im_start|>{{ message.role }}
{%- if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>
{% endif %}
{{ message.content }}<|im_end|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant"""
    f"{{%- if tools %}}{CALL_BEGIN}{{% elif 'think' in messages[-1].content %}}{THOUGHT_BEGIN}"
    f"{{% else %}}{TEXT_BEGIN}{{% endif %}}{{% endif %}}"
)

_WIDTH, _FORWARD, _HEADS = 256, 64, 4
_FIRST, _LAST = 1, 2  # numbers of the tokens that begin and end a text


def write_model(path: Path) -> None:
    """The model as a GGUF file."""
    vocabulary = list(_vocabulary())
    embedding, output = _weights([token for token, _ in vocabulary])
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(MODEL)
    writer.add_context_length(4096)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_FORWARD)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_vocab_size(len(vocabulary))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token, _ in vocabulary])
    writer.add_token_scores([-float(number) for number in range(len(vocabulary))])
    writer.add_token_types([kind for _, kind in vocabulary])
    writer.add_bos_token_id(_FIRST)
    writer.add_eos_token_id(_LAST)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template(_TEMPLATE)
    ones = np.ones(_WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", ones)
    for norm in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{norm}.weight", ones)
    shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (_WIDTH, _WIDTH))
    shapes |= {"ffn_gate": (_FORWARD, _WIDTH), "ffn_up": (_FORWARD, _WIDTH), "ffn_down": (_WIDTH, _FORWARD)}
    for name, shape in shapes.items():
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _vocabulary() -> Iterator[tuple[str, int]]:
    """Tokens and their types: llama's special ones, all bytes, printable ASCII, and what the chains need."""
    kinds = gguf.TokenType
    yield from (("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL))
    yield from ((_byte(value), kinds.BYTE) for value in range(256))
    words = [piece for piece in chain.from_iterable(CHAINS) if isinstance(piece, str)]
    yield from ((word, kinds.NORMAL) for word in dict.fromkeys((*map(chr, range(33, 127)), "▁", *words)))


def _byte(value: int) -> str:
    return f"<0x{value:02X}>"


def _weights(tokens: Sequence[str]) -> tuple["np.ndarray[tuple[int, ...], np.dtype[np.float32]]", ...]:
    """Embeddings far apart from each other; a token's row of the output is the embedding of the one it follows."""
    numbers = {token: number for number, token in enumerate(tokens)}
    embedding = np.random.default_rng(0).choice((-1.0, 1.0), (len(tokens), _WIDTH)).astype(np.float32)
    output = np.zeros_like(embedding)
    for pieces in CHAINS:
        steps = [numbers[_byte(piece) if isinstance(piece, int) else piece] for piece in pieces]
        for before, after in pairwise((*steps, _LAST)):
            output[after] += embedding[before]
    return embedding, output


def serve(path: Path, port: int) -> str:
    """Start the server on a thread of its own; its URL."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.port = port
    parameters.n_ctx = 4096
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = 1
    parameters.model_alias = {MODEL}
    parameters.use_jinja = True
    _RUNNING.append(xllamacpp.Server(parameters))
    url: str = _RUNNING[-1].listening_address
    return url


_RUNNING: list[xllamacpp.Server] = []
"""Servers stop when they are forgotten."""


def main(port: int) -> None:
    """Serve until killed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiny.gguf")
        write_model(path)
        print(f"listening on {serve(path, port)}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
