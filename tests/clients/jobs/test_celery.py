"""Celery with the server as its broker and as its store of results."""

import pytest
import work
from celery import chain, chord, group
from celery.exceptions import TaskRevokedError

PATIENCE_S = 30

pytestmark = pytest.mark.usefixtures("celery_worker")


def test_a_task_s_result_comes_back():
    assert work.celery_add.delay(20, 22).get(timeout=PATIENCE_S) == 42


def test_many_tasks_together():
    tasks = group(work.celery_add.s(number, number) for number in range(50))
    results = tasks.apply_async().get(timeout=PATIENCE_S)
    assert results == [2 * number for number in range(50)]


def test_one_after_another():
    tasks = chain(work.celery_add.s(1, 2), work.celery_add.s(3), work.celery_add.s(4))
    assert tasks().get(timeout=PATIENCE_S) == 10


def test_a_chord_s_last_task_gets_what_the_others_gave():
    tasks = chord(work.celery_add.s(number, 1) for number in range(10))
    assert tasks(work.celery_sum.s()).get(timeout=PATIENCE_S) == 55


def test_a_failure_is_raised_where_its_result_is_asked_for():
    with pytest.raises(ValueError, match="as asked"):
        work.celery_fail.delay().get(timeout=PATIENCE_S)


def test_a_task_is_tried_again(server):
    result = work.celery_fail_at_first.delay("celery")
    assert result.get(timeout=PATIENCE_S) == "at last"
    assert server.get("celery") == b"3"


def test_a_task_runs_when_its_time_has_come():
    assert work.celery_add.apply_async((1, 1), countdown=1).get(timeout=PATIENCE_S) == 2


def test_the_worker_answers_questions():
    inspect = work.app.control.inspect(timeout=5)
    assert set(inspect.ping().popitem()[1]) == {"ok"}
    registered = next(iter(inspect.registered().values()))
    assert "work.celery_add" in registered


def test_a_task_that_has_not_begun_is_revoked():
    result = work.celery_sleep.apply_async((60,), countdown=5)
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=PATIENCE_S)
