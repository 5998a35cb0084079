"""What commands do not treat: several rows or no class on a worker, signals that do not add up in phase."""

from airmixml.errors import ScenarioError
from airmixml.scenario.air import Air
from airmixml.scenario.tables import Privacy, Workers
from airmixml.wording import shown


def require_single_rows(workers: Workers, command: str) -> None:
    """Refuse workers with several rows each."""
    if workers.several_rows:
        key = "worker_column" if workers.worker_column else "holding"
        allowed = "empty" if workers.worker_column else '"drawn" or "dealt"'
        raise ScenarioError(
            f"workers.{key} = {shown(getattr(workers, key))}: must be {allowed} for {command}, which treats workers "
            "with one row each; airmix run and account take several"
        )


def require_classes(workers: Workers, command: str) -> None:
    """Refuse labels that are no classes, rows that count as absent, and workers with several rows each."""
    if workers.task != "classification":
        raise ScenarioError(
            f'workers.task = "{workers.task}": must be "classification" for {command}; airmix run, plan, account and '
            "audit take other tasks"
        )
    if workers.unknown_labels == "absent":
        raise ScenarioError(
            f'workers.unknown_labels = "absent": must be "refuse" for {command}, which looks at the class of every row'
        )
    require_single_rows(workers, command)


def require_real_numbers(privacy: Privacy, what: str) -> None:
    """Refuse what treats Gaussian noise and analog signals where workers send integers."""
    if privacy.arithmetic != "real":
        raise ScenarioError(
            f'privacy.arithmetic = "{privacy.arithmetic}": {what} is made for real numbers in Gaussian noise; use '
            'privacy.arithmetic = "real", and airmix run, account and plan for integers'
        )


def require_coherent(air: Air, what: str) -> None:
    """Refuse what needs signals that add up in phase where the server detects energies."""
    if not air.is_coherent:
        raise ScenarioError(
            f'air.detection = "{air.detection}": {what} is made for signals that add up in phase; use air.detection = '
            '"coherent"'
        )
