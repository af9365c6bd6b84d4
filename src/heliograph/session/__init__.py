"""One client's state: subscriptions, inflight window, message queue, QoS 1 and 2 both ways."""
