"""What a hedger owes its users, one by one, and which tests hold it to that.

The list is what a survey of thirty systems came to. Each test that is named here says in its docstring which of them
fails at it, in what way, and by which public issue where there is one. B1 to B23 are the survey's kinds of failures.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PEERS = [
    "ai-fallback",
    "aisix",
    "asynchedging",
    "bhope",
    "claude-code-hub",
    "clawvisor",
    "Crucible",
    "dotnet",
    "eRPC",
    "failsafe-go",
    "Finagle",
    "gRPC",
    "gpuhedge",
    "grit-toolkit",
    "grpc-java",
    "grpc-js",
    "hedge-python",
    "hedgedhttp",
    "httpx-hedged",
    "Kaler",
    "Kevlar",
    "lemmas",
    "LiteLLM",
    "model-hotel",
    "nopanic",
    "Polly",
    "resilience4j",
    "Scylla",
    "tower",
]

OWED = {
    "1 a fast primary is the only request, and takes nothing of the budget": (
        "client/test_race.py::test_a_fast_primary_is_the_only_request_and_takes_nothing_of_the_budget",
    ),
    "2 a slow one is hedged at the delay, and its connection closed when the backup wins": (
        "client/test_race.py::test_a_slow_primary_is_hedged_at_the_delay_and_cancelled_at_once_when_the_backup_wins",
        "e2e/test_transports.py::test_async_the_first_token_comes_at_delay_plus_backups_time",
        "e2e/test_transports.py::test_sync_the_first_token_comes_at_delay_plus_backups_time",
    ),
    "3 a primary may win after its hedge was launched, which is cancelled, paid for and counted": (
        "client/test_race.py::test_a_primary_may_win_after_its_hedge_was_launched",
    ),
    "4 a failure before the delay launches the next target now": (
        "client/test_race.py::test_a_failure_before_the_delay_launches_the_next_target_at_once",
        "client/test_race.py::test_a_failure_does_not_move_the_time_of_the_next_launch",
    ),
    # The list has "others cancelled" here. A rival that runs may be well all the same, so it is waited for.
    "5 a request that is at fault itself is asked nowhere else": (
        "client/test_race.py::test_a_request_that_is_at_fault_itself_is_asked_nowhere_else",
        "client/test_race.py::test_a_request_that_is_at_fault_at_the_hedge_does_not_end_the_primary",
        "unit/test_race.py::test_after_a_fatal_request_nothing_is_launched_any_more",
    ),
    "6 a hedge that fails never beats a primary that runs": (
        "client/test_race.py::test_an_error_never_beats_a_running_rival",
    ),
    "7 if all fail it is one error with all attempts": (
        "client/test_race.py::test_all_failures_are_one_error_that_tells_of_each_attempt",
    ),
    "8 of two that end in one turn the choice is fixed, and the other is closed": (
        "client/test_race.py::test_of_two_answers_in_one_turn_the_earlier_attempts_wins_and_the_other_is_closed",
        "client/test_race.py::test_an_answer_and_an_error_in_one_turn_are_an_answer",
    ),
    "9 a caller that cancels, at whatever moment, leaves nothing running": (
        "client/test_cancelling.py::test_before_anything_was_launched",
        "client/test_cancelling.py::test_while_it_waits",
        "client/test_cancelling.py::test_in_the_turn_of_the_win_a_stream_is_closed",
        "client/test_cancelling.py::test_mid_stream_while_it_waits_for_an_item",
    ),
    "10 the deadline spans all attempts": ("client/test_race.py::test_the_deadline_spans_all_attempts",),
    "11 without budget a call is plain; it is earned again, given back where unused, and never passed": (
        "client/test_race.py::test_without_a_budget_left_the_call_goes_on_plainly_and_says_why",
        "client/test_race.py::test_a_thousand_calls_at_once_do_not_pass_the_budget",
        "engine/test_budget.py::test_ten_more_requests_earn_the_next_hedge",
        "unit/test_spend.py::test_when_one_scope_refuses_nobody_pays",
        "unit/test_spend.py::test_an_attempt_that_was_never_sent_is_refunded_with_its_number",
    ),
    "12 few calls earn a hedge too": ("client/test_race.py::test_few_calls_still_earn_a_hedge",),
    "13 who says slow down is left alone until then": (
        "client/test_race.py::test_a_target_that_says_slow_down_gets_no_request_until_then",
    ),
    "14 an open breaker skips its target, lost races do not open it, and its probe may be a hedge": (
        "client/test_race.py::test_a_target_that_fails_is_left_out_and_being_superseded_is_no_failure",
        "unit/test_breaker.py::test_a_half_open_target_waits_for_a_hedge_then_leads_ever_more_rarely",
    ),
    "15 learned delays hold back until enough is known": (
        "client/test_race.py::test_learned_delays_hold_a_hedge_back_until_enough_is_known",
    ),
    "16 as many are hedged as the percentile says, and the delay stays in its bound when many hang": (
        "traps/test_losers.py::test_a_setting_of_5_percent_hedges_5_percent",
        "traps/test_hanging.py::test_the_delay_stays_within_its_bound_and_does_not_climb",
        "client/test_race.py::test_delays_stay_within_their_bound_when_many_primaries_hang",
    ),
    "17 what was learned slides, and is forgotten where nobody calls": (
        "unit/test_latency_window.py::test_it_slides_by_count_and_by_age_like_a_plain_list",
        "unit/test_latency_window.py::test_after_its_age_without_a_sample_it_is_empty_and_holds_no_memory",
    ),
    "18 a reload keeps balances and statistics": (
        "engine/test_judgement.py::test_a_reload_keeps_balance_and_latencies",
    ),
    "19 only content decides; what came before it is kept whole, and bounded": (
        "e2e/test_hedging.py::test_a_role_only_stall_is_beaten_at_delay_plus_backup_time",
        "unit/test_wire_chat_stream.py::test_what_is_no_output_leaves_the_race_open",
        "unit/test_wire_chat_stream.py::test_output_is_a_first_token",
        "unit/test_wire_chat_stream.py::test_an_error_frame_decides_without_waiting_for_the_end",
        "unit/test_wire_chat_stream.py::test_a_whole_answer_with_nothing_in_it_is_empty_and_keeps_its_bytes",
        "client/test_streams.py::test_the_first_real_item_decides_and_none_before_it_is_lost",
        "effects/test_server.py::test_an_attempt_that_holds_more_than_held_bytes_fails",
    ),
    "20 nothing is spliced after the first item": (
        "client/test_streams.py::test_a_stream_that_fails_before_its_first_item_is_asked_elsewhere_and_after_it_never",
    ),
    "21 what losers use is billed, once, with how sure that is": (
        "engine/test_bills.py::test_a_hedged_request_comes_to_both_its_attempts_in_the_order_of_their_launch",
        "engine/test_bills.py::test_a_loser_that_is_drained_is_read_to_its_end_and_costs_what_it_reports",
    ),
    "22 each attempt has its own context and span": (
        "client/test_calls.py::test_attempts_have_contexts_of_their_own_and_the_winners_is_kept",
        "engine/test_traces.py::test_every_attempt_is_sent_with_its_own_span_as_the_parent_of_what_comes_below",
    ),
    "23 closing waits for losers, and not for ever": (
        "client/test_cancelling.py::test_closing_a_hedger_waits_for_losers_and_at_last_cancels_them",
    ),
    "24 what takes effect is not sent twice": (
        "engine/test_judgement.py::test_its_reason_is_told",
        "e2e/test_transports.py::test_answers_that_are_kept_are_hedged_where_that_is_allowed",
    ),
    "25 simulations give what was published": (
        "planner/test_external_laws.py::test_the_estimator_finds_the_best_single_reissue_policies",
        "planner/test_external_tables.py::test_fixed_delays_of_the_table_of_hedge",
        "planner/test_external_tables.py::test_the_replay_rule_of_gpuhedge",
    ),
}


@cache
def docstrings(file: str) -> dict[str, str]:
    """What the tests of a file say of themselves."""
    tree = ast.parse((TESTS / file).read_text())
    return {node.name: ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_all_that_is_owed_is_here() -> None:
    assert [int(owed.split()[0]) for owed in OWED] == list(range(1, 26))


@pytest.mark.parametrize("test", sorted({test for tests in OWED.values() for test in tests}))
def test_each_is_held_to_by_a_test_that_names_who_fails_at_it(test: str) -> None:
    file, name = test.split("::")
    said = docstrings(file).get(name)
    assert said is not None, "there is no such test"
    peers = rf"(?<![\w-])({'|'.join(map(re.escape, PEERS))})(?![\w-])"
    assert re.search(peers, said), f"its docstring names none of those that fail at it: {said!r}"
