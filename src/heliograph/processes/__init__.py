"""Processes that run beside another one: started, watched, started again after a pause, ended."""
