"""Who draws the graph of a round: nobody. Servers and colluders that try to choose it, each refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from round_for_tests import RULES, SEED, SLOTS, Party, announced_round, ready_round, revealed_round

from airmixml.masks.graph import MOST_ROUNDS, draw_graph
from airmixml.masks.keys import KeyPair, signature, verifying_key
from airmixml.masks.recovery import RecoveringWorker, Step
from airmixml.masks.rounds import Announcement, Reveal, Round, nonce_commitment, round_name
from airmixml.messages import ProtocolError


def another_process(party: Party, identity: int, slots: range = SLOTS) -> RecoveringWorker:
    """The same worker with new secrets."""
    key, directory = party.workers[identity]._signing_key, party.joined.verifying_keys
    return RecoveringWorker(identity, key, b"run %d" % SEED, slots, RULES, directory=directory)


def refused(party: Party, altered: Round, reason: str, worker: int = 0) -> None:
    with pytest.raises(ProtocolError, match=reason):
        party.workers[worker].join(altered)
    assert party.workers[worker].step is Step.REVEALED


# --- The graph --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (replace(RULES, most_repeats=2), r"they repeat by \d+, and rules\.most_repeats = 2"),
        (replace(RULES, second_eigenvalue=2.0), r"second eigenvalue .* rules\.second_eigenvalue = 2; start the round"),
    ],
)
def test_even_a_drawn_graph_must_keep_to_what_statements_assume(rules: object, reason: str) -> None:
    assert isinstance(rules, type(RULES))
    party = revealed_round(rules=rules)
    refused(party, party.joined, reason)


def test_the_seed_is_a_hash_of_everything_by_hand() -> None:
    party = revealed_round()
    joined, run = party.joined, sha256(party.joined.run).digest()
    transcript = sha256(b"airmixml-masks/1 transcript\0" + run + RULES.packed())
    nonces = b""
    for identity in range(30):
        said, own = joined.announcements[identity], identity.to_bytes(8, "big")
        content = own + said.mask_key + said.channel_key + said.commitment + said.nonce_commitment
        transcript.update(b"airmixml-masks/1 announcement\0" + run + content + joined.verifying_keys[identity])
        nonces += own + party.workers[identity]._nonce
        committed = sha256(b"airmixml-masks/1 nonce\0" + run + own + party.workers[identity]._nonce).digest()
        assert said.nonce_commitment == committed
    seed = sha256(b"airmixml-masks/1 graph\0" + transcript.digest() + nonces).digest()
    drawn = draw_graph(30, 10, int.from_bytes(seed, "big")).neighbours
    assert drawn == joined.graph
    assert all(type(each) is int for each in joined.graph[0])


def test_one_nonce_changes_the_graph_and_nobody_can_tell_how_before() -> None:
    """Of 60 graphs that differ in one nonce, worker 0 has every other neighbour about equally often."""
    party = revealed_round()
    counts = np.zeros(30)
    for last in range(60):
        reveals = {**party.joined.reveals, 29: Reveal(29, bytes([last]) * 32)}
        for other in party.joined.drawn(reveals).graph[0]:
            counts[other] += 1
    assert counts[0] == 0
    mean = 60 * 10 / 29
    assert np.abs(counts[1:] - mean).max() < 4.5 * np.sqrt(mean)


# --- Nonces -----------------------------------------------------------------------------------------------------------


def signed_reveal(party: Party, identity: int, nonce: bytes, transcript: bytes | None = None) -> Reveal:
    """What a colluder can sign: any nonce."""
    said = Reveal(identity, nonce)
    key = party.workers[identity]._signing_key
    return replace(said, signed=signature(key, said.statement(transcript or party.joined.transcript)))


def test_nonces_that_were_not_committed_to_are_refused() -> None:
    """The last one to reveal knows all others, tries nonces until it likes the graph, and signs that one."""
    party = revealed_round()
    chosen = signed_reveal(party, 29, bytes(32))
    refused(party, party.joined.drawn({**party.joined.reveals, 29: chosen}), "nonce of worker 29 is not the one")


def test_a_nonce_of_another_worker_cannot_be_taken_over() -> None:
    """Worker 29 copies the commitment of worker 5 and, once that is open, its nonce: commitments name their worker."""
    party = announced_round()
    said = replace(
        party.joined.announcements[29], nonce_commitment=party.joined.announcements[5].nonce_commitment, signed=b""
    )
    run, key = party.joined.run, party.workers[29]._signing_key
    copied = replace(said, signed=signature(key, said.statement(run)))
    party.joined = replace(party.joined, announcements={**party.joined.announcements, 29: copied})
    reveals = {each: party.workers[each].reveal(party.joined) for each in range(29)}
    reveals[29] = signed_reveal(party, 29, reveals[5].nonce)
    refused(party, party.joined.drawn(reveals), "nonce of worker 29 is not the one it committed to")


def test_a_nonce_of_another_round_is_refused() -> None:
    party, later = revealed_round(), announced_round(restarts=1)
    old = party.joined.announcements[5]
    with pytest.raises(ProtocolError, match="announcement of worker 5 is not signed"):
        later.workers[0].reveal(replace(later.joined, announcements={**later.joined.announcements, 5: old}))
    reveals = {each: member.reveal(later.joined) for each, member in later.workers.items()}
    replayed = {**reveals, 5: party.joined.reveals[5]}
    refused(later, later.joined.drawn(replayed), "nonce of worker 5 is not the one it committed to")
    # The same nonce, committed to again: the reveal of the old round still is no reveal of this one.
    party = announced_round()
    again = announced_round(restarts=2)
    again.workers[5]._nonce = party.workers[5]._nonce
    again.joined = replace(again.joined, announcements={**again.joined.announcements, 5: again.workers[5].announce()})
    old_reveal = party.workers[5].reveal(party.joined)
    reveals = {each: member.reveal(again.joined) for each, member in again.workers.items()} | {5: old_reveal}
    refused(again, again.joined.drawn(reveals), "reveal of worker 5 is not signed")


def test_reveals_are_signed_by_their_worker() -> None:
    party = revealed_round()
    genuine = party.joined.reveals[9]
    another = Reveal(8, genuine.nonce)  # signed by 9, and in the name of 8
    signed = signature(party.workers[9]._signing_key, another.statement(party.joined.transcript))
    for forged in (replace(genuine, signed=bytes(64)), replace(genuine, identity=8), replace(another, signed=signed)):
        refused(party, replace(party.joined, reveals={**party.joined.reveals, 9: forged}), "reveal of worker 9 is not")


def test_a_reveal_that_is_withheld_stops_the_round() -> None:
    """Otherwise k colluders could choose among 2^k graphs, by who of them reveals."""
    party = revealed_round()
    some = {each: reveal for each, reveal in party.joined.reveals.items() if each != 29}
    refused(party, party.joined.drawn(some), "reveal of worker 29 is missing, and no graph is drawn without it")
    more = {**party.joined.reveals, 99: party.joined.reveals[9]}
    refused(party, replace(party.joined, reveals=more), "must name the same workers")


# --- Announcements ----------------------------------------------------------------------------------------------------


def unrevealed(party: Party, altered: Round, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        party.workers[0].reveal(altered)
    assert party.workers[0].step is Step.ANNOUNCED


def test_announcements_that_a_server_has_altered_get_no_nonce() -> None:
    party = announced_round()
    genuine, keys = dict(party.joined.announcements), dict(party.joined.verifying_keys)

    def altered(announcement: Announcement) -> Round:
        return replace(party.joined, announcements={**genuine, announcement.identity: announcement})

    unrevealed(party, altered(replace(genuine[9], mask_key=KeyPair.generate().public)), "worker 9 is not signed")
    unrevealed(party, altered(replace(genuine[9], nonce_commitment=bytes(32))), "worker 9 is not signed")
    exchanged = replace(party.joined, announcements={**genuine, 9: genuine[8]})
    unrevealed(party, exchanged, "announcement of worker 9 is not signed by it")
    named = replace(genuine[9], identity=8)  # signed by 9, and in the name of 8
    named = replace(named, signed=signature(party.workers[9]._signing_key, named.statement(party.joined.run)))
    posing = replace(party.joined, announcements={**genuine, 9: named})
    unrevealed(party, posing, "announcement of worker 9 is not signed by it")
    own = altered(replace(genuine[0], channel_key=KeyPair.generate().public))
    unrevealed(party, own, "does not have the announcement of worker 0")
    unrevealed(party, replace(party.joined, rules=replace(RULES, quorum=3)), "another name or rules")
    unrevealed(party, replace(party.joined, run=round_name(b"another", SLOTS)), "another name or rules")
    unrevealed(party, replace(party.joined, verifying_keys={0: keys[0]}), "must name the same workers")
    half = replace(
        party.joined,
        announcements={each: genuine[each] for each in range(15)},
        verifying_keys={each: keys[each] for each in range(15)},
    )
    unrevealed(party, half, r"round has 15 workers and must have rules\.workers = 30")


def test_a_statement_can_be_read_in_one_way_only() -> None:
    """Bytes that move from one key to the next are signed all the same: only the lengths tell."""
    party = announced_round()
    said, key = party.joined.announcements[9], party.workers[9]._signing_key
    moved = replace(said, mask_key=said.mask_key + said.channel_key[:1], channel_key=said.channel_key[1:])
    assert moved.statement(party.joined.run) == said.statement(party.joined.run)
    assert verifying_key(key) == party.joined.verifying_keys[9]
    altered = replace(party.joined, announcements={**party.joined.announcements, 9: moved})
    unrevealed(party, altered, "announcement of worker 9 has parts of a wrong length")


def test_verifying_keys_are_those_of_the_workers_own_directory() -> None:
    """A server that invents worker 29 signs with a key of its own, and shows that key to everybody."""
    party = announced_round()
    invented = bytes(range(32))
    said = replace(party.joined.announcements[29], signed=b"")
    said = replace(said, signed=signature(invented, said.statement(party.joined.run)))
    altered = replace(
        party.joined,
        announcements={**party.joined.announcements, 29: said},
        verifying_keys={**party.joined.verifying_keys, 29: verifying_key(invented)},
    )
    altered.check_announcements()  # it is well signed
    unrevealed(party, altered, "verifying key of worker 29 is not the one in this worker's directory")


MALFORMED = {
    "key is text": {"mask_key": "x" * 32},
    "identity is none": {"identity": None},
    "identity is a fraction": {"identity": 3.0},
    "signature is none": {"signed": None},
    "signature is unhashable": {"signed": bytearray(64)},
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_announcements_are_refused_and_nothing_breaks(kind: str) -> None:
    party = announced_round()
    odd = replace(party.joined.announcements[3], **MALFORMED[kind])  # type: ignore[arg-type]
    unrevealed(party, replace(party.joined, announcements={**party.joined.announcements, 3: odd}), "3|identity")
    renamed = {(3.5 if each == 3 else each): said for each, said in party.joined.announcements.items()}
    unrevealed(party, replace(party.joined, announcements=renamed), "must name the same workers")  # type: ignore[arg-type]


def test_malformed_reveals_are_refused_and_nothing_breaks() -> None:
    party = revealed_round()
    reveals, graph = dict(party.joined.reveals), dict(party.joined.graph)
    for nonce in ("x" * 32, None, bytes(31), bytes(33)):
        altered = replace(party.joined, reveals={**reveals, 3: replace(reveals[3], nonce=nonce)})  # type: ignore[arg-type]
        refused(party, altered, "nonce of worker 3 must have 32 bytes")
    parcels = {each: party.workers[each].join(party.joined) for each in range(30)}
    mine = {each: parcels[each][0] for each in graph[0]}
    for content in (None, "x", b""):
        with pytest.raises(ProtocolError, match="were changed or are of another round"):
            party.workers[0].receive({**mine, graph[0][0]: content})  # type: ignore[dict-item]
    party.workers[0].receive(mine)
    for listed in ("1", [1.5], [None], [99]):
        with pytest.raises(ProtocolError, match="list of absent workers must name workers"):
            party.workers[0].agree(listed)  # type: ignore[arg-type]
    party.workers[0].agree([])
    with pytest.raises(ProtocolError, match="has 0 signatures"):
        party.workers[0].answer(dict.fromkeys(range(30)))  # type: ignore[arg-type]


def test_a_worker_has_one_number_in_all_messages() -> None:
    """Colluder 29 commits to a nonce as 31, and is called 31 once others have revealed theirs."""
    party = announced_round()
    colluder, run = party.workers[29], party.joined.run
    said = replace(colluder.announce(), nonce_commitment=nonce_commitment(run, 31, colluder._nonce))
    said = replace(said, signed=signature(colluder._signing_key, said.statement(run)))
    announced = replace(party.joined, announcements={**party.joined.announcements, 29: said})
    reveals = {each: party.workers[each].reveal(announced) for each in range(29)}
    names = {**{each: each for each in range(29)}, 29: 31}
    renamed = replace(
        announced,
        announcements={names[each]: said for each, said in announced.announcements.items()},
        verifying_keys={names[each]: key for each, key in announced.verifying_keys.items()},
    )
    assert renamed.transcript == announced.transcript
    lie = Reveal(31, colluder._nonce)
    lie = replace(lie, signed=signature(colluder._signing_key, lie.statement(renamed.transcript)))
    drawn = renamed.drawn({**reveals, 31: lie})
    refused(party, drawn, "other announcements than those that worker 4", 4)
    with pytest.raises(ProtocolError, match="announcement of worker 31 is that of 29"):
        drawn.check()


def test_workers_who_are_shown_different_announcements_refuse_each_other() -> None:
    """Colluder 29 announces twice; the server shows one half of the workers one announcement, the rest the other."""
    party = announced_round()
    twin = another_process(party, 29)
    other = replace(party.joined, announcements={**party.joined.announcements, 29: twin.announce()})
    reveals = {each: party.workers[each].reveal(party.joined if each < 15 else other) for each in range(29)}
    ours = {**reveals, 29: party.workers[29].reveal(party.joined)}
    theirs = {**reveals, 29: twin.reveal(other)}
    refused(party, party.joined.drawn(ours), "reveal of worker 15 is not signed for these announcements", 0)
    refused(party, other.drawn(theirs), "reveal of worker 0 is not signed for these announcements", 20)
    refused(party, other.drawn(theirs), "other announcements than those that worker 0 revealed its nonce for", 0)


def test_a_nonce_is_revealed_once() -> None:
    party = announced_round()
    party.workers[8].reveal(party.joined)
    with pytest.raises(ProtocolError, match="worker 8 is revealed and must be announced"):
        party.workers[8].reveal(party.joined)


def test_no_party_can_stop_rounds_until_it_likes_the_graph() -> None:
    names = {round_name(b"run", SLOTS, restarts) for restarts in range(MOST_ROUNDS)}
    assert len(names) == MOST_ROUNDS
    for restarts in (MOST_ROUNDS, -1):
        with pytest.raises(ProtocolError, match=rf"restarts = {restarts} must be from 0 to {MOST_ROUNDS - 1}"):
            round_name(b"run", SLOTS, restarts)
    for odd in (range(0), range(3, 1), range(0, 4, 2), range(-1, 3), range(1 << 64, (1 << 64) + 1)):
        with pytest.raises(ProtocolError, match=r"slots = range\(.* must be a range of slots"):
            round_name(b"run", odd)
    assert len({round_name(b"run", each) for each in (range(2), range(1, 2), range(3))}) == 3


def test_the_order_of_the_round_is_kept() -> None:
    party = announced_round()
    with pytest.raises(ProtocolError, match="worker 0 is announced and must be revealed"):
        party.workers[0].join(party.joined)
    assert ready_round().workers[0].step is Step.READY
