"""What tests of several packages share: a virtual world around the kernel, packets in words, Hypothesis strategies."""
