"""What sinks have of Spark: rows of a DataFrame as Arrow, templates as columns, and the ways that only Spark has."""
