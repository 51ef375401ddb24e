"""How much of a training step the policy itself takes: generation, forward and backward.

    python benchmarks/training.py [--quick]

Trains the tiny policy for a few steps as the quickstart does and prints one flat JSON object on its last
line. model_share is the median over steps, the first left out (it warms up).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="6 steps in place of 20")
    steps = 6 if parser.parse_args().quick else 20
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        few = [x for label in ("benign", "harmful", "injected", "underspecified") for x in (f"--eval_{label}", "4")]
        command = [sys.executable, "train/grpo.py", "--config", "configs/quickstart.yaml", "--run", str(run)]
        quality = ["--min_valid_turns", "0", "--min_completion", "0"]
        subprocess.run([*command, *few, *quality, "--max_steps", str(steps)], cwd=ROOT, check=True)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    counted = lines[1:]
    print(
        json.dumps(
            {
                "model_share": round(median(line["model_share"] for line in counted), 4),
                "seconds_per_step": round(median(line["seconds"] for line in counted), 3),
                "tokens_per_second": round(median(line["tokens_per_second"] for line in counted), 1),
                "steps": len(counted),
            }
        )
    )


if __name__ == "__main__":
    main()
