"""Errors a user can mend: each message names the field, the value, what it must be and what to do."""

__all__ = [
    "AirMixError",
    "AirMixWarning",
    "BoundsWarning",
    "DataError",
    "LedgerError",
    "LeftoverWarning",
    "NameWarning",
    "PluginError",
    "PrivacyError",
    "ProtocolError",
    "RunFolderError",
    "ScenarioError",
]


class AirMixError(ValueError):
    """Base of all errors that a user's input or machine causes; the command line prints it and exits with 2."""


class ScenarioError(AirMixError):
    """A scenario key is unknown, or its value is of the wrong type or out of range."""


class DataError(AirMixError):
    """A data set is missing, broken or cannot be used for classification."""


class PrivacyError(AirMixError):
    """A privacy target cannot be certified by the chosen bound."""


class ProtocolError(AirMixError):
    """A message of the mask protocol is wrong, or one that a worker must not answer."""


class RunFolderError(AirMixError):
    """A run folder cannot be written, is incomplete, or belongs to another scenario."""


class LedgerError(AirMixError):
    """A ledger of budgets cannot be read or written, or is about other workers than those of the run."""


class PluginError(AirMixError):
    """There is no encoder, learner, accountant, ... of that name, or the package that brings it is broken."""


class AirMixWarning(UserWarning):
    """Base of our own warnings; the command line prints each as one line."""


class BoundsWarning(AirMixWarning):
    """Declared bounds leave little of the data."""


class NameWarning(AirMixWarning):
    """Names in a ledger that look like one person's."""


class LeftoverWarning(AirMixWarning):
    """Something of an earlier version was removed, since it revealed private data."""
