"""Turns compiled packages into extension modules: C code by mypyc, then objects side by side; unchanged ones stay.

`c_code` writes the C code in a process of its own, whose memory is free before compilers start. `stable_code` gives
every C file a text that depends on its own module only, as far as possible. `objects` compiles and links.
"""
