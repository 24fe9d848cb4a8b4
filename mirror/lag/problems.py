"""Write a sentence for people on a cluster that a poll could not read. Pure."""

from __future__ import annotations

from mirror.config.properties import servers_of
from mirror.config.settings import Settings
from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.lag.snapshot import Problem


def problem(error: ClusterUnavailable, alias: str, settings: Settings) -> Problem:
    """Return a sentence: the cluster, its address, and the values that are unknown now."""
    fact = "refuses a request of the inspector" if isinstance(error, ClusterRefuses) else "does not respond"
    sentence = f"Cluster {alias}{_address(alias, settings)} {fact}. {_consequence(alias, settings)}"
    return Problem(sentence.rstrip(), str(error))


def _address(alias: str, settings: Settings) -> str:
    ends = {end.alias: end for flow in settings.flows for end in (flow.source, flow.target)}
    if alias not in ends:
        return ""
    return f" at {servers_of(ends[alias].client)}"


def _consequence(alias: str, settings: Settings) -> str:
    """Return which values of which flows are unknown while a cluster does not respond."""
    from_it = [flow.name for flow in settings.flows if flow.source.alias == alias]
    to_it = [flow.name for flow in settings.flows if flow.target.alias == alias]
    sentences = []
    if from_it:
        sentences.append(f"Lag of {', '.join(from_it)} is unknown.")
    if to_it:
        sentences.append(f"Positions of {', '.join(to_it)} are unknown.")
    return " ".join(sentences)
