"""What is broken, one thing at a time. Each fault leaves a site that can be whole again."""

import time
from pathlib import Path

from nats_servers import are_whole, can_mount, go_on, leader, pause
from support import eventually

STOP_S = 15
LOG_STREAM = "TW_tests_LOG_nasdaq"
FAKE_TIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def a_server(site):
    return site.random.choice(site.servers)


def the_leader(site):
    return leader(site.servers, LOG_STREAM) or a_server(site)


def break_servers(site, servers, is_stopped, seconds):
    """Kills or stops servers for some time."""
    for server in servers:
        server.pause() if is_stopped else server.kill()
    site.tick(200)
    site.pass_time(seconds)
    for server in servers:
        server.go_on() if is_stopped else server.start()


def kill_a_server(site):
    break_servers(site, [a_server(site)], False, site.random.uniform(0, 3))


def kill_the_leader(site):
    break_servers(site, [the_leader(site)], False, site.random.uniform(0, 3))


def kill_all_servers(site):
    break_servers(site, site.servers, False, site.random.uniform(0, 3))


def stop_a_server(site):
    break_servers(site, [a_server(site)], True, STOP_S)


def stop_the_leader(site):
    break_servers(site, [the_leader(site)], True, STOP_S)


def break_the_owner(site, is_stopped):
    """Kills or stops the owner until the standby has taken over."""
    name, standby = site.before_a_takeover()
    if is_stopped:
        pause(site.hubs[name])
    else:
        site.kill(name)
    site.tick(200)
    site.await_takeover(standby)
    site.tick(200)
    if is_stopped:
        # Two owners: the one that was stopped believes to be one until it looks at its clock.
        site.pass_time(STOP_S - 5)
        go_on(site.hubs[name])
    else:
        site.start(name)


def kill_the_owner(site):
    break_the_owner(site, False)


def stop_the_owner(site):
    break_the_owner(site, True)


def end_the_owner(site):
    """An end in order: the standby need not wait for the lease to expire."""
    name, standby = site.before_a_takeover()
    site.watchers.forget(name)
    del site.feeds[name]
    site.hubs[name].stop()
    site.tick(100)
    site.await_takeover(standby)
    site.start(name)


def kill_the_edge(site):
    site.kill("edge")
    site.tick(300)
    site.start("edge")
    site.tick(300)


def kill_the_standby(site):
    site.await_owner()
    name = site.standby()
    site.kill(name)
    site.tick(300)
    site.start(name)


def stop_the_edge(site):
    pause(site.hubs["edge"])
    site.tick(1_000)
    site.pass_time(STOP_S)
    go_on(site.hubs["edge"])


def cut(site, links, seconds):
    """Cuts links, loudly or silently, and heals them."""
    silently = site.random.random() < 0.5
    for link in links:
        link.cut(silently)
    site.tick(200)
    site.pass_time(seconds)
    for link in links:
        link.heal()


def cut_a_link_of_a_hub(site):
    name = site.random.choice(sorted(site.hubs))
    cut(site, [site.random.choice(site.to_servers[name])], site.random.uniform(0, 8))


def cut_off_the_edge(site):
    cut(site, site.to_servers["edge"], site.random.uniform(0, 8))


def cut_off_the_owner(site):
    """The owner lives and hears its feed, and cannot renew its lease."""
    name, standby = site.before_a_takeover()
    links = site.to_servers[name]
    silently = site.random.random() < 0.5
    for link in links:
        link.cut(silently)
    site.tick(200)
    site.await_takeover(standby)
    site.pass_time(site.random.uniform(0, 8))
    for link in links:
        link.heal()


def cut_a_route(site):
    pair = site.random.choice(sorted(site.routes))
    cut(site, [site.routes[pair]], site.random.uniform(1, 12))


def cut_off_a_server(site):
    number = site.random.randrange(3)
    links = [link for pair, link in sorted(site.routes.items()) if number in pair]
    cut(site, links, site.random.uniform(1, 12))


def await_all_copies(site, patience_s=60):
    """Waits until a server may lose its copies: no other lacks any."""
    streams = [LOG_STREAM, "TW_tests_SNAP_nasdaq", "KV_TW_tests"]
    whole = lambda: all(are_whole(site.servers, stream) for stream in streams)  # noqa: E731
    eventually(whole, f"all copies of {streams}", patience_s)


def empty_a_disk(site):
    await_all_copies(site)
    server = a_server(site)
    server.kill()
    server.empty_disk()
    site.tick(200)
    server.start()


def fill_a_disk(site):
    """The operator makes room, and starts the server again."""
    await_all_copies(site)
    server = site.random.choice([a_server, the_leader])(site)
    server.fill_disk()
    site.tick(500)
    site.pass_time(site.random.uniform(1, 6))
    if server.process.poll() is None:
        server.fill_disk(False)
    server.kill()
    site.tick(200)
    server.start()


def fill_a_small_disk(site):
    """What the server has got meanwhile is lost when the operator gives it its old disk."""
    await_all_copies(site)
    server = a_server(site)
    server.kill()
    server.start(on_small_disk=True)
    site.tick(200)
    site.pass_time(2)
    server.fill_small_disk()
    site.tick(500)
    site.pass_time(site.random.uniform(1, 6))
    server.kill()
    site.tick(200)
    server.start()


def flip_a_byte(site):
    await_all_copies(site)
    server = a_server(site)
    server.kill()
    file = site.random.choice(server.files())
    data = bytearray(file.read_bytes())
    place, bit = site.random.randrange(len(data)), site.random.randrange(8)
    data[place] ^= 1 << bit
    file.write_bytes(data)
    print(f"    bit {bit} of byte {place} of {len(data)}: {file.relative_to(server.folder)}")
    site.tick(200)
    try:
        server.start()
        await_all_copies(site, 20)
    except AssertionError:
        # It refuses what it has, all or one stream. Its operator empties the disk.
        print("    the server does not recover")
        server.kill()
        server.empty_disk()
        server.start()


def jump_a_clock(site):
    """The wall clock of a hub jumps by an hour, there and back. (The monotonic clock of a process
    that was stopped jumps, which is another fault.)"""
    name = site.random.choice(sorted(site.hubs))
    offset = site.folder / f"offset-{site.starts}"
    offset.write_text("+0s\n")
    site.kill(name)
    site.start(name, {
        "LD_PRELOAD": str(FAKE_TIME),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    })
    site.settle("a start with another clock")
    for seconds in (3_600, -3_600, 0):
        offset.write_text(f"{seconds:+}s\n")
        time.sleep(1.5)
        site.tick(100)
        site.settle(f"a clock that jumped to {seconds:+} s")


FAULTS = [
    kill_a_server, kill_the_leader, kill_all_servers, stop_a_server, stop_the_leader,
    kill_the_owner, stop_the_owner, end_the_owner, kill_the_standby, kill_the_edge, stop_the_edge,
    cut_a_link_of_a_hub, cut_off_the_edge, cut_off_the_owner, cut_a_route, cut_off_a_server,
    empty_a_disk, fill_a_disk, flip_a_byte,
    *([fill_a_small_disk] if can_mount() else []),
    *([jump_a_clock] if FAKE_TIME.exists() else []),
]
