"""What the workers of RQ and Celery do: each runs it in processes of its own."""

import os
import time

import redis
from celery import Celery

URL = f"redis://127.0.0.1:{os.environ.get('TIDEWIRE_PORT', '6379')}"

app = Celery("work", broker=f"{URL}/14", backend=f"{URL}/13")
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    result_expires=600,
)


def add(one, other):
    return one + other


def fail():
    raise ValueError("as asked")


def fail_at_first(key):
    if redis.Redis.from_url(f"{URL}/15").incr(key) < 3:
        raise ValueError("not yet")
    return "at last"


def sleep(seconds):
    time.sleep(seconds)
    return seconds


@app.task
def celery_add(one, other):
    return add(one, other)


@app.task
def celery_sum(numbers):
    return sum(numbers)


@app.task
def celery_fail():
    fail()


@app.task(bind=True, max_retries=5, default_retry_delay=0.05)
def celery_fail_at_first(self, key):
    try:
        return fail_at_first(key)
    except ValueError as error:
        raise self.retry(exc=error) from error


@app.task
def celery_sleep(seconds):
    return sleep(seconds)
