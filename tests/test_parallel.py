"""Threads over blocks, with BLAS at one thread."""

import os
import threading
import time

import numpy as np
import pytest
import threadpoolctl

from discreet.errors import DataError
from discreet.parallel import blas_libraries, each_block, n_threads, over_blocks, single_threaded_blas


@pytest.fixture(autouse=True)
def two_blas_threads():
    """BLAS at two threads, whatever the machine; every test must leave it so."""
    blas_libraries()  # all are loaded now: one that came later would have a number of its own
    with threadpoolctl.threadpool_limits(2, "blas"):
        yield
        assert blas() == {2}


def blas():
    return {info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"}


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize(
    ("n_jobs", "threads"),
    [(None, 1), (1, 1), (7, 7), (np.int64(3), 3), (-1, CORES), (-2, max(1, CORES - 1)), (-1000, 1)],
)
def test_what_n_jobs_means(n_jobs, threads):
    assert n_threads(n_jobs) == threads


@pytest.mark.parametrize("n_jobs", [0, 2.0, -1.5, "2", True, [], np.float64(1), np.int64(0)])
def test_wrong_n_jobs(n_jobs):
    with pytest.raises(DataError, match=r"n_jobs: a number of threads.*-1 for all cores"):
        n_threads(n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_order(n_jobs):
    def work(at):
        time.sleep(0.002 * (at % 3 == 0))
        return at * at

    assert list(over_blocks(work, range(40), n_jobs)) == [at * at for at in range(40)]


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("blocks", [[], [3], [3, 4]])
def test_few_blocks(n_jobs, blocks):
    assert list(over_blocks(abs, iter(blocks), n_jobs)) == blocks


def test_one_block_needs_no_thread():
    assert list(over_blocks(lambda _: threading.current_thread(), [0], 8)) == [threading.current_thread()]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_blas_is_held_at_one_thread_and_given_back(n_jobs):
    assert set(map(tuple, over_blocks(lambda _: blas(), range(6), n_jobs))) == {(1,)}
    assert blas() == {2}


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_errors_arrive_and_give_blas_back(n_jobs):
    done = []

    def work(at):
        if at == 5:
            raise KeyError("five")
        done.append(at)
        return at

    with pytest.raises(KeyError, match="five"):
        list(over_blocks(work, range(1000), n_jobs))
    assert blas() == {2}
    assert len(done) < 100


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_each_block_is_worked_on_once(n_jobs, n):
    done = []
    each_block(lambda at: done.append((at, *blas())), range(n), n_jobs)
    assert sorted(done) == [(at, 1) for at in range(n)]
    assert blas() == {2}


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_stops_the_other_threads(n_jobs):
    done = []

    def work(at):
        if at == 5:
            raise IndexError("five")
        time.sleep(0.001)
        done.append(at)

    with pytest.raises(IndexError, match="five"):
        each_block(work, range(1000), n_jobs)
    assert len(done) < 100


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_blocks_within_blocks_and_after_a_fork():
    sums = [0] * 4
    each_block(lambda at: each_block(lambda add: sums.__setitem__(at, sums[at] + add), range(9), 4), range(4), 2)
    assert sums == [36] * 4
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            os._exit(0 if sum(over_blocks(abs, range(9), 2)) == 36 else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_of_the_blocks_themselves(n_jobs):
    def blocks():
        yield from range(30)
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(over_blocks(abs, blocks(), n_jobs))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_stopping_half_way(n_jobs):
    list(over_blocks(abs, range(100), n_jobs))  # threads that stay
    before = threading.active_count()
    results = over_blocks(abs, range(10_000), n_jobs)
    assert [next(results), next(results)] == [0, 1]
    assert blas() == {1}
    results.close()
    assert blas() == {2}
    assert threading.active_count() == before


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_few_results_wait(n_jobs):
    """However slow the caller, work runs only so far ahead of them."""
    started = []

    def work(at):
        started.append(at)
        return at

    for at in over_blocks(work, range(200), n_jobs):
        time.sleep(0.0005)
        assert len(started) <= at + 1 + 4 * n_jobs


def test_holders_within_holders():
    with single_threaded_blas():
        with single_threaded_blas():
            assert blas() == {1}
        assert blas() == {1}
        assert list(over_blocks(lambda at: sum(over_blocks(abs, range(at), 2)), range(4), 2)) == [0, 0, 1, 3]
        assert blas() == {1}


def test_several_threads_of_the_caller():
    """The last to leave gives BLAS back; nobody sees two threads meanwhile."""
    seen, errors = [], []
    together = threading.Barrier(6)

    def user(number):
        together.wait()
        for _ in range(20):
            try:
                seen.extend(over_blocks(lambda _: blas(), range(3), 1 + number % 2))
            except Exception as error:
                errors.append(error)

    users = [threading.Thread(target=user, args=(number,)) for number in range(6)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    assert not errors
    assert seen == [{1}] * 360


def test_the_last_to_leave_is_not_the_first_to_come():
    inside, leave = threading.Event(), threading.Event()

    def first():
        with single_threaded_blas():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with single_threaded_blas():
        leave.set()
        thread.join()
        assert blas() == {1}
    assert blas() == {2}


def test_a_thread_that_held_blas_does_not_keep_others_from_setting_it():
    stay = threading.Event()
    done = threading.Event()

    def server():
        with single_threaded_blas():
            pass
        done.set()
        stay.wait()

    thread = threading.Thread(target=server)
    thread.start()
    done.wait()
    with threadpoolctl.threadpool_limits(1, "blas"):
        assert blas() == {1}
    stay.set()
    thread.join()
