"""Which links are cut, what waits on them, and who is told of a heal."""

from __future__ import annotations

from tests.support.images import B1, B2
from txnsim.runtime._link_cuts import Cut, LinkCuts, Pipe
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual


def test_a_link_is_cut_in_one_direction_until_it_heals() -> None:
    cuts = LinkCuts()
    assert not cuts
    cuts.cut((B1, B2), Cut.BLACK_HOLE)
    assert cuts
    assert (cuts.how((B1, B2)), cuts.how((B2, B1))) == (Cut.BLACK_HOLE, None)
    cuts.cut((B1, B2), Cut.REFUSED)
    assert cuts.how((B1, B2)) is Cut.REFUSED
    assert cuts.heal((B1, B2)) == []
    assert not cuts


def test_what_waited_is_handed_back_once_and_in_order() -> None:
    cuts = LinkCuts()
    told: list[str] = []
    cuts.cut((B1, B2), Cut.BLACK_HOLE)
    cuts.hold((B1, B2), lambda: told.append("first"))
    cuts.hold((B1, B2), lambda: told.append("second"))
    for go_on in cuts.heal((B1, B2)):
        go_on()
    assert told == ["first", "second"]
    assert cuts.heal((B1, B2)) == []


def test_watchers_are_called() -> None:
    cuts = LinkCuts()
    healed: list[object] = []
    leave = cuts.watch(lambda *link: healed.append(link))
    cuts.tell((B1, B2))
    assert healed == [(B1, B2)]
    leave()
    cuts.tell((B2, B1))
    assert healed == [(B1, B2)]


def test_a_quick_message_does_not_overtake_a_slow_one() -> None:
    arrived: list[tuple[str, int]] = []

    async def main(env: VirtualEnvironment) -> None:
        start_ms = env.clock.monotonic_ms()
        pipe = Pipe(env.clock)
        done = env.loop.create_future()
        for name, latency_ms in (("slow", 30.0), ("quick", 5.0)):
            pipe.send(
                latency_ms,
                lambda name=name: arrived.append((name, env.clock.monotonic_ms() - start_ms)),
            )
        pipe.send(40.0, lambda: done.set_result(None))
        await done

    run_virtual(main, seed=1)
    assert arrived == [("slow", 30), ("quick", 30)]
