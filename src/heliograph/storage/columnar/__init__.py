"""The layout `columnar`: messages of one stream as blocks of columns; written, replayed, compacted, dropped."""
