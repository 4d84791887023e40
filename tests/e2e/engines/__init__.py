"""Real engines that nobody here scripted, which speak all three protocols themselves: what the proxy translates is held
against what they say natively."""
