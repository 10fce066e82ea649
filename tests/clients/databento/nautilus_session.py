"""NautilusTrader's Databento adapter against the gateway, in namespaces of its own: the adapter
connects to DATASET.lsg.databento.com:13000 and cannot be told another address.

Prints one line of JSON: for each symbol, the counts of what the adapter decoded.
"""

import asyncio
import fcntl
import json
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import nautilus_trader.adapters.databento
import test_databento
import test_records
from nautilus_trader.core import nautilus_pyo3
from nautilus_trader.model.data import capsule_to_data

PORT = 13000
SIOCSIFFLAGS, IFF_UP_RUNNING = 0x8914, 0x41
SCHEMAS = ["definition", "mbp-1", "trades", "bbo-1s"]
PATIENCE_S = 60
PUBLISHERS = Path(nautilus_trader.adapters.databento.__file__).parent / "publishers.json"


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP_RUNNING))


def name_gateway(folder, dataset):
    hosts = folder / "hosts"
    hosts.write_text(
        f"127.0.0.1 localhost {dataset.lower().replace('.', '-')}.lsg.databento.com\n"
    )
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)


async def follow(dataset, symbols, wanted):
    """Counts what the adapter gives, until each symbol has all of `wanted`."""
    counts = {symbol: Counter() for symbol in symbols}
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def take(kind, symbol):
        counts[symbol][kind] += 1
        is_done = all(counts[symbol][kind] > 0 for symbol in symbols for kind in wanted)
        if is_done and not loop.is_closed():
            loop.call_soon_threadsafe(done.set)

    def take_data(data):
        """Quotes and trades come in capsules, instruments as they are."""
        if type(data).__name__ == "PyCapsule":
            data = capsule_to_data(data)
        identifier = data.id if hasattr(data, "id") else data.instrument_id
        take(type(data).__name__, str(identifier.symbol))

    client = nautilus_pyo3.DatabentoLiveClient(
        key=test_databento.KEY, dataset=dataset, publishers_filepath=str(PUBLISHERS),
        use_exchange_as_venue=False, bars_timestamp_on_close=True,
    )
    venue = "GLBX" if dataset == "GLBX.MDP3" else "XNAS"
    ids = [nautilus_pyo3.InstrumentId.from_str(f"{symbol}.{venue}") for symbol in symbols]
    for schema in SCHEMAS:
        client.subscribe(schema=schema, instrument_ids=ids)
    running = asyncio.ensure_future(client.start(callback=take_data, callback_pyo3=take_data))
    waiting = asyncio.ensure_future(done.wait())
    await asyncio.wait(
        [running, waiting], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
    )
    was_running = not running.done()
    if was_running:
        client.close()
    return {"running": was_running, "counts": counts}


def main(dataset, file):
    raise_loopback()
    folder = Path(tempfile.mkdtemp())
    name_gateway(folder, dataset)
    test_databento.free_ports = ports_with(test_databento.free_ports)
    test_records.free_ports = test_databento.free_ports
    hub = test_records.QuietHub() if file else test_databento.Hub(folder)
    try:
        found = use(hub, dataset, file)
    finally:
        hub.end()
    print(json.dumps(found))


def use(hub, dataset, file):
    if file:
        hub.play(file)
        wanted = ["FuturesContract"]
    else:
        wanted = ["Equity", "QuoteTick", "TradeTick"]
    symbols = re.findall(r"md:(\S+)", hub.ask("KEYS", "md:*"))
    return asyncio.run(follow(dataset, symbols, wanted))


def ports_with(free_ports):
    """The last port that a hub asks for is that of its gateway."""
    return lambda count: [*free_ports(count - 1), PORT]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
