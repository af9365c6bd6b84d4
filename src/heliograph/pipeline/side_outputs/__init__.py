"""Tables of what did not get where it was meant to: dead letters and rows that came too late."""
