"""routes.<name>.order and the keys of targets that it goes by: who is asked first, and who next."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hedgerow.errors import ConfigError
from hedgerow.events import AttemptLaunched, Role, TargetTakenOut
from tests.effects.support import (
    BASE,
    BROKEN,
    QUICK,
    SILENT,
    SLOW_DOWN,
    STREAM,
    Document,
    Sent,
    Story,
    after,
    effect_of,
    every,
    settings,
    tell,
    token,
)
from tests.engine.scripted import JSON, Answer, Script

ROTATE = "routes.<name>.order"


@effect_of(ROTATE)
@pytest.mark.parametrize(("order", "firsts"), [("fixed", "aaaaaa"), ("rotate", "abcabc")])
def test_targets_are_first_in_turn(key: str, order: str, firsts: str) -> None:
    assert tell(settings({key: order}), {}, every(1.0, 6)).firsts() == firsts


@effect_of(ROTATE)
def test_the_next_in_turn_gets_the_hedge(key: str) -> None:
    story = tell(settings({key: "rotate"}), {"b": SILENT}, every(10.0, 3))
    assert [(target, role) for _, target, role, _ in story.launches] == [
        ("a", "primary"),
        ("b", "primary"),
        ("c", "hedge"),
        ("c", "primary"),
    ]


@effect_of("targets.<name>.weight")
@pytest.mark.parametrize(("weight", "firsts"), [(1, "abcabcabcabc"), (2, "abcaabcaabca"), (4, "aabacaaabaca")])
def test_turns_go_by_weight(key: str, weight: int, firsts: str) -> None:
    assert tell(settings({key: weight, ROTATE: "rotate"}), {}, every(1.0, 12)).firsts() == firsts


FOUR: Document = {
    "targets": {
        name: {"base_url": f"http://{name}.example/v1", "price": {"output": dollars}}
        for name, dollars in (("a", 1), ("b", 2), ("c", 9), ("d", 8))
    },
    "routes": {"fast": {"targets": ["a", "b", "c", "d"], "hedge": {"delay": "off"}}},
}
TIMES = {"a": after(0.9), "b": after(0.5), "c": after(0.1), "d": after(0.2)}
BEGIN = 45
"""Requests of four targets until the first ten of each are learned from."""


def by_history(changes: Mapping[str, object], times: int = 200) -> Story:
    return tell(settings(changes, base=FOUR), TIMES, every(1.0, times))


@effect_of(ROTATE)
def test_fastest_begins_with_each_in_turn_and_then_asks_the_fastest(key: str) -> None:
    firsts = by_history({key: {"by": "fastest", "explore": "0%"}}).firsts()
    assert Counter(firsts[:40]) == dict.fromkeys("abcd", 10)
    assert firsts[BEGIN:] == "c" * (200 - BEGIN)


@effect_of(ROTATE)
@pytest.mark.parametrize(("explore", "least", "most"), [("2%", 0.01, 0.03), ("50%", 0.45, 0.55)])
def test_explore_is_the_share_that_goes_to_the_others(key: str, explore: str, least: float, most: float) -> None:
    firsts = by_history({key: {"by": "fastest", "explore": explore}}, 1_000).firsts()[BEGIN:]
    assert least * len(firsts) <= len(firsts) - firsts.count("c") <= most * len(firsts)


@effect_of(ROTATE)
@pytest.mark.parametrize(("quantile", "first"), [("p50", "a"), ("p90", "b")])
def test_who_is_fastest_is_told_by_a_quantile(key: str, quantile: str, first: str) -> None:
    jumpy = [after(0.1), after(0.1), after(0.1), after(3.0)]
    changes = {key: {"by": "fastest", "quantile": quantile, "explore": "0%"}, "routes.<name>.hedge.delay": "off"}
    firsts = tell(settings(changes), {"a": jumpy * 50, "b": after(0.5), "c": SILENT}, every(10.0, 100)).firsts()
    assert firsts[40:] == first * 60


@effect_of(ROTATE)
@pytest.mark.parametrize(("margin", "first"), [("5%", "b"), ("20%", "a")])
def test_who_is_ahead_stays_there_for_want_of_a_margin(key: str, margin: str, first: str) -> None:
    changes = {key: {"by": "fastest", "margin": margin, "explore": "0%"}, "routes.<name>.hedge.delay": "off"}
    firsts = tell(settings(changes), {"a": after(0.5), "b": after(0.45), "c": after(0.9)}, every(1.0, 100)).firsts()
    assert firsts[40:] == first * 60


@effect_of(ROTATE)
@pytest.mark.parametrize(
    ("order", "first"),
    [("cheapest", "c"), ({"by": "cheapest", "within": "110%"}, "d"), ({"by": "cheapest", "within": "900%"}, "a")],
)
def test_cheapest_is_the_cheapest_of_those_that_are_nearly_as_fast(key: str, order: object, first: str) -> None:
    firsts = by_history({key: order}).firsts()[BEGIN:]
    assert firsts.count(first) > 0.9 * len(firsts)


@effect_of(ROTATE)
def test_cheapest_needs_prices(key: str) -> None:
    with pytest.raises(ConfigError, match=r"targets\.b\.price: is required: routes\.fast\.order is cheapest"):
        settings({key: "cheapest", "targets.<name>.price": {"input": 1}}, base=BASE)


RACE = {"mode": "race"}


def raced(story: Story) -> Counter[str]:
    """How often which targets were asked together."""
    together: dict[str, list[str]] = {}
    for each in story.of(AttemptLaunched):
        together.setdefault(each.request_id, []).append(each.target)
    return Counter("".join(sorted(targets)) for targets in list(together.values())[BEGIN:])


@effect_of("routes.<name>.hedge.mode")
def test_of_four_targets_the_two_fastest_race_unless_an_order_is_set(key: str) -> None:
    story = by_history({"routes.<name>.hedge": RACE}, 500)
    asked = raced(story)
    assert asked["cd"] > 0.9 * asked.total()
    assert set(asked) == {"cd", "bd", "ad"}
    assert {role for _, _, role, _ in story.launches} == {Role.PRIMARY, Role.RACER}
    assert set(raced(by_history({"routes.<name>.hedge": RACE, ROTATE: "fixed"}, 100))) == {"ab"}
    assert set(raced(by_history({"routes.<name>.hedge": {**RACE, "width": 4}}, 100))) == {"abcd"}


BY = "routes.<name>.sticky.by"
STICKY = {ROTATE: "rotate", BY: "x-session"}


def of(session: str) -> Sent:
    return Sent(headers=[(b"x-session", session.encode())])


def sessions(
    changes: Mapping[str, object], *who: str, scripts: Mapping[str, Script | Sequence[Script]] | None = None
) -> str:
    """Who is first for requests of these sessions, one every ten seconds."""
    sent = [replace(of(each), at=10.0 * place) for place, each in enumerate(who)]
    return tell(settings({**STICKY, **changes}), scripts or {}, sent).firsts()


@effect_of(BY)
def test_a_session_stays_where_it_was_answered(key: str) -> None:
    firsts = sessions({}, *"ststtuss")
    assert {session: {firsts[at] for at, each in enumerate("ststtuss") if each == session} for session in "stu"} == {
        "s": {"a"},
        "t": {"b"},
        "u": {"c"},
    }
    assert sessions({key: []}, *"ssss") == "abca"


@effect_of(BY)
@pytest.mark.parametrize("by", ["user", ["x-none", "user"]])
def test_the_user_that_a_body_names_may_be_the_session(key: str, by: object) -> None:
    named = Sent(body=STREAM[:-1] + b',"user":"u-1"}')
    story = tell(settings({ROTATE: "rotate", key: by}), {}, [*every(1.0, 3, like=named), *every(1.0, 3, start=3.0)])
    assert story.firsts()[:3] == "aaa"
    assert len(set(story.firsts()[3:])) > 1


@effect_of(BY)
def test_a_session_does_not_stay_where_it_had_to_be_hedged(key: str) -> None:
    slow = {"a": after(5.0), "b": QUICK, "c": QUICK}
    firsts = sessions({}, *"ssss", scripts=slow)
    assert (firsts[0], set(firsts[1:])) == ("a", {firsts[1]})
    assert firsts[1] != "a"
    # The same where the first attempt wins all the same, where a guard forbids the hedge, and after a failure.
    slow_backup = {"a": after(3.0), "b": after(9.0), "c": after(9.0)}
    assert sessions({}, *"ss", scripts=slow_backup)[1] != "a"
    assert sessions({"routes.<name>.hedge.kill_switch": True}, *"ss", scripts=slow)[1] != "a"
    assert sessions({}, *"ss", scripts={"a": BROKEN})[1] != "a"


@effect_of(BY)
def test_a_session_does_not_stay_where_its_only_attempt_failed(key: str) -> None:
    cut = Answer([(0.1, token("he"))], end="reset")
    assert sessions({}, *"sss", scripts={"a": [QUICK, cut]}) == "aab"
    alone = {"routes.<name>.max_attempts": 1}
    assert sessions(alone, *"sss", scripts={"a": [QUICK, BROKEN]}) == "aab"
    # What the request itself is at fault for says nothing of the target.
    wrong = Answer([(0.0, b"{}")], status=400, headers=JSON)
    assert sessions(alone, *"sss", scripts={"a": [QUICK, wrong]}) == "aaa"


@effect_of("routes.<name>.sticky.ttl")
@pytest.mark.parametrize(("ttl", "firsts"), [("5s", "abca"), ("15s", "aaaa")])
def test_a_session_stays_for_so_long(key: str, ttl: str, firsts: str) -> None:
    assert sessions({key: ttl}, *"ssss") == firsts


@effect_of("routes.<name>.sticky.sessions")
@pytest.mark.parametrize(("most", "stays"), [(1, False), (2, True)])
def test_so_many_sessions_are_remembered(key: str, most: int, stays: bool) -> None:
    firsts = sessions({key: most}, *"st", "s")
    assert (firsts[2] == firsts[0]) is stays


KEYS = "targets.<name>.api_keys"


def keys_used(story: Story, target: str = "a") -> list[str]:
    """The keys that the target got, in the order of its requests."""
    return [key_in(head) for _, head, _ in story.pools[target].requests]


def key_in(head: bytes) -> str:
    return head.partition(b"authorization: Bearer ")[2].partition(b"\r\n")[0].decode()


@effect_of(KEYS)
def test_keys_are_sent_in_turn(key: str) -> None:
    story = tell(settings({key: ["k1", "k2", "k3"]}), {}, every(1.0, 6))
    assert keys_used(story) == ["k1", "k2", "k3"] * 2
    assert story.firsts() == "aaaaaa"


@effect_of(KEYS)
def test_a_429_blocks_one_key_for_as_long_as_it_says(key: str) -> None:
    limited = replace(SLOW_DOWN, headers=[*JSON, (b"retry-after", b"10")])
    one = settings({key: ["k1", "k2", "k3"], "routes.<name>.targets": ["a"]})
    story = tell(one, {"a": [QUICK, limited, QUICK]}, every(1.0, 20))
    used = keys_used(story)
    assert used[:3] == ["k1", "k2", "k1"]  # the request that met the limit went on with another key
    assert [client.status for client in story.clients] == [200] * 20
    assert "k2" not in used[3:11]
    assert set(used[12:]) == {"k1", "k2", "k3"}
    assert [(each.role, each.target) for each in story.of(AttemptLaunched)][2] == (Role.FAILOVER, "a")
    out = story.of(TargetTakenOut)
    assert [(each.target, each.key, each.until - each.at) for each in out] == [("a", 2, 10.0)]


@effect_of(KEYS)
def test_when_all_keys_are_limited_only_the_one_that_is_back_first_is_asked(key: str) -> None:
    def limited(seconds: bytes) -> Answer:
        return replace(SLOW_DOWN, headers=[*JSON, (b"retry-after", seconds)])

    one = settings({key: ["k1", "k2", "k3"], "routes.<name>.targets": ["a"]})
    answers = [limited(b"30"), limited(b"10"), limited(b"20"), *[limited(b"9")] * 3, QUICK]
    story = tell(one, {"a": answers}, [Sent(float(at)) for at in (0, 1, 2, 3, 15)])
    assert keys_used(story) == ["k1", "k2", "k3", "k2", "k2", "k2", "k2"]
    assert [client.status for client in story.clients] == [429, 429, 429, 429, 200]


@effect_of(KEYS)
def test_another_key_of_the_only_target_is_no_backup(key: str) -> None:
    one = settings({key: ["k1", "k2"], "routes.<name>.targets": ["a"], "routes.<name>.hedge.delay": "1s"})
    story = tell(one, {"a": after(5.0)}, [Sent()])
    assert (len(story.launches), story.reasons(), story.clients[0].status) == (1, [], 200)


@effect_of(KEYS)
def test_a_refused_key_leaves_the_others_to_work(key: str) -> None:
    refused = Answer([(0.0, b"{}")], status=401, headers=JSON)
    story = tell(settings({key: ["bad", "good"]}), {"a": [refused, QUICK]}, every(1.0, 5))
    assert keys_used(story) == ["bad", "good", "good", "good", "good"]
    assert [client.answer_headers[b"x-hedgerow-target"] for client in story.clients] == [b"b", *[b"a"] * 4]


@effect_of(KEYS)
def test_what_is_handed_through_always_has_the_first_key(key: str) -> None:
    files = Sent(path=b"/v1/files", body=b"{}")
    story = tell(settings({key: ["k1", "k2"]}), {"a": Answer([(0.0, b"{}")], headers=JSON)}, every(1.0, 3, like=files))
    assert keys_used(story) == ["k1"] * 3


ONLY_FOR = "targets.<name>.only_for"


@effect_of(ONLY_FOR)
@pytest.mark.parametrize(
    ("only_for", "asked"),
    [("any", ["a primary", "b hedge"]), ("primary", ["a primary", "b hedge"]), ("hedge", ["b primary", "a hedge"])],
)
def test_a_target_may_be_for_one_role_only(key: str, only_for: str, asked: list[str]) -> None:
    story = tell(settings({key: only_for}), {"a": SILENT, "b": SILENT, "c": QUICK}, [Sent()])
    assert [f"{target} {role}" for _, target, role, at in story.launches if at < 60.0] == asked


@effect_of(ONLY_FOR)
def test_who_is_for_first_attempts_only_gets_no_hedge_but_what_follows_a_failure(key: str) -> None:
    listed = {key: "primary", "routes.<name>.targets": ["b", "a", "c"]}
    assert [target for _, target, _, _ in tell(settings(listed), {"b": SILENT}, [Sent()]).launches] == ["b", "c"]
    story = tell(settings(listed), {"b": BROKEN, "c": BROKEN}, [Sent()])
    assert [target for _, target, _, _ in story.launches] == ["b", "c", "a"]


@effect_of(ONLY_FOR)
def test_what_is_handed_through_goes_to_one_that_may_be_first(key: str) -> None:
    files = Sent(path=b"/v1/files", body=b"{}")
    assert tell(settings({key: "hedge"}), {}, [files]).firsts() == "b"


@effect_of(ONLY_FOR)
def test_somebody_must_be_first(key: str) -> None:
    with pytest.raises(ConfigError, match=r"routes\.fast\.targets: are all only_for: hedge; one of them must be"):
        settings({key: "hedge", "routes.<name>.targets": ["a", "a"]})


@effect_of("targets.<name>.region")
@pytest.mark.parametrize(("region", "asked"), [("us", ["a", "c"]), ("eu", ["a", "b"]), (None, ["a", "b"])])
def test_the_hedge_goes_to_another_region(key: str, region: str | None, asked: list[str]) -> None:
    places = {key: region, "targets.b.region": "us", "targets.c.region": "eu"}
    story = tell(settings(places), {"a": SILENT}, [Sent()])
    assert [target for _, target, _, _ in story.launches] == asked


SUPPORTS = "targets.<name>.supports"
TOOLED = Sent(body=STREAM[:-1] + b',"tools":[{"type":"function","function":{"name":"f"}}]}')
SEES = b'{"model":"fast","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}'
IN_SCHEMA = Sent(body=STREAM[:-1] + b',"response_format":{"type":"json_schema","json_schema":{}}}')


@effect_of(SUPPORTS)
@pytest.mark.parametrize(("sent", "what"), [(TOOLED, "tools"), (Sent(body=SEES), "vision"), (IN_SCHEMA, "json_schema")])
def test_a_request_goes_to_targets_that_can_answer_it(key: str, sent: Sent, what: str) -> None:
    for supports, first in (([what], "a"), ([], "b")):
        story = tell(settings({key: supports}), {}, [sent, replace(Sent(), at=5.0)])
        assert story.firsts()[0] == first
        assert story.firsts()[1] == "a"


@effect_of(SUPPORTS)
def test_who_cannot_answer_gets_no_hedge_and_nothing_after_a_failure(key: str) -> None:
    listed = {key: [], "routes.<name>.targets": ["b", "a"]}
    story = tell(settings(listed), {"b": SILENT}, [TOOLED])
    assert [target for _, target, _, _ in story.launches] == ["b"]
    assert [each.status for each in tell(settings(listed), {"b": BROKEN}, [TOOLED]).clients] == [500]


@effect_of(SUPPORTS)
def test_what_no_target_can_do_is_refused_in_plain_words(key: str) -> None:
    blind = {key: ["tools"], "routes.<name>.targets": ["a", "a"]}
    story = tell(settings(blind), {}, [Sent(body=SEES)])
    (client,) = story.clients
    told = json.loads(client.text)["error"]
    assert (client.status, told["code"], story.launches) == (400, "unsupported_capability", [])
    assert told["message"] == (
        "No target of route 'fast' can answer this request, which needs vision: a has no vision. "
        "Ask another route, or say what its targets can do in the config, as in supports: [tools, vision]."
    )


@effect_of("targets.<name>.max_context")
@pytest.mark.parametrize(("room", "first"), [(2_000, "a"), (500, "b"), (None, "a")])
def test_a_request_that_is_too_long_goes_to_another_target(key: str, room: int | None, first: str) -> None:
    long = Sent(body=STREAM[:-1] + b',"max_tokens":300,"user":"%b"}' % (b"word " * 200))
    assert tell(settings({key: room}), {}, [long]).firsts() == first
    assert tell(settings({key: room, "routes.<name>.targets": ["a"]}), {}, [long]).firsts() == "a"
