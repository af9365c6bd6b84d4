"""What the tests of several rooms share: a virtual world around the kernel, packets in words, Hypothesis strategies."""
