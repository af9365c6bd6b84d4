"""Pipeline files: HOCON in, plain values out."""
