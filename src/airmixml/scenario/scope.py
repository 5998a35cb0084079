"""What commands do not treat: several rows or no class on a worker, integers."""

from airmixml.errors import ScenarioError
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


def require_classes(workers: Workers, command: str, *, single_rows: bool = True) -> None:
    """Refuse labels that are no classes, rows that count as absent and, unless treated, workers with several rows."""
    if workers.task != "classification":
        raise ScenarioError(
            f'workers.task = "{workers.task}": must be "classification" for {command}; airmix run, plan, account and '
            "audit take other tasks"
        )
    if workers.unknown_labels == "absent":
        raise ScenarioError(
            f'workers.unknown_labels = "absent": must be "refuse" for {command}, which looks at the class of every row'
        )
    if single_rows:
        require_single_rows(workers, command)


def require_real_numbers(privacy: Privacy, what: str) -> None:
    """Refuse what treats Gaussian noise and analog signals where workers send integers."""
    if privacy.arithmetic != "real":
        raise ScenarioError(
            f'privacy.arithmetic = "{privacy.arithmetic}": {what} is made for real numbers in Gaussian noise; use '
            'privacy.arithmetic = "real", and airmix run, account and plan for integers'
        )
