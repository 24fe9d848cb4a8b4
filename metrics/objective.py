"""Define what is fresh, and how much must be: boards, rules and the lag inspector all say the same."""

FRESH_S = 60  # a topic-partition is fresh when its first unreplicated record waits no longer
OBJECTIVE = 0.999  # of topic-partitions are fresh, over 30 days
