"""Bulk reading beside the broker: the reader process, its Arrow Flight service, inspection and export."""
