"""Hand slots over: which process serves a slot, and which window of it may write."""
