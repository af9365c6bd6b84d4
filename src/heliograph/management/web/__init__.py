"""What all routes of the API share: who calls, errors, lists, models, limits and the document."""
