"""RQ, with workers that fork a process for each job, as they do by default."""

from datetime import timedelta

import pytest
import work
from conftest import eventually
from rq import Queue, Retry
from rq.command import send_shutdown_command, send_stop_job_command
from rq.job import Dependency, Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from rq.worker import Worker


@pytest.fixture
def queue(server):
    return Queue("work", connection=server)


def status(job):
    return job.get_status(refresh=True)


def test_results_come_back_and_jobs_are_listed_as_finished(queue, rq_worker):
    jobs = queue.enqueue_many(
        [Queue.prepare_data(work.add, args=(number, 1)) for number in range(20)]
    )
    assert len(queue) == 20
    rq_worker("--burst", "work")
    eventually(lambda: all(status(job) == "finished" for job in jobs), "all are done")
    assert [job.return_value() for job in jobs] == list(range(1, 21))
    assert len(queue) == 0
    assert set(FinishedJobRegistry(queue=queue).get_job_ids()) == {job.id for job in jobs}


def test_a_failure_keeps_its_reason(queue, rq_worker):
    job = queue.enqueue(work.fail)
    program = rq_worker("--burst", "work")
    eventually(lambda: status(job) == "failed", "it fails")
    eventually(lambda: program.process.poll() == 0, "the worker ends")
    assert "ValueError: as asked" in job.latest_result().exc_string
    registry = FailedJobRegistry(queue=queue)
    assert registry.get_job_ids() == [job.id]
    registry.requeue(job.id)
    assert queue.job_ids == [job.id]


def test_a_job_is_tried_again(queue, rq_worker):
    job = queue.enqueue(work.fail_at_first, "attempts", retry=Retry(max=3))
    rq_worker("--burst", "work")
    eventually(lambda: status(job) == "finished", "it ends well")
    assert job.return_value() == "at last"


def test_a_job_waits_for_those_that_it_depends_on(queue, rq_worker):
    first = [queue.enqueue(work.add, number, number) for number in (1, 2)]
    last = queue.enqueue(work.add, 3, 4, depends_on=Dependency(jobs=first))
    assert status(last) == "deferred"
    rq_worker("--burst", "work")
    eventually(lambda: status(last) == "finished", "the last one is done")
    assert [status(job) for job in first] == ["finished", "finished"]


def test_queues_are_served_in_their_order(server, rq_worker):
    low, high = (Queue(name, connection=server) for name in ("low", "high"))
    jobs = [low.enqueue(work.add, 1, 1), high.enqueue(work.add, 2, 2)]
    rq_worker("--burst", "high", "low")
    eventually(lambda: all(status(job) == "finished" for job in jobs), "both are done")
    first, last = (Job.fetch(job.id, connection=server) for job in reversed(jobs))
    assert first.ended_at < last.started_at


def test_a_scheduled_job_runs_when_its_time_has_come(queue, rq_worker):
    soon = queue.enqueue_in(timedelta(seconds=1), work.add, 1, 2)
    late = queue.enqueue_in(timedelta(hours=1), work.add, 1, 2)
    assert len(ScheduledJobRegistry(queue=queue)) == 2
    rq_worker("--with-scheduler", "work")
    eventually(lambda: status(soon) == "finished", "the one is done")
    assert status(late) == "scheduled"


def test_a_waiting_worker_gets_jobs_at_once_and_hears_commands(server, queue, rq_worker):
    program = rq_worker("work")
    workers = eventually(lambda: Worker.all(connection=server), "the worker is known")
    job = queue.enqueue(work.add, 1, 1)
    eventually(lambda: status(job) == "finished", "it is done")
    long = queue.enqueue(work.sleep, 600)
    eventually(lambda: status(long) == "started", "it runs")
    # Through a channel that the worker subscribes to.
    send_stop_job_command(server, long.id)
    eventually(lambda: status(long) in ("stopped", "failed"), "it is stopped")
    send_shutdown_command(server, workers[0].name)
    eventually(lambda: program.process.poll() == 0, "the worker ends")


def test_many_workers_do_each_job_once(server, queue, rq_worker):
    jobs = [queue.enqueue(work.add, number, 0, job_id=f"job-{number}") for number in range(30)]
    programs = [rq_worker("--burst", "work") for _ in range(3)]
    eventually(lambda: all(program.process.poll() == 0 for program in programs), "they end")
    found = Job.fetch_many([job.id for job in jobs], connection=server)
    assert sorted(job.return_value() for job in found) == list(range(30))
    assert all(len(job.results()) == 1 for job in found)
