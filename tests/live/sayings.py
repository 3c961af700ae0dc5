"""What the tiny model of tests/live/llamacpp.py says: chains of tokens, and what clients see of them."""

type Piece = str | int
"""A token by its text (▁ is a space), or a single byte."""

TEXT_BEGIN, CALL_BEGIN, THOUGHT_BEGIN = ":", "!", "?"
"""What the prompt ends with selects the chain."""

_TEXT: tuple[Piece, ...] = (
    *("▁Red", "▁kites", "▁rise", "▁over", "▁the", "▁café", ",", "▁one", "▁by", "▁two"),
    *"🪁".encode(),  # its bytes come one by one, as of real models with bytes for what is rare
    ".",
)
_CALL: tuple[Piece, ...] = (
    *("<tool_call>\n", '{"name":', '▁"get_tide"', ',▁"arguments":'),
    *('▁{"port":', '▁"Osl', 'o",', '▁"hours":', "▁12", "}}", "\n</tool_call>"),
)
_THOUGHT: tuple[Piece, ...] = ("<think>\n", "▁Weigh", "▁wind", "▁first", "\n</think>\n", "▁It", "▁blows", "▁hard")
CHAINS: tuple[tuple[Piece, ...], ...] = (
    (TEXT_BEGIN, *_TEXT),
    (CALL_BEGIN, *_CALL),
    (THOUGHT_BEGIN, *_THOUGHT),
)
"""Each token is in its chain once."""

MODEL = "tiny"
TEXT = " Red kites rise over the café, one by two🪁."
TOOL = "get_tide"
ARGUMENTS = {"port": "Oslo", "hours": 12}
THOUGHT = " Weigh wind first\n"
AFTER_THOUGHT = " It blows hard"
