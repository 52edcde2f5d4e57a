"""Fast path for connections within one block, compared with the general path."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from pulsarscope.model.limits import CLOSED_CONNECTION_NANOSECONDS
from pulsarscope.tcp import complete_connections as fast_path
from tests.scenarios.chance import randoms
from tests.tcp.tape import ACK, CLIENT, FIN, RST, SERVER, SYN, Tape, flow_key


def short_connection(tape: Tape, connection: int, random: Random) -> None:
    """Append a handshake, data in both directions, two FINs and acknowledgments."""
    tape.open(connection)
    at = [0, 0]
    remaining = [random.randrange(4), random.randrange(4)]
    open_sides = [CLIENT, SERVER]
    while open_sides:
        side = random.choice(open_sides)
        last = not remaining[side]
        payload = bytes(random.randrange(5 if last else 9))
        if not (payload or last) or random.random() < 0.2:
            tape.send(random.choice((CLIENT, SERVER)), at[side], connection=connection)
        ack = tape.bases[1 - side] + at[1 - side] + random.choice((0, 1))  # 1: it acknowledges the other FIN
        tape.send(side, at[side], payload, FIN | ACK if last else ACK, ack=ack, connection=connection)
        at[side] += len(payload)
        remaining[side] -= 1
        if last:
            open_sides.remove(side)
    for _ in range(random.randrange(3)):
        side = random.choice((CLIENT, SERVER))
        tape.send(side, at[side] + 1, connection=connection)


def disturb(tape: Tape, random: Random) -> None:
    """Change one property of one packet."""
    index = random.randrange(len(tape.packets))
    file, key, (packet, time, seq, ack, flags, window, payload, cut, identification, options) = tape.packets[index]
    kind = random.randrange(8)
    if kind == 0:
        seq = (seq + random.choice((-3, -1, 1, 5))) & 0xFFFF_FFFF
    elif kind == 1:
        flags ^= random.choice((SYN, FIN, RST, ACK))
    elif kind == 2:
        window = 0
    elif kind == 3:
        payload += b"more"
    elif kind == 4:
        cut = 3
    elif kind == 5:
        ack += 1
    elif kind == 6:
        time += random.choice((-1, 1)) * random.choice((1, CLOSED_CONNECTION_NANOSECONDS + 1))
    else:
        key = flow_key(random.choice((CLIENT, SERVER)), random.randrange(3))
    tape.packets[index] = file, key, (packet, time, seq, ack, flags, window, payload, cut, identification, options)


@pytest.mark.slow
@given(randoms)
@settings(max_examples=400)
def test_whole_connections_are_as_their_packets_one_by_one(random: Random) -> None:
    tape = Tape((random.choice((1_000, 0xFFFF_FFFA)), 5_000))
    for _ in range(random.randint(1, 3)):
        short_connection(tape, random.randrange(2), random)
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        disturb(tape, random)
    assert [outcome.facts() for outcome in tape.run()] == [outcome.facts() for outcome in tape.run_apart()]


@given(randoms)
@settings(max_examples=50)
def test_an_undisturbed_connection_is_taken_as_a_whole(random: Random) -> None:
    tape = Tape()
    short_connection(tape, 0, random)
    (block,) = tape.blocks()
    result = fast_path.complete_connection(flow_key(CLIENT), block.flows[flow_key(CLIENT)], block.flows[flow_key(SERVER)], 0)
    assert result is not None
    assert result.connection.packets == block.packets
    assert [stream.ended for stream in result.connection.streams] == [True, True]
