"""Runs train/grpo.py's main with scripted rollouts, once for each configuration; started by torchrun.

torchrun --nproc_per_node 2 tests/train/two_processes.py a.yaml b.yaml
"""

import sys

import demur.train.rollout
from demur.train.grpo import main
from tests.train.runs import ScriptedTrainerPolicy

demur.train.rollout.TrainerPolicy = ScriptedTrainerPolicy  # type: ignore[misc]

for config in sys.argv[1:]:
    main(["--config", config])
