"""What nodes do now, for pages that are open: sampled once for all of them, and not at all while there is none."""
