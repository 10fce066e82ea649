"""What arrives over bad links: the command that counts it, over fewer messages."""

import json
import subprocess

from support import BINARY


def test_nothing_is_lost_over_bad_links(tmp_path):
    raw = tmp_path / "loss.json"
    words = [BINARY.with_name("tidewire-bench"), "loss", "--messages", "60k", "--json", raw]
    program = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert program.returncode == 0, program.stdout + program.stderr
    cases = json.loads(raw.read_text())["cases"]
    assert len(cases) == 11
    for case in cases:
        assert case["applied"] == case["sent"] >= 20_000, case
        assert case["lost"] == case["wrong_values"] == 0, case
    # The native feed packs what is due; how many packets that makes is the machine's to say.
    assert cases[-1]["recovered"] > 0
