"""What runs a pipeline: views and queries made of its file, the driver that keeps them going, and its commands."""
