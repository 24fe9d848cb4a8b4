"""Define the errors a user can meet. Each says what was found, what was expected, where, and what to do."""

from __future__ import annotations

EXIT_SETTINGS = 2
EXIT_CLUSTER = 3
EXIT_STREAM = 4
EXIT_REFUSED = 6


class MirrorError(Exception):
    """Base of all errors shown to the user as one line; `retriable` tells whether waiting can help."""

    retriable = False
    exit_code = 1


class SettingsError(MirrorError):
    """A setting cannot be honoured. Where it is one entry of a file, its key and what is wrong with it are told apart."""

    exit_code = EXIT_SETTINGS

    def __init__(self, message: str, *, key: str = "", complaint: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.complaint = complaint


class ClusterUnavailable(MirrorError):
    """A cluster, known by its alias, did not answer in time."""

    retriable = True
    exit_code = EXIT_CLUSTER

    def __init__(self, message: str, *, cluster: str = "") -> None:
        super().__init__(message)
        self.cluster = cluster


class ClusterRefuses(ClusterUnavailable):
    """A cluster responds and refuses. Waiting does not help: its operator must grant a right or remove an obstacle."""

    retriable = False
    exit_code = EXIT_REFUSED


class StreamTerminated(MirrorError):
    """A streaming query ended with an error."""

    retriable = True
    exit_code = EXIT_STREAM
