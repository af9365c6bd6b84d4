"""The metrics of a node: what each number that its parts report is."""
