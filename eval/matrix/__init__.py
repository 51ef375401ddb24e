"""The evaluation matrix: policies × guards × suites × seeds, played once and kept, then measured and compared.

    options = read_options(["--config", "configs/eval/safety.yaml", "--policy", "expert", "--out", "runs/eval"])
    status = evaluate(options)        # `eval/run.py` is this

A cell is a policy behind a guard on the tasks of a suite with one seed. Its trajectories are written as they finish, so
that nothing which was played is played again.
"""
