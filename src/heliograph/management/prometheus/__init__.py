"""The numbers of nodes as Prometheus reads them."""
