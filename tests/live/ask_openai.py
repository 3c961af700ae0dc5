"""An application that knows nothing of a proxy: it asks base URLs one after another and prints what it gets.

python ask_openai.py URL…
"""

import sys

from openai import OpenAI

for url in sys.argv[1:]:
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
    stream = client.chat.completions.create(model="healthy", messages=[{"role": "user", "content": "hi"}], stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    print(f"{url} {text}", flush=True)
