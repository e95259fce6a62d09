"""One module a part, each with its `PART`."""
