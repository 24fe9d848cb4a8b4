"""Hand slots over: decide which process serves a slot, and which window of the process may write."""
