"""Offload: closed generations as Parquet files elsewhere, read back as if they were still here."""
