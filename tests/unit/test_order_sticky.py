"""Sticky sessions: who is kept, who is forgotten, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass
from hedgerow.gateway.session import session_of
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import Health
from hedgerow.policy.lineup import Lineup
from hedgerow.policy.order import Sticky
from hedgerow.policy.plan import Candidate
from hedgerow.policy.rotate import Rotation
from hedgerow.policy.sticky import Sessions, changed
from hedgerow.wire.user import user_of


def test_a_session_is_where_it_was_answered_last_until_its_time_is_over() -> None:
    sessions = Sessions(Sticky(ttl=10.0))
    sessions.settle("s", "a", 0.0)
    assert [sessions.target("s", now) for now in (0.0, 9.9, 10.0)] == ["a", "a", None]
    sessions.settle("s", "b", 20.0)
    sessions.settle("s", "b", 29.0)
    assert [sessions.target("s", now) for now in (30.0, 38.9, 39.0)] == ["b", "b", None]
    assert sessions.target("t", 20.0) is None


def test_a_session_that_took_more_than_one_attempt_is_nowhere() -> None:
    sessions = Sessions(Sticky())
    sessions.settle("s", "a", 0.0)
    sessions.settle("s", None, 1.0)
    assert (sessions.target("s", 1.0), len(sessions)) == (None, 0)
    sessions.settle("s", None, 1.0)


def test_the_session_that_is_longest_unheard_of_makes_room() -> None:
    sessions = Sessions(Sticky(most=2))
    for session, now in (("s", 0.0), ("t", 1.0), ("s", 2.0), ("u", 3.0)):
        sessions.settle(session, "a", now)
    assert [sessions.target(each, 3.0) for each in "stu"] == ["a", None, "a"]


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 5.0)), max_size=100))
def test_it_holds_the_sessions_that_are_not_over_and_no_more_than_it_may(asked: Sequence[tuple[int, float]]) -> None:
    sessions, now, last = Sessions(Sticky(ttl=10.0, most=20)), 0.0, dict[str, float]()
    for number, pause in asked:
        now += pause
        last[str(number)] = now
        sessions.settle(str(number), "a", now)
        alive = sorted((at, session) for session, at in last.items() if now < at + 10.0)
        assert len(sessions) == min(len(alive), 20)
        assert all(sessions.target(session, now) == "a" for _, session in alive[-20:] if (_, session) > alive[0])


def test_a_reload_leaves_sessions_where_they_are_and_may_end_it_all() -> None:
    sessions = changed(None, Sticky())
    assert sessions is not None
    sessions.settle("s", "a", 0.0)
    longer = changed(sessions, Sticky(ttl=900.0))
    assert longer is not None
    assert longer.target("s", 599.0) == "a"
    assert changed(longer, None) is None


def test_a_session_goes_before_the_order_but_not_before_health() -> None:
    candidates = [Candidate(name, name) for name in "abc"]
    health, sessions = Health(), Sessions(Sticky())
    lineup = Lineup(candidates, health, Rotation(), sessions=sessions)
    sessions.keep("s", "c", 0.0)

    def asked(session: str, now: float = 0.0) -> str:
        order = lineup.order(Ask("r", True, session=session), now)
        return "".join(candidates[index].target for index in order.usable)

    assert [asked("s") for _ in range(3)] == ["cab", "cab", "cab"]
    assert [asked(""), asked("t")] == ["abc", "bca"]
    health.failed(candidates[2], Failure(FailureClass.RATE_LIMITED, "", retry_after=50.0), 0.0, 0.0)
    assert asked("s", 1.0)[0] != "c"
    assert asked("s", 60.0)[0] == "c"


def test_a_session_takes_no_turns_of_those_who_have_none() -> None:
    candidates = [Candidate(name, name) for name in "abc"]
    health, sessions = Health(), Sessions(Sticky())
    lineup = Lineup(candidates, health, Rotation(), sessions=sessions)

    def first(session: str) -> str:
        chosen = candidates[lineup.order(Ask("r", True, session=session), 0.0).usable[0]].target
        if session:
            sessions.settle(session, chosen, 0.0)
        return chosen

    assert {first("s") for _ in range(120)} == {"a"}
    assert Counter(first("") for _ in range(180)) == {"a": 60, "b": 60, "c": 60}
    assert Counter(first(f"s{number}") for number in range(30)) == {"a": 10, "b": 10, "c": 10}
    mixed = [first("s" if number % 2 else "") for number in range(60)]
    assert Counter(mixed[::2]) == {"a": 10, "b": 10, "c": 10}


def test_a_session_whose_target_is_out_takes_a_turn() -> None:
    candidates = [Candidate(name, name) for name in "abc"]
    health, sessions = Health(), Sessions(Sticky())
    lineup = Lineup(candidates, health, Rotation(), sessions=sessions)
    sessions.keep("s", "a", 0.0)
    health.failed(candidates[0], Failure(FailureClass.RATE_LIMITED, "", retry_after=50.0), 0.0, 0.0)
    asked = [lineup.order(Ask("r", True, session="s"), 1.0).usable[0] for _ in range(4)]
    assert asked == [1, 2, 1, 2]


def test_without_another_order_a_session_stays_where_a_failure_has_led_it() -> None:
    candidates = [Candidate(name, name) for name in "ab"]
    sessions = Sessions(Sticky())
    lineup = Lineup(candidates, Health(), None, sessions=sessions)
    sessions.keep("s", "b", 0.0)
    orders = [lineup.order(Ask("r", True, session=each), 1.0).usable for each in ("s", "t")]
    assert [list(each) for each in orders] == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("body", "user"),
    [
        (b'{"user":"u1"}', b"u1"),
        (b'{"user":"u1","prompt_cache_key":"k"}', b"k"),
        (b'{"safety_identifier":"s"}', b"s"),
        (b'{"metadata":{"user_id":"m"}}', b"m"),
        (b'{"metadata":["user_id"],"user":7}', b""),
        (b'{"user":""}', b""),
        (b"{}", b""),
        (b"no json", b""),
        (b'{"user":"\\ud800"}', b""),
        (b"[" * 100_000, b""),
    ],
)
def test_whom_a_body_names(body: bytes, user: bytes) -> None:
    assert user_of(body) == user


def test_the_first_that_is_there_tells_the_session_and_its_name_shows_nothing_of_it() -> None:
    headers = [(b"x-session-id", b" one "), (b"x-other", b"two")]
    one = session_of(["x-session-id"], headers, b"{}")
    assert one == session_of(["x-nothing", "x-session-id", "x-other"], [(b"x-session-id", b"one")], b"{}")
    assert one == session_of(["user", "x-session-id"], [], b'{"user":"one"}')
    assert one != session_of(["x-other"], headers, b"{}") != ""
    assert (len(one), session_of(["x-nothing", "user"], headers, b"{}")) == (16, "")


@pytest.mark.parametrize("wrong", [{"ttl": 0.0}, {"most": 0}])
def test_what_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="ttl must be above 0"):
        Sticky(**wrong)  # type: ignore[arg-type]  # of several types
