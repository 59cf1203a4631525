"""Watching frames: what is told, when it becomes silent, and that nothing stays behind."""

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import coverage
import pytest
import walks

from jaxmagic.core.limits import Limits
from jaxmagic.core.lines.frames import Watcher, watch

HAS_MONITORING = sys.version_info >= (3, 12)
before_312 = pytest.mark.skipif(HAS_MONITORING, reason="sys.settrace is used on Python 3.11 only")
since_312 = pytest.mark.skipif(not HAS_MONITORING, reason="sys.monitoring came with Python 3.12")


class Diary:
    """A listener that writes down what it is told; `news` decides what is new to it."""

    def __init__(self, news: Callable[[str], bool] = lambda entry: False) -> None:
        self.entries: list[str] = []
        self.news = news

    def entered(self, frame: FrameType) -> bool:
        return self._write(f"{frame.f_code.co_name} begins")

    def stepped(self, frame: FrameType, line: int) -> bool:
        return self._write(f"{frame.f_code.co_name} +{line - frame.f_code.co_firstlineno}")

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        return self._write(f"{frame.f_code.co_name} returns {value}")

    def about(self, name: str) -> list[str]:
        return [entry for entry in self.entries if entry.startswith(f"{name} ")]

    def _write(self, entry: str) -> bool:
        self.entries.append(entry)
        return self.news(entry)


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def diary() -> Diary:
    return Diary()


def is_here(file: str) -> bool:
    return file == walks.__file__


@pytest.fixture
def watcher(diary: Diary, limits: Limits) -> Iterator[Watcher]:
    """One that tells everything."""
    watcher = watch(diary, is_here, limits, adaptive=False)
    watcher.start()
    yield watcher
    watcher.stop()


@pytest.fixture
def adaptive(diary: Diary, limits: Limits) -> Iterator[Watcher]:
    watcher = watch(diary, is_here, limits)
    watcher.start()
    yield watcher
    watcher.stop()


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = sys.gettrace(), threading.gettrace(), _tools()
    yield
    assert (sys.gettrace(), threading.gettrace(), _tools()) == before


def _tools() -> list[str | None]:
    monitoring: Any = getattr(sys, "monitoring", None)
    return [monitoring.get_tool(number) for number in range(6)] if monitoring else []


# ------------------------------------------------------------------------------------------ what is told


def test_a_line_is_told_when_it_has_ended(watcher, diary):
    walks.double(2)
    assert diary.about("double") == ["double begins", "double +1", "double +2", "double returns 4"]


def test_a_function_of_one_line_is_told_once(watcher, diary):
    walks.on_one_line(2)
    assert diary.about("on_one_line") == ["on_one_line begins", "on_one_line +0", "on_one_line returns 3"]


def test_a_lambda_is_told(watcher, diary):
    walks.triple(5)
    assert diary.about("<lambda>")[-1] == "<lambda> returns 15"


def test_a_generator_begins_once_and_ends_the_line_that_yielded_when_it_goes_on(watcher, diary):
    generator = walks.countdown(2)
    next(generator)
    assert diary.about("countdown") == ["countdown begins", "countdown +1"]
    assert list(generator) == [1]
    ended = diary.about("countdown")
    assert ended.count("countdown begins") == 1
    assert ended.count("countdown +2") == ended.count("countdown +3") == 2


def test_an_awaiting_line_has_ended_when_the_value_is_there(watcher, diary):
    asyncio.run(walks.waiting(7))
    assert diary.about("waiting") == ["waiting begins", "waiting +1", "waiting +2", "waiting returns 7"]


def test_a_line_that_raised_is_not_told(watcher, diary):
    walks.rescued(3)
    assert "rescued +2" not in diary.entries
    assert diary.about("rescued")[-3:] == ["rescued +4", "rescued +5", "rescued returns 0"]


def test_an_exception_that_leaves_is_not_a_return(watcher, diary):
    with pytest.raises(ValueError, match="no number"):
        walks.doomed()
    assert diary.about("doomed") == ["doomed begins", "doomed +1"]


def test_every_level_of_a_recursion_is_told(watcher, diary):
    assert walks.factorial(3) == 6
    assert [entry for entry in diary.entries if "returns" in entry] == [
        "factorial returns 1",
        "factorial returns 2",
        "factorial returns 6",
    ]


def test_other_threads_are_told(watcher, diary):
    thread = threading.Thread(target=walks.double, args=(4,))
    thread.start()
    thread.join()
    assert "double returns 8" in diary.entries


def test_the_frame_that_runs_already_is_told_from_there_on(diary, limits):
    watcher = watch(diary, is_here, limits)

    walks.cell(watcher.start, watcher.stop)
    assert diary.about("cell") == ["cell +1", "cell +2"]


def test_only_the_users_files_are_told(diary, limits):
    watcher = watch(diary, lambda file: False, limits)
    watcher.start()
    walks.double(1)
    watcher.stop()
    assert diary.entries == []


def test_nothing_is_told_after_stop_and_stopping_twice_is_harmless(diary, limits):
    watcher = watch(diary, is_here, limits)
    watcher.start()
    watcher.stop()
    watcher.stop()
    walks.double(1)
    assert diary.entries == []


def test_a_watcher_that_is_started_anew_tells_what_an_earlier_one_silenced(limits):
    for _ in range(3):
        diary = Diary()
        watcher = watch(diary, is_here, limits)
        watcher.start()
        for _ in range(500):
            walks.double(1)
        watcher.stop()
        assert diary.entries[:4] == ["double begins", "double +1", "double +2", "double returns 2"]


# ------------------------------------------------------------------------------------------ becoming silent


def test_a_line_without_news_becomes_silent(adaptive, diary):
    walks.loop(10_000)
    assert diary.entries.count("loop +4") <= 5
    assert len(diary.entries) < 30


def test_a_function_without_news_becomes_silent(adaptive, diary):
    for _ in range(10_000):
        walks.double(1)
    assert len(diary.about("double")) < 150


def test_a_loop_of_exceptions_becomes_silent(adaptive, diary):
    for _ in range(2_000):
        walks.rescued(1)
    assert len(diary.about("rescued")) < 200


def test_a_generator_becomes_silent(adaptive, diary):
    for _ in walks.countdown(5_000):
        pass
    assert len(diary.about("countdown")) < 30


@since_312
@pytest.mark.parametrize("generator", [walks.countdown, walks.counting_on_one_line])
def test_the_interpreter_does_not_even_call_us_for_a_silent_generator(adaptive, generator):
    running = generator(1_000)
    for _ in range(100):
        next(running)
    calls = []
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - the type checker looks at Python 3.11
    for tool in range(6):
        if monitoring.get_tool(tool) == "jaxmagic":
            monitoring.register_callback(tool, monitoring.events.PY_YIELD, lambda *event: calls.append(event))
    for _ in range(800):
        next(running)
    assert not calls


def test_everything_is_told_when_it_may_not_become_silent(watcher, diary):
    walks.loop(1_000)
    assert diary.entries.count("loop +4") == 1_000


def test_news_keep_a_line_audible(limits):
    diary = Diary(news=lambda entry: entry == "loop +3")
    watcher = watch(diary, is_here, limits)
    watcher.start()
    walks.loop(50)
    watcher.stop()
    assert diary.entries.count("loop +3") == 50


def test_a_silent_line_is_told_again_after_rearming(adaptive, diary):
    for _ in range(150):
        walks.loop(10)
    diary.entries.clear()
    walks.loop(1)
    assert diary.entries == []
    adaptive.rearm()
    diary.entries.clear()
    walks.loop(1)
    assert diary.about("loop") == [
        "loop begins",
        "loop +1",
        "loop +2",
        "loop +3",
        "loop +4",
        "loop +2",
        "loop +5",
        "loop returns 1",
    ]


def test_rearming_inside_a_loop_tells_the_line_that_is_under_way(adaptive, diary):
    walks.rearming(1_000, adaptive.rearm)
    told = diary.about("rearming")
    assert told[-3:] == ["rearming +2", "rearming +4", "rearming returns 999"]
    assert told.count("rearming +3") in range(5, 8)


def test_a_call_with_new_arguments_makes_silent_lines_audible_again(limits):
    diary = Diary(news=lambda entry: entry == "double begins")
    watcher = watch(diary, is_here, limits)
    watcher.start()
    walks.loop(20)
    before = len(diary.about("loop"))
    walks.double(1)
    walks.loop(1)
    watcher.stop()
    assert len(diary.about("loop")) > before


@since_312
def test_a_line_that_comes_late_is_told_though_its_neighbours_are_silent(adaptive, diary):
    walks.found_late(1_000)
    assert diary.entries.count("found_late +4") == diary.entries.count("found_late +5") == 1


def test_what_is_run_aside_is_a_library_s_and_what_comes_after_is_told(watcher, diary):
    with watcher.aside():
        sorted([3, 1, 2])
    walks.double(2)
    assert diary.about("double") == ["double begins", "double +1", "double +2", "double returns 4"]


@before_312
def test_nothing_is_traced_aside(watcher):
    mine, inside = sys.gettrace(), []
    with contextlib.suppress(KeyError), watcher.aside():
        inside.append(sys.gettrace())
        raise KeyError
    assert inside == [None]
    assert sys.gettrace() is mine


# ----------------------------------------------------------------------------------------------- safety


class Broken:
    """A listener with a bug in it."""

    def entered(self, frame: FrameType) -> bool:
        raise RuntimeError("a bug of ours")

    def stepped(self, frame: FrameType, line: int) -> bool:
        raise RuntimeError("a bug of ours")

    def left(self, frame: FrameType, line: int, value: Any) -> bool:
        raise RuntimeError("a bug of ours")


def test_a_listener_that_raises_leaves_a_line_in_the_limits_and_the_users_result(limits):
    watcher = watch(Broken(), is_here, limits)
    watcher.start()
    try:
        results = walks.double(2), walks.rescued(1), walks.factorial(4), list(walks.countdown(2))
    finally:
        watcher.stop()
    assert results == (4, 0, 24, [2, 1])
    (line,) = limits.lines()
    assert line.startswith("shapes beside lines: not observed (RuntimeError: a bug of ours)")


@since_312
def test_without_a_free_tool_id_the_limits_say_so(diary, limits):
    monitoring: Any = getattr(sys, "monitoring", None)
    taken = [number for number in range(6) if monitoring.get_tool(number) is None]
    for number in taken:
        monitoring.use_tool_id(number, "someone else")
    try:
        watcher = watch(diary, is_here, limits)
        watcher.start()
        walks.double(1)
        watcher.rearm()
        watcher.stop()
    finally:
        for number in taken:
            monitoring.free_tool_id(number)
    assert diary.entries == []
    assert limits.lines() == ("shapes beside lines: not observed (other tools use all of sys.monitoring)",)


@since_312
def test_two_watchers_hear_the_same(limits):
    first, second = Diary(), Diary()
    watchers = [watch(first, is_here, limits), watch(second, is_here, limits)]
    for each in watchers:
        each.start()
    walks.double(1)
    for each in watchers:
        each.stop()
    assert first.entries == second.entries != []
    assert limits.lines() == ()


@before_312
def test_a_tracer_that_is_there_already_stays_and_the_limits_say_so(diary, limits):
    def another(frame, event, argument):
        return None

    sys.settrace(another)
    try:
        watcher = watch(diary, is_here, limits)
        watcher.start()
        walks.double(1)
        watcher.rearm()
        watcher.stop()
        assert sys.gettrace() is another
    finally:
        sys.settrace(None)
    assert diary.entries == []
    assert "a debugger or coverage uses sys.settrace" in limits.lines()[0]


def test_a_debugger_beside_us_works(diary, limits):
    output = io.StringIO()
    watcher = watch(diary, is_here, limits, adaptive=False)
    watcher.start()
    try:
        assert walks.debugged(1, output) == 4
    finally:
        watcher.stop()
        sys.settrace(None)
    assert "(Pdb) 4\n" in output.getvalue()
    assert "debugged +1" in diary.entries
    if HAS_MONITORING:
        assert diary.about("debugged")[-2:] == ["debugged +5", "debugged returns 4"]
        assert limits.lines() == ()
    else:
        assert "a debugger or coverage uses sys.settrace" in limits.lines()[0]


def covered_lines(measured: Callable[[], object], core: str, monkeypatch: pytest.MonkeyPatch) -> list[int] | None:
    monkeypatch.setenv("COVERAGE_CORE", core)
    measuring = coverage.Coverage(data_file=None, include=[walks.__file__], config_file=False)
    measuring.start()
    try:
        measured()
    finally:
        measuring.stop()
    lines = measuring.get_data().lines(walks.__file__)
    return sorted(lines) if lines else None


@pytest.mark.parametrize("core", ["ctrace", pytest.param("sysmon", marks=since_312)])
def test_coverage_beside_us_measures_the_same(core, diary, limits, monkeypatch):
    def measured():
        return walks.rescued(1), walks.factorial(3)

    def watched():
        watcher = watch(diary, is_here, limits)
        watcher.start()
        measured()
        watcher.stop()

    alone = covered_lines(measured, core, monkeypatch)
    beside = covered_lines(watched, core, monkeypatch)
    assert alone is not None
    assert set(alone) <= set(beside or ())
    assert ("rescued returns 0" in diary.entries) == HAS_MONITORING
    assert bool(limits.lines()) != HAS_MONITORING
