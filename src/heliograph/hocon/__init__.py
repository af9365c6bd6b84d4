"""The configuration language: HOCON text to values that know their file and line.

`document` reads the dialect that EMQX 5 reads. Names, types, units and defaults of settings are in `config`.
"""
