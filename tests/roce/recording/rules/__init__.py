"""The rules of RoCEv2 that a recording can show. Each is a function that yields the violations of its argument."""
