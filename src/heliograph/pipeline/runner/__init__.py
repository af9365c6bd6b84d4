"""The action runner: brings the rows that rules store for actions to their targets, in one process without Spark.

It is the engine of actions where one process serves; the other one is Spark. Both read the same stored rows, write them
by the same sinks, and keep the same checkpoint for each action, so that either goes on where the other one was.
"""
