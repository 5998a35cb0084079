"""Frames, what they cost and where that is noted, against formulas and ciphers that the package does not use."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from deploy_histories import History, small_contract
from scipy import stats

from airmixml.deploy.compiling import data_of, make_contract, planned_for
from airmixml.deploy.contract import UNITS, Contract
from airmixml.deploy.frames import FrameKind
from airmixml.deploy.journal import Journal
from airmixml.deploy.server import MESSAGE
from airmixml.deploy.spending import Spending
from airmixml.messages import ProtocolError, ScenarioError
from airmixml.scenario import Scenario

SEED = bytes(range(32))
CODE = {"norm": 1.0, "step": 0.01, "bits": 20, "variance": 40.0, "sends": "moments", "cost": 1, "releases": 1}


def _stream(use: int, slot: int, count: int) -> bytes:
    nonce = bytes(4) + use.to_bytes(4, "little") + slot.to_bytes(8, "little")
    return Cipher(ChaCha20(SEED, nonce), mode=None).encryptor().update(bytes(count))


def test_a_frame_is_what_integers_and_a_cipher_alone_make_of_a_vector() -> None:
    frame = FrameKind(numbers=50, **CODE)
    vector = np.linspace(-0.1, 0.12, 50)
    masks = np.arange(50, dtype=np.uint64) * np.uint64(20_021)
    rounding, noise = _stream(3, 9, 200), _stream(4, 9, 400)
    table, t = {}, np.arange(-200, 201)
    chances = stats.skellam.cdf(t, 20.0, 20.0)
    for i in range(50):
        word = int.from_bytes(noise[8 * i : 8 * i + 8], "little") / 2**64
        table[i] = int(t[np.searchsorted(chances, word, side="right")])
    expected = []
    for i, number in enumerate(vector.tolist()):
        word = int.from_bytes(rounding[4 * i : 4 * i + 4], "little")
        rounded = (int(number / 0.01 * 2**32) + word) // 2**32
        expected.append((rounded + table[i] + int(masks[i])) % 2**20)
    found = frame.residues(vector, SEED, 9, lambda first, count: masks[first : first + count])
    assert found.tolist() == expected
    packed = frame.packed(found)
    assert len(packed) == 4 * 50
    assert [int.from_bytes(packed[4 * i : 4 * i + 4], "little") for i in range(50)] == expected
    assert frame.unpacked(packed).tolist() == expected


def test_the_noise_of_frames_has_the_variance_of_the_contract() -> None:
    frame = FrameKind(numbers=20_000, **CODE)
    drawn = frame.noisy(np.zeros(20_000), SEED, 0)
    ratio = drawn.var() * len(drawn) / 40.0
    low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], len(drawn))
    assert low < ratio < high
    assert not low < ratio * 2 / 3 < high
    assert not low < ratio * 3 / 2 < high


@pytest.mark.parametrize("rounds", [0, 1])
def test_all_frames_together_keep_the_epsilon_of_the_contract(rounds: int) -> None:
    contract = small_contract(spare=0, epsilon=0.0) if rounds else _contract_without_rounds()
    planned = [contract.plan.radio.slots, contract.plan.learner.rounds]
    spent = sum(count * kind.cost for count, kind in zip(planned, contract.kinds, strict=False))
    assert spent <= contract.budget
    mu, epsilon = math.sqrt(contract.budget / UNITS), contract.epsilon
    normal = stats.norm.cdf
    delta = normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)
    assert 0.99 * contract.delta < delta <= contract.delta  # Dong, Roth and Su 2022, Cor. 2.13
    for kind in contract.kinds:  # no mechanism on integers hides more than one on real numbers
        least = (kind.norm / kind.step) ** 2 / (contract.carriers * kind.variance)
        assert least < kind.cost / UNITS < 1.2 * least


def _contract_without_rounds() -> Contract:
    scenario = Scenario.preset("trustless-digits-digital").with_overrides("privacy.epsilon=2")
    scenario = planned_for(scenario, 100)
    return make_contract(scenario, data_of(scenario), {f"w{i}": bytes(32) for i in range(100)}, bytes(32))


def test_what_the_budget_does_not_cover_is_refused_with_the_least_that_would() -> None:
    with pytest.raises(ProtocolError, match=r"must be at least (\d+\.\d+)") as refused:
        small_contract(spare=2, epsilon=8.0)
    least = float(str(refused.value).split("at least ")[1].split()[0])
    assert least > 8.0
    assert small_contract(spare=2, epsilon=least).budget
    with pytest.raises(ProtocolError):
        small_contract(spare=2, epsilon=0.99 * least)


def test_a_contract_is_read_as_it_was_written_and_names_its_run() -> None:
    contract = small_contract()
    again = Contract.from_json(contract.to_json())
    assert again == contract
    assert again.run == contract.run
    another, cut = json.loads(contract.to_json()), json.loads(contract.to_json())
    another["protocol"], cut["targets"] = "airmixml-deploy/9", [[0.0]]
    for odd in (b"", b"{}", b"[]", json.dumps(another).encode(), json.dumps(cut).encode()):
        with pytest.raises(ProtocolError, match="no contract"):
            Contract.from_json(odd)


def test_scenarios_that_cannot_be_deployed_are_refused() -> None:
    with pytest.raises(ScenarioError, match='must be "digital"'):
        planned_for(Scenario.preset("trustless-digits-digital").with_overrides("radio.link=analog"), 10)
    with pytest.raises(ScenarioError, match='must be "integers"'):
        planned_for(Scenario.preset("trustless-digits-digital").with_overrides("privacy.arithmetic=real"), 10)
    with pytest.raises(ScenarioError, match="hub hears every frame"):
        planned_for(Scenario.preset("private-iris"), 10)


def _ledger(tmp_path: Path) -> Spending:
    if not (tmp_path / "ledger").exists():
        Spending.create(small_contract(), tmp_path / "ledger")
    return Spending(small_contract(), tmp_path / "ledger")


def test_a_ledger_remembers_what_was_begun_and_spent(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    ledger.begin(1, 0, 0)
    ledger.reserve(1, 0, 0, 0)
    ledger.close()
    again = _ledger(tmp_path)
    assert again.spent(1) == small_contract().kinds[0].cost
    with pytest.raises(ProtocolError, match="began it before"):
        again.begin(1, 0, 0)
    with pytest.raises(ProtocolError, match="has sent its frame"):
        again.begin(1, 0, 1)
    again.begin(2, 0, 0)  # another worker of the same gateway


def test_an_entry_that_a_crash_cut_off_is_left_out_and_a_damaged_one_ends_the_run(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    ledger.begin(1, 0, 0)
    ledger.begin(1, 1, 0)
    ledger.close()
    place = tmp_path / "ledger"
    whole = place.read_bytes()
    last = 24 + len(b"B1 1 0 0 0")
    unfinished = [whole[:-cut] for cut in range(1, last + 1)]
    for content in (*unfinished, whole[:-last] + bytes(last), whole[:-last] + bytes(5000)):
        place.write_bytes(content)
        ledger = _ledger(tmp_path)
        assert ledger.began(1, 0, 0)
        assert not ledger.began(1, 1, 0)
        ledger.begin(1, 1, 0)
        ledger.close()
        assert place.read_bytes() == whole
    place.write_bytes(whole.replace(b"B1 0", b"B1 5"))
    with pytest.raises(ProtocolError, match="is damaged or has lost a record at byte 57; what was spent is not known"):
        _ledger(tmp_path)
    place.write_bytes(b"another file, of more than the head of a record\n")
    with pytest.raises(ProtocolError, match="is damaged"):
        _ledger(tmp_path)


@pytest.mark.parametrize("after", [0, 1, 100, 5000])
def test_a_damaged_last_entry_is_spent_for_ever(tmp_path: Path, after: int) -> None:
    """It is as long as it says, so it was written and acted on; zeros behind it change nothing."""
    ledger = _ledger(tmp_path)
    ledger.begin(1, 0, 0)
    ledger.reserve(1, 0, 0, 0)
    ledger.close()
    place = tmp_path / "ledger"
    whole = place.read_bytes()
    last = len(whole) - whole.rindex(b"S1 0 0 0 ") + 24 - 1
    for number in range(8 * last):
        changed = bytearray(whole + bytes(after))
        changed[len(whole) - last + number // 8] ^= 1 << number % 8
        place.write_bytes(changed)
        with pytest.raises(ProtocolError, match=r"is damaged or has lost a record .*what was spent is not known"):
            _ledger(tmp_path)
        assert place.read_bytes() == changed  # nothing is cut
    place.write_bytes(whole[:-1] + bytes(1 + after))
    with pytest.raises(ProtocolError, match="is damaged"):
        _ledger(tmp_path)


def test_entries_of_which_only_the_first_sectors_were_written_are_left_out(tmp_path: Path) -> None:
    """Zeros from the border of a sector on are what a file that grew can have; from elsewhere they are damage."""
    ledger = _ledger(tmp_path)
    with ledger.together():
        for worker in range(50):
            ledger.begin(worker, 0, 0)
    ledger.close()
    place = tmp_path / "ledger"
    whole = place.read_bytes()
    for border in range(512, len(whole), 512):
        place.write_bytes(whole[:border] + bytes(len(whole) - border))
        ledger = _ledger(tmp_path)
        left = place.read_bytes()
        assert whole.startswith(left)
        assert border - 35 < len(left) <= border
        assert [ledger.began(worker, 0, 0) for worker in range(50)] == [
            b"B%d 0" % worker in left for worker in range(50)
        ]
        ledger.close()
    for worker in (0, 20, 49):
        cut = whole.index(b"B%d 0" % worker) + 3
        assert cut // 512 == (cut + 9) // 512  # no border in what is lost of this entry
        place.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        with pytest.raises(ProtocolError, match="is damaged"):
            _ledger(tmp_path)


@pytest.mark.parametrize(
    "record",
    [
        (MESSAGE, b"1 0 0 0 3"),
        (b"S", b"1 0 0 3"),
        (b"S", b"1 0 0 0 -3"),
        (b"S", b"1 0 0 0 3 "),
        (b"S", b"1 0 0 0 " + b"9" * 5000),
    ],
)
def test_a_log_that_is_no_ledger_is_refused(tmp_path: Path, record: tuple[bytes, bytes]) -> None:
    for _ in range(2):  # the file is free again
        _ledger(tmp_path).close()
    log = Journal(tmp_path / "ledger", small_contract().run)
    log.append([record])
    log.close()
    for _ in range(2):
        with pytest.raises(ProtocolError, match="is no ledger of a worker, and what was spent is not known"):
            _ledger(tmp_path)


def test_a_ledger_that_lost_an_entry_or_itself_is_refused(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    for number in range(3):
        ledger.begin(1, number, 0)
    ledger.close()
    place = tmp_path / "ledger"
    whole, first, entry = place.read_bytes(), 24 + 33, 24 + len(b"B1 0 0 0 0")
    for lost in (0, 1):
        start = first + lost * entry
        place.write_bytes(whole[:start] + whole[start + entry :])
        with pytest.raises(ProtocolError, match="has lost a record"):
            _ledger(tmp_path)
    for content in (b"", whole[: first - 1]):
        place.write_bytes(content)
        with pytest.raises(ProtocolError, match="has lost its first record"):
            _ledger(tmp_path)
        assert place.read_bytes() == content  # nothing is begun again
    place.unlink()
    with pytest.raises(ProtocolError, match="is missing"):
        Spending(small_contract(), place)
    _ledger(tmp_path).close()
    with pytest.raises(ProtocolError, match="once for each run"):
        Spending.create(small_contract(), place)


def test_one_process_holds_a_ledger_or_log(tmp_path: Path) -> None:
    ledger, log = _ledger(tmp_path), Journal(tmp_path / "log", bytes(32))
    with pytest.raises(ProtocolError, match="another process"):
        _ledger(tmp_path)
    with pytest.raises(ProtocolError, match="another process"):
        Journal(tmp_path / "log", bytes(32))
    ledger.close()
    log.close()


def test_a_full_disk_ends_the_worker_before_it_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    (order,) = history.server.asking()
    for _ in range(2):
        (answer,) = history.devices[0].handle(order.message)
        assert b"ledger-0" in answer.body
    assert "REFUSAL" in answer.type.name


def test_a_log_that_is_damaged_in_the_middle_is_refused_and_cut_off_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "log"
    log = Journal(place, bytes(32))
    log.append([(MESSAGE, b"one"), (MESSAGE, b"two")])
    log.close()
    whole = place.read_bytes()
    for cut in range(1, 16):
        place.write_bytes(whole[:-cut])
        log = Journal(place, bytes(32))
        assert log.records() == [(MESSAGE, b"one")]
        log.close()
    for place_of_bit in range(len(whole)):
        changed = bytearray(whole)
        changed[place_of_bit] ^= 64
        place.write_bytes(changed)
        with pytest.raises(ProtocolError, match=r"is damaged|another run"):
            Journal(place, bytes(32))
        assert place.read_bytes() == changed  # nothing is cut
    place.write_bytes(whole + bytes(100))  # the file grew, and power failed
    log = Journal(place, bytes(32))
    assert len(log.records()) == 2
    log.close()
    place.write_bytes(whole.replace(b"one", b"One"))
    with pytest.raises(ProtocolError, match="is damaged or has lost a record"):
        Journal(place, bytes(32))
    place.write_bytes(whole)
    with pytest.raises(ProtocolError, match="another run"):
        Journal(place, bytes([1]) * 32)
