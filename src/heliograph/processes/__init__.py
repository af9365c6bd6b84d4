"""Child processes: started, watched, restarted with backoff, ended."""
