"""The rule language: its parser, its values and functions, and the two engines that evaluate it.

`evaluator.CompiledRule` is the engine that runs in the broker; `heliograph.rules.spark` compiles the same tree for
Spark and is the only part of this package that needs pyspark. A node loads the language when it has a use for it.
"""
