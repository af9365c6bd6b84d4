"""The kernel: messages and their ids, the topic trie and routes, subscriptions, dispatch, hooks."""
