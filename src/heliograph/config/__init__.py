"""The typed configuration: its schema, its layers, and its description.

`settings` holds every setting, `loading` reads them; the language of files is `heliograph.hocon`.
"""
