"""Data export and import: one archive with what an installation was told, for another one."""
