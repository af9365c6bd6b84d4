"""The dashboard: a page of ES modules without a build, which talks to the API and to nothing else."""
