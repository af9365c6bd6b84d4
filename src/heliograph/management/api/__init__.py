"""The routes of the API, one module for each area; `areas` lists them."""
