"""Define the errors that users see: what was found, what was expected, where, and what to do."""

from __future__ import annotations

EXIT_SETTINGS = 2
EXIT_CLUSTER = 3
EXIT_STREAM = 4
EXIT_REFUSED = 6


class MirrorError(Exception):
    """Base of all errors shown to the user as one line; `retriable`: waiting can help."""

    retriable = False
    exit_code = 1


class SettingsError(MirrorError):
    """A setting is not supported. For an entry of a file, `key` and `complaint` are set."""

    exit_code = EXIT_SETTINGS

    def __init__(self, message: str, *, key: str = "", complaint: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.complaint = complaint


class ClusterUnavailable(MirrorError):
    """A cluster, given by its alias, did not respond in time."""

    retriable = True
    exit_code = EXIT_CLUSTER

    def __init__(self, message: str, *, cluster: str = "") -> None:
        super().__init__(message)
        self.cluster = cluster


class ClusterRefuses(ClusterUnavailable):
    """A cluster refuses a request. Waiting does not help: its operator must grant a right or fix the cause."""

    retriable = False
    exit_code = EXIT_REFUSED


class StreamTerminated(MirrorError):
    """A streaming query ended with an error."""

    retriable = True
    exit_code = EXIT_STREAM
