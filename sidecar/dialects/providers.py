"""Who serves an exchange: `gen_ai.provider.name` by host, else by the dialect spoken."""

from collections.abc import Mapping

HOSTS: tuple[tuple[str, str], ...] = (
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure.ai.openai"),
    ("cognitiveservices.azure.com", "azure.ai.openai"),
    ("services.ai.azure.com", "azure.ai.inference"),
    ("models.inference.ai.azure.com", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("amazonaws.com", "aws.bedrock"),
    ("api.cohere.com", "cohere"),
    ("api.cohere.ai", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("ml.cloud.ibm.com", "ibm.watsonx.ai"),
    ("api.mistral.ai", "mistral_ai"),
    ("codestral.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.moonshot.cn", "moonshot_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    ("openrouter.ai", "openrouter"),
    ("api.together.xyz", "together_ai"),
    ("api.fireworks.ai", "fireworks_ai"),
    ("api.cerebras.ai", "cerebras"),
    ("dashscope.aliyuncs.com", "dashscope"),
    ("dashscope-intl.aliyuncs.com", "dashscope"),
    ("open.bigmodel.cn", "zhipu_ai"),
    ("api.z.ai", "zhipu_ai"),
    ("api.minimax.chat", "minimax"),
    ("api.minimax.io", "minimax"),
    ("api.minimaxi.com", "minimax"),
    ("api.cloudflare.com", "cloudflare"),
    ("router.huggingface.co", "huggingface"),
    ("api.deepinfra.com", "deepinfra"),
    ("volces.com", "volcengine"),
)
"""Host suffixes. Names that OpenTelemetry's conventions define are used; the rest name the vendor."""

SPOKEN: tuple[tuple[str, str], ...] = (
    ("openai.", "openai"),
    ("anthropic.", "anthropic"),
    ("gemini.", "gcp.gen_ai"),
    ("bedrock.", "aws.bedrock"),
    ("ollama.", "ollama"),
    ("cohere.", "cohere"),
    ("dashscope.", "dashscope"),
    ("cloudflare.", "cloudflare"),
    ("tgi.", "huggingface"),
    ("llamacpp.", "llama_cpp"),
)
"""Dialect prefixes, for endpoints at hosts that nobody knows: what they speak, with the host in `server.address`."""


def provider_name(host: str, dialect: str, extra: Mapping[str, str] | None = None) -> str:
    """The provider; `extra` maps host suffixes to names and comes first."""
    name = host.rstrip(".").lower()
    for suffix, provider in (*(extra or {}).items(), *HOSTS):
        if name == suffix or name.endswith(("." + suffix, "-" + suffix)):
            return provider
    for prefix, provider in SPOKEN:
        if dialect.startswith(prefix):
            return provider
    return "unknown"
