"""Recovery from end to end: real keys and masks, absent workers, a server that lies, colluding neighbours."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from round_for_tests import RULES, Party, ready_round, revealed_round, sent_symbols

from airmixml.masks.graph import draw_graph
from airmixml.masks.keys import KeyPair, edge_masks, pair_seed, self_mask, signature
from airmixml.masks.recovery import Answer, RecoveryServer, Step
from airmixml.masks.rules import fewest_who_know
from airmixml.messages import ProtocolError

BLOCKS = [(0, 0, 700), (0, 700, 300), (1, 0, 500)]
SYMBOLS = 1500
NOISE = 0.3


def contributions(workers: int = 30, symbols: int = SYMBOLS) -> NDArray[np.float64]:
    """v_i + n_i of all workers; workers x symbols."""
    generator = np.random.default_rng(4)
    return generator.uniform(-1, 1, (workers, symbols)) + NOISE * generator.standard_normal((workers, symbols))


def corrections(server: RecoveryServer) -> NDArray[np.float64]:
    return np.concatenate([server.correction(*block) for block in BLOCKS])


@pytest.mark.parametrize("absent", [set(), {3, 11, 12, 20}, {5, -1}])
def test_the_sum_of_those_present_is_recovered(absent: set[int]) -> None:
    party, values = ready_round(), contributions()
    absent = {party.joined.graph[5][0] if each == -1 else each for each in absent}  # -1: two that share a mask
    sent = sent_symbols(party, values, BLOCKS)
    present = [identity for identity in party.workers if identity not in absent]
    server = RecoveryServer(party.joined, absent)
    signed = party.lists_signed(absent, present)
    for answer in party.answers(signed, present):
        server.take(answer)
    assert server.missing == []
    wanted = values[present].sum(axis=0)
    assert np.abs(sent[present].sum(axis=0) - wanted).max() > 10  # the masks do hide it
    assert np.abs(sent[present].sum(axis=0) - corrections(server) - wanted).max() < 1e-9


def test_the_graph_of_the_accounting_can_be_used_although_pairs_share_several_masks() -> None:
    """Cycles through 30 seats meet: some pairs share two masks, each with keys, shares and a law of its own."""
    party, values = ready_round(), contributions()
    drawn = party.joined.graph
    pairs = Counter(frozenset((i, j)) for i in drawn for j in drawn[i] if i < j)
    (one, other), *_ = [sorted(pair) for pair, times in pairs.items() if times == 2]
    absent = {one}
    sent = sent_symbols(party, values, BLOCKS)
    present = [identity for identity in party.workers if identity not in absent]
    signed = party.lists_signed(absent, present)
    server = RecoveryServer(party.joined, absent)
    for answer in party.answers(signed, present):
        server.take(answer)
    left = sent[present].sum(axis=0) - corrections(server) - values[present].sum(axis=0)
    assert np.abs(left).max() < 1e-9
    seeds = party.workers[other]._edge_seeds[one]
    assert len(set(seeds)) == 2
    assert seeds == party.workers[one]._edge_seeds[other]
    between = edge_masks(other, {one: seeds}, 5.0, 0, 0, 20_000)
    assert between.std() == pytest.approx(5.0 * np.sqrt(2), rel=4.5 / np.sqrt(2 * 20_000))  # independent: A_ij = 2
    with pytest.raises(ProtocolError, match=f"has shares of {one} of a wrong length"):
        server.take(Answer(other, {one: bytes(33)}))


@pytest.mark.parametrize("bits", [7, 64])
def test_sums_of_integers_are_recovered_exactly(bits: int) -> None:
    party, absent = ready_round(rules=replace(RULES, bits=bits)), {3, 11}
    values = np.random.default_rng(1).integers(0, 100, (30, 500)).astype(np.uint64)
    masks = np.stack([party.workers[each].masks(0, 0, 500) for each in range(30)])
    assert int(masks.max()) < 2**bits
    for worker in party.workers.values():
        with pytest.raises(ProtocolError, match="was masked before"):
            worker.masks(0, 499, 1)
    present = [each for each in range(30) if each not in absent]
    server = RecoveryServer(party.joined, absent)
    for answer in party.answers(party.lists_signed(absent, present), present):
        server.take(answer)
    modulus = 2**bits
    wanted = [int(each) % modulus for each in values[present].sum(axis=0)]
    received = [sum(map(int, column)) % modulus for column in (values + masks)[present].T]
    assert received != wanted
    correction = server.correction(0, 0, 500).tolist()
    assert [(one - other) % modulus for one, other in zip(received, correction, strict=True)] == wanted


def test_workers_that_vanish_after_the_slots_are_needed_no_more() -> None:
    party, values = ready_round(), contributions()
    sent = sent_symbols(party, values, BLOCKS)
    signed = party.lists_signed({5}, range(24))
    server = RecoveryServer(party.joined, {5})
    for answer in party.answers(signed, signed):
        if answer.holder not in party.joined.graph[0][:3]:  # three neighbours of worker 0 are gone
            server.take(answer)
    while server.missing:  # a few more come back
        late = next(each for each in range(24, 30) if party.workers[each].step is Step.READY)
        signed[late] = party.workers[late].agree({5})
        server.take(party.workers[late].answer(signed))
    present = [identity for identity in range(30) if identity != 5]
    error = sent[present].sum(axis=0) - corrections(server) - values[present].sum(axis=0)
    assert np.abs(error).max() < 1e-9


def known_to_adversary(
    party: Party, colluders: set[int], absent: set[int], answers: list[Answer]
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Own seeds and mask keys that server and colluders can rebuild, with both shares that each colluder holds."""
    seeds, keys = {}, {}
    for owner, neighbours in party.joined.graph.items():
        held: dict[str, dict[int, bytes]] = {"key": {}, "seed": {}}
        for answer in answers:
            if owner in answer.shares:
                secret = "key" if owner in absent else "seed"
                held[secret] |= by_place(neighbours, answer.holder, answer.shares[owner])
        for colluder in colluders & set(neighbours):
            for secret, shares in zip(("key", "seed"), party.workers[colluder]._held[owner], strict=True):
                held[secret] |= by_place(neighbours, colluder, shares)
        if len(held["key"]) >= RULES.threshold:
            keys[owner] = rebuilt(held["key"])
        if len(held["seed"]) >= RULES.threshold:
            seeds[owner] = rebuilt(held["seed"])
    return seeds, keys


def by_place(neighbours: tuple[int, ...], holder: int, shares: bytes) -> dict[int, bytes]:
    """Shares of one holder, 33 bytes for each mask that it shares with their owner."""
    places = [place for place, other in enumerate(sorted(neighbours)) if other == holder]
    return {place: shares[33 * number : 33 * number + 33] for number, place in enumerate(places)}


def rebuilt(shares: dict[int, bytes]) -> bytes:
    """Lagrange's formula at 0, written out once more."""
    prime = 2**256 + 297
    points = {place + 1: int.from_bytes(share, "big") for place, share in list(shares.items())[: RULES.threshold]}
    total = 0
    for x, y in points.items():
        term = y
        for other in points:
            if other != x:
                term = term * other * pow(other - x, -1, prime) % prime
        total += term
    return (total % prime).to_bytes(32, "big")


def test_what_a_lying_server_and_its_colluders_are_left_with() -> None:
    """They subtract all they can. Left are n_i and hidden edges of a present worker, n_i and b_i of one called absent.

    Workers 2, 9 and 14 sent, and are called absent. Colluders 0 and 1 give everything they hold, both shares included.
    """
    party, values, colluders, absent = ready_round(), contributions(), {0, 1}, {2, 9, 14}
    sent = sent_symbols(party, values, BLOCKS)
    honest_present = [each for each in range(30) if each not in colluders | absent]
    signed = party.lists_signed(absent, [each for each in range(30) if each not in absent])
    answers = party.answers(signed, honest_present)
    seeds, keys = known_to_adversary(party, colluders, absent, answers)
    assert set(seeds) == set(range(30)) - absent
    assert set(keys) == absent
    for colluder in colluders:
        keys[colluder] = party.workers[colluder]._mask_keys.private
    for identity in range(30):
        if identity in colluders:
            continue
        left = sent[identity].copy()
        known_edges = {}
        for other in set(party.joined.graph[identity]) & set(keys):
            mask_key = party.joined.announcements[identity].mask_key
            known_edges[other] = [
                pair_seed(KeyPair(keys[other]), other, mask_key, identity, party.joined.digest, number)
                for number in range(party.joined.graph[identity].count(other))
            ]
        if identity in keys:
            for other in party.joined.graph[identity]:
                mask_key = party.joined.announcements[other].mask_key
                pair = KeyPair(keys[identity])
                known_edges[other] = [
                    pair_seed(pair, identity, mask_key, other, party.joined.digest, number)
                    for number in range(party.joined.graph[identity].count(other))
                ]
        left -= np.concatenate([edge_masks(identity, known_edges, 5.0, *block) for block in BLOCKS])
        if identity in seeds:
            left -= np.concatenate([self_mask(seeds[identity], 11.0, *block) for block in BLOCKS])
        hidden = [each for each in party.joined.graph[identity] if each in honest_present]
        left -= values[identity]
        if identity in absent:  # sigma_s^2 + sigma_b^2, and no edge
            assert left.std() == pytest.approx(11.0, rel=0.12)
            own = party.workers[identity]._own_seed
            assert np.abs(left - np.concatenate([self_mask(own, 11.0, *block) for block in BLOCKS])).max() < 1e-9
        else:  # L_ii = the number of edges to other honest present workers
            assert len(hidden) >= 10 - 3 - 2
            assert left.std() == pytest.approx(5.0 * np.sqrt(len(hidden)), rel=0.12)
            own_edges = {other: party.workers[identity]._edge_seeds[other] for other in hidden}
            expected = np.concatenate([edge_masks(identity, own_edges, 5.0, *block) for block in BLOCKS])
            assert np.abs(left - expected).max() < 1e-9


def test_what_is_left_has_the_covariance_of_the_accounting() -> None:
    """Empirical covariance of the masks that nobody revealed: sigma_e^2 times the Laplacian of the graph on P."""
    party = ready_round()
    present = [each for each in range(30) if each not in (2, 9, 14)]
    edges = {each: {o: s for o, s in party.workers[each]._edge_seeds.items() if o in present} for each in present}
    masks = np.stack([edge_masks(each, edges[each], 5.0, 0, 0, 20_000) for each in present])
    shared = np.array([[float(len(edges[i].get(j, ()))) for j in present] for i in present])
    laplacian = np.diag(shared.sum(axis=1)) - shared
    assert np.abs(masks @ masks.T / 20_000 / 25 - laplacian).max() < 6.5 * 10 * np.sqrt(2 / 20_000)
    assert np.abs(masks.sum(axis=0)).max() < 1e-10


def test_two_lists_get_no_quorum() -> None:
    """One half of the honest workers is shown one list, the other half another; two colluders sign both."""
    party = ready_round()
    for absent, half in (({3}, range(2, 16)), ({20}, range(16, 30))):
        signed = party.lists_signed(absent, half)
        for colluder in (0, 1):
            signed[colluder] = signature(party.workers[colluder]._signing_key, party.joined.list_statement(absent))
        genuine = len(signed)
        assert genuine == 15  # 14 of the half less the one called absent, and two colluders
        statement = party.joined.list_statement(absent)
        forged = {each: signature(bytes(32), statement) for each in (*range(30), 99) if each not in signed}
        for identity in half:
            if identity not in absent:
                with pytest.raises(ProtocolError, match="has 15 signatures of workers, and needs 17"):
                    party.workers[identity].answer(signed | forged)


def split_neighbours(graph: dict[int, tuple[int, ...]], colluders: int) -> tuple[int, set[int], set[int], set[int]]:
    """A worker, so many colluding neighbours of it, and two halves of the others that hold shares enough with them."""
    for target, neighbours in graph.items():
        times = Counter(neighbours).most_common()
        chosen, halves, held = {other for other, _ in times[:colluders]}, (set[int](), set[int]()), [0, 0]
        missing = RULES.threshold - sum(number for _, number in times[:colluders])
        for other, number in times[colluders:]:
            less = held.index(min(held))
            halves[less].add(other)
            held[less] += number
        if min(held) >= missing:
            return target, chosen, *halves
    raise AssertionError("no worker of this graph has such neighbours")


@pytest.mark.parametrize("colluders", [3, 4])
def test_colluders_who_know_the_graph_get_two_lists_signed_when_they_are_as_many_as_stated(colluders: int) -> None:
    """The attack on more colluders than planned (two): one list calls a worker absent, the other does not."""
    party = ready_round()
    stated = fewest_who_know(
        draw_graph(30, 10, int.from_bytes(party.joined.seed, "big")), RULES.quorum, RULES.threshold
    )
    assert stated == 4
    target, chosen, *halves = split_neighbours(dict(party.joined.graph), 4)
    colluding = set(sorted(chosen)[:colluders])
    others = [each for each in range(30) if each not in colluding | halves[0] | halves[1] | {target}]
    halves[0].add(target)
    for other in others:
        min(halves, key=len).add(other)
    seeds, keys = {}, {}
    for absent, half in zip((set[int](), {target}), halves, strict=True):
        signed = party.lists_signed(absent, half)
        statement = party.joined.list_statement(absent)
        signed |= {each: signature(party.workers[each]._signing_key, statement) for each in colluding}
        try:
            answers = party.answers(signed, half)
        except ProtocolError:
            continue
        learnt = known_to_adversary(party, colluding, absent, answers)
        seeds |= learnt[0]
        keys |= learnt[1]
    assert (target in seeds and target in keys) == (colluders >= stated)
    if colluders >= stated:
        assert seeds[target] == party.workers[target]._own_seed
        assert keys[target] == party.workers[target]._mask_keys.private


def test_threshold_shares_rebuild_both_secrets_without_any_list() -> None:
    """A quorum that colluders cannot split: they need so many masks of one worker as rebuild a secret."""
    party = ready_round()
    graph = draw_graph(30, 10, int.from_bytes(party.joined.seed, "big"))
    stated = fewest_who_know(graph, 30, RULES.threshold)
    counts = {each: sorted(Counter(others).values(), reverse=True) for each, others in party.joined.graph.items()}
    target = max(counts, key=lambda each: sum(counts[each][:stated]))
    assert max(sum(each[: stated - 1]) for each in counts.values()) < RULES.threshold <= sum(counts[target][:stated])
    colluders = {each for each, _ in Counter(party.joined.graph[target]).most_common(stated)}
    seeds, keys = known_to_adversary(party, colluders, set(), [])
    assert seeds[target] == party.workers[target]._own_seed
    assert keys[target] == party.workers[target]._mask_keys.private


def test_a_worker_agrees_to_one_list_and_answers_once() -> None:
    party = ready_round()
    signed = party.lists_signed({3}, [each for each in range(30) if each != 3])
    worker = party.workers[8]
    assert worker.agree({3}) == signed[8]  # the same list again
    with pytest.raises(ProtocolError, match="agreed to"):
        worker.agree({4})
    answer = worker.answer(signed)
    for again in (lambda: worker.answer(signed), lambda: worker.agree({3}), lambda: worker.masks(2, 0, 1)):
        with pytest.raises(ProtocolError, match="worker 8 is answered"):
            again()
    for owner, share in answer.shares.items():
        kept = [party.workers[owner]._mask_keys.private, party.workers[owner]._own_seed]
        assert share[1:] not in kept
    assert set(answer.shares) == set(party.joined.graph[8])


def test_lists_with_too_many_are_refused() -> None:
    party = ready_round()
    with pytest.raises(ProtocolError, match="names 7 of 30, more than 6"):
        party.workers[29].agree(set(range(7)))
    victim = 17
    around = set(party.joined.graph[victim][:4])  # four masks
    witness = next(each for each in party.workers if each not in around and each != victim)
    for identity in (victim, witness):  # not only the victim minds
        with pytest.raises(ProtocolError, match=r"names 4 of the 10 neighbours of worker \d+, more than 3"):
            party.workers[identity].agree(around)
    with pytest.raises(ProtocolError, match="calls worker 17 absent"):
        party.workers[victim].agree({victim})
    for odd in ({99}, [3, 3]):
        with pytest.raises(ProtocolError, match="must name workers of the round, each once"):
            party.workers[victim].agree(odd)
    assert party.workers[victim].step is Step.READY


def test_signatures_are_worth_nothing_in_another_round() -> None:
    one, other = ready_round(), ready_round(seed=8)
    signed = one.lists_signed({3}, [each for each in range(30) if each != 3])
    other.workers[8].agree({3})
    with pytest.raises(ProtocolError, match="has 0 signatures"):
        other.workers[8].answer(signed)


def test_a_symbol_is_masked_once_and_only_when_shares_are_held() -> None:
    party = revealed_round()
    worker = party.workers[0]
    with pytest.raises(ProtocolError, match="worker 0 is revealed and must be ready"):
        worker.masks(0, 0, 10)
    with pytest.raises(ProtocolError, match="must be ready"):
        worker.agree(set())
    parcels = worker.join(party.joined)
    with pytest.raises(ProtocolError, match="shares of worker"):
        worker.receive({})
    ready = ready_round().workers[0]
    ready.masks(0, 0, 10)
    ready.masks(0, 10, 5)
    for again in ((0, 14, 1), (0, 0, 1)):
        with pytest.raises(ProtocolError, match="was masked before"):
            ready.masks(*again)
    ready.masks(1, 0, 3)
    for behind in ((1, 3, -3), (1, -1, 1), (2, 0, -1)):  # no mistake takes the worker back to where it was
        with pytest.raises(ProtocolError, match="must not be negative"):
            ready.masks(*behind)
    with pytest.raises(ProtocolError, match=r"was masked before; go on at \(1, 3\)"):
        ready.masks(1, 0, 3)
    assert set(parcels) == set(party.joined.graph[0])


def test_a_key_that_recovery_reveals_opens_no_parcel() -> None:
    """Were shares sealed with the mask key, whoever learns it could read those of the worker's own seed."""
    from airmixml.masks.keys import opened

    party = revealed_round()
    parcels = party.workers[0].join(party.joined)
    other = party.joined.graph[0][0]
    revealed, digest = party.workers[0]._mask_keys, party.joined.digest
    for public in (party.joined.announcements[other].channel_key, party.joined.announcements[other].mask_key):
        with pytest.raises(ProtocolError):
            opened(parcels[other], pair_seed(revealed, 0, public, other, digest, purpose="channel"), 0, digest)


def test_a_wrong_share_is_left_out_and_many_are_noticed() -> None:
    party = ready_round()
    signed = party.lists_signed({3}, [each for each in range(30) if each != 3])
    answers = {each: party.workers[each].answer(signed) for each in signed}
    holders = sorted(party.joined.graph[7])

    def server_with(wrong: list[int]) -> RecoveryServer:
        server = RecoveryServer(party.joined, {3})
        for holder, answer in answers.items():
            bad = {7: bytes(33 * holders.count(holder))} if holder in wrong else {}
            server.take(replace(answer, shares={**answer.shares, **bad}))
        return server

    right = server_with([]).correction(0, 0, 5)
    assert np.array_equal(server_with(holders[:1]).correction(0, 0, 5), right)
    with pytest.raises(ProtocolError, match="shares of worker 7 give no secret of it"):
        server_with(holders[:5]).correction(0, 0, 5)
    short = RecoveryServer(party.joined, {3})
    assert len(short.missing) == 30
    with pytest.raises(ProtocolError, match="has 0 shares, and 7 are needed"):
        short.correction(0, 0, 5)
    stranger = next(each for each in range(30) if each not in holders and each != 7)
    with pytest.raises(ProtocolError, match="not its neighbour"):
        short.take(Answer(stranger, {7: bytes(33)}))
