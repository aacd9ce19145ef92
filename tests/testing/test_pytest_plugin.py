"""The plugin as users have it: found by pytest, light, and at peace with the asyncio plugins."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("asyncio", "msgspec", "httptools", "hedgerow.client", "hedgerow.lab", "hedgerow.testing")
ASYNCIO = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")


def test_pytest_finds_the_fixtures_without_being_told(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_subprocess("--fixtures", "-q").stdout.str()
    assert "virtual_loop -- " in shown
    assert "lab -- " in shown


def test_loading_it_imports_nothing_heavy() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import hedgerow.pytest_plugin; "
        f"print([name for name in {HEAVY} if name in set(sys.modules) - before])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_tests_run_in_virtual_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from hedgerow import hedge
        from hedgerow.testing import assert_hedged, assert_not_hedged, assert_winner, scripted

        async def call():
            primary = scripted("primary", after=3600).then(after=1)
            results = []
            for _ in range(2):
                results.append(await hedge(primary, scripted("backup", after=60), delay=540))
            return results

        def test_an_hour(virtual_loop):
            slow, fast = virtual_loop.run_until_complete(call())
            assert virtual_loop.time() == 601
            assert_hedged(slow)
            assert_winner(slow, "backup")
            assert_not_hedged(fast)

        def test_each_has_its_own_and_leaves_nothing(virtual_loop):
            assert virtual_loop.time() == 0
            async def leave():
                asyncio.ensure_future(asyncio.sleep(1000))
            virtual_loop.run_until_complete(leave())

        def test_it_fails(virtual_loop):
            assert_hedged(virtual_loop.run_until_complete(call())[1])
        """
    )
    result = pytester.runpytest_subprocess("-Werror", "-p", "no:asyncio")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: not hedged (no hedge was due)"])
    result.stdout.no_fnmatch_line("*raise AssertionError*")


def test_anyio_tests_run_in_virtual_time_by_its_own_backend(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from hedgerow import hedge
        from hedgerow.testing import VirtualLoop, assert_winner, scripted

        @pytest.fixture
        def anyio_backend():
            return "asyncio", {"loop_factory": VirtualLoop}

        @pytest.mark.anyio
        async def test_an_hour():
            result = await hedge(scripted("primary", after=3600), scripted("backup", after=60), delay=540)
            assert_winner(result, "backup")
            assert asyncio.get_running_loop().time() >= 600
            assert result.latency == 600
        """
    )
    pytester.runpytest_subprocess("-Werror", "-p", "no:asyncio").assert_outcomes(passed=1)


def test_pytest_asyncio_and_the_fixtures_leave_each_other_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from hedgerow import hedge
        from hedgerow.testing import assert_winner, scripted

        async def test_async(lab):
            assert lab("one").stats()["requests"] == 0
            assert_winner(await hedge(scripted("primary", after=9), scripted("backup"), delay=0.01), "backup")

        def test_sync(virtual_loop):
            async def main():
                return await hedge(scripted("primary", after=9), scripted("backup"), delay=1)
            assert_winner(virtual_loop.run_until_complete(main()), "backup")
        """
    )
    pytester.runpytest_subprocess("-Werror", *ASYNCIO).assert_outcomes(passed=2)


def test_labs_end_with_their_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from hedgerow.lab.control import LabDied

        labs = []

        @pytest.mark.parametrize("process", [False, True])
        def test_it_answers(lab, process):
            labs.append(lab("one", process=process, speed=10, where=()))
            assert labs[-1].stats()["name"] == "one"

        def test_they_are_gone():
            for lab in labs:
                with pytest.raises(LabDied):
                    lab.timeout = 1
                    lab.ask("GET", "/lab/stats")
        """
    )
    pytester.runpytest_subprocess("-Werror", "-p", "no:asyncio").assert_outcomes(passed=3)


def test_a_lab_without_its_extra_names_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys; sys.modules['httptools'] = None")
    pytester.makepyfile("def test_it(lab): lab()")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture `lab` needs httptools: pip install *?testing?*"])
