"""OpenAI legacy Completions."""
