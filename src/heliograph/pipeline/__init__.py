"""The pipeline: PySpark reads the stored streams, runs rules over them and writes tables, alerts and new messages.

Here live the ``heliograph`` data source and sink for Spark (``datasource``), the start of a Spark session with or
without a Java on the machine (``spark``), the files of a pipeline (``files``), its sinks (``sinks``), the driver that
keeps its queries running (``running``), and tables of what did not get where it was meant to (``side_outputs``). The
meaning of a rule does not live here (that is `heliograph.rules`), nor do the stored streams (`heliograph.storage`):
this package reaches the broker through its public interfaces only, storage over Arrow Flight and MQTT.

Importing this package imports no pyspark: the modules that need it are imported where they are used.
"""
