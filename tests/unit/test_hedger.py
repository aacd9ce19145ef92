"""The composed route: what requests begin with is made once for all that are judged alike, and is never another's."""

from __future__ import annotations

from math import inf

from hedgerow.events import Failure, FailureClass, Reason, Role
from hedgerow.hedger import Hedger
from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate, Place, Refusal
from hedgerow.policy.settings import Policy

PLACES = tuple(Place(Candidate(name, name)) for name in "ab")
TWO, THREE = (Policy(delay=delay, total=60.0, first_token=30.0) for delay in ("2s", "3s"))
ASK = Ask("1", True)
NO = Refusal(Reason.CLIENT_OPT_OUT)


def targets(route: Hedger, now: float = 1.0) -> list[str]:
    (_, candidates, *_), indices = route.begins(ASK, now)
    assert [candidate.target for candidate in candidates] == [route.places[index].candidate.target for index in indices]
    return [candidate.target for candidate in candidates]


def test_it_is_shared_by_those_that_are_judged_alike() -> None:
    route = Hedger("r", PLACES, TWO)
    begun = route.begins(ASK, 0.0)
    assert begun[0][0].delay == 2.0
    assert route.begins(Ask("2", True), 1.0) is begun
    whole, hurried = route.begins(Ask("3", False), 1.0), route.begins(Ask("4", True, deadline_at=6.0), 1.0)
    assert [(plan.first_token, plan.total) for (plan, *_), _ in (begun, whole, hurried)] == [
        (30.0, 60.0),
        (inf, 60.0),
        (30.0, 5.0),
    ]
    assert route.begins(ASK, 1.0)[0][0] is begun[0][0]


def test_a_refusal_is_for_the_request_that_it_was_made_for() -> None:
    route = Hedger("r", PLACES, TWO)
    for refusal in (None, NO, None):
        (_, _, whether, _, _), _ = route.begins(ASK, 0.0, refusal)
        assert whether is not None
        assert whether(ASK, Role.HEDGE, 1, 1, 2.0) is refusal


def test_a_target_that_is_out_is_left_out_and_back_when_it_is_back() -> None:
    route = Hedger("r", PLACES, TWO)
    assert targets(route) == ["a", "b"]
    route.failed(PLACES[0], ASK, Failure(FailureClass.RATE_LIMITED, "429", 429, retry_after=5.0), 1.0, 1.0)
    assert targets(route, 2.0) == ["b", "a"]
    assert targets(route, 7.0) == ["a", "b"]


def test_those_beside_it_narrowed_or_after_it_have_their_own() -> None:
    route = Hedger("r", PLACES, TWO)
    begun = route.begins(ASK, 0.0)
    other, one = route.beside(THREE), route.narrowed(PLACES[1:])
    assert (other.begins(ASK, 0.0)[0][0].delay, route.begins(ASK, 0.0)) == (3.0, begun)
    assert (targets(one), targets(route)) == (["b"], ["a", "b"])
    after = Hedger("r", PLACES[::-1], THREE)
    assert targets(after) == ["b", "a"]
    after.adopt(route, 1.0)
    assert (targets(after), after.begins(ASK, 1.0)[0][0].delay) == (["b", "a"], 3.0)
