"""The table ``[link]``: ordinary digital links between workers and access points, for ``radio.link = "digital"``."""

from dataclasses import dataclass

from airmixml.scenario.rules import Real, Table, Whole, key


@dataclass(frozen=True, kw_only=True)
class Link(Table):
    """What packets are sent over, and with; analog links need none of it."""

    rate_mbps: float = key(
        50.0,
        Real(low=0, open_low=True, high=1e9),
        "digital: net rate of one access point in 10^6 bits per second, which its workers use one after the other",
    )
    access_points: int = key(
        1,
        Whole(low=1, high=10**9),
        "digital: untrusted access points; each adds up modulo 2^b what its workers send, and forwards one vector",
    )
    packet_bytes: int = key(1500, Whole(low=1, high=10**9), "digital: numbers that a packet carries, in bytes")
    header_bytes: int = key(60, Whole(low=0, high=10**9), "digital: what is sent with each packet besides, in bytes")
    packet_error: float = key(
        0.1, Real(low=0, high=1, open_high=True), "digital: probability that a packet is not received when it is sent"
    )
    tries: int = key(
        8,
        Whole(low=1, high=10**4),
        "digital: how often a packet is sent at most; a worker with one that never arrives is absent from the slot",
    )
    power_dbm: float = key(20.0, Real(low=-300, high=100), "digital: transmit power of a worker while it sends")
    duty: float = key(
        1.0, Real(low=0, open_low=True, high=1), "digital: share of a slot for which a worker may send, at most"
    )
    backhaul_mbps: float = key(
        1000.0,
        Real(low=0, open_low=True, high=1e9),
        "digital: rate from each access point to the server, in 10^6 bits per second",
    )
    bandwidth_hz: float = key(
        100e6,
        Real(low=0, open_low=True, high=1e12),
        "digital: spectrum of all access points together, for comparisons; the rate does not follow from it",
    )
