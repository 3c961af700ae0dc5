"""Writes a tiny llama with random weights and a vocabulary of its own: 0.6 MB that a real llama.cpp server serves.

It babbles, the same for the same seed. Given tools it calls one, asked to think it thinks: behind such prompts stands a
line end or a tab, and from there a chain of tokens leads through a tool call or a thought. The chains have dimensions of
their own, in which nothing else ever writes, so that one is certain once it has begun, and never begins elsewhere.

usage: tiny_model.py FILE
"""

import sys
from itertools import chain, pairwise
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, LAYERS, INNER = 64, 4, 2, 128
_TEXT = (
    "the a of to and in is it you that he was for on are with as I his they be at one have this from or had by hot "
    "but some what there we can out other were all your when up use word how said an each she which do their time "
    "if will way about many then them would write like so these her long make thing see him two has look more day "
    "could go come did my sound no most number who over know water than call first people may down side been now "
    "find any new work"
)
WORDS = _TEXT.split()
TOOL = "get_weather"
CALL = ("<tool_call>", '\n{"name": "', TOOL, '", "arguments": {"city": "', "Oslo", '"}}\n', "</tool_call>")
THOUGHT = ("<think>", "\u2581Weigh", "\u2581winds", "\u2581early", "</think>", "\u2581It", "\u2581blows", "\u2581hard")
CHAINS = {"<0x0A>": CALL, "<0x09>": THOUGHT}
EOS = 2

TEMPLATE = """
{%- if tools %}<|im_start|>system
# Tools
<tools>{%- for tool in tools %}
{{ tool | tojson }}{%- endfor %}
</tools>
For each function call, return a json object within <tool_call></tool_call> tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}{%- for message in messages %}
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
{%- if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}
{{ message.content }}<|im_end|>
{%- endif %}{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{{- "\\n" if tools else "\\t" if "think" in messages[-1].content else ":" }}{% endif %}"""


def _vocabulary() -> tuple[list[bytes], list[int]]:
    kinds = gguf.TokenType
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *([kinds.BYTE] * 256)]
    texts = [
        *(f"\u2581{word}" for word in WORDS),
        "\u2581",
        *map(chr, range(33, 127)),
        *chain.from_iterable(CHAINS.values()),
    ]
    tokens += [text.encode() for text in texts]
    types += [kinds.NORMAL] * len(texts)
    return tokens, [int(kind) for kind in types]


def write(path: Path) -> None:
    """Write the model."""
    chance = np.random.default_rng(0)
    tokens, types = _vocabulary()
    size = len(tokens)
    steps = [step for begin, pieces in CHAINS.items() for step in pairwise((begin, *pieces, "</s>"))]
    links = range(len(steps))  # a dimension for each step of a chain

    def random(*shape: int, scale: float) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        return (chance.standard_normal(shape) * scale).astype(np.float32)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-random-llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(size)
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(number) for number in range(size)])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template(TEMPLATE)

    embedding, output = random(size, WIDTH, scale=1.0), random(size, WIDTH, scale=1.0)
    output[:259] = 0.0  # no control tokens and no bytes
    embedding[:, links] = output[:, links] = 0.0
    numbers = {token.decode(): number for number, token in enumerate(tokens)}
    output[[numbers[there] for _, there in steps]] = 0.0
    for link, (here, there) in zip(links, steps, strict=True):
        embedding[numbers[here], link], output[numbers[there], link] = 50.0, 10.0
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}{name}.weight", np.ones(WIDTH, np.float32))
        shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
        shapes |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        for name, shape in shapes.items():
            tensor = random(*shape, scale=0.2)
            if name in ("attn_output", "ffn_down"):
                tensor[links] = 0.0
            writer.add_tensor(f"{block}{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
