"""What must hold between the tables of a scenario whose workers send integers (``privacy.arithmetic``)."""

from airmixml.errors import ScenarioError
from airmixml.scenario.air import Air
from airmixml.scenario.tables import Mixing, Privacy, Radio, Workers
from airmixml.wording import shown


def check_integers(air: Air, workers: Workers, radio: Radio, mixing: Mixing, privacy: Privacy) -> None:
    """Raise a ScenarioError that names the key to change."""
    if privacy.arithmetic == "real":
        for name in ("modulus_bits", "sum_range"):
            if getattr(privacy, name):
                raise ScenarioError(
                    f'privacy.{name} = {getattr(privacy, name):g}: must be 0 for privacy.arithmetic = "real"; it is '
                    'for "integers"'
                )
        return
    integers = 'privacy.arithmetic = "integers"'
    if privacy.noise == "receiver":
        raise ScenarioError(
            f'privacy.noise = "receiver": must be "masked" or "workers" for {integers}: workers bring integer noise'
        )
    if not air.is_ideal:
        raise ScenarioError(
            f"{integers}: needs the ideal air: residues must arrive exactly, and one wrong bit spoils a number; use "
            'privacy.arithmetic = "real", or air.preset = "ideal"'
        )
    wanted = (
        ("mixing", mixing, "policy", "equalmix"),
        ("mixing", mixing, "prior", ()),
        ("mixing", mixing, "power", "dp"),
        ("radio", radio, "fading", "none"),
        ("workers", workers, "bits", 0),
        ("privacy", privacy, "accountant", "gdp"),
        ("privacy", privacy, "sensitivity", "encoder"),
        ("privacy", privacy, "mask_share", 0.0),
        ("privacy", privacy, "above_thermal_db", 0.0),
    )
    for table, keys, name, value in wanted:
        if getattr(keys, name) != value:
            told, must = (
                shown(list(each) if isinstance(each, tuple) else each) for each in (getattr(keys, name), value)
            )
            raise ScenarioError(f"{table}.{name} = {told}: must be {must} for {integers}")
    if privacy.modulus_bits == 1:
        raise ScenarioError("privacy.modulus_bits = 1: must be 2 to 62, or 0 for as many as it takes")
