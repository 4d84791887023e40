"""Which versions of which clients are certified: the pins."""

from tests.e2e.matrix.install import Environment

SDK = Environment("sdk", "pypi", ("openai==3.57.0", "anthropic==2.14.0"))
NODE_SDK = Environment("sdk", "npm", ("openai@7.59.0", "@anthropic-ai/sdk@1.14.0"))
CODEX = Environment("codex", "npm", ("@openai/codex@0.171.0",))
CLAUDE_CODE = Environment("claude-code", "npm", ("@anthropic-ai/claude-code@2.1.332",))
